// AD-PSGD: exchanges conserve the sum of models, nobody's gradients wait for them, and every node ends.
#include <cmath>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_adpsgd {
namespace {

const char* const adpsgd = "kind = adpsgd\nlearning_rate = 0.05";

}  // namespace

TEST_CASE("exchanges of AD-PSGD conserve the sum of models") {
  // Constant curvature 1 and centers c_i: the mean of the models moves only by -lr mean(g_i), whatever is
  // exchanged when. After one step from the common start 0 with lr tiny and the rest with rate ~ 0 (schedule), the
  // mean stays where the first step put it: lr mean(c).
  const Recorder recorder = test::run(
      test::quadratic_scenario(9, 60, "ring", adpsgd),
      test::gradients_until(
          1, {"workload.centers=index", "compute.distribution=lognormal", "compute.sigma=0.5"}));
  CHECK(test::mean_model(recorder, 0) == doctest::Approx(0.05 * 4).epsilon(1e-6));
  double spread = 0;
  for (NodeId i = 0; i < 9; ++i)
    spread = std::max(spread, std::abs(test::model(recorder, i, 0) - 0.2));
  CHECK(spread < 0.02);  // 60 exchanges per node shrank the initial spread of 0.2
}

TEST_CASE("two nodes without gradients are equal after their exchanges") {
  const Recorder recorder = test::run(test::quadratic_scenario(2, 8, "ring", adpsgd),
                                      test::gradients_until(1, {"workload.centers=index"}));
  CHECK(test::model(recorder, 0, 0) == doctest::Approx(test::model(recorder, 1, 0)).epsilon(1e-6));
}

TEST_CASE("computing never waits in AD-PSGD, whoever is slow") {
  const Recorder recorder =
      test::run(test::quadratic_scenario(8, 50, "complete", adpsgd),
                {"compute.slow_nodes=1", "compute.slowdown=10", "network.latency=2 ms"});
  // Nodes 1..7 compute 50 steps of 1 ms back to back; the step table says when each ended its last step.
  const Table& steps = recorder.steps;
  for (std::size_t i = 1; i < 8; ++i) {
    CHECK(steps.value("time", steps.rows("time") - 1, i) == doctest::Approx(0.05).epsilon(1e-9));
  }
}

TEST_CASE("exchanges that a network cannot keep up with are not made up after the training") {
  // A round trip takes 20 gradients, or 0.2: some 5 exchanges of 100 in the time of the steps, or all.
  for (const bool is_slow : {true, false}) {
    CAPTURE(is_slow);
    const int exchanges = is_slow ? 7 : 100;
    const Recorder recorder =
        test::run(test::quadratic_scenario(8, 100, "complete", adpsgd),
                  {is_slow ? "network.latency=10 ms" : "network.latency=100 us"});
    std::int64_t messages = 0;
    for (const NodeTotals& node : recorder.nodes) {
      messages += node.messages_sent;
      CHECK(to_seconds(node.compute + node.wait + node.communicate) < 0.1 + 0.1);
    }
    // A request and an answer each, and who is done tells the others.
    CHECK(messages <= 8 * (2 * exchanges + 7));
    CHECK(messages > 8 * 2 * (exchanges / 2));
  }
}

TEST_CASE("AD-PSGD ends cleanly on every topology with every node asking at once") {
  for (const std::string topology :
       {"ring", "star", "complete", "hypercube", "exponential", "one_peer_exponential"}) {
    const Recorder recorder =
        test::run(test::quadratic_scenario(8, 25, topology, adpsgd), {"network.latency=3 ms"});
    for (const NodeTotals& node : recorder.nodes) CHECK(node.steps == 25);
  }
}

TEST_CASE("AD-PSGD solves heterogeneous quadratics up to the noise of its steps") {
  const Recorder recorder =
      test::run(test::quadratic_scenario(8, 800, "complete", adpsgd),
                {"workload.centers=index", "algorithm.schedule=step",
                 "algorithm.decay_steps=400, 600", "algorithm.decay_factor=0.2"});
  CHECK(test::mean_model(recorder, 0) == doctest::Approx(3.5).epsilon(0.05));
}

TEST_CASE("so many exchanges that they cannot be counted are refused") {
  const std::string text = test::quadratic_scenario(
      4, 4, "ring", "kind = adpsgd\nlearning_rate = 0.1\nexchanges_per_step = 4611686018427387904");
  CHECK_THROWS_WITH_AS(test::run(text),
                       doctest::Contains("algorithm.exchanges_per_step must be from 1 to "
                                         "2305843009213693951 in 4 steps, got 4611686018427387904"),
                       ScenarioError);
}

TEST_CASE(
    "in the bipartite variant odd nodes start all exchanges, with even ones at odd distances") {
  // 8 nodes: distances 1, 3, 5 both ways reach all four nodes of the other side. Each of the four active nodes starts
  // one exchange per step: 20 * 4 requests and as many answers; and everybody tells four others when it is done.
  for (const std::string neighbor : {"random", "cycle"}) {
    const Recorder recorder =
        test::run(test::quadratic_scenario(8, 20, "ring", adpsgd),
                  test::gradients_until(
                      1, {"algorithm.pairs=bipartite_exponential", "algorithm.neighbor=" + neighbor,
                          "workload.centers=index", "network.latency=200 us"}));
    std::int64_t passive = 0;
    for (NodeId i = 0; i < 8; ++i) {
      const NodeTotals& node = recorder.nodes[static_cast<std::size_t>(i)];
      CHECK(node.steps == 20);
      // 5 floats per exchange on either side, 16 bytes per notice; the note to itself is not counted.
      const std::int64_t exchanges = (node.bytes_sent - 4 * 16) / 20;
      if (i % 2 == 1) CHECK(exchanges == 20);
      if (i % 2 == 0) passive += exchanges;
    }
    CHECK(passive == 80);
    CHECK(test::mean_model(recorder, 0) == doctest::Approx(0.05 * 3.5).epsilon(1e-6));
  }
}

TEST_CASE("an active node that takes turns meets every partner equally often") {
  // 6 nodes, distances 1, 3, 5: node 1 has the three partners 0, 2, 4; in 30 exchanges of three active nodes each
  // passive one answers 3 * 10 times.
  const Recorder recorder =
      test::run(test::quadratic_scenario(6, 30, "ring", adpsgd),
                {"algorithm.pairs=bipartite_exponential", "algorithm.neighbor=cycle"});
  for (NodeId i = 0; i < 6; i += 2) {
    CHECK((recorder.nodes[static_cast<std::size_t>(i)].bytes_sent - 3 * 16) / 20 == 30);
  }
}

TEST_CASE("nodes in step that take turns meet different partners") {
  // A port is busy for 0.3 ms with a message, and all start with their gradients of 1 ms: whom two meet at once answers one of them
  // too late, and an exchange that has not begun by the last gradient is left out.
  for (const std::string pairs : {"bipartite", "bipartite_exponential"}) {
    const Recorder recorder =
        test::run(test::quadratic_scenario(16, 20, "ring", adpsgd),
                  {"algorithm.pairs=" + pairs, "algorithm.neighbor=cycle", "network.kind=loggp",
                   "network.gap=300 us", "network.overhead=1 us", "network.bandwidth=1 GB/s"});
    CAPTURE(pairs);
    for (NodeId i = 0; i < 16; ++i) {
      const NodeTotals& node = recorder.nodes[static_cast<std::size_t>(i)];
      const std::int64_t notices = pairs == "bipartite" ? 2 : 8;  // one to every partner
      CHECK(node.messages_sent == 20 + notices);
    }
  }
}

TEST_CASE("exchanges that a slow network leaves out are counted") {
  // A message takes 1 ms, a gradient, too; so an exchange of one pair takes two, and the next one begins with the third gradient.
  const Recorder slow = test::run(test::quadratic_scenario(2, 20, "ring", adpsgd),
                                  {"algorithm.pairs=bipartite", "network.latency=1 ms"});
  for (std::size_t k = 0; k < 20; ++k) {
    CHECK(slow.steps.value("exchanges", k, 1) == static_cast<double>(k / 2 + 1));
    CHECK(slow.steps.value("exchanges_behind", k, 1) == static_cast<double>(k - k / 2));
    CHECK(std::isnan(slow.steps.value("exchanges", k, 0)));  // it is passive
  }
  const Recorder fast =
      test::run(test::quadratic_scenario(2, 20, "ring", adpsgd), {"network.latency=1 us"});
  CHECK(fast.steps.value("exchanges", 19, 0) == 20);
  CHECK(fast.steps.value("exchanges_behind", 19, 0) == 0);
}

TEST_CASE("the bipartite variant needs two sides") {
  CHECK_THROWS_WITH_AS(test::run(test::quadratic_scenario(7, 3, "ring", adpsgd),
                                 {"algorithm.pairs=bipartite_exponential"}),
                       doctest::Contains("even number of nodes, got 7"), ScenarioError);
  CHECK_THROWS_WITH_AS(
      test::run(test::quadratic_scenario(8, 3, "complete", adpsgd), {"algorithm.pairs=bipartite"}),
      doctest::Contains("edges join odd and even nodes"), ScenarioError);
  const Recorder ring =
      test::run(test::quadratic_scenario(8, 30, "ring", adpsgd), {"algorithm.pairs=bipartite"});
  for (const NodeTotals& node : ring.nodes) CHECK(node.steps == 30);
}

TEST_CASE("nodes that never ask answer as long as they train, however little patience they have") {
  // Gradients of 10 ms, between which nobody sends: node 0 took 5 ms of it for the end, and answered no more.
  const Recorder recorder =
      test::run(test::quadratic_scenario(2, 60, "ring", adpsgd),
                {"algorithm.pairs=bipartite", "algorithm.patience=5 ms", "compute.gradient=10 ms"});
  CHECK(recorder.nodes[0].messages_sent >= 60);
  CHECK(recorder.nodes[1].messages_sent >= 60);
  // Gradients of node 1 take 16.7 ms: it asks within node 0's last one, from 10 to 20 ms, and each says that it is done.
  const Recorder last = test::run(test::quadratic_scenario(2, 2, "ring", adpsgd),
                                  {"algorithm.pairs=bipartite", "algorithm.patience=5 ms",
                                   "compute.gradient=10 ms", "compute.speeds=1, 0.6"});
  CHECK(last.nodes[0].messages_sent == 2 + 1);
  CHECK(last.nodes[1].messages_sent == 2 + 1);
}

TEST_CASE("a node that answers again is asked at once, and its silences are forgotten") {
  // Node 1 asks every 10 ms. Node 0 is away from 50 ms on: requests at 50 and 100 ms are given up after 15, and it is left alone for
  // twice and four times as long, until 95 and 175 ms, but at 125 it answers. So it is asked from 130 ms on, and away from 300 on all
  // this comes again: 5 requests, 2, 17 from 130 to 290, 2, and 22 from 380 to 590 ms. Late ones are answered, too; and each node says
  // that it is done.
  const Recorder recorder =
      test::run(test::quadratic_scenario(2, 60, "ring", adpsgd),
                {"algorithm.pairs=bipartite", "algorithm.patience=15 ms", "compute.gradient=10 ms",
                 "failures.pause=0 @ 50 ms for 75 ms, 0 @ 300 ms for 75 ms"});
  for (const NodeTotals& node : recorder.nodes)
    CHECK(node.messages_sent == 5 + 2 + 17 + 2 + 22 + 1);
}

TEST_CASE("who is done waits for slower nodes, which is no communicating") {
  // Gradients of 10 ms, of node 3 100 ms: it says that it exchanges no more when it begins its second one.
  const Recorder recorder =
      test::run(test::quadratic_scenario(4, 2, "complete", "kind = adpsgd\nlearning_rate = 0.1\n"),
                {"compute.gradient=10 ms", "compute.speeds=1, 1, 1, 0.1", "network.latency=0 s"});
  CHECK(to_seconds(recorder.nodes[0].wait) == doctest::Approx(80e-3));
  CHECK(recorder.nodes[0].communicate == Duration::zero());
}

}  // namespace starling::test_adpsgd
