// What all nodes need of a round is made once, and forgotten.
#include <doctest/doctest.h>

#include "algorithms/round_cache.hpp"

namespace starling::test_round_cache {

TEST_CASE("a round is made once, however far nodes are apart, and forgotten when all have asked") {
  algorithms::RoundCache<Step> cache(3, sizeof(Step));
  int made = 0;
  const auto ask = [&](Step round) {
    return cache.at(round, [&] {
      ++made;
      return 2 * round;
    });
  };
  for (int node = 0; node < 3; ++node) {
    for (Step round = 0; round < 1000; ++round) REQUIRE(ask(round) == 2 * round);
  }
  CHECK(made == 1000);
  CHECK(ask(7) == 14);  // nobody asks a fourth time
  CHECK(made == 1001);
}

TEST_CASE("of large values few rounds are kept, the newest ones") {
  algorithms::RoundCache<Step> cache(3, std::size_t{1} << 30);
  int made = 0;
  const auto ask = [&](Step round) {
    return cache.at(round, [&] {
      ++made;
      return 2 * round;
    });
  };
  for (Step round = 0; round < 100; ++round) ask(round);
  for (Step round = 36; round < 100; ++round) CHECK(ask(round) == 2 * round);
  CHECK(made == 100);
  CHECK(ask(35) == 70);
  CHECK(made == 101);
}

}  // namespace starling::test_round_cache
