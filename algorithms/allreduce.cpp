// Synchronous SGD: gradients are averaged over all nodes at every step, so all models stay equal.
//
//   x <- x - learning_rate * mean_i g_i(x)
//
// Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", 2017. The baseline of the field.

#include "algorithms/collectives.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct Settings {
  CollectiveKind collective;
  OptimizerSettings optimizer;
};

Task<> run(Node& node, Settings settings) {
  Optimizer optimizer(settings.optimizer);
  const std::vector<NodeId> everybody = all_nodes(node);
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient_in_pieces(x);
    const Time begin = node.now();
    Vector mean = co_await allreduce(node, everybody, tag_of(Channel::collective, k), g.values,
                                     settings.collective);
    node.record("exchange_time", k, to_seconds(node.now() - begin));
    mean.scale(1.0 / node.nodes());
    optimizer.update(x, mean, x, k);
    co_await node.finish_backward();
    node.end_step(k, x);
  }
}

}  // namespace

Program allreduce(const Section& section, const Context& context) {
  Settings settings;
  settings.collective = read_collective(section);
  settings.optimizer = read_optimizer(section, context.steps);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
