// DCD-PSGD: gossip averaging by compressed differences of models. Neighbors keep replicas of each other's models, which
// the same codes move on all sides, so a replica is the model itself:
//
//   z_i = sum_j W_ij x_j - learning_rate * g_i(x_i) - x_i;   x_i <- x_i + C(z_i) everywhere
//
// Tang, Gan, Zhang, Zhang, Liu, "Communication Compression for Decentralized Training", NeurIPS 2018, Algorithm 1.
// s_i = sum_j W_ij x_j is kept as one vector and moved by sum_j W_ij C(z_j); the codes of a step travel during the next
// gradient. Without compression it is D-PSGD that combines while it adapts, up to rounding. The codec should be unbiased
// and lose little: a strong one (the largest 1 %, one level) makes it diverge, as the paper proves for
// C that lose too large a share.

#include "algorithms/coded_exchange.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct DcdSettings {
  SharedCodec codec;
  OptimizerSettings optimizer;
};

Task<> run(Node& node, const DcdSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  CodedExchange exchange(node, settings.codec, CodedExchange::Draws::own);
  Vector x = node.initial_model();
  Vector s = x;  // equal on all nodes, and rows of W sum to one
  Vector code;   // C(z) of the step before
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    if (k > 0) {
      const Vector mixed = co_await exchange.mix(k - 1, code);
      s.add(mixed);
    }
    Vector z = s;
    optimizer.update(z, g.values, x, k);
    z.add_scaled(-1, x);
    code = co_await exchange.send(k, z);
    x.add(code);
    node.end_step(k, x);
  }
  co_await exchange.mix(node.steps() - 1, code);  // takes the last messages, too
}

}  // namespace

Program dcd(const Section& section, const Context& context) {
  DcdSettings settings{};
  settings.codec = read_plain_codec(section, {.tensors = &context.workload.tensors});
  settings.optimizer = read_optimizer(section, context);
  expect_fixed_symmetric(section, "dcd", context.topology);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
