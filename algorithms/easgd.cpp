// EASGD: elastic averaging. An anchor z pulls the models of n nodes, and they pull it, once per
// `period` local steps:
//
//   synchronous    all at once:             x_i <- (1 - a) x_i + a z            with the old z
//                                           z   <- (1 - n a) z + a sum_i x_i    with the old x_i
//   asynchronous   each when it gets there: d <- a (x_i - z);  x_i <- x_i - d;  z <- z + d
//
// with a = `elasticity`; the sum of all x_i and z is conserved. Synchronous anchors are replicated
// (one allreduce); the asynchronous one is kept by a server fibre on node 0. Momentum in the local
// steps gives EAMSGD; it stays on its node unless `momentum_policy` says otherwise.
//
// Zhang, Choromanska, LeCun, "Deep Learning with Elastic Averaging SGD", NeurIPS 2015; n a
// = 0.9 by default. The pull comes after the local step here (cooperative SGD: Wang, Joshi, JMLR
// 2021, where EASGD is a mixing matrix over n + 1 models); the paper's Algorithm 1, asynchronous,
// pulls before the step. With `compression` synchronous nodes send codes of x_i - z (block_mean.hpp): what is conserved
// then is x_i and z with a e_i.

#include "algorithms/block_mean.hpp"
#include "algorithms/companions.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct EasgdSettings {
  Step period;
  double elasticity;
  bool is_synchronous;
  MomentumPolicy momentum_policy;
  BlockMean::Settings mean;  // synchronous
  OptimizerSettings optimizer;
};

constexpr NodeId anchor_node = 0;

/// (1 - a) x + a y
Vector pull(Vector x, double a, const Vector& y) {
  x.scale(1 - a);
  x.add_scaled(a, y);
  return x;
}

/// Of the answer to the request of that number.
Tag reply_tag(double number) { return tag_of(Channel::reply, static_cast<Step>(number)); }

/// Keeps the anchor: answers every model with the anchor as it was, then lets the model pull it.
Task<> serve(Node& node, const EasgdSettings& settings) {
  Vector z = node.initial_model();
  Step requests = node.nodes() * (node.steps() / settings.period);
  std::vector<double> newest(static_cast<std::size_t>(node.nodes()), -1);  // number of each node's
  node.post_receives(tag_of(Channel::request));
  while (requests > 0) {
    Message first = co_await node.receive(any_source, tag_of(Channel::request));
    double& last = newest[static_cast<std::size_t>(first.source)];
    if (first.number <= last) continue;  // came twice
    last = first.number;
    const Message m = co_await receive_rest(node, std::move(first), z.size());
    send_in_pieces(node, m.source, reply_tag(m.number), z);
    z = pull(z, settings.elasticity, m.values);
    --requests;
  }
  node.close_receives(tag_of(Channel::request));
}

Task<> run(Node& node, const EasgdSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Companions companions(node);
  BlockMean mean(node, settings.mean);
  const std::span<const NodeId> everybody = node.everybody();
  const double a = settings.elasticity;
  Vector x = node.initial_model();
  Vector z = x;
  if (!settings.is_synchronous && node.id() == anchor_node) companions.spawn(serve(node, settings));
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    optimizer.update(x, g.values, x, k);
    if ((k + 1) % settings.period == 0) {
      if (settings.is_synchronous) {
        const Vector all = co_await mean.of_models(tag_of(Channel::collective, k), x, z, k);
        x = pull(x, a, z);
        z = pull(z, a * node.nodes(), all);
      } else {
        const auto number = static_cast<double>(k);
        send_in_pieces(node, anchor_node, tag_of(Channel::request), x, number);
        const Message m =
            co_await receive_in_pieces(node, anchor_node, reply_tag(number), x.size());
        x = pull(x, a, m.values);
      }
      co_await apply_momentum_policy(node, everybody, tag_of(Channel::tracker, k),
                                     settings.momentum_policy, optimizer, settings.mean.collective);
    }
    node.end_step(k, x);
  }
  co_await companions.join();
}

}  // namespace

Program easgd(const Section& section, const Context& context) {
  EasgdSettings settings{};
  settings.period = read_period(section, context, 10);
  settings.elasticity = section.optional<double>(
      "elasticity", 0.9 / context.nodes,
      "share of the way that model and anchor pull each other; 0.9 / run.nodes if not given");
  section.expect(settings.elasticity > 0 && settings.elasticity * context.nodes <= 1, "elasticity",
                 "must be positive and at most 1 / nodes = {}, got {}", 1.0 / context.nodes,
                 settings.elasticity);
  settings.is_synchronous =
      section.choice<bool>("order", {{"synchronous", true}, {"asynchronous", false}}, "synchronous",
                           "all nodes at once, or each when it gets there");
  settings.optimizer = read_optimizer(section, context);
  settings.momentum_policy = read_momentum_policy(section, settings.optimizer, MomentumPolicy::keep,
                                                  settings.is_synchronous);
  if (settings.is_synchronous)
    settings.mean = read_block_mean(section, context, settings.momentum_policy);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
