// signSGD with majority vote; test_code_twins.py holds it against a twin.

#include <doctest/doctest.h>

#include "tests/support/small_run.hpp"

namespace starling::test_sign_sgd {
namespace {

/// Quadratics in five dimensions with the minimum i of node i, from zero.
Recorder run(int nodes, int steps, const std::string& keys,
             std::vector<std::string> overrides = {}) {
  for (const char* setting :
       {"workload.centers=index", "workload.curvature_min=1", "workload.curvature_max=1"})
    overrides.emplace_back(setting);
  return test::run(test::quadratic_scenario(nodes, steps, "complete",
                                            "kind = sign_sgd\nlearning_rate = 0.25\n" + keys),
                   overrides);
}

TEST_CASE("every entry moves by the learning rate, to where most nodes want it") {
  // Of the minima 0, 1 and 2 two are above: 0.25 a step, up to 1, where node 1 has a gradient of zero, whose sign is
  // positive: down again to 0.75, and so on.
  const double expected[] = {0.25, 0.5, 0.75, 1, 0.75, 1};
  for (int steps = 1; steps <= 6; ++steps) {
    const Recorder recorder = run(3, steps, "");
    CHECK(test::model(recorder, 0, 2) == expected[steps - 1]);
    CHECK(test::nodes_agree(recorder));
  }
}

TEST_CASE("where equally many nodes vote for both ways a model goes down") {
  // Minima 0 and 1: node 0 stays where it is, which is a vote for down, as zero counts as positive.
  CHECK(test::model(run(2, 1, ""), 1, 0) == -0.25);
}

TEST_CASE("weight decay is no part of a vote") {
  // Minima 0, 1, 2 and a decay of 0.4: the model falls by a tenth at each step before it moves by 0.25.
  CHECK(test::model(run(3, 2, "weight_decay = 0.4"), 0, 0) ==
        doctest::Approx(0.9 * 0.25 + 0.25).epsilon(1e-6));
}

TEST_CASE("pieces of a model have votes of their own, with any number of servers") {
  const Recorder one = run(7, 20, "momentum = 0.5");
  for (const char* servers : {"servers = 2\n", "servers = 7\n"})
    CHECK(test::largest_difference(one, run(7, 20, std::string(servers) + "momentum = 0.5")) == 0);
}

TEST_CASE("a vote is one bit per entry, up and down") {
  // 37 entries are five bytes: up from each node but the server's own, down to each of the others.
  const Recorder recorder = run(4, 10, "", {"workload.dimension=37"});
  CHECK(recorder.nodes[2].bytes_sent == 10 * 5);
  CHECK(recorder.nodes[0].bytes_sent == 10 * 5 * 3);
}

TEST_CASE("a few nodes that want something else are outvoted") {
  // Seven nodes want 3, two want -1000: the mean of what they want is -220.
  const std::vector<std::string> overrides{
      "workload.centers=list", "workload.center_values=3, 3, 3, 3, -1000, 3, -1000, 3, 3"};
  const std::string text =
      test::quadratic_scenario(9, 40, "complete", "kind = sign_sgd\nlearning_rate = 0.25\n");
  CHECK(test::model(test::run(text, overrides), 0, 0) == doctest::Approx(3).epsilon(0.1));
}

}  // namespace
}  // namespace starling::test_sign_sgd
