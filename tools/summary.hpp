// What is said of a run at its end: the short table of `starling run`, and the columns of a sweep's table.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/target.hpp"
#include "sim/record/recorder.hpp"

namespace starling {

/// The evaluations that tell how the run ended: of one that was cut those by time, if there are any.
const Table& final_evaluations(const Recorder& recorder);

/// Test accuracy and loss of the mean model, consensus distance, virtual time, throughput, shares of time.
/// Holds nothing that differs between equal runs.
std::string summarize(const Recorder& recorder);

/// What tells that a run of models of so many parameters diverged although all its numbers are finite: the training loss ended far
/// above its first value, or the nodes' models far apart (not looked at where nobody knows how many parameters there are). A sentence each.
std::vector<std::string> signs_of_divergence(const Recorder& recorder,
                                             std::optional<std::size_t> parameters);

/// When the first and the last node ended their steps, if these are far apart: the run's throughput and time per step are then
/// the slowest node's. "" if they are not, or the run was cut, or nodes stopped.
std::string ends_apart(const Recorder& recorder);

/// A number that sums a run up; NaN if the run does not know it.
struct Outcome {
  std::string name;  // with its unit: "virtual_time_seconds"
  double value;
};

/// The numbers of the short table, and some more; the same names in the same order for every run. With a target, also whether
/// the run got there (1 or 0), and when.
std::vector<Outcome> outcomes(const Recorder& recorder,
                              const std::optional<Target>& target = std::nullopt);

}  // namespace starling
