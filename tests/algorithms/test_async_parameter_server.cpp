// The asynchronous parameter server beside its recursions; how stale its gradients are, and what codes hold back.
#include <algorithm>
#include <cmath>
#include <utility>

#include <doctest/doctest.h>

#include "tests/support/small_run.hpp"

namespace starling::test_async_parameter_server {
namespace {

std::string server_scenario(int nodes, int steps, const std::string& rate) {
  return test::quadratic_scenario(nodes, steps, "ring",
                                  "kind = async_parameter_server\nlearning_rate = " + rate);
}

const std::vector<std::string> equal_problems{"workload.centers=list", "workload.center_values=3"};

std::vector<std::string> with(std::vector<std::string> settings,
                              const std::vector<std::string>& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

}  // namespace

TEST_CASE("with one node the asynchronous parameter server is SGD") {
  const std::string exact = test::quadratic_scenario(
      1, 40, "ring", "kind = allreduce\nlearning_rate = 0.1\nmomentum = 0.5");
  const std::string served = server_scenario(1, 40, "0.1\nmomentum = 0.5");
  CHECK(test::run(served).models == test::run(exact).models);
  // Without momentum also for rarer exchanges: the node's own steps are those the server takes with
  // their sum, clipped or not.
  for (const std::string clipped : {"0.1", "0.1\nclip_norm = 0.5"}) {
    const Recorder rare = test::run(server_scenario(1, 40, clipped),
                                    {"algorithm.push_period=4", "algorithm.fetch_period=4"});
    const Recorder plain = test::run(
        test::quadratic_scenario(1, 40, "ring", "kind = allreduce\nlearning_rate = " + clipped));
    CHECK(test::largest_difference(rare, plain) < 2e-6);
  }
}

TEST_CASE("gradients are clipped before servers get their pieces") {
  // Nodes push and fetch at their end, when all have pushed.
  const std::string unclipped = server_scenario(4, 12,
                                                "0.1\npush_period = 12\nfetch_period = 12\n"
                                                "consistency = bounded\nstaleness_bound = 0\n");
  const std::string text = unclipped + "clip_norm = 0.5\n";
  const Recorder one = test::run(text), several = test::run(text, {"algorithm.servers=3"});
  CHECK(test::largest_difference(one, several) < 2e-6);
  CHECK(test::largest_difference(one, test::run(unclipped)) > 1e-2);
}

TEST_CASE("what a code held back is applied at the rate of its gradients, not of a later push") {
  // One node: SGD with error feedback, whose codes are of learning_rate * g in allreduce.
  const std::string codes =
      "0.1\ncompression = top_k\nkeep = 0.2\nschedule = step\n"
      "decay_steps = 5\ndecay_factor = 0.001";
  const std::vector<std::string> settings{"workload.start=3", "workload.curvature_min=0.5"};
  const Recorder served = test::run(server_scenario(1, 40, codes), settings);
  const Recorder exact = test::run(
      test::quadratic_scenario(1, 40, "ring", "kind = allreduce\nlearning_rate = " + codes),
      settings);
  CHECK(test::largest_difference(served, exact) < 1e-5);
}

TEST_CASE("what a code held back of several steps has the rate of the first, as their push has") {
  // One node with f = |x|^2 / 2 in four dimensions. The server takes a sum of two gradients at the rate r of the first one, 0.2 * 2 /
  // (2 + k). With all that it has not been told yet, times r: e <- e + r (g_k + g_{k+1}), and the largest entry of e leaves for x.
  const std::string text =
      server_scenario(1, 8,
                      "0.2\npush_period = 2\nfetch_period = 2\ncompression = top_k\nkeep = 0.25\n"
                      "schedule = inverse\ndecay_offset = 2");
  const std::vector<std::string> settings{"workload.dimension=4", "workload.centers=list",
                                          "workload.start_spread=1"};
  const Assembly parts = assemble(Scenario::parse(text, "test.ini", settings));
  std::vector<float> start(4);
  parts.workload->initial_model(start);
  std::vector<double> x(start.begin(), start.end());
  std::vector<double> e(4, 0);
  const auto rate = [](int k) { return 0.2 * 2 / (2 + k); };
  for (int k = 0; k < 8; k += 2) {
    for (std::size_t i = 0; i < 4; ++i) e[i] += rate(k) * (x[i] + (1 - rate(k)) * x[i]);
    const auto largest = std::ranges::max_element(e, {}, [](double v) { return std::abs(v); });
    x[static_cast<std::size_t>(largest - e.begin())] -= *largest;
    *largest = 0;
  }
  const Recorder recorder = test::run(text, settings);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(test::model(recorder, 0, i) == doctest::Approx(x[i]).epsilon(1e-5));
}

TEST_CASE("a push at a rate of 0 takes nothing along of what a code held back") {
  // Every second step is at a rate of 0, and changes nothing.
  const std::string codes = "\ncompression = top_k\nkeep = 0.5";
  const std::vector<std::string> settings{"workload.start=3", "workload.curvature_min=0.5"};
  const Recorder paused = test::run(
      server_scenario(1, 40, "0.2" + codes),
      with(settings,
           {"algorithm.schedule=cyclic", "algorithm.cycle_steps=2", "algorithm.cycle_floor=0"}));
  const Recorder plain = test::run(server_scenario(1, 20, "0.1" + codes), settings);
  CHECK(test::largest_difference(paused, plain) < 1e-6);
}

TEST_CASE(
    "nodes that push at their end alone push all their steps, however long a period would be") {
  const auto run = [](const std::string& period) {
    return test::run(server_scenario(4, 12, "0.1\nschedule = cosine"),
                     {"algorithm.push_period=" + period});
  };
  const Recorder whole = run("12");
  CHECK(run("13").models == whole.models);
  CHECK(run("9000000000000000000").models == whole.models);
  CHECK(test::largest_difference(run("6"), whole) > 1e-3);
}

TEST_CASE("equally fast nodes have staleness n - 1") {
  // Gradients are applied in turn: between two fetches of a node all n - 1 others push once (in the
  // first round node i comes after the i before it).
  const Recorder recorder = test::run(server_scenario(5, 10, "0.01"), {"run.record_every=1"});
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(recorder.steps.value("staleness", 0, i) == static_cast<double>(i));
    for (std::size_t k = 1; k < 10; ++k) CHECK(recorder.steps.value("staleness", k, i) == 4);
  }
}

TEST_CASE("between rare fetches a node's own pushes do not count as staleness") {
  // All others push twice.
  const Recorder recorder = test::run(server_scenario(5, 10, "0.01\nfetch_period = 2"));
  for (std::size_t k = 3; k < 10; k += 2) CHECK(recorder.steps.value("staleness", k, 3) == 8);
}

TEST_CASE("nodes of one pace push and fetch in turn, as their two recursions say") {
  // Three nodes with f = 1/2 (x - 3)^2; the rate rises over two steps and falls at step 5.
  const auto rate = [](Step k) {
    return k < 2 ? 0.02 * static_cast<double>(k + 1) : k < 5 ? 0.04 : 0.01;
  };
  struct Periods {
    Step push, fetch;
  };
  for (const auto& [push, fetch] : {Periods{1, 1}, {2, 2}, {1, 2}, {2, 1}, {3, 2}}) {
    for (const auto& [divided, clip] : {std::pair(false, 1e9), {true, 1e9}, {false, 2.5}}) {
      double server = 0;
      Step version = 0;
      double x[3] = {0, 0, 0};
      double sum[3] = {0, 0, 0};
      Step fetched[3] = {0, 0, 0};
      for (Step k = 0; k < 10; ++k) {
        for (std::size_t i = 0; i < 3; ++i) {
          const double g = std::clamp(x[i] - 3, -clip, clip);
          sum[i] += g;
          x[i] -= rate(k) * g;
          if ((k + 1) % push == 0 || k == 9) {
            const Step staleness = std::max<Step>(1, version - fetched[i]);
            server -=
                rate(version * push / 3) * sum[i] / static_cast<double>(divided ? staleness : 1);
            sum[i] = 0;
            ++version;
          }
          if ((k + 1) % fetch == 0 || k == 9) {
            x[i] = server;
            fetched[i] = version;
          }
        }
      }
      const Recorder recorder = test::run(
          server_scenario(3, 10, "0.04"),
          with(equal_problems,
               {"workload.curvature_min=1", "workload.curvature_max=1", "algorithm.warmup_steps=2",
                "algorithm.schedule=step", "algorithm.decay_steps=5", "algorithm.decay_factor=0.25",
                "algorithm.push_period=" + std::to_string(push),
                "algorithm.fetch_period=" + std::to_string(fetch),
                "algorithm.clip_norm=" + std::to_string(clip * std::sqrt(5.0)),
                std::string("algorithm.stale_gradients=") + (divided ? "divided" : "full")}));
      for (NodeId i = 0; i < 3; ++i)
        CHECK(test::model(recorder, i, 0) ==
              doctest::Approx(x[static_cast<std::size_t>(i)]).epsilon(1e-5));
    }
  }
}

TEST_CASE("a fetch does not overtake the gradient before it, which is staged") {
  const std::string text = server_scenario(4, 20, "0.1");
  const std::vector<std::string> uneven{"compute.distribution=lognormal", "compute.sigma=0.3"};
  const std::vector<std::string> staged = with(uneven, {"network.staging_latency=1 ns"});
  CHECK(test::run(text, staged).models == test::run(text, uneven).models);
  CHECK(test::run(text, with(staged, {"algorithm.consistency=bounded"})).facts.at("status") ==
        "complete");
}

TEST_CASE("servers without a piece of the model have nothing to encode") {
  // 5 parameters, 6 servers.
  for (const std::string codec : {"levels\nbucket = 0", "ternary", "float4\nbucket = 0", "sign",
                                  "one_bit", "half", "top_k\nkeep = 0.5", "random_k\nkeep = 0.5"}) {
    CAPTURE(codec);
    const Recorder recorder =
        test::run(server_scenario(6, 20, "0.01\nservers = 6\ncompression = " + codec));
    for (const NodeTotals& node : recorder.nodes) CHECK(node.steps == 20);
  }
}

TEST_CASE("stale gradients are stable below 2 sin(pi / (2 (2 s + 1))) and not above") {
  // Four equal nodes, curvature 1, center 3: the server's updates are x_{v+1} = x_v - lr (x_{v-s} -
  // 3) with s = 3, stable iff lr < 2 sin(pi / 14) = 0.445.
  const Recorder below = test::run(server_scenario(4, 300, "0.41"), equal_problems);
  for (NodeId i = 0; i < 4; ++i)
    CHECK(test::model(below, i, 0) == doctest::Approx(3).epsilon(1e-3));
  const Recorder above = test::run(server_scenario(4, 300, "0.48"), equal_problems);
  for (NodeId i = 0; i < 4; ++i) CHECK(std::abs(test::model(above, i, 0) - 3) > 100);
  // Divided by their staleness, the same gradients are taken with 0.16.
  const Recorder divided = test::run(server_scenario(4, 300, "0.48"),
                                     with(equal_problems, {"algorithm.stale_gradients=divided"}));
  for (NodeId i = 0; i < 4; ++i)
    CHECK(test::model(divided, i, 0) == doctest::Approx(3).epsilon(1e-3));
}

TEST_CASE("with staleness bound 0 the server is synchronous with n times the learning rate") {
  // All n gradients are taken at one model and applied one after the other: their sum instead of
  // their mean.
  const Recorder exact = test::run(
      test::quadratic_scenario(5, 40, "ring", "kind = parameter_server\nlearning_rate = 0.1"));
  for (const std::string servers : {"1", "5"}) {
    const Recorder bounded = test::run(
        server_scenario(5, 40, "0.02"),
        {"algorithm.consistency=bounded", "algorithm.staleness_bound=0",
         "algorithm.servers=" + servers, "compute.distribution=lognormal", "compute.sigma=0.5"});
    CHECK(test::largest_difference(bounded, exact) < 3e-6);
    CHECK(test::nodes_agree(bounded));
  }
}

TEST_CASE(
    "a staleness bound keeps fast nodes that many pushes from the slowest, and no bound lets them "
    "go") {
  // Node 0 pushes every 10 ms. The fetch after push c of a fast node is answered when node 0 has
  // pushed c - 3 times: not before 10 (c - 3) ms, and soon after.
  const std::vector<std::string> slow{"compute.slow_nodes=1", "compute.slowdown=10",
                                      "run.record_every=1"};
  const Recorder free = test::run(server_scenario(4, 30, "0.01"), slow);
  CHECK(free.steps.value("time", 29, 2) == doctest::Approx(30 * 1.02e-3).epsilon(1e-6));
  const Recorder bounded =
      test::run(server_scenario(4, 30, "0.01"),
                with(slow, {"algorithm.consistency=bounded", "algorithm.staleness_bound=3"}));
  CHECK(bounded.steps.value("time", 2, 2) == doctest::Approx(3 * 1.02e-3).epsilon(1e-6));
  for (std::size_t c = 5; c <= 30; ++c) {
    const double ready = 0.01 * static_cast<double>(c - 3);
    CHECK(bounded.steps.value("time", c - 1, 2) >= ready);
    CHECK(bounded.steps.value("time", c - 1, 2) < ready + 1e-3);
  }
}

TEST_CASE("rare exchanges and many servers still solve the problem") {
  const Recorder recorder =
      test::run(server_scenario(6, 600, "0.02"),
                with(equal_problems,
                     {"algorithm.push_period=3", "algorithm.fetch_period=4", "algorithm.servers=3",
                      "compute.distribution=lognormal", "compute.sigma=0.5"}));
  for (NodeId i = 0; i < 6; ++i) {
    for (std::size_t k = 0; k < 5; ++k)
      CHECK(test::model(recorder, i, k) == doctest::Approx(3).epsilon(1e-3));
  }
}

}  // namespace starling::test_async_parameter_server
