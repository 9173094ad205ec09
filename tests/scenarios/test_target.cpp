// When a run gets to a target, between the rows of its evaluations.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "scenarios/target.hpp"
#include "sim/base/error.hpp"
#include "tests/support/message_of.hpp"

namespace starling::test_target {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// Evaluated after 10, 20, 30 and 40 steps, of a second each and 100 B.
Recorder run_with(const std::string& metric, const std::vector<double>& values) {
  Recorder recorder(1, RowSchedule(10, 40), RowSchedule(10, 40), Time{});
  for (std::size_t row = 0; row < values.size(); ++row) {
    const double steps = 10 * static_cast<double>(row + 1);
    recorder.evaluation.cell("time", row) = steps;
    recorder.evaluation.cell("bytes_sent", row) = 100 * steps;
    recorder.evaluation.cell(metric, row) = values[row];
  }
  return recorder;
}

void check_reached(const Recorder& recorder, const Target& target, double step) {
  const Reached reached = first_reached(recorder, target);
  CHECK(reached.step == doctest::Approx(step));
  CHECK(reached.time == doctest::Approx(step));
  CHECK(reached.bytes_sent == doctest::Approx(100 * step));
}

std::string refusal(const std::string& text) {
  return test::message_of(
      [&] { read_target(text, [](const std::string& what) { throw Error(what); }); });
}

}  // namespace

TEST_CASE("a target is reached for the first time, between two rows by a straight line") {
  const Recorder rising = run_with("test_accuracy", {0.5, 0.7, 0.6, 0.9});
  check_reached(rising, {"test_accuracy", 0.6}, 15);   // half the way from 0.5 to 0.7
  check_reached(rising, {"test_accuracy", 0.7}, 20);   // at a row
  check_reached(rising, {"test_accuracy", 0.75}, 35);  // after it had fallen
  check_reached(rising, {"test_accuracy", 0.4}, 10);   // at the first row, and before nobody knows
  check_reached(run_with("test_loss", {2, 1, 0.5, 0.6}), {"test_loss", 0.75}, 25);
}

TEST_CASE("rows that tell nothing are skipped on the way to a target") {
  const Recorder gaps = run_with("test_loss", {unknown, 2, INFINITY, 1});
  check_reached(gaps, {"test_loss", 1.5}, 30);
  check_reached(gaps, {"test_loss", 2}, 20);
}

TEST_CASE("time and bytes to a target are of evaluations by time where there are some") {
  Recorder recorder = run_with("test_loss", {4, 3, 2, 1});
  const auto add_instant = [&](double time, double loss) {
    const std::size_t row = recorder.evaluation_by_time.rows();
    recorder.evaluation_by_time.cell("time", row) = time;
    recorder.evaluation_by_time.cell("bytes_sent", row) = 7 * time;
    recorder.evaluation_by_time.cell("test_loss", row) = loss;
  };
  add_instant(5, 1);  // the end alone
  check_reached(recorder, {"test_loss", 2.5}, 25);
  add_instant(6, 0.5);
  recorder.evaluation_by_time.cell("test_loss", 0) = 3;
  const Reached reached = first_reached(recorder, {"test_loss", 1.75});
  CHECK(reached.time == doctest::Approx(5.5));
  CHECK(reached.bytes_sent == doctest::Approx(7 * 5.5));
  CHECK(reached.step == doctest::Approx(32.5));
  CHECK(first_reached(recorder, {"test_loss", 0.75}).ever());
}

TEST_CASE("a target that by time the end alone is at is reached then, and by no step") {
  Recorder recorder = run_with("test_accuracy", {0.5, 0.7, 0.6, 0.7});
  recorder.evaluation_by_time.cell("time", 0) = 40.5;
  recorder.evaluation_by_time.cell("bytes_sent", 0) = 5000;
  recorder.evaluation_by_time.cell("test_accuracy", 0) = 0.9;
  const Reached reached = first_reached(recorder, {"test_accuracy", 0.8});
  CHECK(reached.ever());
  CHECK(reached.time == 40.5);
  CHECK(reached.bytes_sent == 5000);
  CHECK(std::isnan(reached.step));
  check_reached(recorder, {"test_accuracy", 0.6}, 15);
  CHECK_FALSE(first_reached(recorder, {"test_accuracy", 0.95}).ever());
}

TEST_CASE("a target that a run never gets to has no time, step or bytes") {
  for (const Target& target : {Target{"test_accuracy", 0.91}, Target{"test_auc", 0.5}}) {
    const Reached reached = first_reached(run_with("test_accuracy", {0.5, 0.7, 0.6, 0.9}), target);
    CHECK_FALSE(reached.ever());
    CHECK(std::isnan(reached.time));
    CHECK(std::isnan(reached.step));
    CHECK(std::isnan(reached.bytes_sent));
  }
}

TEST_CASE("a target names a quality and a number, and is refused otherwise") {
  const Target target = read_target("test_loss   1.5", {});
  CHECK(target.metric == "test_loss");
  CHECK(target.value == 1.5);
  for (const char* text : {"", "0.9", "test_accuracy", "test_accuracy much", "accuracy 0.9",
                           "test_accuracy 90 %", "test_loss nan", "test_loss 1 2"}) {
    CAPTURE(text);
    CHECK(
        refusal(text).starts_with("must be one of test_accuracy, test_auc, test_loss and a "
                                  "number, as \"test_accuracy 0.9\", got "));
  }
  for (const char* text : {"test_accuracy 90", "test_auc 1.01", "test_accuracy 0"})
    CHECK(
        refusal(text).starts_with("must be a share above 0 and at most 1, as 0.9 for 90 %, got "));
}

}  // namespace starling::test_target
