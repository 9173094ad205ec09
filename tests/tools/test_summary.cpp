// Outcomes of runs that did not come to their end.
#include <algorithm>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "tools/summary.hpp"

namespace starling::test_summary {
namespace {

double outcome(const Recorder& recorder, std::string_view name) {
  const std::vector<Outcome> all = outcomes(recorder, std::nullopt);
  const auto found = std::ranges::find(all, name, &Outcome::name);
  REQUIRE(found != all.end());
  return found->value;
}

/// Four nodes that were to take ten steps of 1 s; `told` of them did five, of the others nothing is known.
Recorder broken_off(int told) {
  Recorder recorder(4, RowSchedule(1, 10), RowSchedule(10, 10), Time{});
  recorder.facts["status"] = "failed: rank 1 is lost";
  for (NodeId i = 0; i < told; ++i) {
    recorder.spend(i, Activity::compute, Time{}, Time{std::chrono::seconds(5)});
    recorder.nodes[static_cast<std::size_t>(i)].steps = 5;
    recorder.nodes[static_cast<std::size_t>(i)].finished = Time{std::chrono::seconds(5)};
  }
  return recorder;
}

}  // namespace

TEST_CASE("nodes of a lost rank, of which nothing is known, do not make a step longer") {
  CHECK(outcome(broken_off(4), "step_time_seconds") == doctest::Approx(1));
  CHECK(outcome(broken_off(3), "step_time_seconds") == doctest::Approx(1));
  // Together they made fewer steps, though.
  CHECK(outcome(broken_off(3), "steps_per_second") == doctest::Approx(3));
  // One that waited from the beginning did something.
  Recorder waiting = broken_off(3);
  waiting.spend(3, Activity::wait, Time{}, Time{std::chrono::seconds(5)});
  CHECK(outcome(waiting, "step_time_seconds") == doctest::Approx(4 / 3.));
}

TEST_CASE("nodes that end far apart have rates of their own, and the last one decides the run's") {
  const auto ended_at = [](std::vector<int> seconds) {
    Recorder recorder(static_cast<NodeId>(seconds.size()), RowSchedule(1, 10), RowSchedule(10, 10),
                      Time{});
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      recorder.nodes[i].steps = 10;
      recorder.nodes[i].finished = Time{std::chrono::seconds(seconds[i])};
    }
    return recorder;
  };
  const Recorder apart = ended_at({1, 2, 10});
  CHECK(ends_apart(apart) == "between 1 and 10 s");
  CHECK(outcome(apart, "steps_per_second") == doctest::Approx(3));
  CHECK(outcome(apart, "running_steps_per_second") == doctest::Approx(10 + 5 + 1));
  CHECK(outcome(apart, "first_finish_seconds") == doctest::Approx(1));
  CHECK(ends_apart(ended_at({9, 10})) == "");
  CHECK(ends_apart(ended_at({8, 10})) == "between 8 and 10 s");
  Recorder stopped = ended_at({1, 2, 10});
  stopped.statistics["failures.stopped_nodes"] = 1;
  CHECK(ends_apart(stopped) == "");
}

TEST_CASE(
    "a training loss that ends far above its first value is a sign, unless it may be negative") {
  const auto signs = [](double first, double last) {
    Recorder recorder(1, RowSchedule(1, 2), RowSchedule(2, 2), Time{});
    recorder.steps.cell("train_loss", 0, 0) = first;
    recorder.steps.cell("train_loss", 1, 0) = last;
    return signs_of_divergence(recorder, std::nullopt).size();
  };
  CHECK(signs(1, 4) == 1);
  CHECK(signs(1, 3) == 0);
  CHECK(signs(-1, 4) == 0);
  CHECK(signs(0, 4) == 0);
}

TEST_CASE("exchanges left out are those that each node told last, whatever others told since") {
  Recorder recorder(2, RowSchedule(1, 2), RowSchedule(2, 2), Time{});
  recorder.steps.cell("exchanges", 0, 0) = 4;  // no more is known of this node
  recorder.steps.cell("exchanges_behind", 0, 0) = 2;
  recorder.steps.cell("exchanges", 1, 1) = 6;
  recorder.steps.cell("exchanges_behind", 1, 1) = 3;
  CHECK(summarize(recorder).find("10 begun, 5 left out") != std::string::npos);
}

}  // namespace starling::test_summary
