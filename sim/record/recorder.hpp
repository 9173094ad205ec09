// Recorder: everything a run tells about itself, in memory, as columns. The results file (results_file.hpp) is
// a picture of a Recorder; plots, exports and comparisons read nothing else. Simulated and real runs fill the
// same columns.
//
// Five kinds of samples:
//   per node and step   table "steps":      one row per recorded step, one column per node
//   per evaluation      table "evaluation": one row per evaluated step, of the mean model and the whole run
//   per instant         table "evaluation_by_time": the same of what there is at one time, if asked for
//   per node            totals over the run: time computing, waiting, communicating; messages, bytes
//   per link            totals over the run, where the network model has links: bytes, time in use, peak rate
// and, of a real run, the acts that let its nodes go on (act.hpp); if asked for, the timeline: what each node did, and how
// fast each link was, from when to when.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/time.hpp"
#include "sim/base/types.hpp"
#include "sim/record/act.hpp"

namespace starling {

/// Which steps get a row: after `every`, 2 `every`, .. finished steps and after the last one.
class RowSchedule {
 public:
  RowSchedule() = default;
  /// `every` >= 1, `steps` >= 0.
  RowSchedule(Step every, Step steps);
  /// Row of step `k` (0-based, just finished), if it has one.
  std::optional<std::size_t> row(Step k) const {
    if (k < 0 || k >= steps_) return std::nullopt;
    const Step finished = k + 1;
    if (finished % every_ == 0) return static_cast<std::size_t>(finished / every_ - 1);
    if (finished == steps_) return rows_ - 1;
    return std::nullopt;
  }
  /// Finished steps at `row`.
  Step finished(std::size_t row) const;
  std::size_t rows() const { return rows_; }
  Step every() const { return every_; }
  Step steps() const { return steps_; }
  friend bool operator==(const RowSchedule&, const RowSchedule&) = default;

 private:
  Step every_ = 1;
  Step steps_ = 0;
  std::size_t rows_ = 0;
};

/// Whether a metric may be called so: as a data set of the results file beside "step".
bool is_metric_name(std::string_view name);

/// Rows of one table, all metrics. Cells start as NaN ("not known") and never move.
class Table {
 public:
  Table() = default;
  /// `width` cells per row and metric: the number of nodes, or 1.
  Table(RowSchedule schedule, std::size_t width) : schedule_(schedule), width_(width) {}

  /// The cell; rows are made as they are reached. `metric` is a metric's name.
  double& cell(std::string_view metric, std::size_t row, std::size_t column = 0);
  /// All cells of a row, made like those of cell().
  std::span<double> cells(std::string_view metric, std::size_t row);
  /// The same of a row that is there; empty if nobody began it.
  std::span<const double> cells(std::string_view metric, std::size_t row) const;
  /// NaN if nobody wrote it.
  double value(std::string_view metric, std::size_t row, std::size_t column = 0) const;
  const RowSchedule& schedule() const { return schedule_; }
  std::size_t width() const { return width_; }
  std::vector<std::string> metrics() const;  // sorted
  /// Rows of `metric` begun so far.
  std::size_t rows(std::string_view metric) const;
  /// Rows begun so far, the most of any metric.
  std::size_t rows() const;

 private:
  RowSchedule schedule_;
  std::size_t width_ = 1;
  std::map<std::string, std::deque<std::vector<double>>, std::less<>> columns_;  // (rows, width)
};

/// Unit of a well-known metric or statistic ("time": "s"); empty if it is a pure number or not known.
std::string_view unit_of(std::string_view metric);

enum class Activity : std::uint8_t { compute, wait, communicate };

/// "compute", "wait", "communicate".
std::string_view to_text(Activity activity);

/// What the program of a node (its main fibre) did between two instants.
struct Segment {
  NodeId node;
  Activity activity;
  Time begin;
  Time end;
  friend bool operator==(const Segment&, const Segment&) = default;
};

/// Sums over a run, per node. Times are those of the program (main fibre). A blocked receive counts as waiting
/// until its message was sent and as communicating from then on.
struct NodeTotals {
  Duration compute{};
  Duration wait{};
  Duration communicate{};
  std::int64_t steps = 0;
  std::int64_t messages_sent = 0;
  std::int64_t bytes_sent = 0;
  Time finished{};
  friend bool operator==(const NodeTotals&, const NodeTotals&) = default;
};

/// Sums over a run, of a link of the network that was used. Bytes are those that have crossed it, where a run
/// ended early those of messages under way, too; rates are in bytes per second.
struct LinkTotals {
  std::string name;
  double bandwidth = 0;
  double peak_rate = 0;
  Duration busy{};  // with at least one message on it
  std::int64_t bytes = 0;
  std::int64_t most_messages = 0;  // that shared it at once
  friend bool operator==(const LinkTotals&, const LinkTotals&) = default;
};

/// A stretch of time in which a link carried `rate` bytes per second; `link` is its place among the LinkTotals.
struct LinkSegment {
  std::uint32_t link;
  double rate;
  Time begin;
  Time end;
  friend bool operator==(const LinkSegment&, const LinkSegment&) = default;
};

/// How far the timelines of nodes and links reach: up to a time, or until both together have as many stretches as are kept.
class TimelineEnd {
 public:
  static constexpr std::size_t most_stretches = 10'000'000;

  explicit TimelineEnd(Time until = {}, std::size_t room = most_stretches)
      : until_(until), room_(room) {}

  Time until() const { return until_; }
  bool is_full() const { return room_ == 0; }
  /// Of a stretch that is kept, and ended just now.
  void count(Time now) {
    if (room_ > 0 && --room_ == 0) until_ = std::min(until_, now);
  }

 private:
  Time until_;
  std::size_t room_;
};

/// When the last of these nodes ended its last step.
Time last_finish(std::span<const NodeTotals> nodes);

class Recorder {
 public:
  /// Schedule of evaluation_by_time: of instants, which have no steps.
  static RowSchedule instants() { return {1, std::numeric_limits<Step>::max()}; }

  Recorder() = default;
  Recorder(NodeId nodes, RowSchedule steps, RowSchedule evaluations, Time timeline_until);

  /// (recorded steps, nodes): "time", "bytes_sent", "train_loss", whatever programs record.
  Table steps;
  /// (evaluations): "time", "bytes_sent", "test_loss", "test_accuracy", "consensus_distance", ..
  Table evaluation;
  /// (instants): the same columns; no rows unless asked for.
  Table evaluation_by_time{instants(), 1};
  std::vector<NodeTotals> nodes;
  /// As it was noted, cut at timeline_until().
  std::vector<Segment> timeline;
  /// Those used, in the network model's order; none if it has no links.
  std::vector<LinkTotals> links;
  /// In order of end, cut at timeline_until().
  std::vector<LinkSegment> link_timeline;
  /// (nodes), of each in order: what a replay follows; empty unless a real run noted them.
  std::vector<std::vector<Act>> acts;
  /// About the run: scenario text, workload, code version, ..
  std::map<std::string, std::string> facts;
  /// Of the machinery: "graph.gradients", "engine.events", ..
  std::map<std::string, double> statistics;
  /// Processor, threads, wall time: differs between equal runs.
  std::map<std::string, std::string> machine;
  /// (nodes, parameters), final; empty unless asked for, each empty if unknown.
  std::vector<std::vector<float>> models;

  /// Notes a stretch of time: adds to the node's totals, and to the timeline if it is being kept. An empty
  /// stretch leaves no trace.
  void spend(NodeId node, Activity activity, Time begin, Time end);
  /// The same of a wait that turned into communicating: since <= network_since <= now.
  void spend_waiting(NodeId node, Time since, Time network_since, Time now) {
    if (since < timeline_end_.until()) [[unlikely]] {
      spend(node, Activity::wait, since, network_since);
      return spend(node, Activity::communicate, network_since, now);
    }
    NodeTotals& totals = nodes[static_cast<std::size_t>(node)];
    totals.wait += network_since - since;
    totals.communicate += now - network_since;
  }
  /// Whether the run says that it ended well: after its steps, or where its scenario has it end.
  bool is_complete() const;
  /// Whether run.until or run.until_target ended it before all steps (fact `ended`).
  bool is_cut() const;
  /// How long the run was, in seconds: until the last node finished, or until it was cut.
  double seconds() const;
  /// The same, or until the last node had served others after its last step, if that came later: links carry bytes until then.
  double active_seconds() const;
  /// End of the timeline; the start of the run if none is kept.
  Time timeline_until() const { return timeline_end_.until(); }
  /// For those who keep a timeline beside the nodes'.
  TimelineEnd& timeline_end() { return timeline_end_; }

 private:
  TimelineEnd timeline_end_;
};

}  // namespace starling
