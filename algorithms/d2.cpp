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

#include <cmath>
#include <vector>

#include "algorithms/coded_exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "sim/base/random.hpp"

namespace starling::algorithms {
namespace {

struct D2Settings {
  bool is_damped;  // Wb instead of W
  SharedCodec codec;
  OptimizerSettings optimizer;
};

Task<> run(Node& node, const D2Settings& settings) {
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

/// An upper bound, and a close one, of the least eigenvalue of a symmetric W: one less the largest of I - W, to which quotients
/// of a power iteration rise.
double least_eigenvalue(const Topology& topology) {
  constexpr int most_rounds = 200;
  constexpr double settled = 1e-5;  // who rises by less has all digits that are told
  std::vector<double> v(static_cast<std::size_t>(topology.nodes()));
  std::vector<double> next = v;
  Random random(0, "least eigenvalue");
  for (double& x : v) x = random.normal();
  double largest = 0;
  for (int round = 0; round < most_rounds; ++round) {
    double along = 0, length = 0, next_length = 0;
    for (NodeId i = 0; i < topology.nodes(); ++i) {
      const double own = v[static_cast<std::size_t>(i)];
      double x = (1 - static_cast<double>(topology.self_weight(i, 0))) * own;
      for (const Edge& edge : topology.in(i, 0))
        x -= static_cast<double>(edge.weight) * v[static_cast<std::size_t>(edge.peer)];
      next[static_cast<std::size_t>(i)] = x;
      along += own * x;
      length += own * own;
      next_length += x * x;
    }
    const double risen = along / length - largest;
    largest += risen;
    if (risen < settled || next_length == 0) break;
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = next[i] / std::sqrt(next_length);
  }
  return 1 - largest;
}

void warn_of_divergence(const Section& section, const Topology& topology) {
  const double least = least_eigenvalue(topology);
  constexpr double surely_below = -0.334;  // -1/3, but for rounding of the weights
  if (least > surely_below) return;
  section.warn("mixing",
               "= d2 diverges at any learning rate where W has an eigenvalue below -1/3, and here "
               "one is {:.3g} or less: take exact_diffusion, or topology.lazy = yes",
               least);
}

}  // namespace

Program d2(const Section& section, const Context& context) {
  D2Settings settings{};
  settings.is_damped =
      section.choice<bool>("mixing", {{"d2", false}, {"exact_diffusion", true}}, "d2",
                           "mix with W, or with (I + W) / 2, which works for any symmetric W");
  settings.codec = read_codec(section);
  settings.optimizer = read_optimizer(section, context);
  expect_fixed_symmetric(section, "d2", context.topology);
  if (!settings.is_damped && context.workload.has_numbers)
    warn_of_divergence(section, context.topology);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
