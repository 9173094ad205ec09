// How long a wait stays awake, and how long it naps.
#include <algorithm>
#include <chrono>
#include <thread>
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
  // Long ones: naps grow past them after two seconds, however long this thread has to wait for a core.
  Backoff backoff(Nap{5000});
  for (int again = 0; again < 2; ++again) {
    CHECK(yields(backoff, false) == 40);  // and one nap
    std::vector<Nap> naps;
    for (int i = 0; i < 10; ++i) naps.push_back(backoff.next());
    CHECK(naps == std::vector<Nap>{Nap{20}, Nap{40}, Nap{80}, Nap{160}, Nap{320}, Nap{640},
                                   Nap{1280}, Nap{2560}, Nap{5000}, Nap{5000}});
    backoff.reset();
  }
}

TEST_CASE("backoff: naps of a long wait are up to ten times as long, a 400th of the wait at most") {
  Backoff backoff(Nap{20});
  const auto begin = std::chrono::steady_clock::now();
  const auto waited = [begin] { return std::chrono::steady_clock::now() - begin; };
  while (waited() < std::chrono::milliseconds(90)) {
    const Nap nap = backoff.next();
    CHECK(nap <= std::max(Nap{20}, std::chrono::duration_cast<Nap>(waited() / 400)));
    std::this_thread::sleep_for(nap);
  }
  for (int i = 0; i < 4; ++i) backoff.next();
  CHECK(backoff.next() == Nap{200});
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
