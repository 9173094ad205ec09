#include "algorithms/averaging.hpp"

#include <bit>

#include "sim/base/numbers.hpp"

namespace starling::algorithms {

Step read_period(const Section& section, const Context& context, Step fallback,
                 std::string_view key, std::string_view help) {
  return check_period(section, key, section.optional<std::int64_t>(key, fallback, help), context);
}

Step check_period(const Section& section, std::string_view key, Step period,
                  const Context& context) {
  section.expect(period >= 1, key, "must be at least 1, got {}", period);
  warn_beyond_run(section, key, period, context, "nodes may never average");
  return period;
}

OptimizerSettings read_outer_optimizer(const Section& section, double learning_rate,
                                       double momentum) {
  OptimizerSettings outer;
  outer.learning_rate = read_positive(section, "outer_learning_rate", learning_rate,
                                      "factor before the averaged progress");
  read_rule(section, "outer_", 0.1, outer);
  if (outer.rule != OptimizerSettings::Rule::sgd) return outer;
  outer.momentum = read_share_below_1(section, "outer_momentum", momentum,
                                      "Nesterov momentum of the shared model");
  outer.nesterov = true;
  return outer;
}

Task<Vector> average(Node& node, std::span<const NodeId> members, Tag tag, Vector v,
                     CollectiveKind kind) {
  Vector sum = co_await allreduce(node, members, tag, std::move(v), kind);
  sum.scale(1.0 / static_cast<double>(members.size()));
  co_return sum;
}

MomentumPolicy read_momentum_policy(const Section& section, const OptimizerSettings& optimizer,
                                    MomentumPolicy fallback, bool can_average) {
  std::vector<MomentumPolicy> offered{MomentumPolicy::keep, MomentumPolicy::reset};
  if (can_average) offered.insert(offered.begin() + 1, MomentumPolicy::average);
  return choose_momentum_policy(
      section, optimizer, offered, fallback,
      "what happens to momentum and moments when models are averaged; an average is "
      "summed as `collective` says, uncompressed");
}

Task<> apply_momentum_policy(Node& node, std::span<const NodeId> members, Tag tag,
                             MomentumPolicy policy, Optimizer& optimizer, CollectiveKind kind) {
  if (policy == MomentumPolicy::reset) optimizer.forget();
  if (policy != MomentumPolicy::average) co_return;
  const Vector own = optimizer.moments();
  if (!own) co_return;
  const Vector mean = co_await average(node, members, tag, own, kind);
  optimizer.set_moments(mean);
}

Task<Vector> broadcast(Node& node, Tag tag, Vector x) {
  // Node i gets the model from i without its highest bit.
  NodeId bit = 1;
  if (node.id() != 0) {
    bit = static_cast<NodeId>(std::bit_floor(static_cast<std::uint32_t>(node.id())));
    const Message m = co_await node.receive(node.id() - bit, tag);
    x = m.values;
    bit *= 2;
  }
  for (; node.id() + bit < node.nodes(); bit *= 2) node.send(node.id() + bit, tag, x);
  co_return x;
}

Task<double> sum_of_numbers(Node& node, Tag tag, double number) {
  const NodeId me = node.id();
  NodeId bit = 1;
  for (; bit < node.nodes() && (me & bit) == 0; bit *= 2) {
    if ((me | bit) >= node.nodes()) continue;
    const Message m = co_await node.receive(me | bit, tag);
    number += m.number;
  }
  if (me != 0) {  // `bit` is now the lowest bit of the own number: the way to the parent
    node.send(me ^ bit, tag, {}, number);
    const Message m = co_await node.receive(me ^ bit, tag);
    number = m.number;
  }
  for (bit /= 2; bit > 0; bit /= 2) {
    if ((me | bit) < node.nodes()) node.send(me | bit, tag, {}, number);
  }
  co_return number;
}

}  // namespace starling::algorithms
