// Every algorithm where nodes and messages fail: it survives, or the run says what it waits for; it
// never hangs, and never goes on with wrong parts of sums.

#include <algorithm>
#include <cmath>
#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "algorithms/registry.hpp"
#include "scenarios/run.hpp"
#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_failures {
using test::section_of;

namespace {

constexpr int most_pulses = 100;  // of 4,096 events; the runs below have 10,000 at most

/// How a run ended, and what it recorded.
struct Ending {
  std::string status;  // "complete", "failed: stalled at ..", or what else it was
  Recorder recorder;
};

Ending run_bounded(const std::string& algorithm, std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), {"run.save_models=yes", "run.evaluate_every=10"});
  const std::string text = test::quadratic_scenario(8, 40, "ring", algorithm);
  int pulses = 0;
  Run::Hooks hooks;
  hooks.saves = false;
  hooks.interruption = [&pulses] { return ++pulses > most_pulses ? SIGINT : 0; };
  Run run(assemble(Scenario::parse(text, "test.ini", overrides)), std::move(hooks));
  try {
    run.simulate();
  } catch (const Stalled&) {
  }
  return {run.recorder().facts.at("status"), run.recorder()};
}

// Models i lr after the first step, pure averaging afterwards: 0.1 * 3.5 on the mean of 8.
const std::vector<std::string> averaging =
    test::gradients_until(1, {"algorithm.learning_rate=0.1", "workload.centers=index"});

std::vector<std::string> with(std::vector<std::string> keys, const std::vector<std::string>& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

}  // namespace

TEST_CASE("who waits for a node that stopped waits until the run stalls") {
  // Node 7 stops in its third gradient; its neighbors wait for its third model, theirs for them, and so on. Node 3 is the slowest.
  const Ending end = run_bounded(
      "kind = dpsgd\nlearning_rate = 0.1",
      {"failures.stop=7 @ 2500 us", "compute.speeds=1, 1, 1, 0.1, 1, 1, 1, 1", "run.timeline=1 s"});
  CHECK(end.status.starts_with("failed: stalled at "));
  double stalled = 0;  // seconds
  for (const Segment& segment : end.recorder.timeline) {
    stalled = std::max(stalled, to_seconds(segment.end.time_since_epoch()));
  }
  for (std::size_t i = 0; i < 7; ++i) {
    const NodeTotals& node = end.recorder.nodes[i];
    CHECK(to_seconds(node.compute + node.wait + node.communicate) == doctest::Approx(stalled));
  }
  CHECK(to_seconds(end.recorder.nodes[7].compute) < 0.003);  // it is away, and does not wait
  CHECK(end.recorder.nodes[7].wait < end.recorder.nodes[6].wait);
}

TEST_CASE("who waits for a link that is away waits until the run stalls") {
  const test::TemporaryDirectory folder;
  const std::string schedule = folder.write("links.csv", "2500 us, host 7 up, 0\n");
  const Ending end = run_bounded("kind = dpsgd\nlearning_rate = 0.1",
                                 {"network.kind=fluid", "network.bandwidth=1 GB/s",
                                  "network.link_schedule=" + schedule, "run.timeline=1 s"});
  CHECK_MESSAGE(end.status.starts_with("failed: deadlock at "), end.status);
  double last = 0;  // seconds
  for (const Segment& segment : end.recorder.timeline)
    last = std::max(last, to_seconds(segment.end.time_since_epoch()));
  for (const NodeTotals& node : end.recorder.nodes)
    CHECK(to_seconds(node.compute + node.wait + node.communicate) == doctest::Approx(last));
}

TEST_CASE("every algorithm survives a node that stops, or says that it waits for it") {
  for (const auto& entry : algorithms::catalog()) {
    CAPTURE(entry.name);
    const Ending end = run_bounded(section_of(entry.name), {"failures.stop=3 @ 20 ms"});
    if (end.status == "complete") {
      for (std::size_t i = 0; i < 8; ++i) CHECK((end.recorder.nodes[i].steps == 40) == (i != 3));
    } else {
      CHECK_MESSAGE(end.status.starts_with("failed: stalled at "), end.status);
      CHECK_MESSAGE(end.status.find(": node 3 stopped at 0.02 s; ") != end.status.npos, end.status);
      CHECK_MESSAGE(end.status.find(" waits for ") != end.status.npos, end.status);
      CHECK_MESSAGE(end.status.find("algorithm.patience") != end.status.npos, end.status);
    }
    // What all had reached is evaluated, whichever way the run ended.
    const bool all_made_ten = std::ranges::all_of(
        end.recorder.nodes, [](const NodeTotals& node) { return node.steps >= 10; });
    // A node visited now and then, or with two gradients to compute in each step, is not that far.
    constexpr std::string_view slow[] = {"gc_dc", "gradient_coding", "token_walk"};
    CHECK((all_made_ten || std::ranges::count(slow, entry.name) > 0));
    if (all_made_ten) {
      CHECK(end.recorder.evaluation.value("live_nodes", 0) == 8);
      CHECK(!std::isnan(end.recorder.evaluation.value("test_loss", 0)));
    }
  }
}

TEST_CASE("every algorithm survives nodes that pause and one that joins late") {
  for (const auto& entry : algorithms::catalog()) {
    CAPTURE(entry.name);
    const Ending end = run_bounded(
        section_of(entry.name),
        {"failures.pause=3 @ 20 ms for 20 ms, 1 @ 5 ms for 60 ms", "failures.join=6 @ 15 ms"});
    CHECK(end.status == "complete");
    for (const NodeTotals& node : end.recorder.nodes) CHECK(node.steps == 40);
    CHECK(end.recorder.evaluation.value("live_nodes", 3) == 8);
  }
}

TEST_CASE("pauses change no number where the algorithm fixes the order of its messages") {
  for (const std::string name :
       {"allreduce", "d2", "diloco", "dpsgd", "gradient_tracking", "local_sgd", "sgp", "slowmo"}) {
    CAPTURE(name);
    const Ending paused =
        run_bounded(section_of(name), {"failures.pause=3 @ 20 ms for 20 ms, 1 @ 5 ms for 60 ms"});
    const Ending whole = run_bounded(section_of(name), {});
    CHECK(paused.recorder.models == whole.recorder.models);
    CHECK(paused.recorder.nodes[0].finished > whole.recorder.nodes[0].finished);
  }
}

TEST_CASE("messages that are lost or come twice end no algorithm in a hang or a crash") {
  for (const auto& entry : algorithms::catalog()) {
    for (const std::string failure : {"lose=0.02", "duplicate=0.05"}) {
      CAPTURE(entry.name);
      CAPTURE(failure);
      const Ending end = run_bounded(section_of(entry.name), {"failures." + failure});
      CHECK_MESSAGE((end.status == "complete" || end.status.starts_with("failed: stalled at ") ||
                     end.status.starts_with("failed: deadlock at ")),
                    end.status);
    }
  }
}

TEST_CASE("messages that come twice change no synchronous algorithm and no parameter server") {
  for (const std::string algorithm :
       {"kind = allreduce\ncompression = half", "kind = async_parameter_server",
        "kind = dgc\nkeep = 0.5", "kind = dpsgd", "kind = gradient_tracking",
        "kind = parameter_server", "kind = powersgd", "kind = sgp"}) {
    CAPTURE(algorithm);
    const std::string section = algorithm + "\nlearning_rate = 0.1\n";
    const Ending doubled = run_bounded(section, {"failures.duplicate=0.3"});
    CHECK(doubled.status == "complete");
    CHECK(doubled.recorder.models == run_bounded(section, {}).recorder.models);
  }
}

TEST_CASE("messages that come twice change no algorithm where no two events coincide") {
  const std::vector<std::string> uneven{"compute.distribution=lognormal", "compute.sigma=0.4"};
  std::vector<std::string> sections;
  for (const auto& entry : algorithms::catalog()) sections.push_back(section_of(entry.name));
  for (const std::string settings :
       {"kind = async_diloco\nperiod = 3\nlocal_steps = by_speed",
        "kind = async_diloco\nperiod = 2",
        "kind = async_diloco\nperiod = 2\nrule = delayed\ndelay = 3",
        "kind = async_diloco\nperiod = 2\nrule = vanilla\nstale_progress = damped",
        "kind = async_parameter_server\nservers = 3\npush_period = 2\nconsistency = bounded",
        "kind = easgd\nperiod = 2\norder = asynchronous",
        "kind = easgd\nperiod = 2\norder = asynchronous\nexchange = buckets\nbucket_size = 20 B"}) {
    sections.push_back(settings + "\nlearning_rate = 0.1\n");
  }
  for (const std::string& section : sections) {
    CAPTURE(section);
    const Ending doubled = run_bounded(section, with(uneven, {"failures.duplicate=0.3"}));
    CHECK(doubled.status == "complete");
    const Ending once = run_bounded(section, uneven);
    CHECK(doubled.recorder.models == once.recorder.models);
    for (std::size_t i = 0; i < 8; ++i)
      CHECK(doubled.recorder.nodes[i].finished == once.recorder.nodes[i].finished);
  }
}

TEST_CASE("a parameter server takes nothing twice, whatever its nodes exchange") {
  // What node 0 sends to itself does not come twice, and one order of messages is certain where all wait for all: with a bound
  // of 0. Two nodes, as who comes first matters to sums of more.
  for (const std::string keys : {"", "servers = 2\n", "push_period = 2\nfetch_period = 2\n"}) {
    const std::string section =
        "kind = async_parameter_server\nlearning_rate = 0.1\nconsistency = bounded\n"
        "staleness_bound = 0\n" +
        keys;
    const Ending doubled = run_bounded(section, {"failures.duplicate=0.3", "run.nodes=2"});
    CHECK(doubled.status == "complete");
    CHECK(doubled.recorder.models == run_bounded(section, {"run.nodes=2"}).recorder.models);
  }
}

TEST_CASE("messages that come twice change no collective") {
  for (const std::string collective : {"ring", "recursive_doubling", "rabenseifner", "tree",
                                       "hierarchical\ncollective_group = 4"}) {
    CAPTURE(collective);
    const std::string section = section_of("allreduce") + "\ncollective = " + collective;
    const Ending doubled = run_bounded(section, {"failures.duplicate=0.3"});
    CHECK(doubled.status == "complete");
    CHECK(doubled.recorder.models == run_bounded(section, {}).recorder.models);
  }
}

TEST_CASE("with patience, asynchronous algorithms survive neighbors that stop") {
  for (const std::string name :
       {"adpsgd", "async_parameter_server", "pairwise_gossip", "push_sum", "swarm"}) {
    CAPTURE(name);
    // Equal problems, so that those who are left look for the same optimum.
    const Ending end = run_bounded(section_of(name),
                                   {"failures.stop=3 @ 20 ms, 6 @ 25 ms", "algorithm.patience=5 ms",
                                    "workload.centers=list", "workload.center_values=3"});
    CHECK(end.status == "complete");
    const Recorder& recorder = end.recorder;
    for (std::size_t i = 0; i < 8; ++i)
      CHECK((recorder.nodes[i].steps == 40) == (i != 3 && i != 6));
    CHECK(recorder.statistics.at("failures.stopped_nodes") == 2);
    // Evaluated at steps 10, 20, 30 and 40, by a node at every millisecond or later.
    CHECK(recorder.evaluation.value("live_nodes", 0) == 8);
    CHECK(recorder.evaluation.value("live_nodes", 3) == 6);
    CHECK(recorder.evaluation.value("test_loss", 3) < recorder.evaluation.value("test_loss", 0));
  }
}

TEST_CASE("patience with a silent partner is time spent waiting") {
  // Gradients of 1 ms end at 1, 2.3, 3.6, 4.6, 5.9, 6.9, 7.9 ms, ..: the partner is asked at 1, 2.3, 4.6 and 7.9 ms for 0.3 ms
  // each, and left alone for 0.6, 1.2, 2.4 ms after that. At the end its own end is waited for, 0.3 ms.
  const std::string swarm =
      "kind = swarm\nlocal_steps = 1\nlearning_rate = 0.1\npatience = 300 us\n";
  const Recorder recorder =
      test::run(test::quadratic_scenario(2, 8, "ring", swarm),
                {"failures.stop=1 @ 500 us", "compute.gradient=1 ms", "network.latency=0 s"});
  const NodeTotals& left = recorder.nodes[0];
  CHECK(to_seconds(left.finished) == doctest::Approx(9.2e-3));
  CHECK(to_seconds(left.wait) == doctest::Approx(1.5e-3));
  CHECK(left.communicate == Duration::zero());
}

TEST_CASE("with patience, who has ended completes an exchange with a partner that was away") {
  // Node 1 makes its steps of 1 ms, says that it is done, and pauses from 3 to 40 ms. Node 0, with steps of 10 ms, asks it at
  // 10 ms, gives up at 25 ms and ends at 35 ms; the answer comes when node 1 is back.
  const std::string swarm = "kind = swarm\nlocal_steps = 1\npatience = 15 ms\n";
  const std::vector<std::string> keys{"run.nodes=2",           "run.steps=2",
                                      "compute.gradient=1 ms", "compute.speeds=0.1, 1",
                                      "network.latency=0 s",   "failures.pause=1 @ 3 ms for 37 ms"};
  const Ending end = run_bounded(swarm, with(keys, averaging));
  CHECK(end.status == "complete");
  CHECK(to_seconds(end.recorder.nodes[0].finished) == doctest::Approx(35e-3));
  const double sum = test::model(end.recorder, 0, 0) + test::model(end.recorder, 1, 0);
  CHECK(sum == doctest::Approx(0.1));
  CHECK(test::model(end.recorder, 0, 0) == doctest::Approx(0.05));
}

TEST_CASE("with patience, nodes that wait for slower ones go on without those that stop") {
  const std::string bounded =
      "kind = async_parameter_server\nconsistency = bounded\nlearning_rate = 0.1\n";
  const std::vector<std::string> stop{"failures.stop=3 @ 20 ms, 6 @ 25 ms"};
  const std::string stalled = run_bounded(bounded, stop).status;
  CHECK(stalled.starts_with("failed: stalled at "));
  CHECK(stalled.ends_with(
      "; algorithm.patience, 0 s here, says when they go on without a silent node"));
  const Ending end = run_bounded(bounded, with(stop, {"algorithm.patience=5 ms"}));
  CHECK(end.status == "complete");
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK((end.recorder.nodes[i].steps == 40) == (i != 3 && i != 6));
  }
}

TEST_CASE("a parameter server that gave up on a slow node tells it so") {
  // Answers take 10 ms, and a gradient 1: nobody sends anything for longer than 2 ms.
  CHECK_THROWS_WITH_AS(
      run_bounded("kind = async_parameter_server\nlearning_rate = 0.1\n",
                  {"network.latency=10 ms", "algorithm.patience=2 ms"}),
      doctest::Contains("the parameter server on node 0 ended before node 1 fetched: it had no "
                        "message for 2 ms (algorithm.patience)"),
      Error);
}

TEST_CASE(
    "a node that is slower than the patience of parameter servers is named, and so is the key") {
  // Node 0 takes 10 ms a step, the others 1: when they have ended, the servers have nobody to hear from for 5 ms.
  for (const std::string keys :
       {"", "servers = 3\n", "consistency = bounded\n", "push_period = 2\nfetch_period = 3\n"}) {
    CAPTURE(keys);
    CHECK_THROWS_WITH_AS(
        run_bounded("kind = async_parameter_server\nlearning_rate = 0.1\n" + keys,
                    {"compute.slow_nodes=1", "compute.slowdown=10", "algorithm.patience=5 ms"}),
        doctest::Contains("ended before node 0 fetched: it had no message for 5 ms "
                          "(algorithm.patience)"),
        Error);
  }
}

TEST_CASE("pairwise averaging conserves the sum with partners that pause longer than patience") {
  // Requests are given up after 2 ms and completed when the partner is back: the mean of the models
  // stays 0.35. A gradient takes 1 ms; nobody pauses at the end.
  for (const std::string name : {"adpsgd", "pairwise_gossip"}) {
    CAPTURE(name);
    const Ending end =
        run_bounded("kind = " + name + "\n",
                    with(averaging, {"failures.pause=3 @ 2 ms for 15 ms, 5 @ 4 ms for 11 ms",
                                     "algorithm.patience=2 ms", "run.steps=60"}));
    CHECK(end.status == "complete");
    CHECK(test::mean_model(end.recorder, 0) == doctest::Approx(0.35).epsilon(1e-5));
  }
}

TEST_CASE("push-sum conserves its mass through pauses, and loses it with messages") {
  // Weights are halved and added, exactly: their sum stays 8. Of about 320 shares 2 % are lost, each
  // with a weight of some 1/2; the chance that none is lost is 0.98^320 = 0.002.
  double all = 0;
  const Ending paused = run_bounded(
      "kind = push_sum\n",
      with(averaging, {"failures.pause=3 @ 2500 us for 15 ms", "failures.join=5 @ 7 ms"}));
  CHECK(paused.status == "complete");
  for (NodeId i = 0; i < 8; ++i) all += test::last_weight(paused.recorder, i);
  CHECK(all == 8);

  double left = 0;
  const Ending lossy = run_bounded(
      "kind = push_sum\n", with(averaging, {"failures.lose=0.02", "algorithm.patience=10 ms"}));
  CHECK(lossy.status == "complete");
  CHECK(lossy.recorder.statistics.at("failures.lost_messages") > 0);
  for (NodeId i = 0; i < 8; ++i) left += test::last_weight(lossy.recorder, i);
  CHECK(left < 7.9);
  // What is left is still an average of the models: between the least, 0, and the largest, 0.7.
  for (NodeId i = 0; i < 8; ++i) {
    CHECK(test::model(lossy.recorder, i, 0) > 0.1);
    CHECK(test::model(lossy.recorder, i, 0) < 0.6);
  }
}

}  // namespace starling::test_failures
