// Row schedules, tables and totals of the Recorder, and the comparison of two recorders.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/record/recorder.hpp"
#include "tests/support/difference_of.hpp"

namespace starling::test_recorder {
namespace {

Time at(std::int64_t picoseconds) { return Time(Duration(picoseconds)); }

Recorder small_recorder() {
  Recorder recorder(2, RowSchedule(2, 5), RowSchedule(5, 5), at(100));
  recorder.steps.cell("train_loss", 0, 1) = 0.5;
  recorder.evaluation.cell("test_loss", 0) = 0.25;
  recorder.spend(0, Activity::compute, at(0), at(10));
  recorder.nodes[1].steps = 3;
  recorder.facts["algorithm"] = "dpsgd";
  recorder.models = {{1.0f, 2.0f}, {3.0f, 4.0f}};
  return recorder;
}

}  // namespace

TEST_CASE("a schedule has a row after every so many finished steps and after the last one") {
  // Every 3 of 8 steps: rows after 3, 6 and 8 finished steps, that is after the 0-based steps 2, 5
  // and 7.
  const RowSchedule schedule(3, 8);
  CHECK(schedule.rows() == 3);
  const std::vector<Step> finished{3, 6, 8};
  std::size_t next = 0;
  for (Step k = 0; k < 8; ++k) {
    const auto row = schedule.row(k);
    REQUIRE(row.has_value() == (k == 2 || k == 5 || k == 7));
    if (!row) continue;
    CHECK(*row == next);
    CHECK(schedule.finished(*row) == finished[next++]);
  }
  CHECK_FALSE(schedule.row(8).has_value());
  CHECK_FALSE(schedule.row(-1).has_value());
}

TEST_CASE("a schedule whose period divides the steps has no extra row at the end") {
  const RowSchedule schedule(4, 8);
  CHECK(schedule.rows() == 2);
  CHECK(schedule.finished(1) == 8);
  CHECK(schedule.row(7) == 1);
}

TEST_CASE("a schedule with a period beyond the last step has the row of the last step alone") {
  const RowSchedule schedule(100, 7);
  CHECK(schedule.rows() == 1);
  CHECK(schedule.row(6) == 0);
  CHECK(schedule.finished(0) == 7);
  CHECK(RowSchedule(100, 0).rows() == 0);
}

TEST_CASE("cells never move while the table grows") {
  Table table(RowSchedule(1, 2000), 3);
  double* first = &table.cell("a", 0, 2);
  *first = 7;
  for (std::size_t row = 0; row < 2000; ++row) table.cell("a", row, 0) = 1;
  for (int metric = 0; metric < 100; ++metric) table.cell("b" + std::to_string(metric), 0) = 1;
  CHECK(&table.cell("a", 0, 2) == first);
  CHECK(*first == 7);
}

TEST_CASE("cells that nobody wrote are not numbers, and asking for them makes no rows") {
  Table table(RowSchedule(1, 10), 2);
  table.cell("loss", 3, 1) = 4;
  CHECK(table.value("loss", 3, 1) == 4);
  CHECK(std::isnan(table.value("loss", 3, 0)));
  CHECK(std::isnan(table.value("loss", 9, 0)));
  CHECK(std::isnan(table.value("loss", 0, 5)));
  CHECK(std::isnan(table.value("other", 0, 0)));
  CHECK(table.rows("loss") == 4);
  CHECK(table.rows("other") == 0);
  CHECK(table.metrics() == std::vector<std::string>{"loss"});
  table.cells("other", 6)[1] = 2;
  CHECK(table.rows() == 7);
}

TEST_CASE("time spent adds up per node and activity") {
  Recorder recorder(2, {}, {}, at(0));
  recorder.spend(1, Activity::compute, at(0), at(5));
  recorder.spend(1, Activity::wait, at(5), at(7));
  recorder.spend(1, Activity::communicate, at(7), at(8));
  recorder.spend(1, Activity::compute, at(8), at(20));
  CHECK(recorder.nodes[1].compute.count() == 17);
  CHECK(recorder.nodes[1].wait.count() == 2);
  CHECK(recorder.nodes[1].communicate.count() == 1);
  CHECK(recorder.nodes[0].compute.count() == 0);
  CHECK(recorder.timeline.empty());
}

TEST_CASE("the timeline keeps what began before its end, cut there, and no empty stretches") {
  Recorder recorder(1, {}, {}, at(10));
  recorder.spend(0, Activity::compute, at(0), at(6));
  recorder.spend(0, Activity::wait, at(6), at(6));
  recorder.spend(0, Activity::communicate, at(6), at(15));
  recorder.spend(0, Activity::compute, at(15), at(20));
  const std::vector<Segment> expected{{0, Activity::compute, at(0), at(6)},
                                      {0, Activity::communicate, at(6), at(10)}};
  CHECK(recorder.timeline == expected);
  CHECK(recorder.nodes[0].communicate.count() == 9);  // totals are not cut
}

TEST_CASE("times, bytes and what is per second have units, numbers and shares have none") {
  for (const char* name : {"time", "compute", "wait", "communicate", "finished", "busy",
                           "exchange_time", "some_seconds"})
    CHECK_MESSAGE(unit_of(name) == "s", name);
  for (const char* name : {"begin", "end", "busy_picoseconds"})
    CHECK_MESSAGE(unit_of(name) == "ps", name);
  for (const char* name : {"bytes", "bytes_sent", "bytes_received"})
    CHECK_MESSAGE(unit_of(name) == "B", name);
  for (const char* name : {"bandwidth", "rate", "peak_rate"})
    CHECK_MESSAGE(unit_of(name) == "B/s", name);
  for (const char* name : {"steps", "messages_sent", "test_loss", "test_accuracy"})
    CHECK_MESSAGE(unit_of(name).empty(), name);
}

TEST_CASE("equal recorders have the same content, whatever machine they ran on") {
  const Recorder a = small_recorder();
  Recorder b = small_recorder();
  b.machine["processor"] = "another";
  b.statistics["engine.events"] = 12;
  CHECK(test::difference_of(a, b) == "");
}

TEST_CASE("any NaN equals any NaN, but the zeros differ by their sign") {
  Recorder a = small_recorder();
  Recorder b = small_recorder();
  a.steps.cell("train_loss", 0, 0) = std::numeric_limits<double>::quiet_NaN();
  b.steps.cell("train_loss", 0, 0) = -std::numeric_limits<double>::quiet_NaN();
  CHECK(test::difference_of(a, b) == "");
  a.steps.cell("train_loss", 0, 0) = 0.0;
  b.steps.cell("train_loss", 0, 0) = -0.0;
  CHECK(test::difference_of(a, b) != "");
}

TEST_CASE("the first difference is named with its place and both values") {
  Recorder a = small_recorder();
  a.links = {{"up", 10, 5, Duration(7), 3}};
  a.link_timeline = {{0, 5, at(1), at(2)}};
  a.acts = {{Act::resume(0), Act::delivery(1, 8)}, {}};
  const auto difference = [&a](auto change) {
    Recorder b = a;
    change(b);
    return test::difference_of(a, b);
  };
  CHECK(difference([](Recorder& b) { b.steps.cell("train_loss", 0, 1) = 0.75; }) ==
        "steps/train_loss, row 0, column 1: 0.5 and 0.75");
  CHECK(difference([](Recorder& b) { b.steps.cell("train_loss", 1, 0); }) ==
        "steps/train_loss, rows: 1 and 2");
  CHECK(difference([](Recorder& b) { b.evaluation.cell("accuracy", 0) = 1; }) ==
        "evaluation/accuracy, rows: 0 and 1");
  CHECK(difference([](Recorder& b) { b.nodes[1].steps = 4; }) == "steps of node 1: 3 and 4");
  CHECK(difference([](Recorder& b) { b.nodes[0].compute += Duration(1); }) ==
        "compute of node 0 in ps: 10 and 11");
  CHECK(difference([](Recorder& b) { b.timeline[0].activity = Activity::wait; }) ==
        "timeline, segment 0: node 0 compute from 0 to 10 ps and node 0 wait from 0 to 10 ps");
  CHECK(difference([](Recorder& b) { b.models[1][0] = 5; }) == "model 1, parameter 0: 3 and 5");
  CHECK(difference([](Recorder& b) { b.models.clear(); }) == "number of models: 2 and 0");
  CHECK(difference([](Recorder& b) { b.acts.resize(1); }) == "nodes with acts: 2 and 1");
  CHECK(difference([](Recorder& b) { b.acts[0][1] = Act::delivery(1, 9); }) ==
        "act 1 of node 0: (0, 1, 8) and (0, 1, 9)");
  CHECK(
      difference([](Recorder& b) { b.links[0].bytes = 4; }) ==
      "links, row 0: up of 10 B/s, 3 B in 7 ps, at most 5 B/s, 0 messages and up of 10 B/s, 4 B in "
      "7 ps, at most 5 B/s, 0 messages");
  CHECK(difference([](Recorder& b) { b.link_timeline[0].rate = 6; }) ==
        "timeline of links, segment 0: link 0 with 5 B/s from 1 to 2 ps and link 0 with 6 B/s from "
        "1 to 2 ps");
  CHECK(difference([](Recorder& b) { b.facts["algorithm"] = "sgp"; }) ==
        "facts/algorithm: dpsgd and sgp");
  CHECK(difference([](Recorder& b) { b.facts["seed"] = "1"; }) == "facts/seed: nothing and 1");
  CHECK(difference([](Recorder& b) { b.facts.clear(); }) == "facts/algorithm: dpsgd and nothing");
}

}  // namespace starling::test_recorder
