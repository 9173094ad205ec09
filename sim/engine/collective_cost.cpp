#include "sim/engine/collective_cost.hpp"

#include <bit>

namespace starling {
namespace {

/// bytes * (n - 1) / n, rounded down; the product could pass the largest number.
std::int64_t all_but_a_part(std::int64_t bytes, std::int64_t n) {
  return bytes - (bytes + n - 1) / n;
}

}  // namespace

Duration collective_cost(CollectiveKind kind, std::int64_t members, std::int64_t bytes,
                         const LinkCost& link, double reduction) {
  if (members <= 1) return Duration{0};
  const auto whole = static_cast<double>(bytes);
  const double sum = whole * reduction;
  const auto n = static_cast<double>(members);
  if (kind == CollectiveKind::allgather)
    return from_seconds((n - 1) * link.seconds_both_ways(whole));
  if (kind == CollectiveKind::ring || kind == CollectiveKind::ring_scatter) {
    const int rounds = kind == CollectiveKind::ring ? 2 : 1;
    return from_seconds((n - 1) * (rounds * link.seconds_both_ways(whole / n) + sum / n));
  }

  const auto power = std::bit_floor(static_cast<std::uint64_t>(members));
  const bool is_folded = power != static_cast<std::uint64_t>(members);
  double seconds = is_folded ? 2 * link.seconds(whole) + sum : 0;
  const int rounds = std::countr_zero(power);
  if (kind == CollectiveKind::recursive_doubling) {
    seconds += rounds * (link.seconds_both_ways(whole) + sum);
  } else if (kind == CollectiveKind::tree) {
    seconds += rounds * (2 * link.seconds(whole) + sum);
  } else {
    double share = 1;
    for (int round = 0; round < rounds; ++round) {
      share /= 2;
      seconds += 2 * link.seconds_both_ways(share * whole) + share * sum;
    }
  }
  return from_seconds(seconds);
}

Traffic collective_traffic(CollectiveKind kind, std::int64_t members, std::int64_t place,
                           std::int64_t bytes) {
  if (members <= 1) return {0, 0};
  const std::int64_t n = members;
  if (kind == CollectiveKind::allgather) return {n - 1, (n - 1) * bytes};
  if (kind == CollectiveKind::ring) return {2 * (n - 1), all_but_a_part(2 * bytes, n)};
  if (kind == CollectiveKind::ring_scatter) return {n - 1, all_but_a_part(bytes, n)};
  const auto p = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)));
  const bool is_folded = place < 2 * (n - p);
  if (is_folded && place % 2 == 1) return {1, bytes};  // hands its vector over and gets the result
  const std::int64_t rounds = std::countr_zero(static_cast<std::uint64_t>(p));
  Traffic seated{2 * rounds, all_but_a_part(2 * bytes, p)};
  if (kind == CollectiveKind::recursive_doubling) seated = {rounds, rounds * bytes};
  if (kind == CollectiveKind::tree) {
    const std::int64_t seat = is_folded ? place / 2 : place - (n - p);
    // To all seats that differ in a lower bit than its lowest one, and to the one without that.
    const std::int64_t sent =
        seat == 0 ? rounds : std::countr_zero(static_cast<std::uint64_t>(seat)) + 1;
    seated = {sent, sent * bytes};
  }
  return is_folded ? Traffic{seated.messages + 1, seated.bytes + bytes} : seated;
}

}  // namespace starling
