// D2 and exact diffusion: gossip averaging whose memory of one step cancels the bias of
// heterogeneous data. With
//
//   psi_i(k) = x_i(k) - learning_rate(k) * g_i(x_i(k)),   psi_i(-1) = x_i(0)
//
//   d2                x_i(k+1) = sum_j W_ij  (psi_j(k) + x_j(k) - psi_j(k-1))
//   exact_diffusion   x_i(k+1) = sum_j Wb_ij (psi_j(k) + x_j(k) - psi_j(k-1)),   Wb = (I + W) / 2
//
// The first line is x(1) = W (x(0) - lr g(0)), x(k+1) = W (2 x(k) - x(k-1) - lr (g(k) - g(k-1))),
// written so that a learning rate that changes stays with its own gradient. It needs a symmetric W
// whose least eigenvalue is above -1/3; Wb has none below 0 if W is symmetric, so exact diffusion
// works on every connected topology. Both remember mean(x - psi) for ever, rounding errors
// included, so in single precision very long runs drift slowly.
//
// Tang et al., "D2: Decentralized Training over Decentralized Data", ICML 2018, Algorithm 1; Yuan,
// Ying, Zhao, Sayed, "Exact Diffusion for Distributed Optimization and Learning", IEEE Trans.
// Signal Processing 67(3), 2019, Algorithm 1.

#include "algorithms/coded_exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct Settings {
  bool is_damped;  // Wb instead of W
  SharedCodec codec;
  OptimizerSettings optimizer;
};

Task<> run(Node& node, const Settings& settings) {
  Optimizer optimizer(settings.optimizer);
  Mixing mixing(node, settings.codec);
  Vector x = node.initial_model();
  Vector previous = x;  // psi(k-1)
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    Vector psi = x;
    optimizer.update(psi, g.values, x, k);
    Vector phi = psi;
    phi.add(x);
    phi.add_scaled(-1, previous);
    previous = psi;
    co_await mixing.send(k, phi);
    x = co_await mixing.mix(k, phi);
    if (settings.is_damped) {
      x.add(phi);
      x.scale(0.5);
    }
    node.end_step(k, x);
  }
}

}  // namespace

Program d2(const Section& section, const Context& context) {
  Settings settings;
  settings.is_damped =
      section.choice("mixing", {"d2", "exact_diffusion"}, "d2",
                     "mix with W, or with (I + W) / 2, which works for any symmetric W") ==
      "exact_diffusion";
  settings.codec = read_codec(section);
  settings.optimizer = read_optimizer(section, context);
  expect_fixed_symmetric(section, "d2", context.topology);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
