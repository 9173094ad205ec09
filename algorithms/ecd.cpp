// ECD-PSGD: gossip averaging by compressed extrapolations. Every node i keeps an estimate y_i of its model that all its
// neighbors can follow; with t = 1, 2, ..
//
//   x_i' = sum_j W_ij y_j - learning_rate * g_i(x_i)
//   z_i = (1 - t/2) x_i + (t/2) x_i';   y_i <- (1 - 2/t) y_i + (2/t) C(z_i) everywhere;   x_i <- x_i'
//
// so that, for an unbiased C, y_i is x_i on average and its error falls like 1/t. Tang, Gan, Zhang, Zhang, Liu,
// "Communication Compression for Decentralized Training", NeurIPS 2018, Algorithm 2. s_i = sum_j W_ij y_j is kept as one
// vector; the codes of a step travel during the next gradient. Without compression it is D-PSGD that combines while it
// adapts, up to rounding. z grows with t, and what C loses with it: codecs that lose much make it diverge (released
// settings with a random 1 % needed learning rates below 1e-5).

#include "algorithms/coded_exchange.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/sums.hpp"

namespace starling::algorithms {
namespace {

struct EcdSettings {
  SharedCodec codec;
  OptimizerSettings optimizer;
};

Task<> run(Node& node, const EcdSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  CodedExchange exchange(node, settings.codec, CodedExchange::Draws::own);
  Vector x = node.initial_model();
  Vector s = x;  // equal on all nodes, and rows of W sum to one
  Vector code;   // C(z) of the step before
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    const auto t = static_cast<double>(k + 1);
    if (k > 0) {
      const Vector mixed = co_await exchange.mix(k - 1, code);
      s = blend(1 - 2 / (t - 1), s, 2 / (t - 1), mixed);
    }
    Vector next = s;
    optimizer.update(next, g.values, x, k);
    const Vector z = blend(1 - t / 2, x, t / 2, next);
    code = co_await exchange.send(k, z);
    x = next;
    node.end_step(k, x);
  }
  co_await exchange.mix(node.steps() - 1, code);  // takes the last messages, too
}

}  // namespace

Program ecd(const Section& section, const Context& context) {
  EcdSettings settings{};
  settings.codec = read_plain_codec(section, {.tensors = &context.workload.tensors});
  settings.optimizer = read_optimizer(section, context);
  expect_fixed_symmetric(section, "ecd", context.topology);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
