// Closed forms of collectives: their times, messages and bytes.
#include <chrono>
#include <cstdint>

#include <doctest/doctest.h>

#include "sim/engine/collective_cost.hpp"

namespace starling::test_collective_cost {
namespace {

// a = 1 us and b = 1 ns per byte of a message, c = 2 ns per added byte; 6,000 B: m b = 6 us, m c = 12 us.
double microseconds(CollectiveKind kind, std::int64_t members) {
  const LinkCost link{std::chrono::microseconds(1), 1e-9};
  return 1e6 * to_seconds(collective_cost(kind, members, 6'000, link, 2e-9));
}

}  // namespace

TEST_CASE("closed forms of collectives, powers of two and not") {
  using enum CollectiveKind;
  // 8 members: three rounds; chunks of 7/8.
  CHECK(microseconds(ring, 8) == doctest::Approx(2 * 7 * 1 + 2 * 0.875 * 6 + 0.875 * 12));
  CHECK(microseconds(recursive_doubling, 8) == doctest::Approx(3 * (1 + 6 + 12)));
  CHECK(microseconds(rabenseifner, 8) == doctest::Approx(2 * 3 * 1 + 2 * 0.875 * 6 + 0.875 * 12));
  CHECK(microseconds(tree, 8) == doctest::Approx(2 * 3 * (1 + 6) + 3 * 12));
  CHECK(microseconds(ring_scatter, 8) == doctest::Approx(7 * 1 + 0.875 * (6 + 12)));
  CHECK(microseconds(allgather, 8) == doctest::Approx(7 * (1 + 6)));
  // 6 members: two pairs fold, 2 (a + m b) + m c = 26 us, and four go on.
  CHECK(microseconds(ring, 6) == doctest::Approx(2 * 5 * 1 + 2 * 5 / 6.0 * 6 + 5 / 6.0 * 12));
  CHECK(microseconds(recursive_doubling, 6) == doctest::Approx(26 + 2 * (1 + 6 + 12)));
  CHECK(microseconds(rabenseifner, 6) ==
        doctest::Approx(26 + 2 * 2 * 1 + 2 * 0.75 * 6 + 0.75 * 12));
  CHECK(microseconds(tree, 6) == doctest::Approx(26 + 2 * 2 * (1 + 6) + 2 * 12));
  CHECK(microseconds(tree, 1) == 0);
}

TEST_CASE("up and down a binomial tree go 2 (n - 1) messages, so many from each seat") {
  for (std::int64_t n = 1; n <= 40; ++n) {
    std::int64_t messages = 0;
    for (std::int64_t place = 0; place < n; ++place) {
      const Traffic sent = collective_traffic(CollectiveKind::tree, n, place, 100);
      messages += sent.messages;
      CHECK(sent.bytes == 100 * sent.messages);
    }
    CHECK(messages == 2 * (n - 1));
  }
  // 11 members: 0 1, 2 3 and 4 5 fold, so seats 0, 1, 2 are 0, 2, 4, and 3 .. 7 are 6 .. 10.
  const std::int64_t sent[] = {3 + 1, 1, 1 + 1, 1, 2 + 1, 1, 1, 3, 1, 2, 1};
  for (std::int64_t place = 0; place < 11; ++place) {
    CHECK(collective_traffic(CollectiveKind::tree, 11, place, 100).messages == sent[place]);
  }
}

TEST_CASE("bytes of a collective, rounded down, also where products pass the largest number") {
  using enum CollectiveKind;
  for (std::int64_t bytes = 0; bytes <= 50; ++bytes) {
    for (std::int64_t n = 2; n <= 20; ++n)
      CHECK(collective_traffic(ring, n, 0, bytes).bytes == 2 * bytes * (n - 1) / n);
  }
  constexpr std::int64_t bytes = std::int64_t{1} << 42;
  CHECK(collective_traffic(ring, 1 << 20, 0, bytes).bytes == 2 * bytes - (1 << 23));
  CHECK(collective_traffic(rabenseifner, 1 << 20, 0, bytes).bytes == 2 * bytes - (1 << 23));
}

}  // namespace starling::test_collective_cost
