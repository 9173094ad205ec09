// A2SGD beside its formulas, and what it sends.
#include <cmath>

#include <doctest/doctest.h>

#include "kernels/quadratic.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_a2sgd {
namespace {

const std::string a2sgd = "kind = a2sgd\nlearning_rate = 0.1";
const std::string allreduce = "kind = allreduce\nlearning_rate = 0.1";

/// The two averages of a gradient.
struct Sides {
  double upper = 0, lower = 0;
};

Sides sides(const std::vector<double>& g) {
  Sides sum;
  double above = 0, below = 0;
  for (const double v : g) {
    (v >= 0 ? sum.upper : sum.lower) += std::abs(v);
    ++(v >= 0 ? above : below);
  }
  return {above > 0 ? sum.upper / above : 0, below > 0 ? sum.lower / below : 0};
}

/// Models of A2SGD on the quadratics a_ik/2 (x_k - b_ik)^2 after some steps, in double; also counts steps of nodes
/// whose gradient had an empty side.
std::vector<std::vector<double>> by_hand(const Quadratic& problem, NodeId nodes, std::size_t d,
                                         int steps, double start, int& empty_sides) {
  const auto n = static_cast<std::size_t>(nodes);
  std::vector<std::vector<double>> x(n, std::vector<double>(d, start)), g = x;
  for (int k = 0; k < steps; ++k) {
    Sides all;
    std::vector<Sides> own(n);
    for (std::size_t i = 0; i < n; ++i) {
      const auto node = static_cast<NodeId>(i);
      for (std::size_t c = 0; c < d; ++c) {
        g[i][c] = double{problem.curvature(node, c)} * (x[i][c] - double{problem.center(node, c)});
      }
      own[i] = sides(g[i]);
      if (own[i].upper == 0 || own[i].lower == 0) ++empty_sides;
      all.upper += own[i].upper / nodes;
      all.lower += own[i].lower / nodes;
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t c = 0; c < d; ++c) {
        const double shift = g[i][c] >= 0 ? all.upper - own[i].upper : -(all.lower - own[i].lower);
        x[i][c] -= 0.1 * (g[i][c] + shift);
      }
    }
  }
  return x;
}

}  // namespace

TEST_CASE("A2SGD on one node, and with equal gradients everywhere, is SGD to the bit") {
  // Equal problems: four equal sums of four equal floats, so the averages are the node's own and shift nothing.
  const std::vector<std::string> equal{"workload.centers=list", "workload.center_values=3"};
  for (const int nodes : {1, 4}) {
    const Recorder two = test::run(test::quadratic_scenario(nodes, 30, "ring", a2sgd), equal);
    const Recorder sgd = test::run(test::quadratic_scenario(nodes, 30, "ring", allreduce), equal);
    CHECK(two.models == sgd.models);
  }
}

TEST_CASE("A2SGD follows its formulas, with sides that are empty, too") {
  const std::string text = test::quadratic_scenario(6, 12, "ring", a2sgd);
  const Recorder recorder = test::run(text, {"workload.start=2"});  // most gradients begin positive
  const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
  int empty_sides = 0;
  const auto x =
      by_hand(dynamic_cast<const Quadratic&>(*parts.workload), 6, 5, 12, 2.0, empty_sides);
  CHECK(empty_sides > 6);
  for (NodeId i = 0; i < 6; ++i) {
    for (std::size_t c = 0; c < 5; ++c) {
      CHECK(test::model(recorder, i, c) ==
            doctest::Approx(x[static_cast<std::size_t>(i)][c]).epsilon(1e-4));
    }
  }
}

TEST_CASE("models of A2SGD drift apart, while allreduce keeps them equal") {
  const Recorder two = test::run(test::quadratic_scenario(8, 40, "ring", a2sgd));
  const Recorder sgd = test::run(test::quadratic_scenario(8, 40, "ring", allreduce));
  const auto spread = [](const Recorder& r) {
    return r.evaluation.value("consensus_distance", r.evaluation.rows("consensus_distance") - 1);
  };
  CHECK(spread(sgd) < 1e-6);
  CHECK(spread(two) > 0.1);
}

TEST_CASE("A2SGD sends eight bytes in log2 n messages per step, in closed form, too") {
  // Two numbers are two numbers, whatever model the quadratic stands in for.
  for (const std::string collectives : {"expanded", "analytic"}) {
    const Recorder recorder =
        test::run(test::quadratic_scenario(16, 10, "ring", a2sgd),
                  {"network.collectives=" + collectives, "workload.wire_parameters=25559081"});
    for (const NodeTotals& node : recorder.nodes) {
      CHECK(node.messages_sent == 10 * 4);
      CHECK(node.bytes_sent == 10 * 4 * 8);
      // 10 steps of 1 ms and 4 latencies of 10 us each; a constant network carries bytes in no time.
      CHECK(to_seconds(node.finished) == doctest::Approx(10 * (1e-3 + 4 * 10e-6)).epsilon(1e-9));
    }
  }
}

TEST_CASE("A2SGD gives the same models with closed-form and with expanded collectives") {
  for (const std::string collective : {"ring", "recursive_doubling", "rabenseifner", "tree"}) {
    for (const int nodes : {3, 8}) {
      const std::string text = test::quadratic_scenario(nodes, 15, "ring", a2sgd);
      const std::string kind = "algorithm.collective=" + collective;
      CHECK(test::run(text, {kind, "network.collectives=analytic"}).models ==
            test::run(text, {kind}).models);
    }
  }
}

}  // namespace starling::test_a2sgd
