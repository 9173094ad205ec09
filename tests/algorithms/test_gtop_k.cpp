// gTop-k beside allreduce SGD: nodes that move alike, nothing that is lost, and what it sends.
#include <cmath>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_gtop_k {
namespace {

Recorder run(int nodes, int steps, const std::string& settings,
             std::vector<std::string> overrides = {}) {
  overrides.emplace_back("workload.dimension=40");
  return test::run(test::quadratic_scenario(nodes, steps, "complete",
                                            "kind = gtop_k\nlearning_rate = 0.05\n" + settings),
                   overrides);
}

}  // namespace

TEST_CASE("gTop-k of all entries is allreduce SGD among any number of nodes") {
  const std::string settings = "momentum = 0.8\nweight_decay = 0.01\n";
  for (const int nodes : {1, 2, 3, 5, 8}) {
    CAPTURE(nodes);
    const Recorder exact =
        test::run(test::quadratic_scenario(nodes, 20, "complete",
                                           "kind = allreduce\nlearning_rate = 0.05\n" + settings),
                  {"workload.dimension=40"});
    CHECK(test::largest_difference(run(nodes, 20, "keep = 1\n" + settings), exact) < 2e-6);
  }
}

TEST_CASE("gTop-k moves all nodes alike, by as many entries as each sends") {
  for (const int nodes : {2, 3, 6}) {
    CAPTURE(nodes);
    const Recorder one = run(nodes, 1, "keep = 0.1");
    CHECK(test::nodes_agree(one));
    int moved = 0;
    for (std::size_t k = 0; k < 40; ++k) moved += test::model(one, 0, k) != 0 ? 1 : 0;
    CHECK(moved == 4);
    CHECK(test::nodes_agree(run(nodes, 50, "keep = 0.1")));
  }
}

TEST_CASE("codes of gTop-k go up a tree and down again, 8 bytes an entry") {
  const Recorder six = run(6, 10, "keep = 0.1");
  // Up: each but node 0, once. Down: 0 to 1, 2 and 4, 2 to 3, 4 to 5.
  const int messages[] = {3, 1, 2, 1, 2, 1};
  for (std::size_t i = 0; i < 6; ++i) CHECK(six.nodes[i].bytes_sent == 10 * 4 * 8 * messages[i]);
}

TEST_CASE(
    "nothing is lost of what gTop-k does not send: with few entries it gets to the same place") {
  // f_i = 1/2 (x - i)^2 in 40 dimensions: the mean of the minima is 2.5.
  const Recorder recorder = run(6, 2000, "keep = 0.1", {"workload.centers=index"});
  for (std::size_t k = 0; k < 40; ++k) CHECK(std::abs(test::model(recorder, 0, k) - 2.5) < 0.5);
}

TEST_CASE("gTop-k begins with larger shares if it is told") {
  // Two steps of 20 and of 8 entries, then 4; every node of two sends each once.
  const Recorder two = run(2, 6, "keep = 0.1\nwarmup_keep = 0.5, 0.2\nwarmup_period = 2\n");
  CHECK(two.nodes[1].bytes_sent == 8 * (2 * 20 + 2 * 8 + 2 * 4));
  CHECK_THROWS_WITH_AS(run(2, 6, "keep = 0"), doctest::Contains("keep must be in (0, 1], got 0"),
                       ScenarioError);
}

}  // namespace starling::test_gtop_k
