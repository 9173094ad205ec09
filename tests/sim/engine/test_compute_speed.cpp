// The two-state Markov chain of slow nodes: its transitions are those that were asked for, its
// state does not depend on who asked before, and long sojourns cost no time.

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "sim/engine/compute_speed.hpp"
#include "tests/sim/engine/compute_fixture.hpp"

namespace starling::test_compute_speed {
namespace {

ComputeSpeed chain(double slow_steps, double nominal_steps, NodeId nodes = 8,
                   std::uint64_t seed = 1) {
  return ComputeSpeed({.speeds = std::vector<double>(static_cast<std::size_t>(nodes), 1.0),
                       .slow_factor = 4,
                       .slow_steps = slow_steps,
                       .nominal_steps = nominal_steps},
                      seed);
}

struct Counts {
  double slow = 0, nominal = 0, recovered = 0, slowed = 0, slow_at_start = 0;
};

Counts count(const ComputeSpeed& speed, NodeId nodes, Step steps) {
  Counts counts;
  for (NodeId i = 0; i < nodes; ++i) {
    bool was_slow = speed.is_slow(i, 0);
    counts.slow_at_start += was_slow;
    for (Step k = 1; k <= steps; ++k) {
      const bool is_slow = speed.is_slow(i, k);
      ++(was_slow ? counts.slow : counts.nominal);
      counts.recovered += was_slow && !is_slow;
      counts.slowed += !was_slow && is_slow;
      was_slow = is_slow;
    }
  }
  return counts;
}

}  // namespace

TEST_CASE("the slow state is entered and left with the chances that its sojourns say") {
  // Slow for 5 steps, nominal for 20 on the mean: q = 0.2, p = 0.05, a fifth of all steps is slow.
  // 8 * 20,000 steps. Standard errors: q on 32,000 slow steps 0.0022; p on 128,000 others 0.0006;
  // the share, whose steps are correlated by 0.75 and count 7 times less, 0.0027.
  const Counts found = count(chain(5, 20), 8, 20'000);
  CHECK(std::abs(found.recovered / found.slow - 0.2) < 4 * 0.0022);
  CHECK(std::abs(found.slowed / found.nominal - 0.05) < 4 * 0.0006);
  CHECK(std::abs(found.slow / 160'000 - 0.2) < 4 * 0.0027);
}

TEST_CASE("sojourns of the slow state are geometric: no memory across blocks of the generator") {
  // P(slow for at least 15 more steps | slow) = 0.9^15 = 0.2059 with slow_steps = 10. Disjoint
  // windows of 16 steps, of which a third begins slow: 16 nodes * 5,000 windows * 1/3 = 26,667;
  // standard error 0.0025, twice that for their correlation.
  const ComputeSpeed speed = chain(10, 20, 16);
  double begins = 0, lasts = 0;
  for (NodeId i = 0; i < 16; ++i) {
    for (Step w = 0; w < 5'000; ++w) {
      if (!speed.is_slow(i, 16 * w)) continue;
      ++begins;
      bool is_slow = true;
      for (Step k = 1; k <= 15 && is_slow; ++k) is_slow = speed.is_slow(i, 16 * w + k);
      lasts += is_slow;
    }
  }
  CHECK(std::abs(lasts / begins - std::pow(0.9, 15)) < 4 * 0.005);
}

TEST_CASE("the chain is stationary from step 0") {
  // 10,000 nodes, a fifth of them slow at step 0: standard error 0.004.
  CHECK(std::abs(count(chain(50, 200, 10'000), 10'000, 1).slow_at_start / 10'000 - 0.2) < 0.016);
}

TEST_CASE("a state depends on seed, node and step alone, in whatever order one asks") {
  const ComputeSpeed forward = chain(30, 70);
  const ComputeSpeed backward = chain(30, 70, 3);
  const ComputeSpeed other = chain(30, 70, 8, 2);
  std::vector<bool> states;
  for (Step k = 0; k < 2'000; ++k) states.push_back(forward.is_slow(2, k));
  int differs_from_node = 0, differs_from_seed = 0;
  for (Step k = 1'999; k >= 0; --k) {
    CHECK(backward.is_slow(2, k) == states[static_cast<std::size_t>(k)]);
    differs_from_node += forward.is_slow(1, k) != states[static_cast<std::size_t>(k)];
    differs_from_seed += other.is_slow(2, k) != states[static_cast<std::size_t>(k)];
  }
  CHECK(differs_from_node > 100);
  CHECK(differs_from_seed > 100);
}

TEST_CASE("sojourns of millions of steps are answered at once, far from the start") {
  // Whoever walked back to the last change, a million steps, would need hours for these.
  const ComputeSpeed speed = chain(1e6, 3e6, 1'000);
  int slow = 0, changed = 0;
  for (NodeId i = 0; i < 1'000; ++i) {
    for (Step k = 0; k < 20; ++k) {
      slow += speed.is_slow(i, k * 1'000'000'000);
      changed += speed.is_slow(i, k * 1'000'000'000) != speed.is_slow(i, k * 1'000'000'000 + 100);
    }
  }
  CHECK(std::abs(slow / 20'000.0 - 0.25) < 4 * 0.0031);  // sqrt(0.25 * 0.75 / 20,000)
  // Within 100 steps: 2 * 0.25 * 100 / 1e6 = 5e-5, once in 20,000 pairs.
  CHECK(changed <= 8);
}

TEST_CASE("steps in the slow state take slow_factor times as long") {
  const auto time = test::compute(
      {{"gradient", "2 ms"}, {"slow_factor", "4"}, {"slow_steps", "5"}, {"nominal_steps", "20"}});
  const ComputeSpeed speed = chain(5, 20);
  for (Step k = 0; k < 100; ++k) {
    CHECK(time.duration(3, k) == Duration{speed.is_slow(3, k) ? 8'000'000'000 : 2'000'000'000});
  }
  // A fifth of the steps: 2 ms * (1 + 0.2 * 3) = 3.2 ms.
  CHECK(to_seconds(time.mean()) == doctest::Approx(0.0032));
}

}  // namespace starling::test_compute_speed
