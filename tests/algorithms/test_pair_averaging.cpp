// What pairwise averaging adds to the algorithms that use it, whose own tests see the rest.
#include <doctest/doctest.h>

#include "algorithms/pair_averaging.hpp"

namespace starling::test_pair_averaging {
using namespace algorithms;

TEST_CASE("a pair may exchange more often than the bits of a message can count") {
  constexpr std::int64_t told = std::int64_t{1} << 25;  // numbers that are told apart
  for (const std::int64_t number :
       {std::int64_t{1}, told - 1, told, told + 1, 5 * told + 7, (std::int64_t{1} << 52) + 3}) {
    for (const std::int64_t away :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{161}, told / 2 - 1}) {
      CHECK(number_near(number - away, number % told) == number);
      CHECK(number_near(number + away, number % told) == number);
    }
  }
}

}  // namespace starling::test_pair_averaging
