// RelaySGD; test_twins.py holds it against its definition.

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_relay {
namespace {

const std::string relay = "kind = relay\nlearning_rate = 0.05";

TEST_CASE("RelaySGD brings every node to the optimum of heterogeneous quadratics") {
  // Where nothing moves all x are the same mean of x_j - learning_rate * g_j(x_j), so that the mean of all g_j is zero; with
  // D-PSGD nodes stay apart on the same graphs.
  for (const std::string topology : {"tree", "tree\nchildren = 1", "star", "ring", "torus"}) {
    CAPTURE(topology);
    CHECK(test::distance_from_optimum(test::quadratic_scenario(9, 1500, topology, relay)) < 1e-5);
    CHECK(test::distance_from_optimum(test::quadratic_scenario(
              9, 1500, topology, "kind = dpsgd\nlearning_rate = 0.05")) > 1e-3);
  }
}

TEST_CASE("with RelaySGD a model comes a step later for every node between") {
  // One step onto the own minimum, i of node i, then nothing but relaying. On a path the mean of step 1 is that of a node and
  // its neighbors; at step 2 node 0 has its own model, that of node 1, and that of node 2 of the step before.
  std::vector<std::string> overrides = test::gradients_until(1);
  for (const char* setting : {"workload.centers=index", "workload.curvature_min=1",
                              "workload.curvature_max=1", "algorithm.learning_rate=1"})
    overrides.emplace_back(setting);
  const auto models = [&](int steps) {
    const Recorder recorder =
        test::run(test::quadratic_scenario(6, steps, "tree\nchildren = 1", relay), overrides);
    std::vector<double> result;
    for (NodeId i = 0; i < 6; ++i) result.push_back(test::model(recorder, i, 0));
    return result;
  };
  CHECK(models(1) == std::vector<double>{0.5, 1, 2, 3, 4, 4.5});
  CHECK(models(2)[0] == doctest::Approx((0.5 + 1 + 2) / 3));
  const std::vector<double> last = models(100);
  for (const double x : last) CHECK(x == doctest::Approx(last[0]).epsilon(1e-6));
}

TEST_CASE("every node sends one model to each neighbor in the tree, whatever the graph") {
  // 5 parameters of 4 bytes. Breadth first, a complete graph is a star around node 0, a ring of 8 a path that ends at nodes 4
  // and 5, and a tree is itself.
  const auto sent = [](const std::string& topology) {
    std::vector<std::int64_t> models;
    for (const NodeTotals& node : test::run(test::quadratic_scenario(8, 3, topology, relay)).nodes)
      models.push_back(node.bytes_sent / (3 * 5 * 4));
    return models;
  };
  using Models = std::vector<std::int64_t>;
  CHECK(sent("complete") == Models{7, 1, 1, 1, 1, 1, 1, 1});
  CHECK(sent("ring") == Models{2, 2, 2, 2, 1, 1, 2, 2});
  CHECK(sent("tree") == Models{2, 3, 3, 2, 1, 1, 1, 1});
}

TEST_CASE("RelaySGD refuses topologies that change or are directed") {
  const auto refusal = [](const std::string& topology) {
    return test::quadratic_scenario(8, 3, topology, relay);
  };
  CHECK_THROWS_WITH_AS(test::run(refusal("one_peer_exponential")),
                       doctest::Contains("does not change, got one with 3 phases"), ScenarioError);
  CHECK_THROWS_WITH_AS(test::run(refusal("exponential")),
                       doctest::Contains("algorithm.kind = relay needs symmetric mixing weights"),
                       ScenarioError);
}

}  // namespace
}  // namespace starling::test_relay
