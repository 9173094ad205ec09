// Evaluations by time, and runs that end at a time or at a target.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "scenarios/run.hpp"
#include "scenarios/target.hpp"
#include "sim/base/error.hpp"
#include "sim/base/units.hpp"
#include "tests/support/difference_of.hpp"
#include "tests/support/program_run.hpp"
#include "tests/support/small_run.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_by_time {
namespace {

Duration accounted(const Recorder& run, NodeId node) {
  const NodeTotals& totals = run.nodes[static_cast<std::size_t>(node)];
  return totals.compute + totals.wait + totals.communicate;
}

const std::string blobs = test::blobs_scenario(40, "evaluate_interval = 10 ms\n");
/// 8 nodes, of which two take four times as long: others end twice their steps meanwhile.
const std::vector<std::string> with_slow_nodes{"compute.slow_nodes=2", "compute.slowdown=4"};

Recorder run_algorithm(const std::string& kind, std::vector<std::string> overrides = {}) {
  overrides.push_back("algorithm.kind=" + kind);
  overrides.insert(overrides.end(), with_slow_nodes.begin(), with_slow_nodes.end());
  return test::run(blobs, overrides);
}

/// Steps that `node` had ended by `time`.
double steps_by(const Recorder& run, NodeId node, double time) {
  double steps = 0;
  for (std::size_t row = 0; row < run.steps.rows("time"); ++row) {
    if (run.steps.value("time", row, static_cast<std::size_t>(node)) <= time) ++steps;
  }
  return steps;
}

double end_of(const Recorder& run) {
  double end = 0;
  for (const NodeTotals& node : run.nodes) end = std::max(end, to_seconds(node.finished));
  return end;
}

/// Root of the mean squared distance of the final models from their mean.
double spread_of(const Recorder& run) {
  double sum = 0;
  for (std::size_t k = 0; k < run.models[0].size(); ++k) {
    const double mean = test::mean_model(run, k);
    for (NodeId node = 0; node < std::ssize(run.models); ++node)
      sum += std::pow(test::model(run, node, k) - mean, 2);
  }
  return std::sqrt(sum / static_cast<double>(run.models.size()));
}

/// Two gradients of 1 ms, and 5 ms between them.
Task<> sleep_between(Node& node) {
  const Vector x = node.initial_model();
  const Gradient first = co_await node.gradient(x);
  co_await node.sleep(parse_duration("5 ms"));
  const Gradient second = co_await node.gradient(x);
  node.end_step(0, x);
}

/// Node 0 ends its steps at 1 ms, and has another model at 2 ms; node 1 ends its last at 10 ms.
Task<> change_at_last(Node& node) {
  Vector x = node.initial_model();
  co_await node.sleep(parse_duration("1 ms"));
  node.end_step(0, x);
  if (node.id() == 1) co_await node.sleep(parse_duration("9 ms"));
  node.end_step(1, x);
  if (node.id() == 1) co_return;
  co_await node.sleep(parse_duration("1 ms"));
  x.scale(3);
  node.set_final_model(x, 3);
}

}  // namespace

TEST_CASE("evaluations by time have the newest models, however many steps each node has ended") {
  for (const char* kind : {"adpsgd", "allreduce", "wagma"}) {
    CAPTURE(kind);
    const Recorder run = run_algorithm(kind);
    const Table& by_time = run.evaluation_by_time;
    const double end = end_of(run);
    const auto instants = static_cast<std::size_t>(std::ceil(end / 0.01));
    REQUIRE(by_time.rows() == instants);
    REQUIRE(instants > 5);
    for (std::size_t row = 0; row < instants; ++row) {
      CAPTURE(row);
      const double time = by_time.value("time", row);
      const double expected = row + 1 < instants ? 0.01 * static_cast<double>(row + 1) : end;
      CHECK(time == doctest::Approx(expected).epsilon(1e-12));
      double steps = 0, live = 0, bytes = 0;
      for (NodeId node = 0; node < 8; ++node) {
        const double ended = steps_by(run, node, time);
        steps += ended;
        if (ended == 0) continue;
        ++live;
        bytes += run.steps.value("bytes_sent", static_cast<std::size_t>(ended) - 1,
                                 static_cast<std::size_t>(node));
      }
      CHECK(by_time.value("bytes_sent", row) == bytes);
      CHECK(by_time.value("samples", row) == 8 * steps);
      CHECK(by_time.value("live_nodes", row) == live);
      CHECK(std::isnan(by_time.value("test_loss", row)) == (live == 0));
    }
    // At the end all nodes have ended all steps, as in the last row by step; those of AD-PSGD have averaged since.
    const std::size_t last = run.evaluation.rows() - 1;
    for (const std::string metric : {"time", "samples", "test_loss", "test_accuracy"}) {
      if (kind == std::string("adpsgd") && metric.starts_with("test")) continue;
      CAPTURE(metric);
      CHECK(by_time.value(metric, instants - 1) == run.evaluation.value(metric, last));
    }
  }
}

TEST_CASE("the evaluation at the end is that of the last step, not of the averaging that follows") {
  // Exchanges under way take 80 ms: 8 gradients. What they leave is in the final models alone.
  const Recorder run = run_algorithm(
      "adpsgd", {"run.save_models=yes", "network.latency=40 ms", "run.evaluate_every=40"});
  const Table& by_time = run.evaluation_by_time;
  const double at_end = by_time.value("consensus_distance", by_time.rows() - 1);
  const double before = by_time.value("consensus_distance", by_time.rows() - 2);
  CHECK(at_end > 0.8 * before);
  CHECK(spread_of(run) < 0.8 * at_end);
}

TEST_CASE("where all nodes have ended as many steps, evaluations by time are those by step") {
  const Recorder run = run_algorithm(
      "allreduce", {"network.collectives=analytic", "run.evaluate_every=1", "run.steps=20"});
  for (std::size_t row = 0; row < run.evaluation_by_time.rows(); ++row) {
    const double steps = steps_by(run, 0, run.evaluation_by_time.value("time", row));
    if (steps == 0) continue;
    const double loss = run.evaluation.value("test_loss", static_cast<std::size_t>(steps) - 1);
    CHECK(run.evaluation_by_time.value("test_loss", row) == loss);
  }
}

TEST_CASE("a run that ends at a time is the beginning of the run that ends with its steps") {
  for (const char* kind : {"adpsgd", "dpsgd", "wagma", "sgp"}) {
    CAPTURE(kind);
    const Recorder whole = run_algorithm(kind);
    const double until = 0.055;
    const Recorder cut = run_algorithm(kind, {"run.until=55 ms"});
    CHECK(cut.facts.at("status") == "complete");
    CHECK(cut.facts.at("ended") == "at run.until");
    CHECK(whole.facts.count("ended") == 0);
    for (std::size_t row = 0; row < whole.steps.rows(); ++row) {
      for (std::size_t node = 0; node < 8; ++node) {
        for (const char* metric : {"time", "train_loss"}) {
          const double kept = cut.steps.value(metric, row, node);
          if (whole.steps.value("time", row, node) <= until) {
            CHECK(kept == whole.steps.value(metric, row, node));
          } else if (std::string(metric) == "time") {
            CHECK(std::isnan(kept));
          }
        }
      }
    }
    for (NodeId node = 0; node < 8; ++node)
      CHECK(static_cast<double>(cut.nodes[node].steps) == steps_by(whole, node, until));
    // Instants before are the same; the last is the end, with the models that are kept.
    REQUIRE(cut.evaluation_by_time.rows() == 6);
    for (std::size_t row = 0; row < 5; ++row) {
      const double loss = whole.evaluation_by_time.value("test_loss", row);
      const double kept = cut.evaluation_by_time.value("test_loss", row);
      CHECK((kept == loss || (std::isnan(kept) && std::isnan(loss))));
    }
    CHECK(cut.evaluation_by_time.value("time", 5) == until);
    if (std::string(kind) == "sgp") continue;  // whose mean is weighted
    CHECK(cut.evaluation_by_time.value("consensus_distance", 5) ==
          doctest::Approx(spread_of(cut)).epsilon(1e-4));
  }
}

TEST_CASE("when a run ends at a time, what its nodes do then is accounted for") {
  // Node 0 would compute for 2 s; the others, who wait for it in their own ways, for 2 ms.
  for (const char* kind : {"dpsgd", "allreduce", "wagma", "eager"}) {
    CAPTURE(kind);
    std::vector<std::string> overrides{
        "run.until=55 ms",       "compute.slow_nodes=1",
        "compute.slowdown=1000", "compute.distribution=constant",
        "compute.sigma=default", "algorithm.kind=" + std::string(kind)};
    if (kind != std::string("dpsgd")) overrides.emplace_back("topology.kind=default");
    for (const char* collectives : {"expanded", "analytic"}) {
      CAPTURE(collectives);
      overrides.push_back(std::string("network.collectives=") + collectives);
      const Recorder run = test::run(blobs, overrides);
      for (NodeId node = 0; node < 8; ++node) {
        CAPTURE(node);
        CHECK(to_seconds(accounted(run, node)) == doctest::Approx(0.055).epsilon(1e-12));
      }
      CHECK(to_seconds(run.nodes[0].compute) == doctest::Approx(0.055).epsilon(1e-12));
    }
  }
}

TEST_CASE("a run that ends within a backward pass counts what there was of it") {
  // Gradients of 10 ms, half of them backward, beside which exchanges of a few us go on: nodes compute all the time.
  const std::string text =
      "[run]\nnodes = 4\nsteps = 5\n[topology]\nkind = ring\n[network]\nkind = constant\nlatency = "
      "1 us\n[compute]\ngradient = 10 ms\nforward_share = 0.5\n[workload]\nkind = timing\n"
      "parameters = 1000\ntensors = 900, 100\n[algorithm]\nkind = dpsgd\nexchange = tensors\n"
      "overlap = backward\nlearning_rate = 0.1\n";
  for (const char* until : {"3 ms", "5 ms", "7 ms", "9.5 ms", "10 ms"}) {
    CAPTURE(until);
    const Recorder run = test::run(
        text, {"run.timeline=1 s", std::string("run.until=") + until, "compute.gradient=10 ms"});
    CHECK(run.facts.at("ended") == "at run.until");
    const Duration end = parse_duration(until);
    for (NodeId node = 0; node < 4; ++node) {
      CHECK(run.nodes[static_cast<std::size_t>(node)].compute == end);
      CHECK(accounted(run, node) == end);
    }
    for (const Segment& segment : run.timeline) CHECK(segment.end.time_since_epoch() <= end);
  }
  // Of the whole run five gradients, and five exchanges behind them.
  const Recorder whole = test::run(text);
  CHECK(whole.nodes[0].compute == parse_duration("50 ms"));
  CHECK(accounted(whole, 0) == whole.nodes[0].finished.time_since_epoch());
}

TEST_CASE("a model that changes after its last step counts with the weight that it has then") {
  // From 2 ms on the models are 3 of weight 3, and 1 of weight 1: a mean of 2.5, whose loss is 2.5^2 / 2.
  const std::string text =
      "[run]\nnodes = 2\nsteps = 2\nevaluate_interval = 5 ms\n[topology]\nkind = ring\n[network]\n"
      "kind = constant\nlatency = 0 s\n[compute]\ngradient = 1 ms\n[workload]\nkind = quadratic\n"
      "dimension = 1\ncenters = list\ncenter_values = 0, 0\ncurvature_min = 1\ncurvature_max = 1\n"
      "start = 1\n[algorithm]\nkind = allreduce\nlearning_rate = 0.1\n";
  const Table by_time = test::run_program(text, change_at_last).evaluation_by_time;
  CHECK(by_time.value("time", 0) == 5e-3);
  CHECK(by_time.value("test_loss", 0) == doctest::Approx(3.125));
}

TEST_CASE("a node that sleeps waits") {
  const std::string text =
      test::quadratic_scenario(2, 1, "ring", "kind = allreduce\nlearning_rate = 0.1");
  const Recorder whole = test::run_program(text, sleep_between);
  const Recorder cut = test::run_program(text, sleep_between, {"run.until=3 ms"});
  for (std::size_t node = 0; node < 2; ++node) {
    CHECK(whole.nodes[node].compute == parse_duration("2 ms"));
    CHECK(whole.nodes[node].wait == parse_duration("5 ms"));
    CHECK(cut.nodes[node].compute == parse_duration("1 ms"));
    CHECK(cut.nodes[node].wait == parse_duration("2 ms"));
  }
}

TEST_CASE("links are in use to the end of a run, and have carried what came across") {
  // Two models of 10 MB set off at 0 s and take 10 s; nothing happens to the network before.
  const std::string text =
      "[run]\nnodes = 2\nsteps = 2\nuntil = 5 s\n[network]\nkind = fluid\nbandwidth = 1 MB/s\n"
      "latency = 0 s\n[compute]\ngradient = 1 s\n[workload]\nkind = timing\nparameters = "
      "2500000\n[algorithm]\nkind = dpsgd\n";
  const test::TemporaryDirectory folder;
  Run whole(assemble(Scenario::parse(text, "test.ini",
                                     {"run.timeline=1 h", "run.output=" + folder.path("cut.h5")})),
            {});
  whole.simulate();
  const Recorder& run = whole.recorder();
  REQUIRE(run.links.size() == 4);
  REQUIRE(run.link_timeline.size() == 4);
  for (std::size_t link = 0; link < 4; ++link) {
    CHECK(run.links[link].busy == parse_duration("5 s"));
    CHECK(run.links[link].bytes == 5'000'000);
    CHECK(run.links[link].peak_rate == 1e6);
    CHECK(run.links[link].most_messages == 1);
    CHECK(run.link_timeline[link].end == Time{parse_duration("5 s")});
  }
}

TEST_CASE("a run whose steps are done has not ended at a later time, whatever events are left") {
  // Steps of 10 ms and messages of 2 us: all is over after 50 ms. A link that changes at 60 ms, a node whose patience ends
  // then and one that stopped are left.
  const std::string text =
      "[run]\nnodes = 4\nsteps = 5\nevaluate_interval = 4 ms\n[network]\nkind = fluid\nlatency = "
      "1 us\nbandwidth = 1 TB/s\n[compute]\ngradient = 10 ms\n[workload]\nkind = timing\n"
      "parameters = 10\n[algorithm]\n";
  const test::TemporaryDirectory folder;
  const std::string changes = folder.write("links.csv", "60 ms, host 0 up, 0.5\n");
  const std::vector<std::string> left[] = {
      {"algorithm.kind=dpsgd", "network.link_schedule=" + changes},
      {"algorithm.kind=dpsgd", "network.failure_interval=10 s"},
      {"algorithm.kind=adpsgd", "algorithm.patience=60 ms"},
      {"algorithm.kind=adpsgd", "algorithm.patience=20 ms", "failures.stop=1 @ 25 ms"},
  };
  for (const std::vector<std::string>& settings : left) {
    CAPTURE(settings.back());
    const Recorder whole = test::run(text, settings);
    std::vector<std::string> limited = settings;
    limited.emplace_back("run.until=55 ms");
    Recorder run = test::run(text, limited);
    run.facts["scenario"] = whole.facts.at("scenario");  // without run.until
    CHECK_FALSE(run.facts.contains("ended"));
    CHECK(test::difference_of(run, whole) == "");
  }
}

TEST_CASE("nodes that are away when a run ends were away until then") {
  const Recorder run =
      test::run(blobs + "[failures]\njoin = 2 @ 50 ms\npause = 1 @ 30 ms for 1 s\n",
                {"algorithm.kind=allreduce", "run.until=55 ms"});
  CHECK(run.statistics.at("failures.away_seconds") == doctest::Approx(0.05 + 0.025).epsilon(1e-12));
}

TEST_CASE("the last interval may reach past the end of the clock") {
  // 106 days; the second instant would be at 120.
  const Recorder run =
      test::run(test::quadratic_scenario(2, 4, "ring", "kind = allreduce\nlearning_rate = 0.1"),
                {"run.evaluate_interval=5184000 s", "compute.gradient=1555200 s"});
  REQUIRE(run.evaluation_by_time.rows() == 2);
  CHECK(run.evaluation_by_time.value("time", 0) == 5184000);
  CHECK(run.evaluation_by_time.value("time", 1) == end_of(run));
}

TEST_CASE("a run that has time for all its steps ends with them, and is evaluated there") {
  const Recorder run = run_algorithm("dpsgd", {"run.until=1 h", "run.evaluate_interval=0 s"});
  CHECK(run.facts.count("ended") == 0);
  REQUIRE(run.evaluation_by_time.rows() == 1);
  CHECK(run.evaluation_by_time.value("time", 0) == end_of(run));
}

TEST_CASE("evaluations by time leave out nodes that have stopped, and wait for nobody") {
  const std::string text = blobs + "[failures]\nstop = 3 @ 25 ms, 5 @ 25 ms\n";
  const Recorder run =
      test::run(text, {"algorithm.kind=adpsgd", "algorithm.patience=5 ms", "run.steps=40"});
  const Table& by_time = run.evaluation_by_time;
  CHECK(by_time.value("live_nodes", 1) == 8);
  CHECK(by_time.value("live_nodes", by_time.rows() - 1) == 6);
  CHECK(std::isfinite(by_time.value("test_loss", by_time.rows() - 1)));
}

TEST_CASE(
    "a node that stops while it waits counts in no row by time, although its message would come "
    "later") {
  // All wait for two slow nodes, some 40 ms at each step.
  const Recorder run =
      test::run(blobs + "[failures]\nstop = 5 @ 90 ms\n",
                {"algorithm.kind=allreduce", "compute.slow_nodes=2", "compute.slowdown=20",
                 "run.evaluate_interval=2 ms", "run.until=100 ms"});
  CHECK(run.statistics.at("failures.stopped_nodes") == 1);
  const Table& by_time = run.evaluation_by_time;
  REQUIRE(by_time.rows() == 50);
  for (std::size_t row = 0; row < by_time.rows(); ++row) {
    const double time = by_time.value("time", row);
    CAPTURE(time);
    double live = 0;
    for (NodeId node = 0; node < 8; ++node) {
      if (steps_by(run, node, time) > 0 && (node != 5 || time < 0.09)) ++live;
    }
    CHECK(by_time.value("live_nodes", row) == live);
  }
  CHECK(by_time.value("live_nodes", 49) == 7);
}

TEST_CASE("intervals and ends that make no sense are refused") {
  const auto refused = [](const std::string& setting, const char* sentence) {
    CHECK_THROWS_WITH_AS(run_algorithm("dpsgd", {setting}), doctest::Contains(sentence),
                         ScenarioError);
  };
  refused("run.evaluate_interval=1 ns",
          "run.evaluate_interval must be 0 s or at least 1 us, got 1 ns");
  refused("run.until=-1 s", "run.until must be a duration such as 1.5 ms");
  refused("run.until_target=0.9",
          "run.until_target must be one of test_accuracy, test_auc, test_loss");
  refused("run.until_target=test_accuracy 90",
          "run.until_target must be a share above 0 and at most 1");
  refused("run.until_target=test_auc 0.9",
          "run.until_target is a test_auc, which this workload does not tell");
}

namespace {

/// First row of `table` where the metric is at the target, or worse than it before.
std::size_t row_at(const Table& table, const Target& target) {
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const double value = table.value(target.metric, row);
    if (is_met(target, value, value)) return row;
  }
  return table.rows();
}

/// Checks that `cut` ended at `row` of the table `by_time` or by step and recorded the same as `whole` until then.
void check_ends_at(const Recorder& cut, const Recorder& whole, bool by_time, std::size_t row) {
  const auto table = [by_time](const Recorder& run) -> const Table& {
    return by_time ? run.evaluation_by_time : run.evaluation;
  };
  CHECK(cut.facts.at("ended") == "at run.until_target");
  for (const char* metric : {"time", "test_accuracy", "test_loss", "consensus_distance"}) {
    for (std::size_t before = 0; before <= row; ++before) {
      const double had = table(whole).value(metric, before);
      const double has = table(cut).value(metric, before);
      CHECK((has == had || (std::isnan(has) && std::isnan(had))));
    }
    for (std::size_t after = row + 1; after < table(cut).rows(metric); ++after)
      CHECK(std::isnan(table(cut).value(metric, after)));
  }
  // Evaluated by time, it ends with the first steps that end later.
  const double end = end_of(cut);
  CHECK(end >= table(cut).value("time", row));
  for (NodeId node = 0; node < 8; ++node) {
    CHECK(static_cast<double>(cut.nodes[node].steps) == steps_by(whole, node, end));
    if (cut.nodes[node].steps < 40) CHECK(accounted(cut, node) == accounted(cut, 0));
  }
}

}  // namespace

TEST_CASE("a run ends at the first evaluation that is at its target") {
  for (const char* kind : {"adpsgd", "dpsgd", "wagma", "sgp"}) {
    for (const bool by_time : {true, false}) {
      CAPTURE(kind);
      CAPTURE(by_time);
      std::vector<std::string> settings{"run.evaluate_every=2"};
      if (!by_time) settings.push_back("run.evaluate_interval=0 s");
      const Recorder whole = run_algorithm(kind, settings);
      const Table& table = by_time ? whole.evaluation_by_time : whole.evaluation;
      for (const std::string metric : {"test_accuracy", "test_loss"}) {
        const Target target{metric, table.value(metric, table.rows() / 2)};
        settings.push_back(fmt::format("run.until_target={} {:.17g}", metric, target.value));
        check_ends_at(run_algorithm(kind, settings), whole, by_time, row_at(table, target));
        settings.pop_back();
      }
    }
  }
}

TEST_CASE("a run that never gets to its target is the run without one") {
  for (const char* interval : {"10 ms", "0 s"}) {
    const std::string by = fmt::format("run.evaluate_interval={}", interval);
    const Recorder whole = run_algorithm("adpsgd", {by});
    Recorder run = run_algorithm("adpsgd", {by, "run.until_target=test_loss 1e-9"});
    run.facts["scenario"] = whole.facts.at("scenario");
    CHECK(test::difference_of(run, whole) == "");
  }
}

TEST_CASE("of a time and a target at which a run ends, the first counts") {
  const std::vector<std::string> early{"run.until=5 ms", "run.until_target=test_loss 1e-9"};
  CHECK(run_algorithm("dpsgd", early).facts.at("ended") == "at run.until");
  const std::vector<std::string> easy{"run.until=1 h", "run.until_target=test_accuracy 0.2"};
  CHECK(run_algorithm("dpsgd", easy).facts.at("ended") == "at run.until_target");
}

}  // namespace starling::test_by_time
