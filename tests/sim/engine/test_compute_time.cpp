// Durations of gradients: every distribution keeps its mean, every draw depends on (seed, node,
// step) alone, delays hit whom they should, and wrong settings are refused by name.

#include <cmath>
#include <set>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/engine/compute_time.hpp"
#include "tests/sim/engine/compute_fixture.hpp"
#include "tests/support/relative.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_compute_time {
namespace {

using test::compute;
using test::Keys;
using test::Moments;
using test::moments;
using test::TemporaryFile;

}  // namespace

TEST_CASE("a constant duration is the same everywhere and always") {
  const auto time = compute({{"gradient", "4 ms"}});
  CHECK(time.mean() == Duration{4'000'000'000});
  for (NodeId i = 0; i < 8; ++i) {
    CHECK(time.duration(i, 1'000 * i) == Duration{4'000'000'000});
    CHECK(time.delay(i, 0) == Duration{0});
  }
}

TEST_CASE("random durations have the mean and the deviation that were asked for") {
  // 80,000 draws: the mean of n has a standard error of deviation / sqrt(n) = 0.35 % of the
  // deviation; 4 of these at most. That of the deviation is sqrt((kurtosis - 1) / 4n) of it, at most
  // 0.5 %, for the exponential with its kurtosis of 9; again 4 of these.
  struct Case {
    Keys keys;
    double deviation;  // over mean
  };
  const Case cases[] = {
      {{{"distribution", "normal"}, {"sigma", "0.2"}}, 0.2},
      {{{"distribution", "lognormal"}, {"sigma", "0.5"}}, std::sqrt(std::exp(0.25) - 1)},
      {{{"distribution", "gamma"}, {"shape", "4"}}, 0.5},
      {{{"distribution", "exponential"}}, 1},
  };
  for (const Case& one : cases) {
    CAPTURE(one.keys.front().second);
    Keys keys = one.keys;
    keys.emplace_back("gradient", "10 ms");
    const auto time = compute(keys);
    CHECK(to_seconds(time.mean()) == doctest::Approx(0.010).epsilon(1e-6));
    const Moments found = moments(time, 8, 10'000);
    CHECK(std::abs(found.mean / 0.010 - 1) < 4 * one.deviation / std::sqrt(80'000.0));
    CHECK(found.deviation == test::relative(0.010 * one.deviation, 0.02));
    CHECK(found.least > 0);
  }
}

TEST_CASE("a normal duration never falls below 5 % of the mean, and mean() knows what that adds") {
  const auto time = compute({{"distribution", "normal"}, {"sigma", "1"}, {"gradient", "1 s"}});
  const Moments found = moments(time, 8, 10'000);
  CHECK(found.least == doctest::Approx(0.05).epsilon(1e-9));
  CHECK(to_seconds(time.mean()) == doctest::Approx(found.mean).epsilon(0.02));
  CHECK(to_seconds(time.mean()) > 1.05);
}

TEST_CASE("a duration depends on seed, node and step alone, and each of them matters") {
  const Keys keys = {{"distribution", "lognormal"}, {"sigma", "1"}, {"gradient", "1 ms"}};
  const auto time = compute(keys, 8, 1);
  const auto again = compute(keys, 4, 1);  // with fewer nodes and in another order
  CHECK(again.duration(3, 5) == time.duration(3, 5));
  CHECK(time.duration(3, 5) == time.duration(3, 5));
  CHECK(time.duration(3, 5) != time.duration(3, 6));
  CHECK(time.duration(3, 5) != time.duration(2, 5));
  CHECK(time.duration(3, 5) != compute(keys, 8, 2).duration(3, 5));
}

TEST_CASE("draw = node draws once per node") {
  const auto time =
      compute({{"distribution", "gamma"}, {"shape", "1"}, {"gradient", "1 ms"}, {"draw", "node"}});
  std::set<Duration> seen;
  for (NodeId i = 0; i < 8; ++i) {
    CHECK(time.duration(i, 0) == time.duration(i, 99));
    seen.insert(time.duration(i, 0));
  }
  CHECK(seen.size() == 8);
}

TEST_CASE("speeds divide, slow nodes multiply, delays add") {
  // 4 ms / 0.5 = 8 ms; nodes 0 and 1 take 5 times as long; the delay of 1 ms does not scale.
  const auto time = compute({{"gradient", "4 ms"},
                             {"speeds", "1, 0.5, 2"},
                             {"slow_nodes", "2"},
                             {"slowdown", "5"},
                             {"delay", "1 ms"},
                             {"delay_probability", "1"}},
                            3);
  CHECK(time.duration(0, 0) == Duration{21'000'000'000});
  CHECK(time.duration(1, 0) == Duration{41'000'000'000});
  CHECK(time.duration(2, 0) == Duration{3'000'000'000});
}

TEST_CASE("the mean duration knows of slow nodes and of injected delays") {
  // Of four nodes one takes three times as long: 2 ms * (3 + 1 + 1 + 1) / 4 = 3 ms, and delays come on top.
  const Keys slow = {{"gradient", "2 ms"}, {"slow_nodes", "1"}, {"slowdown", "3"}};
  CHECK(to_seconds(compute(slow, 4).mean()) == doctest::Approx(0.003));
  // A node that never gets done makes it no error: that tells the run.
  CHECK(to_seconds(compute({{"gradient", "2 ms"}, {"speeds", "1e-300, 1"}}, 2).mean()) == 9.19e6);
  const std::pair<Keys, double> delays[] = {{{{"delayed_nodes", "1"}}, 0.008 / 4},
                                            {{{"delay_probability", "0.3"}}, 0.008 * 0.3},
                                            {{{"delay_draws", "2"}}, 0.008 * (1 - 0.75 * 0.75)}};
  for (const auto& [whom, more] : delays) {
    const auto& key = whom[0];
    CAPTURE(key.first);
    Keys keys = slow;
    keys.push_back({"delay", "8 ms"});
    keys.push_back(key);
    const auto time = compute(keys, 4);
    CHECK(to_seconds(time.mean()) == doctest::Approx(0.003 + more));
    CHECK(to_seconds(time.mean()) == test::relative(moments(time, 4, 4'000).mean, 0.03));
  }
}

TEST_CASE("per_token adds to the mean for every token of the batch, and jitter scales the sum") {
  // Batch (node, step) has 10 node + step tokens: 4 ms + 2 ms each, exactly.
  const BatchCost cost = [](NodeId node, Step step) { return 10 * node + step; };
  const Keys keys = {{"gradient", "4 ms"}, {"per_token", "2 ms"}};
  const auto time = compute(keys, 2, 1, cost);
  CHECK(time.duration(0, 0) == Duration{4'000'000'000});
  CHECK(time.duration(1, 3) == Duration{30'000'000'000});
  // 2 nodes, first 16 draws: 5 + 7.5 tokens on the mean, 4 + 25 ms.
  CHECK(to_seconds(time.mean()) == doctest::Approx(0.029));

  // Parts of a picosecond count: a million tokens, 2.4 ps each.
  const auto quick = compute({{"gradient", "1 us"}, {"per_token", "2.4 ps"}}, 2, 1,
                             [](NodeId, Step) { return 1'000'000; });
  CHECK(quick.duration(0, 0) == Duration{3'400'000});

  Keys jittered = keys;
  jittered.insert(jittered.end(), {{"distribution", "lognormal"}, {"sigma", "0.3"}});
  const auto uneven = compute(jittered, 2, 1, cost);
  const auto even =
      compute({{"gradient", "4 ms"}, {"distribution", "lognormal"}, {"sigma", "0.3"}}, 2, 1, cost);
  CHECK(to_seconds(uneven.duration(1, 3)) ==
        doctest::Approx(7.5 * to_seconds(even.duration(1, 3))).epsilon(1e-9));
  // Another's batch has that batch's tokens, and the jitter of who computes with it.
  CHECK(time.duration(0, 7, {1, 3}) == time.duration(1, 3));
  CHECK(to_seconds(uneven.duration(1, 3, {0, 0})) ==
        doctest::Approx(to_seconds(even.duration(1, 3))).epsilon(1e-9));
}

TEST_CASE("independent delays hit each node at each step with their probability") {
  // WAGMA-SGD's code at 64 nodes: p = 1 - (1 - 1/64)^2 = 0.03101. 640,000 draws: standard error
  // 0.0002.
  const auto time =
      compute({{"gradient", "615 ms"}, {"delay", "320 ms"}, {"delay_probability", "0.03101"}}, 64);
  int hits = 0;
  int steps_with_two = 0;
  for (Step k = 0; k < 10'000; ++k) {
    int here = 0;
    for (NodeId i = 0; i < 64; ++i) here += time.delay(i, k) == Duration{320'000'000'000};
    hits += here;
    steps_with_two += here == 2;
  }
  CHECK(std::abs(hits / 640'000.0 - 0.03101) < 0.0009);
  // Binomial: 64 * 63 / 2 p^2 (1 - p)^62 = 0.275, not always two.
  CHECK(std::abs(steps_with_two / 10'000.0 - 0.275) < 0.02);
}

TEST_CASE("a delay of 0 s is one: a sweep of delays may begin there") {
  for (const Keys& whom : {Keys{{"delayed_nodes", "8"}}, Keys{{"delay_probability", "1"}}}) {
    Keys keys = {{"gradient", "4 ms"}, {"delay", "0 s"}};
    keys.insert(keys.end(), whom.begin(), whom.end());
    const auto time = compute(keys, 8);
    for (NodeId i = 0; i < 8; ++i) CHECK(time.duration(i, 3) == Duration{4'000'000'000});
  }
}

TEST_CASE("delayed_nodes delays exactly so many nodes at every step, all equally often") {
  for (const int count : {1, 2, 5, 7, 8}) {
    CAPTURE(count);
    const auto time = compute(
        {{"gradient", "1 ms"}, {"delay", "3 ms"}, {"delayed_nodes", std::to_string(count)}}, 8);
    std::vector<int> hits(8);
    for (Step k = 0; k < 8'000; ++k) {
      int here = 0;
      for (NodeId i = 0; i < 8; ++i) {
        const bool is_delayed = time.delay(i, k) == Duration{3'000'000'000};
        CHECK(time.duration(i, k) == Duration{is_delayed ? 4'000'000'000 : 1'000'000'000});
        hits[static_cast<std::size_t>(i)] += is_delayed;
        here += is_delayed;
      }
      REQUIRE(here == count);
    }
    // Expected 1000 * count each; standard deviation below sqrt(8000 / 4) = 45.
    for (const int hit : hits) CHECK(std::abs(hit - 1'000 * count) < 4 * 45);
    // Remembered choices are those drawn anew, also long after and backwards.
    const auto again = compute(
        {{"gradient", "1 ms"}, {"delay", "3 ms"}, {"delayed_nodes", std::to_string(count)}}, 8);
    for (Step k = 199; k >= 0; --k) CHECK(again.delay(k % 8, k) == time.delay(k % 8, k));
  }
}

TEST_CASE("delay_draws: streams that all seed alike drift apart when a node draws itself") {
  constexpr int nodes = 64;
  constexpr Step steps = 4'096;
  const Keys keys = {{"gradient", "1 ms"}, {"delay", "3 ms"}, {"delay_draws", "2"}};
  const auto late_at = [](const ComputeTime& time, Step k) {
    int late = 0;
    for (NodeId i = 0; i < nodes; ++i) late += time.delay(i, k) > Duration{0};
    return late;
  };
  const auto time = compute(keys, nodes);
  // At first all draw the same two: two nodes are late, one if it is drawn twice, never none.
  CHECK(late_at(time, 0) >= 1);
  CHECK(late_at(time, 0) <= 2);
  int hits = 0;
  int steps_without = 0;
  for (Step k = 0; k < steps; ++k) {
    const int late = late_at(time, k);
    hits += late;
    steps_without += late == 0;
  }
  // Each node is late with probability 1 - (1 - 1/64)^2, whatever the others do: standard error 0.0003.
  CHECK(std::abs(hits / static_cast<double>(nodes * steps) - 0.03101) < 0.0014);
  // Independent draws leave (1 - 1/64)^128 = 13.3 % of the steps without late nodes; common ones leave none.
  CHECK(steps_without / static_cast<double>(steps) > 0.08);
  CHECK(steps_without / static_cast<double>(steps) < 0.15);

  // Begun anew every 8 steps, streams hardly drift: hardly a step is without.
  Keys again = keys;
  again.emplace_back("delay_restart", "8");
  const auto restarted = compute(again, nodes);
  int without = 0;
  for (Step k = 0; k < steps; ++k) without += late_at(restarted, k) == 0;
  CHECK(without / static_cast<double>(steps) < 0.02);
  // Nobody remembers wrongly: the same backwards.
  const auto backwards = compute(again, nodes);
  for (Step k = 199; k >= 0; --k) {
    CHECK(backwards.delay(5, k) == restarted.delay(5, k));
    CHECK(late_at(restarted, k - k % 8) >= 1);
  }
}

TEST_CASE("delay_restart: each time the streams begin anew they are other ones") {
  // At each beginning all 64 nodes draw the same two: of 2016 pairs, 20 beginnings hardly have the same one even twice.
  const auto time = compute(
      {{"gradient", "1 ms"}, {"delay", "3 ms"}, {"delay_draws", "2"}, {"delay_restart", "8"}}, 64);
  std::set<std::set<NodeId>> seen;
  for (Step k = 0; k < 160; k += 8) {
    std::set<NodeId> late;
    for (NodeId i = 0; i < 64; ++i) {
      if (time.delay(i, k) > Duration{0}) late.insert(i);
    }
    seen.insert(late);
  }
  CHECK(seen.size() >= 18);
}

TEST_CASE("an empirical list is drawn as it is, or scaled to the mean given") {
  const TemporaryFile file("seconds\n0.1\n0.2\n\n 0.6 \n");
  const auto time = compute({{"distribution", "empirical"}, {"samples", file.path()}});
  CHECK(to_seconds(time.mean()) == doctest::Approx(0.3));
  std::set<Duration> seen;
  for (Step k = 0; k < 200; ++k) seen.insert(time.duration(0, k));
  CHECK(seen == std::set<Duration>{Duration{100'000'000'000}, Duration{200'000'000'000},
                                   Duration{600'000'000'000}});
  CHECK(std::abs(moments(time, 8, 5'000).mean - 0.3) < 4 * 0.216 / std::sqrt(40'000.0));

  const auto scaled =
      compute({{"distribution", "empirical"}, {"samples", file.path()}, {"gradient", "30 ms"}});
  CHECK(to_seconds(scaled.mean()) == doctest::Approx(0.03));
  CHECK(to_seconds(scaled.duration(2, 3)) ==
        doctest::Approx(0.1 * to_seconds(time.duration(2, 3))));
}

TEST_CASE("samples whose header names another unit than seconds are refused") {
  for (const std::string header : {"step_time_ms", "Milliseconds", "time [us],fraction"}) {
    const TemporaryFile file(header + "\n100,1\n");
    CHECK_THROWS_WITH_AS(compute({{"distribution", "empirical"}, {"samples", file.path()}}),
                         doctest::Contains(":1: expected the header of times in seconds, got"),
                         ScenarioError);
  }
}

TEST_CASE("an empirical cumulative distribution is straight between its points") {
  // A quarter exactly 1 s, half between 1 and 2 s, a quarter between 2 and 4 s: mean 0.25 + 0.75 +
  // 0.75 = 1.75 s.
  const TemporaryFile file("value,cdf\n1,0.25\n2,0.75\n4,1\n");
  const auto time = compute({{"distribution", "empirical"}, {"samples", file.path()}});
  CHECK(to_seconds(time.mean()) == doctest::Approx(1.75));
  int at_one = 0;
  int below_one_and_quarter = 0;
  int below_two = 0;
  for (Step k = 0; k < 40'000; ++k) {
    const double seconds = to_seconds(time.duration(0, k));
    CHECK((seconds >= 1 && seconds <= 4));
    at_one += seconds == 1;
    below_one_and_quarter += seconds < 1.25;
    below_two += seconds < 2;
  }
  // 0.25 + 0.5 * (1.25 - 1) = 0.375 lie below 1.25 s. Standard deviation of a count below
  // sqrt(40,000 / 4) = 100.
  CHECK(std::abs(at_one - 10'000) < 400);
  CHECK(std::abs(below_one_and_quarter - 15'000) < 400);
  CHECK(std::abs(below_two - 30'000) < 400);
}

TEST_CASE("a wrong file of samples is an error that names file and line") {
  const auto expect = [](const std::string& text, const std::string& message) {
    const TemporaryFile file(text);
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(compute({{"distribution", "empirical"}, {"samples", file.path()}}),
                         doctest::Contains(("compute.samples " + file.path() + message).c_str()),
                         ScenarioError);
  };
  expect("", ": expected at least one sample");
  expect("seconds\n", ": expected at least one sample");
  expect("0.1\n-0.2\n", ":2: expected a number of seconds, not negative, got \"-0.2\"");
  expect("0.1\nnan\n", ":2: ");
  expect("0.1\ninf\n", ":2: ");
  expect("0.1\nfast\n", ":2: expected seconds or seconds,fraction, got \"fast\"");
  expect("1,2,3\n", ":1: expected seconds or seconds,fraction");
  expect("0.1\n0.2,0.5\n", ":2: expected as many numbers");
  expect("0.1,0.5\n0.2,0.4\n", ":2: expected a fraction that grows");
  expect("0.1,0.5\n0.2,1.4\n", ":2: expected a fraction that grows");
  expect("0.3,0.5\n0.2,1\n", ":2: expected seconds that do not fall");
  expect("0.1,0.5\n0.2,0.9\n", ": expected the last fraction to be 1, got 0.9");
  CHECK_THROWS_WITH_AS(
      compute({{"distribution", "empirical"}, {"samples", "/nowhere/times.csv"}}),
      doctest::Contains("test.ini:7: compute.samples /nowhere/times.csv: cannot open"),
      ScenarioError);
}

TEST_CASE("wrong settings are refused by name and place") {
  const auto expect = [](Keys keys, const std::string& message) {
    keys.emplace_back("gradient", "1 ms");
    CAPTURE(message);
    CHECK_THROWS_WITH_AS(compute(keys), doctest::Contains(message.c_str()), ScenarioError);
  };
  CHECK_THROWS_WITH_AS(compute({}), doctest::Contains("compute.gradient is missing"),
                       ScenarioError);
  expect({{"distribution", "normal"}}, "compute.sigma is missing");
  expect({{"distribution", "normal"}, {"sigma", "-0.1"}},
         "test.ini:7: compute.sigma must be from 0 to 5, got -0.1");
  expect({{"distribution", "lognormal"}, {"sigma", "nan"}}, "compute.sigma");
  expect({{"distribution", "gamma"}, {"shape", "0"}}, "compute.shape must be from");
  expect({{"distribution", "empirical"}}, "compute.samples is missing");
  expect({{"distribution", "cauchy"}}, "compute.distribution must be one of");
  expect({{"sigma", "0.1"}}, "compute.sigma is not a key here");
  expect({{"speeds", "1, 2"}},
         "compute.speeds must have one factor for each of the 8 nodes, got 2");
  expect({{"speeds", "1,1,1,1,1,1,1,0"}}, "compute.speeds must be positive, got 0");
  expect({{"slow_nodes", "9"}},
         "compute.slow_nodes must be from 0 to the number of nodes, 8, got 9");
  expect({{"slow_nodes", "1"}, {"slowdown", "0"}}, "compute.slowdown must be positive, got 0");
  expect({{"slow_nodes", "1"}}, "compute.slow_nodes needs slowdown, which says");
  expect({{"slowdown", "5"}}, "compute.slowdown needs slow_nodes, which says");
  expect({{"slow_steps", "5"}}, "compute.slow_steps needs slow_factor, which says");
  expect({{"nominal_steps", "5"}}, "compute.nominal_steps needs slow_factor, which says");
  expect({{"slow_factor", "0"}}, "compute.slow_factor must be positive, got 0");
  expect({{"slow_steps", "1"}}, "compute.slow_steps must be more than 1 and at most 1e9, got 1");
  expect({{"slow_steps", "5"}, {"nominal_steps", "1.2"}},
         "compute.nominal_steps must be at least slow_steps / (slow_steps - 1) = 1.25, so that");
  expect({{"distribution", "published"}}, "compute.name is missing");
  expect({{"distribution", "published"}, {"name", "transformer_wmt18"}},
         "compute.name must be one of transformer_wmt17, rl_habitat, ucf101_lstm, "
         "transformer_wmt16, resnet50_cloud, got transformer_wmt18; did you mean "
         "transformer_wmt1");
  expect({{"distribution", "published"}, {"name", "rl_habitat"}, {"per_token", "1 us"}},
         "compute.per_token is not a key here");
  expect({{"distribution", "trace"}}, "compute.trace is missing");
  expect({{"distribution", "trace"}, {"trace", "x"}, {"trace_shift", "-1"}},
         "compute.trace_shift must not be negative, got -1");
  expect(
      {{"distribution", "trace"}, {"trace", "x"}, {"trace_shift", "4611686018427387904"}},
      "compute.trace_shift must be at most 576460752303423487, so that 64 bits hold the shift of "
      "each of the 8 nodes, got 4611686018427387904");
  expect({{"delay", "1 ms"}},
         "compute.delay needs delay_probability, delayed_nodes or delay_draws");
  expect({{"delay_probability", "0.5"}}, "compute.delay must say how long");
  expect({{"delayed_nodes", "1"}}, "compute.delay must say how long");
  expect({{"delay", "1 ms"}, {"delay_probability", "1.5"}},
         "compute.delay_probability must be from 0 to 1");
  expect({{"delay", "1 ms"}, {"delayed_nodes", "9"}}, "compute.delayed_nodes must be from");
  expect({{"delay", "1 ms"}, {"delayed_nodes", "1"}, {"delay_probability", "0.1"}},
         "compute.delayed_nodes must be 0");
  expect({{"delay", "1 ms"}, {"delay_draws", "-1"}}, "compute.delay_draws must be from 0 to 1000");
  expect({{"delay", "1 ms"}, {"delay_draws", "2"}, {"delayed_nodes", "1"}},
         "compute.delay_draws must be 0");
  expect({{"delay", "1 ms"}, {"delay_draws", "2"}, {"delay_restart", "-1"}},
         "compute.delay_restart must not be negative");
  expect({{"delay", "1 ms"}, {"delayed_nodes", "1"}, {"delay_restart", "9"}},
         "compute.delay_restart needs delay_draws");
}

TEST_CASE("a probe learns the keys of [compute] and builds nothing") {
  const Section probe = Section::probe("compute", {{"distribution", "empirical", "probe"}});
  CHECK_THROWS_AS(ComputeTime(probe, 4, 1), ProbeFinished);
  std::set<std::string> keys;
  for (const KeyUse& use : probe.uses()) keys.insert(use.key);
  CHECK(keys == std::set<std::string>{"distribution", "gradient", "samples", "draw", "speeds",
                                      "slow_nodes", "slowdown", "slow_factor", "slow_steps",
                                      "nominal_steps", "delay", "delay_probability",
                                      "delayed_nodes", "delay_draws", "delay_restart",
                                      "delay_trace"});
}

TEST_CASE("a gradient longer than the clock is an error that says whose") {
  // 1e6 s * 1e3 = 1e9 s; the clock ends after 9.2e6 s.
  const auto time = compute({{"gradient", "1000000 s"}, {"slow_nodes", "1"}, {"slowdown", "1000"}});
  CHECK_THROWS_WITH_AS(time.duration(0, 3), doctest::Contains("node 0 at step 3"), Error);
}

}  // namespace starling::test_compute_time
