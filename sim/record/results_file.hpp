// The results file: a Recorder as one HDF5 file, for this program, for plots and for anybody with
// h5py. It holds no date and nothing else that differs between equal runs except what /machine and
// /statistics say, so equal runs on one machine give files whose other parts are equal to the byte.
//
// The format, version 1. Shapes in parentheses; numbers little-endian; text is UTF-8 of fixed
// length, one data set or attribute per text. Rows are those of the schedule: after `every`,
// 2 `every`, .. finished steps and after the last. Cells that were not known when the file was
// written are NaN. Attribute `unit` is there where a quantity has one.
//
//   /              attributes     format = "starling results", format_version = 1
//   /scenario      text           facts["scenario"], if known: `starling run FILE.h5` repeats it
//   /facts         attributes     the other facts of the run: text
//   /machine       attributes     processor, folder it was started in, threads, wall time, ..: text
//   /statistics    attributes     of the machinery: float64
//   /steps         attributes     every, steps, columns (= nodes): int64
//     step         (rows)           int64    finished steps at each row
//     METRIC       (rows, columns)  float64  "time", "bytes_sent", "train_loss", ..; may have fewer
//                                            rows
//   /evaluation    attributes     every, steps, columns (= 1): int64
//     step         (rows)           int64
//     METRIC       (rows)           float64  "time", "bytes_sent", "test_loss", ..
//   /evaluation_by_time           of the models at one instant; absent unless asked for
//     METRIC       (instants)       float64  the same
//   /nodes
//     TIME         (nodes)          float64  compute, wait, communicate, finished in seconds
//     TIME_picoseconds (nodes)      int64    the same, exact
//     COUNT        (nodes)          int64    steps, messages_sent, bytes_sent
//     has_model    (nodes)          uint8    beside /models: 0 for a node whose model is not known
//   /timeline      attribute      until: int64, picoseconds; the timeline is cut there
//     node         (segments)       int32
//     activity     (segments)       enumeration of uint8: compute = 0, wait = 1, communicate = 2
//     begin, end   (segments)       int64, picoseconds
//   /links                        those of the network that were used; absent if there are none
//     name         (links)          UTF-8 of fixed length
//     bandwidth, peak_rate (links)  float64, bytes per second
//     busy         (links)          float64, seconds with at least one message on the link
//     busy_picoseconds (links)      int64    the same, exact
//     bytes        (links)          int64    that have crossed it; of messages under way at the end as far as they came
//     most_messages (links)         int64    that shared it at once; absent in files of before 2026-12
//   /link_timeline                absent unless a timeline is kept; cut like /timeline
//     link         (segments)       int32    row of /links
//     rate         (segments)       float64, bytes per second
//     begin, end   (segments)       int64, picoseconds
//   /acts                         of a run over MPI, for its replay; absent unless noted
//     first        (nodes)          int64    where the acts of each node begin, in order of node
//     kind         (acts)           enumeration of uint8: delivery = 0, resume = 1, deadline = 2,
//                                   clock = 3
//     who          (acts)           int32    sender of a delivery; number of the fibre
//     what         (acts)           uint64   tag of a delivery; picoseconds that the clock showed
//   /models        (nodes, parameters)  float32, the final models; absent unless asked for
//
// Readers of version 1 skip groups, data sets and attributes they do not know (a new METRIC is read
// like the others). What they could misread gets a new version. Data sets of 32 KiB and more,
// /models excepted, are in chunks with the filters shuffle and deflate. Any HDF5 from 1.8 on reads
// the file.
#pragma once

#include <string>

#include "sim/record/recorder.hpp"

namespace starling {

/// Writes `recorder` to `path`, making the directories above it. Whoever opens `path` at any moment, during the call
/// or after a crash in it, finds the old file or the new one, whole: the new one is written beside it
/// ("`path`.partial"), reaches the disk and then takes the name. While writing, memory holds the file once more.
/// Throws Error, "results/x.h5: cannot write: No space left on device"; the old file is untouched then.
void save(const Recorder& recorder, const std::string& path);
/// The same, but what another process saves there meanwhile is newer, and stays.
void save_between_times(const Recorder& recorder, const std::string& path);
/// Throws Error if save() would replace a file that is no results file, such as the scenario or its data.
void refuse_to_replace_others(const std::string& path);
/// Throws now what save() would throw if nothing can be written there, and if a file there is protected: to be asked before
/// work that cannot be repeated.
void expect_writable(const std::string& path);

/// Reads back all that save() wrote, to the bit. Throws Error if there is no file, it is no results
/// file, is cut short or damaged (as far as the checksums of HDF5's metadata and of compressed data
/// show), or is of a newer format.
Recorder load(const std::string& path);

}  // namespace starling
