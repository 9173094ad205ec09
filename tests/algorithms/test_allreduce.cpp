// Allreduce SGD beside plain gradient descent, and the collectives that add up its gradients beside each other.
#include <algorithm>
#include <cmath>
#include <string>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "kernels/quadratic.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_allreduce {

TEST_CASE("allreduce SGD keeps all models equal to the bit and follows plain gradient descent") {
  // mean gradient of the quadratics with centers c_i = i, curvature 1, start 0: x_k = mean(c) (1 - (1 - lr)^k).
  for (const std::string collective : {"ring", "recursive_doubling", "rabenseifner", "tree"}) {
    const Recorder recorder = test::run(
        test::quadratic_scenario(6, 30, "complete", "kind = allreduce\nlearning_rate = 0.1"),
        {"workload.centers=index", "algorithm.collective=" + collective});
    CHECK(test::model(recorder, 0, 0) ==
          doctest::Approx(2.5 * (1 - std::pow(0.9, 30))).epsilon(1e-5));
    CHECK(test::nodes_agree(recorder));
  }
}

TEST_CASE("nodes that compute the same model share it") {
  // All replicas of allreduce SGD are one value: of the sums per step only the reduction itself is computed.
  const Recorder recorder = test::run(test::quadratic_scenario(
      64, 20, "ring", "kind = allreduce\nlearning_rate = 0.1\ncollective = recursive_doubling"));
  // 63 additions, one scaling and one update per step, and the mean of each
  // evaluation; what a window boundary cuts is computed once on each side.
  CHECK(recorder.statistics.at("graph.sums") <= 20 * (63 + 2) + 20 + 64);
}

TEST_CASE("momentum, weight decay and schedules follow their recursions") {
  // One node, f = 1/2 (x - 1)^2, start 0. Heavy ball: m <- mu m + (x - 1) + wd x, x <- x - lr_k m.
  const std::string text =
      test::quadratic_scenario(1, 12, "ring", "kind = allreduce\nlearning_rate = 0.1");
  const std::vector<std::string> problem{"workload.centers=list", "workload.center_values=1"};
  for (const bool nesterov : {false, true}) {
    std::vector<std::string> settings = problem;
    for (const char* setting :
         {"algorithm.momentum=0.5", "algorithm.weight_decay=0.25", "algorithm.schedule=step",
          "algorithm.decay_steps=6, 9", "algorithm.decay_factor=0.5", "algorithm.warmup_steps=4"}) {
      settings.emplace_back(setting);
    }
    if (nesterov) settings.emplace_back("algorithm.nesterov=yes");
    double x = 0;
    double m = 0;
    for (int k = 0; k < 12; ++k) {
      const double rate = 0.1 * (k < 4 ? (k + 1) / 4.0 : 1.0) *
                          (k >= 9   ? 0.25
                           : k >= 6 ? 0.5
                                    : 1.0);
      const double d = (x - 1) + 0.25 * x;
      m = 0.5 * m + d;
      x -= rate * (nesterov ? d + 0.5 * m : m);
    }
    CHECK(test::model(test::run(text, settings), 0, 0) == doctest::Approx(x).epsilon(1e-5));
  }
}

TEST_CASE("a cosine schedule ends near zero") {
  // lr_k = lr (1 + cos(pi k / K)) / 2 with curvature 1, center 1: x <- x - lr_k (x - 1).
  double x = 0;
  for (int k = 0; k < 10; ++k) x -= 0.1 * 0.5 * (1 + std::cos(std::acos(-1.0) * k / 10)) * (x - 1);
  const Recorder recorder =
      test::run(test::quadratic_scenario(
                    1, 10, "ring", "kind = allreduce\nlearning_rate = 0.1\nschedule = cosine"),
                {"workload.centers=list", "workload.center_values=1"});
  CHECK(test::model(recorder, 0, 0) == doctest::Approx(x).epsilon(1e-5));
}

TEST_CASE("closed-form and expanded collectives give the same models") {
  for (const std::string collective : {"ring", "recursive_doubling", "rabenseifner", "tree",
                                       "hierarchical\ncollective_group = 2"}) {
    for (const int nodes : {2, 5, 6, 8}) {
      const std::string text = test::quadratic_scenario(
          nodes, 15, "complete",
          "kind = allreduce\nlearning_rate = 0.1\ncollective = " + collective);
      const Recorder expanded = test::run(text);
      const Recorder analytic = test::run(text, {"network.collectives=analytic"});
      CHECK(expanded.models == analytic.models);
      for (std::size_t i = 0; i < expanded.nodes.size(); ++i) {
        CHECK(expanded.nodes[i].messages_sent == analytic.nodes[i].messages_sent);
        // Chunks of 5 floats are uneven, so bytes agree up to a float per message.
        CHECK(std::abs(expanded.nodes[i].bytes_sent - analytic.nodes[i].bytes_sent) <=
              4 * analytic.nodes[i].messages_sent);
      }
    }
  }
}

TEST_CASE("closed forms are what messages take where sending keeps a node from receiving") {
  // LogGP with O = 0.2 ns: a message waits until the processor has sent the other one's bytes.
  const std::string text =
      "[run]\nnodes = 8\nsteps = 2\n[network]\nkind = loggp\npreset = 10gbe\n[compute]\ngradient = "
      "1 "
      "ms\n[workload]\nkind = timing\nbytes = 40 MB\n[algorithm]\nkind = allreduce\ncollective = ";
  for (const std::string collective : {"ring", "recursive_doubling", "rabenseifner", "tree",
                                       "hierarchical\ncollective_group = 4"}) {
    CAPTURE(collective);
    const auto seconds = [&](const std::string& collectives) {
      return to_seconds(last_finish(test::run(text + collective, {collectives}).nodes));
    };
    CHECK(seconds("network.collectives=analytic") ==
          doctest::Approx(seconds("network.collectives=expanded")).epsilon(1e-6));
  }
}

TEST_CASE("rings of two levels add up what they are made of, to the bit") {
  const auto models = [](int nodes, const std::string& collective) {
    return test::run(test::quadratic_scenario(
                         nodes, 12, "complete",
                         "kind = allreduce\nlearning_rate = 0.1\ncollective = " + collective))
        .models;
  };
  const auto by_hosts = [&](int nodes, int group) {
    return models(nodes, fmt::format("hierarchical\ncollective_group = {}", group));
  };
  // Pairs of pairs are those of Rabenseifner.
  CHECK(by_hosts(4, 2) == models(4, "rabenseifner"));
  const auto ring = models(8, "ring");
  CHECK(by_hosts(8, 1) == ring);
  CHECK(by_hosts(8, 8) == ring);
  CHECK(by_hosts(8, 9) == ring);
  // Three, three and two: no chunks that fit each other.
  CHECK(by_hosts(8, 3) == ring);
  CHECK(by_hosts(10, 4) == models(10, "ring"));
  // Another order of sums: equal to rounding.
  const auto fours = by_hosts(8, 4);
  CHECK(fours != ring);
  for (std::size_t i = 0; i < ring[0].size(); ++i)
    CHECK(fours[7][i] == doctest::Approx(ring[7][i]).epsilon(1e-5));
  CHECK(by_hosts(12, 3)[11][4] == doctest::Approx(models(12, "tree")[11][4]).epsilon(1e-5));
}

TEST_CASE("rings of two levels take as many hops as both have, and no byte more than one") {
  // Hosts of four, three of them: chunks of a quarter go three hops around the host, their thirds twice two around all hosts, and
  // the quarters around once more. 1 ms and 1 ms per MB, 12 MB: 3 (1 + 3), 4 (1 + 1), 3 (1 + 3).
  const std::string text =
      "[run]\nnodes = 12\nsteps = 1\n[network]\nkind = constant\nlatency = 1 ms\nbandwidth = 1 "
      "GB/s\n[compute]\ngradient = 10 ms\n[workload]\nkind = timing\nbytes = 12 MB\n[algorithm]\n"
      "kind = allreduce\ncollective = hierarchical\ncollective_group = 4\n";
  for (const std::string collectives : {"expanded", "analytic"}) {
    const Recorder recorder = test::run(text, {"network.collectives=" + collectives});
    for (const NodeTotals& node : recorder.nodes) {
      CHECK(1e3 * to_seconds(node.finished) == doctest::Approx(10 + 12 + 8 + 12));
      CHECK(node.messages_sent == 3 + 4 + 3);
      CHECK(node.bytes_sent == 2 * 12'000'000 * 11 / 12);
    }
    // Adding 1 MB takes 1 ms: nine within, two between hosts.
    const Recorder adding = test::run(
        text, {"network.collectives=" + collectives, "network.reduction_bandwidth=1 GB/s"});
    CHECK(1e3 * to_seconds(adding.nodes[5].finished) == doctest::Approx(42 + 11));
  }
}

TEST_CASE("a late node holds a ring allreduce on shared links up by as much as it is late") {
  // 100 MB among 16 nodes over 1 GB/s: 30 chunks of 6.25 ms, 187.5 ms. Node 0 comes 50 ms after the others. As long as chunks of a
  // pair shared the link, nodes that were ahead sent two at once, and the ring took 2.3 s.
  const char* const text = R"([run]
nodes = 16
steps = 1
[network]
kind = fluid
latency = 0 s
bandwidth = 1 GB/s
[compute]
gradient = 10 ms
slow_nodes = 1
slowdown = 6
[workload]
kind = timing
bytes = 100 MB
[algorithm]
kind = allreduce
collective = ring
learning_rate = 0.1
)";
  for (const std::string concurrent : {"yes", "no"}) {
    const Recorder recorder = test::run(text, {"network.concurrent=" + concurrent});
    Time last{};
    for (const NodeTotals& node : recorder.nodes) last = std::max(last, node.finished);
    CHECK(to_seconds(last) == doctest::Approx(0.06 + 0.1875).epsilon(1e-9));
  }
}

TEST_CASE("n nodes with batches of b are one node with batches of n b on the same samples") {
  // Every node holds as many samples as a batch takes, so each step is a full pass in both runs: 4 nodes with 8 of
  // 32 samples each, and one node with all 32. Losses are means over a batch, hence equal up to rounding.
  const char* const text = R"([run]
nodes = 4
steps = 25
[topology]
kind = complete
[network]
kind = constant
latency = 1 us
[compute]
gradient = 1 ms
[workload]
kind = mlp
dataset = blobs
samples = 32
hidden = 6
batch_size = 8
[algorithm]
kind = allreduce
learning_rate = 0.2
)";
  const Recorder many = test::run(text);
  const Recorder one = test::run(text, {"run.nodes=1", "workload.batch_size=32"});
  REQUIRE(many.models[0].size() == one.models[0].size());
  for (std::size_t k = 0; k < one.models[0].size(); ++k) {
    CHECK(test::model(many, 0, k) == doctest::Approx(test::model(one, 0, k)).epsilon(1e-3));
  }
}

}  // namespace starling::test_allreduce
