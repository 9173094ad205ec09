// D-PSGD in both orders at its fixed points, its mixing in rounds and on changing topologies, and its pace.
#include <cmath>
#include <string>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "kernels/quadratic.hpp"
#include "tests/support/mixing_matrix.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_dpsgd {
namespace {

const char* const combine_while_adapt =
    "kind = dpsgd\nlearning_rate = 0.1\norder = combine_while_adapt";
const char* const adapt_then_combine =
    "kind = dpsgd\nlearning_rate = 0.1\norder = adapt_then_combine";

/// Models that D-PSGD stops moving at, one coordinate after the other: (nodes, dimension). With A = diag(a_ik),
/// b = (b_ik) over the nodes i, per coordinate k:
///   combine while adapt   X = W X - lr A (X - b)          =>  (I - W + lr A) X = lr A b
///   adapt then combine    X = W (X - lr A (X - b))        =>  (I - W (I - lr A)) X = lr W A b
std::vector<double> fixed_point(const Assembly& parts, std::size_t k, double rate,
                                bool adapts_first) {
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  const auto n = static_cast<std::size_t>(parts.settings.nodes);
  const std::vector<double> w = test::mixing_matrix(*parts.topology);
  std::vector<double> matrix(n * n);
  std::vector<double> right(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double a = static_cast<double>(problem.curvature(static_cast<NodeId>(j), k));
      const double b = static_cast<double>(problem.center(static_cast<NodeId>(j), k));
      const double same = i == j ? 1.0 : 0.0;
      matrix[i * n + j] = adapts_first ? same - w[i * n + j] * (1 - rate * a)
                                       : same * (1 + rate * a) - w[i * n + j];
      right[i] += adapts_first ? rate * w[i * n + j] * a * b : same * rate * a * b;
    }
  }
  return test::solve(matrix, right);
}

void check_fixed_point(const char* order, bool adapts_first, const char* topology) {
  const std::string text = test::quadratic_scenario(7, 1500, topology, order);
  const Recorder recorder = test::run(text);
  const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
  for (std::size_t k = 0; k < 5; ++k) {
    const std::vector<double> expected = fixed_point(parts, k, 0.1, adapts_first);
    for (NodeId i = 0; i < 7; ++i) {
      CHECK(test::model(recorder, i, k) ==
            doctest::Approx(expected[static_cast<std::size_t>(i)]).epsilon(1e-5));
    }
  }
}

}  // namespace

TEST_CASE("D-PSGD ends at the fixed point of combining while adapting") {
  check_fixed_point(combine_while_adapt, false, "ring");
  check_fixed_point(combine_while_adapt, false, "star");
}

TEST_CASE("D-PSGD ends at the fixed point of adapting, then combining") {
  check_fixed_point(adapt_then_combine, true, "ring");
  check_fixed_point(adapt_then_combine, true, "star");
}

TEST_CASE(
    "weights whose columns do not sum to one weigh the nodes: the optimum of rows, not the "
    "mean's") {
  // Rows of a star with uniform weights: 1/2 at the leaves, 1/7 at the center. Their left eigenvector pi is 7 : 2 for center and
  // leaf, and as the learning rate goes to 0, x goes to the minimum of sum_i pi_i f_i, with a distance like the learning rate.
  const std::string topology = "star\nmixing = uniform";
  const auto assembly = [&](const std::string& rate) {
    return test::quadratic_scenario(7, 8000, topology, "kind = dpsgd\nlearning_rate = " + rate);
  };
  const Assembly parts = assemble(Scenario::parse(assembly("0.1"), "test.ini"));
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  double above = 0;
  double below = 0;
  for (NodeId i = 0; i < 7; ++i) {
    const double weight = (i == 0 ? 7 : 2) * static_cast<double>(problem.curvature(i, 0));
    above += weight * static_cast<double>(problem.center(i, 0));
    below += weight;
  }
  const auto distance = [&](const std::string& rate) {
    return std::abs(test::model(test::run(assembly(rate)), 0, 0) - above / below);
  };
  const double far = distance("0.008");
  const double near = distance("0.004");
  CHECK(near < 0.01);
  CHECK(far / near == doctest::Approx(2).epsilon(0.05));
  CHECK(std::abs(above / below - problem.optimum()[0]) > 0.05);
}

TEST_CASE(
    "adapting, then combining on the complete graph is allreduce SGD, the other order is not") {
  // W = 1/n: every node gets mean_j (x_j - lr g_j), so all are equal and follow the mean gradient. In the other
  // order node i keeps mean_j x_j - lr g_i: nodes differ by one gradient step forever.
  const Recorder first = test::run(test::quadratic_scenario(6, 50, "complete", adapt_then_combine));
  const Recorder second =
      test::run(test::quadratic_scenario(6, 50, "complete", combine_while_adapt));
  const Recorder exact = test::run(
      test::quadratic_scenario(6, 50, "complete", "kind = allreduce\nlearning_rate = 0.1"));
  double spread = 0;
  for (NodeId i = 0; i < 6; ++i) {
    CHECK(test::model(first, i, 0) == doctest::Approx(test::model(exact, 0, 0)).epsilon(1e-5));
    spread = std::max(spread, std::abs(test::model(second, i, 0) - test::mean_model(second, 0)));
  }
  CHECK(spread > 0.01);
}

TEST_CASE("the mean model of D-PSGD moves by the mean gradient") {
  // W is doubly stochastic, so averaging the update over nodes leaves mean <- mean - lr (mean - mean(c)) with
  // c_i = i and curvature 1, hence after k steps mean = mean(c) (1 - (1 - lr)^k) from 0.
  const Recorder recorder = test::run(test::quadratic_scenario(4, 20, "ring", combine_while_adapt),
                                      {"workload.centers=index"});
  CHECK(test::mean_model(recorder, 0) ==
        doctest::Approx(1.5 * (1 - std::pow(0.9, 20))).epsilon(1e-6));
}

TEST_CASE("a ring falls to the pace of its slowest node") {
  const Recorder recorder = test::run(test::quadratic_scenario(8, 100, "ring", combine_while_adapt),
                                      {"compute.slow_nodes=1", "compute.slowdown=5"});
  // Node 0 takes 5 ms a step; a neighbor d hops away may run at most d steps ahead, so all end near 0.5 s.
  for (const NodeTotals& node : recorder.nodes) {
    CHECK(to_seconds(node.finished) > 0.47);
    CHECK(to_seconds(node.finished) < 0.51);
  }
  CHECK(to_seconds(recorder.nodes[4].compute) == doctest::Approx(0.1));
  CHECK(to_seconds(recorder.nodes[4].wait) > 0.35);
}

TEST_CASE("one-peer exponential mixing reaches the mean after log2 n steps without gradients") {
  // n = 8: the product of three phases is exactly 1/8 everywhere. Curvature 0 leaves pure averaging; the start is
  // the same on all nodes, so let one step with gradients spread them first, then compare with their mean.
  const Recorder spread =
      test::run(test::quadratic_scenario(8, 1, "one_peer_exponential", adapt_then_combine));
  const Recorder recorder =
      test::run(test::quadratic_scenario(8, 4, "one_peer_exponential", adapt_then_combine),
                test::gradients_until(1));
  for (NodeId i = 0; i < 8; ++i) {
    CHECK(test::model(recorder, i, 0) ==
          doctest::Approx(test::mean_model(spread, 0)).epsilon(1e-5));
  }
}

TEST_CASE("D-PSGD with two rounds mixes with the square of the matrix, whichever order") {
  // A ring of 4 with weights 1/3: W^2 has 3/9 on the diagonal and 2/9 elsewhere. From 0, with x - c as gradients and c_i = i, the
  // first step leaves y = W^2 (0.1 c) = 0.1 (12 + i) / 9 where it comes first, else x = 0.1 c; then the second leaves
  // W^2 y - 0.1 (x - c) = 0.1 (12 + i) / 9 + 0.1 (0.9 i).
  const std::string rounds = "\nrounds = 2";
  const Recorder adapted =
      test::run(test::quadratic_scenario(4, 1, "ring", adapt_then_combine + rounds),
                {"workload.centers=index"});
  const Recorder combined =
      test::run(test::quadratic_scenario(4, 2, "ring", combine_while_adapt + rounds),
                {"workload.centers=index"});
  for (NodeId i = 0; i < 4; ++i) {
    const double mixed = 0.1 * (12 + i) / 9;
    CHECK(test::model(adapted, i, 0) == doctest::Approx(mixed).epsilon(1e-6));
    CHECK(test::model(combined, i, 0) == doctest::Approx(mixed + 0.09 * i).epsilon(1e-6));
  }
}

TEST_CASE("rounds of D-PSGD cost messages, and time unless they overlap the gradient") {
  // A gradient takes 1 ms, a message 10 us on an infinite bandwidth. In 10 steps a node sends its 2 neighbors 3 messages
  // per step; the first round overlaps the gradient if models are combined while it runs.
  for (const auto& [order, rounds_after] :
       {std::pair(combine_while_adapt, 2), std::pair(adapt_then_combine, 3)}) {
    const Recorder recorder =
        test::run(test::quadratic_scenario(6, 10, "ring", order + std::string("\nrounds = 3")));
    for (const NodeTotals& node : recorder.nodes) {
      CHECK(node.messages_sent == 60);
      CHECK(to_seconds(node.finished) == doctest::Approx(10 * (1e-3 + rounds_after * 10e-6)));
    }
  }
}

TEST_CASE("rounds of D-PSGD go on in the schedule of a changing topology") {
  // n = 8: three rounds of one-peer exponential mixing are one of 1/8 everywhere, so that every step is one of allreduce SGD.
  const Recorder rounds = test::run(test::quadratic_scenario(
      8, 20, "one_peer_exponential", adapt_then_combine + std::string("\nrounds = 3")));
  const Recorder exact = test::run(
      test::quadratic_scenario(8, 20, "complete", "kind = allreduce\nlearning_rate = 0.1"));
  for (NodeId i = 0; i < 8; ++i)
    CHECK(test::model(rounds, i, 0) == doctest::Approx(test::model(exact, 0, 0)).epsilon(1e-5));
}

TEST_CASE("neighbors do not get the messages of all others at once") {
  // LogGP: L = 1 us, o = 200 ns, G = 0.1 ns. In each round a port sends one message and receives one, so an exchange takes
  // d (2 o + L + (m - 1) G): the closed form, a + d m b, and what the rounds wait for each other. When every node began with its
  // lowest neighbor, a ring took 1.5 times as long, an exponential graph of 64 nodes 1.8 times; when messages that wait for
  // their receivers set off as these came to act, in the order of their numbers, 1.4 to 1.9 times.
  struct Case {
    const char* topology;
    int nodes, degree;
  };
  for (const Case& here :
       {Case{"ring", 8, 2}, Case{"ring", 64, 2}, Case{"exponential", 16, 4},
        Case{"exponential", 64, 6}, Case{"hypercube", 16, 4}, Case{"torus", 16, 4}}) {
    for (const char* eager_limit : {"infinite", "0 B"}) {
      CAPTURE(here.topology);
      CAPTURE(here.nodes);
      CAPTURE(eager_limit);
      const std::string text = fmt::format(
          "[run]\nnodes = {}\nsteps = 1\n[topology]\nkind = {}\n[network]\nkind = loggp\nlatency = "
          "1 us\noverhead = 200 ns\ngap = 300 ns\nbandwidth = 10 GB/s\neager_limit = {}\n"
          "[compute]\ngradient = 0 s\n[workload]\nkind = timing\nbytes = 1 MB\n"
          "[algorithm]\nkind = dpsgd\nlearning_rate = 0.1\n",
          here.nodes, here.topology, eager_limit);
      const Duration expected = here.degree * Duration{1'400'000 + 99'999'900};
      for (const NodeTotals& node : test::run(text).nodes) CHECK(node.finished == Time{expected});
    }
  }
}

}  // namespace starling::test_dpsgd
