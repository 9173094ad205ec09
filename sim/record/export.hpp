// Recorded runs for other programs: tables as CSV (RFC 4180), the timeline as a trace for
// ui.perfetto.dev or chrome://tracing.
//
//   table       one line per           columns
//   steps       row and node           step, node, then each metric by name
//   evaluation  row                    step, then each metric by name
//   evaluation_by_time
//               instant                instant (their number), then each metric by name
//   nodes       node                   node, compute_seconds, wait_seconds, communicate_seconds,
//                                      finished_seconds, steps, messages_sent, bytes_sent
//   timeline    stretch of time        node, activity, begin_seconds, end_seconds
//   links       link that was used     link, bandwidth_bytes_per_second, bytes, busy_seconds,
//                                      mean_load, peak_load, most_messages; loads are shares of the
//                                      bandwidth, the mean over the run, Recorder::active_seconds()
//   link_timeline
//               stretch of time        link, bytes_per_second, begin_seconds, end_seconds
//
// Numbers are written so that they read back to the bit, virtual times exactly ("0.000000000007").
// A cell that was not recorded is empty.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "sim/record/recorder.hpp"

namespace starling {

/// Writes `table`, one of those above. `name` stands for the file in
/// messages. Throws Error if there is no such table or writing fails.
void write_csv(const Recorder& recorder, std::string_view table, std::FILE* file,
               const std::string& name);

/// The same into the file at `path`, making the directories above it; an older one stays until the new one is whole. Throws
/// Error if that is no table and no trace.
void write_csv(const Recorder& recorder, std::string_view table, const std::string& path);

/// Writes the timeline as a JSON array of trace events: one thread per node, one complete event per
/// stretch of time, in microseconds; and, as counters, the load in percent of the links that carried
/// most for their bandwidth, up to 32. Same errors. Whoever records no timeline gets a trace of
/// threads alone.
void write_chrome_trace(const Recorder& recorder, std::FILE* file, const std::string& name);
void write_chrome_trace(const Recorder& recorder, const std::string& path);

}  // namespace starling
