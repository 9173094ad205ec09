// Whole runs: the same on any threads and in any window, their ends, good or bad, and what they record and tell.
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>

#include <doctest/doctest.h>
#include <omp.h>

#include "algorithms/registry.hpp"
#include "kernels/navigation.hpp"
#include "scenarios/run.hpp"
#include "sim/base/error.hpp"
#include "sim/record/results_file.hpp"
#include "tests/support/difference_of.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/program_run.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/small_run.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_run {
namespace {

const std::string blobs = test::blobs_scenario(40) + "momentum = 0.5\n";

Recorder run_algorithm(const std::string& kind, std::vector<std::string> overrides = {}) {
  overrides.push_back("algorithm.kind=" + kind);
  if (kind == "local_sgd") overrides.emplace_back("algorithm.period=4");
  return test::run(blobs, overrides);
}

const std::vector<std::string> some_algorithms{"adpsgd", "allreduce", "dpsgd", "local_sgd",
                                               "wagma"};

/// Equal but for the scenario text, in which the overrides differ.
void check_same(Recorder a, const Recorder& b) {
  a.facts["scenario"] = b.facts.at("scenario");
  CHECK(test::difference_of(a, b) == "");
}

std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return test::message_of<std::exception>([&] { test::run(text, overrides); });
}

}  // namespace

TEST_CASE("everything recorded is the same with one thread and two, and twice in a row") {
  for (const std::string& kind : some_algorithms) {
    CAPTURE(kind);
    omp_set_num_threads(1);
    const Recorder one = run_algorithm(kind);
    omp_set_num_threads(2);
    const Recorder two = run_algorithm(kind);
    check_same(one, two);
    check_same(run_algorithm(kind), two);
  }
}

TEST_CASE(
    "everything recorded is the same with a window of 1 MiB, of one operation, and unlimited") {
  for (const std::string& kind : some_algorithms) {
    CAPTURE(kind);
    const Recorder wide = run_algorithm(kind, {"run.window=1000 GiB"});
    check_same(run_algorithm(kind, {"run.window=1 MiB"}), wide);
    check_same(run_algorithm(kind, {"run.window=1 B"}), wide);
  }
}

TEST_CASE(
    "asynchronous runs batch half of all nodes' gradients, a fifth where durations vary most") {
  // 256 nodes of AD-PSGD: half of all nodes at once for lognormal durations drawn per step, 96 drawn per node, 48
  // for exponential ones.
  std::string text = blobs;
  text.replace(text.find("nodes = 8\nsteps = 40"), 20, "nodes = 256\nsteps = 60");
  text.replace(text.find("sigma = 0.4"), 11, "sigma = 0.3");
  const std::vector<std::string> large{"algorithm.kind=adpsgd", "topology.kind=complete",
                                       "run.timeline=0 s",      "workload.hidden=4",
                                       "workload.batch_size=1", "workload.samples=20000",
                                       "run.evaluate_every=60", "workload.partition=iid"};
  const auto batch = [&](const std::string& scenario, const std::string& override) {
    std::vector<std::string> overrides = large;
    overrides.push_back(override);
    return test::run(scenario, overrides).statistics.at("graph.mean_gradient_batch");
  };
  CHECK(batch(text, "compute.draw=step") >= 128);
  CHECK(batch(text, "compute.draw=node") >= 96);
  text.replace(text.find("distribution = lognormal\nsigma = 0.3"), 36,
               "distribution = exponential");
  CHECK(batch(text, "run.seed=1") >= 48);
}

TEST_CASE("the mean batch of every kind is told, of sums without those computed with a gradient") {
  // A row of evaluation has a mean model, which is evaluated, and the distances of 8 nodes from it. Most other sums of
  // D-PSGD are computed with gradients: counted with the rest they made batches of more sums than there are nodes.
  const auto statistics = run_algorithm("dpsgd").statistics;
  CHECK(statistics.at("graph.folded") > 300);
  CHECK(statistics.at("graph.mean_sum_batch") >= 1);
  CHECK(statistics.at("graph.mean_sum_batch") <= 8);
  CHECK(statistics.at("graph.mean_evaluation_batch") == 1);
  CHECK(statistics.at("graph.mean_distance_batch") == 8);
  CHECK(statistics.at("graph.mean_transform_batch") == 0);  // there are none
}

TEST_CASE("a diverging run says which node and ends with a results file that can be read") {
  const test::TemporaryDirectory directory;
  const std::string output = directory.path("diverged.h5");
  // A window holds 16 gradients per node: with 2 steps it is the last one, computed when the timeline has ended.
  for (const char* steps : {"40", "2"}) {
    CAPTURE(steps);
    std::filesystem::remove(output);
    Run run(assemble(Scenario::parse(
                blobs, "test.ini",
                {"algorithm.kind=dpsgd", "algorithm.learning_rate=1e30", "run.output=" + output,
                 std::string("run.steps=") + steps, "run.evaluate_every=1"})),
            {});
    CHECK_THROWS_WITH_AS(run.simulate(), doctest::Contains("the run diverged"), Error);
    CHECK(load(output).facts.at("status").find("failed: the loss of node") != std::string::npos);
  }
}

TEST_CASE("a run whose last step makes its models infinite does not end as complete") {
  const test::TemporaryDirectory directory;
  const std::string output = directory.path("last.h5");
  const std::string text =
      test::quadratic_scenario(3, 2, "ring", "kind = dpsgd\nlearning_rate = 1e30\n");
  // No gradient is taken at the models of the last step. With a row at each, that of the first one is finite.
  for (const char* every : {"1", "2"}) {
    CAPTURE(every);
    std::filesystem::remove(output);
    Run run(assemble(Scenario::parse(
                text, "test.ini",
                {"run.output=" + output, std::string("run.evaluate_every=") + every})),
            {});
    const char* sentence =
        "the test loss of the mean model became nan after step 2: the run diverged";
    CHECK_THROWS_WITH_AS(run.simulate(), doctest::Contains(sentence), Diverged);
    const Recorder kept = load(output);
    CHECK(kept.facts.at("status").find(std::string("failed: ") + sentence) == 0);
    if (every[0] == '1') CHECK(std::isfinite(kept.evaluation.value("test_loss", 0)));
    CHECK(kept.nodes[2].steps == 2);
  }
}

namespace {

/// Node 2 does without the second half of its steps.
Task<> end_some_steps(Node& node) {
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    if (node.id() != 2 || 2 * k < node.steps()) node.end_step(k, x);
  }
}

}  // namespace

TEST_CASE("a run whose program returns before its last step does not end as complete") {
  const std::string text =
      test::quadratic_scenario(3, 4, "ring", "kind = dpsgd\nlearning_rate = 0.1\n");
  CHECK_THROWS_WITH_AS(test::run_program(text, end_some_steps),
                       "the program of node 2 ended 2 of 4 steps, then returned", Error);
  CHECK_NOTHROW(test::run_program(text, end_some_steps, {"failures.stop=2 @ 1 ms"}));
}

namespace {

Task<> wait_forever(Node& node, std::shared_ptr<void> left) {
  while (left.use_count() > 0) co_await node.sleep(std::chrono::seconds(1));
}

}  // namespace

TEST_CASE("nodes and network make room before results are saved") {
  const test::TemporaryDirectory directory;
  const std::string output = directory.path("room.h5");
  Assembly parts = assemble(
      Scenario::parse(test::quadratic_scenario(3, 4, "ring", "kind = dpsgd\nlearning_rate = 0.1\n"),
                      "test.ini", {"run.output=" + output, "run.until=5 s"}));
  int left = 0;
  int left_before = 0;
  const auto leave = [&](void*) {
    ++left;
    left_before += std::filesystem::exists(output) ? 0 : 1;
  };
  parts.program = [&](Node& node) {
    return wait_forever(node, std::shared_ptr<void>(nullptr, leave));
  };
  Run run(std::move(parts), {});
  run.simulate();
  CHECK(load(output).facts.at("ended") == "at run.until");
  CHECK(left == 3);
  CHECK(left_before == 3);
  CHECK(run.assembly().network == nullptr);
}

TEST_CASE("what links carried is kept where the first attempt to save fails") {
  const test::TemporaryDirectory directory;
  Assembly parts = assemble(Scenario::parse(
      test::quadratic_scenario(3, 4, "ring", "kind = dpsgd\nlearning_rate = 0.1\n"), "test.ini",
      {"network.kind=fluid", "network.latency=1 us", "network.bandwidth=1 GB/s",
       "run.save_models=yes", "run.output=" + directory.path("gone/links.h5")}));
  directory.write("gone", "not a folder");
  Run run(std::move(parts), {});
  CHECK_THROWS_WITH_AS(
      run.simulate(), (directory.path("gone/links.h5") + ": cannot write: Not a directory").c_str(),
      Error);
  // 3 hosts, up and down, by which each node sends 4 models to two others.
  CHECK(run.recorder().links.size() == 6);
  CHECK(run.recorder().links[0].bytes > 0);
}

TEST_CASE("a run that diverges late keeps the consensus distances until then") {
  const test::TemporaryDirectory directory;
  const std::string output = directory.path("late.h5");
  const std::string text = test::quadratic_scenario(
      4, 2000, "ring", "kind = dpsgd\nlearning_rate = 4\n");  // models triple at every step
  Run run(
      assemble(Scenario::parse(text, "test.ini", {"run.evaluate_every=1", "run.output=" + output})),
      {});
  CHECK_THROWS_WITH_AS(run.simulate(), doctest::Contains("the run diverged"), Error);
  const Recorder kept = load(output);
  const std::size_t rows = kept.evaluation.rows("consensus_distance");
  REQUIRE(rows > 10);
  for (std::size_t row = 0; row < rows; ++row) {
    CHECK(kept.evaluation.value("consensus_distance", row) > 0);
  }
}

TEST_CASE("a run that diverges keeps all losses until then") {
  const test::TemporaryDirectory directory;
  const std::string output = directory.path("kept.h5");
  const std::string text = test::quadratic_scenario(
      4, 60, "ring",
      "kind = dpsgd\nlearning_rate = 1e6\n");  // ends in the midst of its first window
  Run run(
      assemble(Scenario::parse(text, "test.ini", {"run.evaluate_every=1", "run.output=" + output})),
      {});
  CHECK_THROWS_WITH_AS(run.simulate(), doctest::Contains("the run diverged"), Diverged);
  const Recorder kept = load(output);
  const std::string& status = kept.facts.at("status");
  const std::size_t steps = std::stoul(status.substr(status.find("gradient ") + 9));
  REQUIRE(steps > 2);
  const Recorder before =
      test::run(text, {"run.evaluate_every=1", "run.steps=" + std::to_string(steps - 1)});
  for (std::size_t step = 0; step + 1 < steps; ++step) {
    for (std::size_t node = 0; node < 4; ++node) {
      CHECK(kept.steps.value("train_loss", step, node) ==
            before.steps.value("train_loss", step, node));
    }
    CHECK(kept.evaluation.value("test_loss", step) == before.evaluation.value("test_loss", step));
    CHECK(kept.evaluation.value("consensus_distance", step) ==
          before.evaluation.value("consensus_distance", step));
  }
  CHECK(std::isinf(kept.steps.value("train_loss", steps, 0)));
}

TEST_CASE("nodes that take gradients of several nodes per step count until they diverge") {
  // The first gradients at a model with such numbers, those of step 1, find it; a slow node gets to step 0's end later.
  const Recorder recorder =
      test::run(blobs, {"algorithm.kind=gradient_coding", "algorithm.learning_rate=1e30",
                        "run.on_divergence=mark", "run.evaluate_every=1", "compute.slow_nodes=1",
                        "compute.slowdown=20"});
  CHECK(recorder.facts.at("diverged").starts_with("node 0 at its gradient 1, "));
  const auto nodes = static_cast<double>(recorder.nodes.size());
  CHECK(recorder.evaluation.value("live_nodes", 0) == nodes);
  CHECK(recorder.evaluation.value("live_nodes", 1) == 0);
}

TEST_CASE("a mean model whose outputs are not finite has no accuracy, and is at no target") {
  // After one step so long the numbers of models are finite, and what they put out is not.
  const std::vector<std::string> settings{"algorithm.kind=dpsgd", "algorithm.learning_rate=1e37",
                                          "run.on_divergence=mark", "run.evaluate_every=1",
                                          "run.until_target=test_accuracy 0.01"};
  const Recorder recorder = test::run(blobs, settings);
  CHECK(recorder.evaluation.value("live_nodes", 0) == static_cast<double>(recorder.nodes.size()));
  CHECK(std::isnan(recorder.evaluation.value("test_loss", 0)));
  CHECK(std::isnan(recorder.evaluation.value("test_accuracy", 0)));
  CHECK_FALSE(recorder.is_cut());
}

TEST_CASE("a diverging run that marks its nodes goes on, and names them") {
  const Recorder recorder = test::run(
      blobs, {"algorithm.kind=dpsgd", "algorithm.learning_rate=1e30", "run.on_divergence=mark"});
  CHECK(recorder.facts.at("status") == "complete");
  const auto nodes = static_cast<double>(recorder.nodes.size());
  CHECK(recorder.statistics.at("diverged_nodes") == nodes);
  const std::string& named = recorder.facts.at("diverged");
  CHECK(named.starts_with("node 0 at its gradient "));
  for (std::size_t i = 1; i < recorder.nodes.size(); ++i)
    CHECK(named.find(", node " + std::to_string(i) + " at its gradient ") != std::string::npos);
  const std::size_t last = recorder.evaluation.rows("live_nodes") - 1;
  CHECK(recorder.evaluation.value("live_nodes", last) == 0);
  CHECK(std::isnan(recorder.evaluation.value("test_loss", last)));
  const Recorder plain = test::run(blobs, {"algorithm.kind=dpsgd"});
  const Recorder marking = test::run(blobs, {"algorithm.kind=dpsgd", "run.on_divergence=mark"});
  CHECK(marking.statistics.at("diverged_nodes") == 0);
  for (const char* metric : {"test_loss", "consensus_distance"}) {
    CHECK(marking.evaluation.value(metric, last) == plain.evaluation.value(metric, last));
  }
}

TEST_CASE("of nodes that diverged twenty are named, and the others counted") {
  for (const int nodes : {20, 22}) {
    CAPTURE(nodes);
    const Recorder recorder = test::run(
        test::quadratic_scenario(nodes, 9, "ring", "kind = dpsgd\nlearning_rate = 1e30\n"),
        {"run.on_divergence=mark"});
    const std::string& named = recorder.facts.at("diverged");
    CHECK(named.find(", node 19 at its gradient ") != std::string::npos);
    CHECK(named.find("node 20") == std::string::npos);
    CHECK(named.ends_with(", 2 more") == (nodes == 22));
  }
}

TEST_CASE("a cost of a host that nobody pays is told, but not one that is taken away") {
  const std::string text =
      test::quadratic_scenario(4, 10, "ring", "kind = dpsgd\nlearning_rate = 0.1");
  const auto told = [&](const std::string& entry) {
    const std::vector<std::string> settings{"network.host=xc50",
                                            "network.operation_entry=" + entry};
    return test::simulated(assemble(Scenario::parse(text, "test.ini", settings)))
        ->closing_warnings();
  };
  CHECK(told("1 ms").size() == 1);
  for (const char* nothing : {"0 s", "0 ms"}) CHECK(told(nothing).empty());
}

TEST_CASE("bytes sent are told step by step, of each node and of all") {
  // Each step every node of the ring sends its 5 floats to two neighbors.
  const std::string text =
      test::quadratic_scenario(4, 10, "ring", "kind = dpsgd\nlearning_rate = 0.1");
  const std::vector<std::string> settings{"run.record_every=3", "run.evaluate_every=4"};
  std::vector<std::string> hollow{"workload.kind=timing", "workload.parameters=5",
                                  "workload.dimension=default"};
  hollow.insert(hollow.end(), settings.begin(), settings.end());
  for (const Recorder& recorder : {test::run(text, settings), test::run(text, hollow)}) {
    REQUIRE(recorder.steps.rows("bytes_sent") == 4);
    for (std::size_t row = 0; row < 4; ++row) {
      const auto steps = static_cast<double>(recorder.steps.schedule().finished(row));
      for (std::size_t node = 0; node < 4; ++node)
        CHECK(recorder.steps.value("bytes_sent", row, node) == steps * 2 * 20);
    }
    REQUIRE(recorder.evaluation.rows("bytes_sent") == 3);
    for (std::size_t row = 0; row < 3; ++row) {
      const auto steps = static_cast<double>(recorder.evaluation.schedule().finished(row));
      CHECK(recorder.evaluation.value("bytes_sent", row) == steps * 4 * 2 * 20);
    }
  }
}

TEST_CASE("bytes that a node sent before it stopped stay in the sum of all") {
  const Recorder recorder =
      test::run(test::quadratic_scenario(6, 40, "complete",
                                         "kind = adpsgd\nlearning_rate = 0.1\npatience = 2 ms"),
                {"run.record_every=10", "run.evaluate_every=10", "failures.stop=3 @ 20500 us"});
  const Table& steps = recorder.steps;
  CHECK(std::isnan(steps.value("bytes_sent", 3, 3)));
  CHECK(recorder.evaluation.value("live_nodes", 3) == 5);
  double before = 0;
  for (std::size_t row = 0; row < 4; ++row) {
    double sum = 0;
    for (std::size_t node = 0; node < 6; ++node) {
      const double own = steps.value("bytes_sent", row, node);
      sum += std::isnan(own) ? static_cast<double>(recorder.nodes[node].bytes_sent) : own;
    }
    CHECK(recorder.evaluation.value("bytes_sent", row) == sum);
    CHECK(sum > before);
    before = sum;
  }
}

const char* const walks =
    "[run]\nnodes = 3\nsteps = 2\nrecord_every = 1\n[topology]\nkind = complete\n"
    "[network]\nkind = constant\nlatency = 1 us\n[compute]\ngradient = 1 s\nper_episode = 30 ms\n"
    "[workload]\nkind = navigation\nhorizon = 12\n[algorithm]\nkind = local_sgd\n"
    "period = 10\nlearning_rate = 0.1\n";

TEST_CASE("gradients take longer for each episode of their rollout") {
  const Recorder recorder = test::run(walks);
  const Assembly parts = assemble(Scenario::parse(walks, "test.ini"));
  const auto& navigation = dynamic_cast<const Navigation&>(*parts.workload);
  std::vector<float> x(navigation.facts().parameters);
  navigation.initial_model(x);
  for (NodeId node = 0; node < 3; ++node) {
    const auto episodes = navigation.experience(node, 0, x.data()).lengths.size();
    REQUIRE(episodes > 0);  // 256 moves, at most 12 for an episode
    const double expected = 1 + 0.03 * static_cast<double>(episodes);
    CHECK(recorder.steps.value("time", 0, static_cast<std::size_t>(node)) ==
          doctest::Approx(expected).epsilon(1e-12));
  }
  CHECK_THROWS_WITH_AS(assemble(Scenario::parse(
                           blobs, "test.ini", {"algorithm.kind=dpsgd", "compute.per_episode=1 s"})),
                       doctest::Contains("needs a workload of episodes"), ScenarioError);
}

TEST_CASE("episodes take as much longer on slow nodes as gradients do") {
  const Recorder nominal = test::run(walks);
  const Recorder slowed =
      test::run(walks, {"compute.speeds=1, 0.5, 1", "compute.slow_nodes=1", "compute.slowdown=3"});
  const double factors[] = {3, 2, 1};
  for (std::size_t node = 0; node < 3; ++node) {
    const double expected = factors[node] * nominal.steps.value("time", 0, node);
    CHECK(slowed.steps.value("time", 0, node) == doctest::Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("an interrupted run keeps what it has") {
  const test::TemporaryDirectory directory;
  const std::string output = directory.path("interrupted.h5");
  Run::Hooks hooks;
  int asked = 0;
  hooks.interruption = [&asked] { return ++asked > 2 ? 2 : 0; };
  Run run(
      assemble(Scenario::parse(
          blobs, "test.ini", {"algorithm.kind=dpsgd", "run.steps=20000", "run.output=" + output})),
      std::move(hooks));
  CHECK_THROWS_AS(run.simulate(), Interrupted);
  const Recorder recorder = load(output);
  CHECK(recorder.facts.at("status") == "interrupted by signal 2");
  CHECK(recorder.nodes[0].steps > 0);
  CHECK(recorder.nodes[0].steps < 20000);
  CHECK(recorder.evaluation.value("test_loss", 0) > 0);
}

TEST_CASE("a run that a short trace ends keeps the numbers of all its steps") {
  const test::TemporaryDirectory directory;
  const std::string output = directory.path("short.h5");
  std::string trace;
  for (int step = 0; step < 20; ++step) trace += "0.001,0.002,0.001,0.001\n";
  Run run(assemble(Scenario::parse(
              blobs, "test.ini",
              {"algorithm.kind=dpsgd", "run.nodes=4", "compute.distribution=trace",
               "compute.trace=" + directory.write("trace.csv", trace), "compute.trace_end=fail",
               "compute.gradient=default", "compute.sigma=default", "run.output=" + output})),
          {});
  CHECK_THROWS_WITH_AS(run.simulate(), doctest::Contains("expected a duration for node"), Error);
  const Recorder kept = load(output);
  CHECK(kept.facts.at("status").starts_with("failed: node "));
  for (std::size_t node = 0; node < 4; ++node) {
    const auto steps = static_cast<std::size_t>(kept.nodes[node].steps);
    CHECK(steps >= 18);  // who is two hops away from the first to end has as many to go
    for (std::size_t row = 0; row < steps; ++row)
      CHECK(kept.steps.value("train_loss", row, node) > 0);
  }
  for (std::size_t row = 0; row < 3; ++row) CHECK(kept.evaluation.value("test_loss", row) > 0);
}

TEST_CASE("a results file runs again from itself and gives the same content") {
  const test::TemporaryDirectory directory;
  const std::string output = directory.path("again.h5");
  Run::Hooks hooks;
  Run run(assemble(
              Scenario::parse(blobs, "test.ini", {"algorithm.kind=wagma", "run.output=" + output})),
          std::move(hooks));
  run.simulate();
  const Recorder saved = load(output);
  Run::Hooks silent;
  silent.saves = false;
  Run again(assemble(Scenario::parse(saved.facts.at("scenario"), "test.ini")), silent);
  again.simulate();
  CHECK(test::difference_of(again.recorder(), saved) == "");
}

TEST_CASE("a scenario with its defaults filled in, read again, is the same text") {
  const auto fill_in = [](const std::string& text, const std::vector<std::string>& overrides) {
    return Scenario::to_text(assemble(Scenario::parse(text, "test.ini", overrides)).described);
  };
  const auto check = [&](const std::string& text, const std::vector<std::string>& overrides) {
    CAPTURE(text);
    const std::string filled_in = fill_in(text, overrides);
    CHECK(fill_in(filled_in, {}) == filled_in);
  };
  for (const auto& entry : algorithms::catalog())
    check(test::quadratic_scenario(8, 3, "ring", test::section_of(entry.name)), {});
  for (const std::string algorithm : {"allreduce", "eager", "local_sgd", "slowmo", "wagma"})
    check(test::quadratic_scenario(8, 3, "ring", test::section_of(algorithm)),
          {"algorithm.collective=by_size"});
}

TEST_CASE("a mistake in a scenario is one sentence with the place") {
  const std::string good = blobs + "kind = dpsgd\n";
  CHECK(refusal(good) == "no error");
  CHECK(refusal(good + "learning_rat = 1\n")
            .starts_with("test.ini:26: algorithm.learning_rat is not a key here"));
  CHECK(
      refusal(good, {"network.preset=99gbe"}).find("command line: network.preset must be one of") ==
      0);
  CHECK(refusal(good, {"compute.gradient=3 parsecs"})
            .starts_with("command line: compute.gradient must be"));
  CHECK(refusal(good, {"run.nodes=0"}).starts_with("command line: run.nodes must be from 1"));
  CHECK(refusal(good, {"workload.dataset=idx", "workload.directory=/nowhere"}).find("/nowhere") !=
        std::string::npos);
  CHECK(refusal(good, {"tpology.kind=ring"}).find("tpology") != std::string::npos);
  CHECK(refusal("[run]\nnodes = 4\n").find("run.steps is missing") != std::string::npos);
}

TEST_CASE("models without numbers cost events only, in either fidelity of collectives") {
  const char* const text = R"([run]
nodes = 64
steps = 30
[topology]
kind = ring
[network]
kind = loggp
preset = aries
[compute]
gradient = 600 ms
distribution = lognormal
sigma = 0.2
[workload]
kind = timing
model = resnet50
[algorithm]
kind = wagma
learning_rate = 0.1
)";
  const Recorder expanded = test::run(text);
  const Recorder analytic = test::run(text, {"network.collectives=analytic"});
  const auto end = [](const Recorder& recorder) {
    Time last{};
    for (const NodeTotals& node : recorder.nodes) last = std::max(last, node.finished);
    return to_seconds(last);
  };
  CHECK(expanded.models.empty());
  CHECK(end(expanded) > 30 * 0.6);
  // The closed formulas leave out how ports of late and early members interleave: a fraction of a percent here.
  CHECK(end(analytic) == doctest::Approx(end(expanded)).epsilon(0.02));
}

TEST_CASE("tokens of the workload's batches become time through the compute model") {
  // One node and no messages: the run takes 1 ms + 10 us per token for each of 30 batches.
  const std::vector<std::string> with_tokens{"run.nodes=1",
                                             "run.steps=30",
                                             "workload.kind=timing",
                                             "workload.batching=padded",
                                             "workload.batch_size=6",
                                             "compute.gradient=1 ms",
                                             "compute.per_token=10 us"};
  const std::string text =
      "[run]\n[topology]\nkind = ring\n[network]\nkind = constant\nlatency = 1 us\n[compute]\n"
      "[workload]\n[algorithm]\nkind = local_sgd\nperiod = 30\nlearning_rate = 1\n";
  const auto run = test::simulated(assemble(Scenario::parse(text, "test.ini", with_tokens)));
  std::int64_t tokens = 0;
  for (Step k = 0; k < 30; ++k) tokens += run->assembly().workload->batch_cost(0, k);
  CHECK(tokens > 30 * 6 * 6);
  CHECK(to_seconds(run->recorder().nodes[0].compute) ==
        doctest::Approx(0.030 + 1e-5 * static_cast<double>(tokens)).epsilon(1e-12));
}

TEST_CASE("a warning tells of models that evaluations keep until a slow node gets as far") {
  const auto warnings = [](const std::string& more, double most_waiting_bytes,
                           const std::vector<std::string>& overrides = {}) {
    std::vector<std::string> told;
    Run::Hooks hooks;
    hooks.saves = false;
    hooks.warn = [&](const std::string& words) { told.push_back(words); };
    hooks.most_waiting_bytes = most_waiting_bytes;
    Run run(assemble(Scenario::parse(
                "[run]\nnodes = 4\nsteps = 400\nevaluate_every = 1\n[topology]\nkind = ring\n"
                "[network]\nkind = constant\nlatency = 1 us\n[compute]\ngradient = 1 ms\n" +
                    more +
                    "[workload]\nkind = quadratic\ndimension = 1024\n[algorithm]\n"
                    "kind = adpsgd\nlearning_rate = 0.1\n",
                "test.ini", overrides)),
            std::move(hooks));
    run.simulate();
    return told;
  };
  const std::string slow = "slow_nodes = 1\nslowdown = 10\n";  // which is node 0
  const auto told = warnings(slow, 1e6);
  REQUIRE(told.size() == 1);  // once
  CHECK(told[0].find(" until node 0 gets as far, which is ") != std::string::npos);
  CHECK(told[0].find(" steps behind; a larger run.evaluate_every ") != std::string::npos);
  // All others have ended when node 0 has done 40 of 400 steps: they keep 1,080 models of 4 KiB.
  CHECK(warnings(slow, 6e6).empty());
  // Nobody waits for one that has stopped, though it ended fewer steps.
  const auto beside_a_stopped_one =
      warnings(slow + "[failures]\nstop = 2 @ 12 ms\n", 1e6, {"algorithm.patience=50 ms"});
  REQUIRE(beside_a_stopped_one.size() == 1);
  CHECK(beside_a_stopped_one[0].find(" until node 0 gets as far, ") != std::string::npos);
  CHECK(warnings("", 1e5).empty());
}

}  // namespace starling::test_run
