// Recorded durations, replayed: step k of a node takes what the trace says of step k.
//
// The file has one line per step and one column of seconds per node, with or without a header; or,
// with the header "node,step,seconds", one line per gradient in any order. Node i of the simulation
// replays node i mod c of the c recorded ones. The m-th node that replays the same one (m = i / c,
// rounded down) begins m * shift steps later, so that copies need not run in lock step.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/base/section.hpp"
#include "sim/base/types.hpp"

namespace starling {

struct TraceSettings {
  std::string path;
  std::string key = "trace";  // that names the file
  Step shift = 0;
  bool repeats = true;  // starts over behind its end; else that is an error
};

/// Reads `trace`, `trace_shift` and `trace_end` of a run with `nodes` nodes.
TraceSettings read_trace_settings(const Section& section, NodeId nodes);

class DurationTrace {
 public:
  /// Throws Error that names file and line, or the gradient that is missing.
  explicit DurationTrace(TraceSettings settings);

  /// Seconds of a node's step. Throws Error behind the end of a trace that does not repeat.
  double at(NodeId node, Step step) const;
  /// Of so many nodes: over all that they find recorded.
  double mean(NodeId nodes) const;
  /// Multiplies all durations.
  void scale(double factor);

 private:
  void read_columns(class NumberFile& file);
  void read_list(class NumberFile& file);

  TraceSettings settings_;
  std::vector<std::vector<double>> seconds_;  // (recorded nodes, their steps)
};

}  // namespace starling
