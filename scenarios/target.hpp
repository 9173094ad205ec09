// Target: a quality that runs are to reach, "test_accuracy 0.9", and when a run did: time, steps and bytes to a target are how
// algorithms are compared whose steps, messages and times have nothing in common.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <string_view>

#include "sim/node/workload.hpp"
#include "sim/record/recorder.hpp"

namespace starling {

struct Target {
  std::string metric;  // of the evaluation table: test_accuracy, test_auc or test_loss
  double value;
};

/// Whether a mean model of that quality is at the target.
bool is_met(const Target& target, double loss, double accuracy);

/// Whether a workload tells the metric of the target.
bool is_told(const Target& target, const WorkloadFacts& workload);

/// "test_accuracy 0.9". `refuse`, which throws, gets what is wrong with a text that is no target.
Target read_target(std::string_view text, const std::function<void(const std::string&)>& refuse);

/// When a run was at a target for the first time; NaN where it is not known, everywhere if it never was.
struct Reached {
  double time;  // seconds
  double step;
  double bytes_sent;      // by all nodes
  bool is_bound = false;  // at its first row: perhaps earlier

  bool ever() const { return !std::isnan(time) || !std::isnan(step); }
};

/// The evaluations that tell what there was at a time: those by time, unless there is but that at the end or they shall not count.
const Table& evaluations_over_time(const Recorder& recorder, bool by_time = true);

/// Between rows of those evaluations, but for the step, by a straight line, as tools/plot draws it. A run that begins at the target
/// has reached it at the first row; one of which none of these rows is there, but that by time at the end, then.
Reached first_reached(const Recorder& recorder, const Target& target, bool by_time = true);

}  // namespace starling
