#include "algorithms/averaging.hpp"

#include <utility>

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

Task<Vector> average(Node& node, std::span<const NodeId> members, Tag tag, Vector v,
                     CollectiveKind kind, const Piece* piece) {
  Vector sum = co_await allreduce(node, members, tag, std::move(v), kind, 0, nullptr, piece);
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

}  // namespace starling::algorithms
