// SGP: the mass that it conserves, the schedules of its peers, its fixed point, and which other algorithms it is.
#include <cmath>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/quadratic.hpp"
#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_sgp {
namespace {

const std::string sgp = "kind = sgp\nlearning_rate = 0.1\npeers = ";
// One step spreads the models, then learning rates of 1e-31 leave pure averaging.
const std::vector<std::string> no_gradients_after_the_first =
    test::gradients_until(1, {"workload.centers=index"});

}  // namespace

TEST_CASE("SGP conserves the sums of numerators and weights on any directed topology") {
  // f_i = 1/2 (x - i)^2 from 0: the first step leaves sum_i x_i = lr sum_i i, which pushing only
  // moves about. At any later time sum_i w_i z_i = sum_i x_i, and sum_i w_i = n; the uneven degrees
  // of a star make the w_i differ.
  for (const std::string peers : {"one_peer", "two_peer", "four_peer", "both_ways", "topology"}) {
    for (const int steps : {2, 5}) {
      const Recorder recorder = test::run(test::quadratic_scenario(7, steps, "star", sgp + peers),
                                          no_gradients_after_the_first);
      double x = 0;
      double w = 0;
      for (NodeId i = 0; i < 7; ++i) {
        x += test::last_weight(recorder, i) * test::model(recorder, i, 0);
        w += test::last_weight(recorder, i);
      }
      CHECK(w == doctest::Approx(7).epsilon(1e-12));
      CHECK(x == doctest::Approx(0.1 * 21).epsilon(1e-6));
      const bool is_regular = peers != "topology";
      CHECK((std::abs(test::last_weight(recorder, 0) - 1) < 1e-12) == is_regular);
    }
  }
}

TEST_CASE("what push-sum evaluates is the sum of numerators over that of weights") {
  // Pushing only moves both sums about, so the evaluated model stays (0.1 * 3, ..) although the z_i and their plain mean
  // change: f has the same value after every step.
  for (const std::string& algorithm :
       {sgp + "topology", std::string("kind = push_sum\nlearning_rate = 0.1\ngradient = numerator"),
        std::string("kind = overlap_sgp\nlearning_rate = 0.1\npeers = topology\ntau = 0")}) {
    CAPTURE(algorithm);
    const Recorder recorder =
        test::run(test::quadratic_scenario(7, 3, "star", algorithm), no_gradients_after_the_first);
    const auto loss = [&](std::size_t row) { return recorder.evaluation.value("test_loss", row); };
    for (std::size_t row = 1; row < 3; ++row)
      CHECK(loss(row) == doctest::Approx(loss(0)).epsilon(1e-6));
    double plain = 0;
    for (NodeId i = 0; i < 7; ++i) plain += test::model(recorder, i, 0) / 7;
    CHECK(std::abs(plain - 0.3) > 0.001);
  }
}

TEST_CASE("without gradients every node of SGP reaches the mean, whatever the degrees") {
  // Column-stochastic mixing alone would tend to Perron weights; dividing by w gives lr mean(i) =
  // 0.1 * 3 everywhere.
  for (const std::string topology : {"star", "exponential", "erdos_renyi\nprobability = 0.4"}) {
    const Recorder recorder = test::run(
        test::quadratic_scenario(7, 150, topology, sgp + "topology"), no_gradients_after_the_first);
    for (NodeId i = 0; i < 7; ++i)
      CHECK(test::model(recorder, i, 0) == doctest::Approx(0.3).epsilon(1e-5));
  }
}

TEST_CASE("weights that are powers of two stay exactly one on regular schedules") {
  // Every node keeps 1/2 and gets 1/2 of 1.
  const Recorder recorder = test::run(test::quadratic_scenario(12, 9, "ring", sgp + "one_peer"));
  for (NodeId i = 0; i < 12; ++i) CHECK(test::last_weight(recorder, i) == 1);
}

TEST_CASE("one-peer SGP mixes a power of two of nodes in log2 n steps") {
  // The product of the mixing matrices of distances 1, 2, 4 is 1/8 everywhere: steps 1, 2, 3 after
  // the one with a gradient.
  const Recorder recorder = test::run(test::quadratic_scenario(8, 4, "ring", sgp + "one_peer"),
                                      no_gradients_after_the_first);
  for (NodeId i = 0; i < 8; ++i)
    CHECK(test::model(recorder, i, 0) == doctest::Approx(0.35).epsilon(1e-6));
}

TEST_CASE("a schedule of fewer distances is that much shorter, and its peers may come twice") {
  // Of 8 nodes: distances 1 and 2 only, so after steps 1 and 2 a node has the mean of itself and the three before it, of
  // 0.1 i each; two peers at the one distance 1 are one peer with two shares, of thirds.
  const auto model = [](int steps, const std::string& keys, NodeId i) {
    const Recorder recorder = test::run(test::quadratic_scenario(8, steps, "ring", sgp + keys),
                                        no_gradients_after_the_first);
    return test::model(recorder, i, 0);
  };
  for (NodeId i = 0; i < 8; ++i) {
    const auto before = [i](NodeId distance) { return 0.1 * ((i + 8 - distance) % 8); };
    // The step with the gradient pushes, too, at distance 1.
    const double once = (before(0) + before(1)) / 2;
    const double twice = (once + (before(2) + before(3)) / 2) / 2;
    CHECK(model(1, "one_peer\ndistances = 2", i) == doctest::Approx(once).epsilon(1e-6));
    CHECK(model(2, "one_peer\ndistances = 2", i) == doctest::Approx(twice).epsilon(1e-6));
    CHECK(model(1, "two_peer\ndistances = 1", i) ==
          doctest::Approx((before(0) + 2 * before(1)) / 3).epsilon(1e-6));
  }
  const auto run = [](const std::string& keys) {
    test::run(test::quadratic_scenario(8, 1, "ring", sgp + keys));
  };
  CHECK_THROWS_WITH_AS(run("one_peer\ndistances = 4"),
                       "test.ini:18: algorithm.distances must be from 0 to 3 with 8 nodes, got 4",
                       ScenarioError);
  CHECK_THROWS_WITH_AS(
      run("one_peer\ndistances = 4294967297"),  // 1 in 32 bits
      "test.ini:18: algorithm.distances must be from 0 to 3 with 8 nodes, got 4294967297",
      ScenarioError);
  CHECK_THROWS_WITH_AS(run("topology\ndistances = 1"),
                       "test.ini:18: algorithm.distances needs exponential peers", ScenarioError);
}

TEST_CASE(
    "a schedule that goes both ways meets i + 1, i - 1, i + 2, i - 2, .., each once per round") {
  // 0.1 i on node i after the first step, then each keeps half, and gets half of the node so far before it. With 2^a + 2^b
  // nodes the way back over 2^a is a way forth over 2^b.
  const std::vector<std::pair<int, std::vector<int>>> rounds{
      {3, {1, 2}}, {6, {1, 5, 2, 4}}, {7, {1, 6, 2, 5, 4, 3}}, {9, {1, 8, 2, 7, 4, 5}}};
  for (const auto& [nodes, distances] : rounds) {
    std::vector<double> x;
    for (int i = 0; i < nodes; ++i) x.push_back(0.1 * i);
    for (std::size_t k = 0; k < distances.size() + 1; ++k) {
      const int distance = distances[k % distances.size()];
      std::vector<double> next;
      for (int i = 0; i < nodes; ++i) {
        const int before = (i + nodes - distance) % nodes;
        next.push_back((x[static_cast<std::size_t>(i)] + x[static_cast<std::size_t>(before)]) / 2);
      }
      x = next;
      const Recorder recorder = test::run(
          test::quadratic_scenario(nodes, static_cast<int>(k) + 1, "ring", sgp + "both_ways"),
          no_gradients_after_the_first);
      for (NodeId i = 0; i < nodes; ++i) {
        CHECK(test::model(recorder, i, 0) ==
              doctest::Approx(x[static_cast<std::size_t>(i)]).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("SGP with local steps exchanges after every H-th step, in the order of the schedule") {
  // As above, 8 nodes, one peer: exchanges after steps 2, 4 and 6 with those 1, 2 and 4 before make all equal, so after step 5
  // they are not yet. Two messages in seven steps with H = 3.
  const auto run = [](int steps, const std::string& local_steps) {
    return test::run(
        test::quadratic_scenario(8, steps, "ring", sgp + "one_peer\nlocal_steps = " + local_steps),
        no_gradients_after_the_first);
  };
  const Recorder before = run(5, "2");
  const Recorder after = run(6, "2");
  CHECK(std::abs(test::model(before, 0, 0) - test::model(before, 4, 0)) > 0.01);
  for (NodeId i = 0; i < 8; ++i)
    CHECK(test::model(after, i, 0) == doctest::Approx(0.35).epsilon(1e-6));
  for (const NodeTotals& node : run(7, "3").nodes) CHECK(node.messages_sent == 2);
}

TEST_CASE("SGP with uniform shares on the complete graph is allreduce SGD") {
  const Recorder push = test::run(test::quadratic_scenario(6, 50, "complete", sgp + "topology"));
  const Recorder exact = test::run(
      test::quadratic_scenario(6, 50, "complete", "kind = allreduce\nlearning_rate = 0.1"));
  for (std::size_t k = 0; k < 5; ++k) {
    CHECK(test::model(push, 4, k) == doctest::Approx(test::model(exact, 4, k)).epsilon(1e-5));
  }
}

TEST_CASE(
    "SGP with the topology's mixing weights is D-PSGD that adapts first where these are doubly "
    "stochastic") {
  // w stays 1 (to rounding), and x <- W (x - lr g). With uniform shares, 1/(degree + 1), a star
  // gives another algorithm.
  const Recorder push =
      test::run(test::quadratic_scenario(7, 40, "star", sgp + "topology\nweights = topology"));
  const Recorder uniform =
      test::run(test::quadratic_scenario(7, 40, "star", sgp + "topology\nweights = uniform"));
  const Recorder gossip = test::run(test::quadratic_scenario(
      7, 40, "star", "kind = dpsgd\nlearning_rate = 0.1\norder = adapt_then_combine"));
  for (NodeId i = 0; i < 7; ++i) {
    CHECK(test::model(push, i, 0) == doctest::Approx(test::model(gossip, i, 0)).epsilon(1e-4));
  }
  CHECK(std::abs(test::model(uniform, 3, 0) - test::model(gossip, 3, 0)) > 1e-3);
}

TEST_CASE("gradients of SGP sum to zero at its fixed point") {
  // sum_i x_i changes by -lr sum_i grad f_i(z_i) a step, so where nothing moves sum_i a_ik (z_ik -
  // b_ik) = 0, though the weights w differ from node to node. (Row-stochastic gossip would end at a
  // weighted optimum instead.)
  const std::string text = test::quadratic_scenario(7, 1500, "star", sgp + "topology");
  const Recorder recorder = test::run(text);
  const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  for (std::size_t k = 0; k < 5; ++k) {
    double sum = 0;
    double scale = 0;
    for (NodeId i = 0; i < 7; ++i) {
      const double a = static_cast<double>(problem.curvature(i, k));
      sum += a * (test::model(recorder, i, k) - static_cast<double>(problem.center(i, k)));
      scale += a * std::abs(static_cast<double>(problem.center(i, k)));
    }
    CHECK(std::abs(sum) < 1e-5 * scale);
  }
}

TEST_CASE("SGP refuses mixing weights that would not conserve mass") {
  const std::string text =
      test::quadratic_scenario(7, 3, "star\nmixing = uniform", sgp + "topology");
  CHECK_NOTHROW(test::run(text));
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.weights=topology"}),
                       doctest::Contains("columns sum to one"), ScenarioError);
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.weights=topology", "algorithm.peers=one_peer"}),
                       doctest::Contains("needs peers = topology"), ScenarioError);
}

}  // namespace starling::test_sgp
