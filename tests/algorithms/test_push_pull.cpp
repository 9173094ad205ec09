// Push-pull beside the recursions of its orders, and at the optimum of directed graphs.
#include <cmath>

#include <doctest/doctest.h>

#include "kernels/quadratic.hpp"
#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"
#include "tests/support/temporary_directory.hpp"
#include "topology/mixing.hpp"

namespace starling::test_push_pull {
namespace {

const std::string push_pull = "kind = push_pull\nlearning_rate = 0.05\norder = ";
const std::vector<std::string> orders{"adapt_then_combine", "combine_while_adapt"};

/// A directed circle of 7 nodes with four chords: in-degrees 1 and 2, out-degrees 1, 2 and 3.
const char* const circle_with_chords =
    "digraph { 0 -> 1; 1 -> 2; 2 -> 3; 3 -> 4; 4 -> 5; 5 -> 6; 6 -> 0; 0 -> 3; 0 -> 5; 2 -> 6; 4 "
    "-> 1 }";

}  // namespace

TEST_CASE(
    "push-pull brings every node of a directed graph to the optimum of heterogeneous quadratics") {
  const test::TemporaryDirectory directory;
  const std::string topology = "file\npath = " + directory.write("g.dot", circle_with_chords);
  for (const std::string& order : orders) {
    const std::string text = test::quadratic_scenario(7, 3000, topology, push_pull + order);
    const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
    CHECK(topologies::is_row_stochastic(*parts.topology));
    CHECK_FALSE(topologies::is_column_stochastic(*parts.topology));
    CHECK(test::distance_from_optimum(text) < 1e-5);
    // Gradient tracking with the one matrix would lose the mean, and pulling alone ends elsewhere.
    CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.kind=gradient_tracking"}),
                         "command line: algorithm.kind = gradient_tracking needs mixing weights "
                         "whose columns sum to one",
                         ScenarioError);
    const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
    const Recorder gossip = test::run(text, {"algorithm.kind=dpsgd"});
    CHECK(std::abs(test::model(gossip, 3, 0) - problem.optimum()[0]) > 1e-2);
  }
}

TEST_CASE("push-pull reaches the optimum where degrees differ and where the topology changes") {
  for (const std::string topology : {"star", "exponential", "one_peer_exponential"}) {
    for (const std::string& order : orders) {
      const std::string text = test::quadratic_scenario(7, 3000, topology, push_pull + order);
      const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
      const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
      const Recorder recorder = test::run(text, {"algorithm.learning_rate=0.02"});
      for (NodeId i = 0; i < 7; ++i)
        CHECK(std::abs(test::model(recorder, i, 2) - problem.optimum()[2]) < 1e-5);
    }
  }
}

TEST_CASE("both orders of push-pull follow their recursions") {
  // 0 -> 1 -> 2 -> 0 and 0 -> 2: rows of R halves and thirds, columns of C a third of node 0's y.
  // f_i = 1/2 (x - i)^2 from 0, lr = 0.05, five steps by hand.
  constexpr double r[3][3] = {{1. / 2, 0, 1. / 2}, {1. / 2, 1. / 2, 0}, {1. / 3, 1. / 3, 1. / 3}};
  constexpr double c[3][3] = {{1. / 3, 0, 1. / 2}, {1. / 3, 1. / 2, 0}, {1. / 3, 1. / 2, 1. / 2}};
  const test::TemporaryDirectory directory;
  const std::string topology =
      "file\npath = " + directory.write("g.dot", "digraph { 0 -> 1; 1 -> 2; 2 -> 0; 0 -> 2 }");
  for (const std::string& order : orders) {
    const bool adapts_first = order == "adapt_then_combine";
    double x[3] = {0, 0, 0};
    double y[3] = {0, -1, -2};
    for (int k = 0; k < 5; ++k) {
      double next[3];
      double pushed[3] = {0, 0, 0};
      for (int i = 0; i < 3; ++i) {
        next[i] = adapts_first ? 0 : -0.05 * y[i];
        for (int j = 0; j < 3; ++j) {
          next[i] += r[i][j] * (x[j] - (adapts_first ? 0.05 * y[j] : 0));
          pushed[i] += c[i][j] * y[j];
        }
      }
      for (int i = 0; i < 3; ++i) {
        y[i] = pushed[i] + next[i] - x[i];  // the difference of gradients
        x[i] = next[i];
      }
    }
    const Recorder recorder = test::run(test::quadratic_scenario(3, 5, topology, push_pull + order),
                                        {"workload.centers=index"});
    for (NodeId i = 0; i < 3; ++i)
      CHECK(test::model(recorder, i, 0) == doctest::Approx(x[i]).epsilon(1e-5));
    // Node 0 sends two vectors of 5 floats to 2 nodes at each step.
    CHECK(recorder.nodes[0].messages_sent == 5 * 2);
    CHECK(recorder.nodes[0].bytes_sent == 5 * 2 * 2 * 5 * 4);
  }
}

TEST_CASE("weight decay of push-pull leads to the optimum with decay, whatever the degrees") {
  // On the star with C of equal columns the y_i at rest differ: decay added to them would have no common zero.
  for (const std::string& order : orders) {
    const Recorder recorder = test::run(
        test::quadratic_scenario(7, 4000, "star", push_pull + order),
        {"algorithm.learning_rate=0.02", "algorithm.weight_decay=0.3", "topology.mixing=uniform"});
    const Recorder exact = test::run(test::quadratic_scenario(
        7, 4000, "ring", "kind = allreduce\nlearning_rate = 0.02\nweight_decay = 0.3"));
    for (NodeId i = 0; i < 7; ++i) {
      for (std::size_t k = 0; k < 5; ++k)
        CHECK(std::abs(test::model(recorder, i, k) - test::model(exact, 0, k)) < 1e-5);
    }
  }
}

TEST_CASE("on a ring, where both matrices are the same, push-pull is gradient tracking") {
  const std::string text =
      test::quadratic_scenario(6, 40, "ring", push_pull + "combine_while_adapt");
  const Recorder tracking = test::run(text, {"algorithm.kind=gradient_tracking"});
  CHECK(test::largest_difference(test::run(text), tracking) < 2e-6);
}

}  // namespace starling::test_push_pull
