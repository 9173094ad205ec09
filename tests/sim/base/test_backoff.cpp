#include <chrono>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/backoff.hpp"

namespace starling::test_backoff {
namespace {

using Nap = Backoff::Nap;

int yields(Backoff& backoff, bool has_core) {
  int count = 0;
  while (backoff.next(has_core) == Nap{0}) ++count;
  return count;
}

}  // namespace

TEST_CASE("backoff: it looks forty times without a nap, then naps longer and longer") {
  Backoff backoff(Nap{50});
  for (int again = 0; again < 2; ++again) {
    CHECK(yields(backoff, false) == 40);  // and one nap
    std::vector<Nap> naps;
    for (int i = 0; i < 4; ++i) naps.push_back(backoff.next());
    CHECK(naps == std::vector<Nap>{Nap{20}, Nap{40}, Nap{50}, Nap{50}});
    backoff.reset();
  }
}

TEST_CASE("backoff: with a core of its own it stays awake for longer than a nap") {
  Backoff backoff(Nap{5000});
  for (int again = 0; again < 2; ++again) {
    const auto begin = std::chrono::steady_clock::now();
    CHECK(yields(backoff, true) >= 40);
    CHECK(std::chrono::steady_clock::now() - begin >= Nap{10000});
    CHECK(backoff.next(true) == Nap{20});
    backoff.reset();
  }
}

}  // namespace starling::test_backoff
