// A2SGD: synchronous SGD that sends two numbers. Every node sums up its gradient g by the mean of
// its entries >= 0 and the mean magnitude of the others, keeps what these two do not say, and adds
// the averages over all nodes instead:
//
//   m+ <- mean of g over {g >= 0},  m- <- mean of |g| over {g < 0}       0 for an empty side
//   r  <- g - m+ where g >= 0,      g + m- elsewhere                     the local error
//   (M+, M-) <- mean over all nodes of (m+, m-)
//   x  <- x - learning_rate * (r + M+ where g >= 0,  r - M- elsewhere)
//
// Bhattacharya, Yu, Chowdhury, "O(1) Communication for Distributed SGD through Two-Level Gradient
// Averaging", IEEE Cluster 2021; m+ and m- over the whole gradient, not per layer. Each node adds an
// error of its own, so models drift apart by construction: look at the mean model. Only the latency
// of the network matters: 8 bytes per message, for a stand-in (wire_parameters), too.

#include "algorithms/averaging.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct A2sgdSettings {
  CollectiveKind collective;
  OptimizerSettings optimizer;
};

Task<> run(Node& node, const A2sgdSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  const std::span<const NodeId> everybody = node.everybody();
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    co_await node.encode(g.values);
    const Vector own = transformed(transforms::SideMeans{}, {g.values}).as_numbers();
    const Vector all =
        co_await average(node, everybody, tag_of(Channel::collective, k), own, settings.collective);
    const Vector mixed = transformed(transforms::ShiftSides{}, {g.values, own, all});
    co_await node.decode(mixed);
    optimizer.update(x, mixed, x, k);
    node.end_step(k, x);
  }
}

}  // namespace

Program a2sgd(const Section& section, const Context& context) {
  A2sgdSettings settings{};
  settings.collective = read_collective(section, "recursive_doubling");
  settings.optimizer = read_optimizer(section, context);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
