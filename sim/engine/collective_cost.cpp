#include "sim/engine/collective_cost.hpp"

#include <bit>

namespace starling {

Duration collective_cost(CollectiveKind kind, std::int64_t members, std::int64_t bytes, const LinkCost& link) {
  if (members <= 1) return Duration{0};
  const double a = to_seconds(link.latency);
  const double whole = static_cast<double>(bytes) * link.seconds_per_byte;
  const auto n = static_cast<double>(members);
  if (kind == CollectiveKind::ring) return from_seconds(2 * (n - 1) * a + 2 * (n - 1) / n * whole);

  const auto power = std::bit_floor(static_cast<std::uint64_t>(members));
  const double fold = power == static_cast<std::uint64_t>(members) ? 0.0 : 2 * (a + whole);
  const auto p = static_cast<double>(power);
  const double rounds = std::countr_zero(power);
  if (kind == CollectiveKind::recursive_doubling) return from_seconds(fold + rounds * (a + whole));
  return from_seconds(fold + 2 * rounds * a + 2 * (p - 1) / p * whole);
}

}  // namespace starling
