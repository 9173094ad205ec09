// Outcomes of runs that did not come to their end.
#include <algorithm>
#include <optional>

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

}  // namespace starling::test_summary
