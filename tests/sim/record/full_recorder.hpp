// A run's record with something in every part, for tests of what is written and read.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "sim/record/recorder.hpp"

namespace starling::test {

inline Time at(std::int64_t picoseconds) { return Time(Duration(picoseconds)); }

/// A recorder with something in every part and awkward values among it.
inline Recorder full_recorder(Step steps = 101, NodeId nodes = 7) {
  Recorder recorder(nodes, RowSchedule(2, steps), RowSchedule(10, steps),
                    at(1'000'000'000'000'000));
  for (Step k = 0; k < steps; ++k) {
    const auto row = recorder.steps.schedule().row(k);
    if (!row) continue;
    for (NodeId i = 0; i < nodes; ++i) {
      const double t = static_cast<double>(k) + 1.0 / (i + 3);
      recorder.steps.cell("time", *row, i) = t;
      recorder.steps.cell("train_loss", *row, i) = std::sin(t) * 1e-300;
      if (k < steps / 2) recorder.steps.cell("staleness", *row, i) = static_cast<double>(k * i);
    }
  }
  if (steps > 10) {
    recorder.steps.cell("train_loss", 1, 2) = std::numeric_limits<double>::infinity();
    recorder.steps.cell("train_loss", 2, 2) = std::nan("");
    recorder.steps.cell("train_loss", 3, 2) = -0.0;
    recorder.steps.cell("train_loss", 4, 2) = std::numeric_limits<double>::denorm_min();
    recorder.evaluation.cell("test_loss", 0) = 0.1;
    recorder.evaluation.cell("time", 1) = 1e9;
    recorder.evaluation_by_time.cell("test_loss", 2) = 0.2;
    recorder.evaluation_by_time.cell("time", 0) = 1e-9;
  }
  recorder.links = {
      {"host 0 up", 1e9, 5e8, Duration((std::int64_t{1} << 53) + 1), 123'456'789'012, 1'234'567},
      {"Malmö -> Kraków", 1.25e10, 0.1, Duration(7), 0},
      {"", 1, 1, Duration(0), 1}};
  recorder.link_timeline = {{0, 5e8, at(3), at(9)}, {1, 0.1, at(4), at(4)}};
  for (NodeId i = 0; i < nodes; ++i) {
    // 2^53 + 1 picoseconds is no double: only the exact column can bring it back.
    const std::int64_t begin = (std::int64_t{1} << 53) * (i % 2);
    recorder.spend(i, Activity::compute, at(begin), at(begin + (std::int64_t{1} << 53) + 1));
    recorder.spend(i, Activity::wait, at(5), at(9 + i));
    recorder.spend(i, Activity::communicate, at(9), at(20 + i));
    NodeTotals& totals = recorder.nodes[static_cast<std::size_t>(i)];
    totals.steps = steps - i;
    totals.messages_sent = 3 * i;
    totals.bytes_sent = std::numeric_limits<std::int64_t>::max() - i;
    totals.finished = at(77 + i);
    recorder.acts.push_back({Act::resume(0), Act::delivery(i, ~Tag{0} - 1), Act::clock(at(-i))});
    if (i % 3 == 1) recorder.acts.back().assign(1 + i % 5 / 4, Act::deadline(i));
    if (i % 3 == 2) recorder.acts.back().clear();
    recorder.models.push_back({1.0f / static_cast<float>(i + 1), -0.0f, std::nanf("")});
  }
  recorder.facts = {{"scenario", "[run]\nnodes = 7  # größer\n"},
                    {"empty", ""},
                    {"a/b \"c\"", "d\te"},
                    {"long", std::string(200'000, 'x')},
                    {"zero", std::string("a\0b\0", 4)}};
  recorder.statistics = {{"engine.events", 1.5e9}, {"graph.gradients", 0.1}};
  recorder.machine = {{"processor", "some"}, {"wall_time", "3 s"}};
  return recorder;
}

}  // namespace starling::test
