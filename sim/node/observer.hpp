// Observer: watches nodes and fills the Recorder. Evaluates the mean model and the spread around it at the steps
// the scenario asks for: the mean over all nodes of the models after their own k-th step, whenever each got
// there, so that simulated and real runs of one algorithm are compared at equal work.
//
// Evaluation is itself recorded in the compute graph: it waits for nothing and stops no window.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "sim/base/time.hpp"
#include "sim/base/types.hpp"
#include "sim/node/compute_graph.hpp"
#include "sim/record/recorder.hpp"

namespace starling {

class Observer {
 public:
  /// All outlive the observer. `recorder` has its tables and node totals set up.
  Observer(ComputeGraph& graph, Recorder& recorder, const WorkloadFacts& facts);

  void record(NodeId node, std::string_view metric, Step k, double value);
  void record(NodeId node, std::string_view metric, Step k, const Scalar& value);
  void end_step(NodeId node, Step k, const Vector& x, Time now);
  void count_messages(NodeId node, std::int64_t count, std::int64_t bytes);
  void spend(NodeId node, Activity activity, Time begin, Time end) {
    recorder_.spend(node, activity, begin, end);
  }

  /// The model of one node after the steps of one row of the evaluation table.
  struct Snapshot {
    NodeId node;
    std::size_t row;
    Time time;
    Vector model;
  };
  /// Adds a snapshot; the last of a row starts its evaluation. Ranks of a real run hand theirs to rank 0 so.
  void add_snapshot(Snapshot snapshot);
  /// Snapshots of rows that are not complete here; they are gone from the observer afterwards.
  std::vector<Snapshot> take_snapshots();

  /// Model of `node` after its last finished step; empty if it finished none.
  const Vector& model(NodeId node) const { return models_[static_cast<std::size_t>(node)]; }
  void set_model(NodeId node, Vector x) { models_[static_cast<std::size_t>(node)] = std::move(x); }
  /// Steps finished, over all nodes.
  std::int64_t steps_finished() const { return steps_finished_; }
  /// Computes what is outstanding and completes the recorder's tables. The recorder may be saved before, too:
  /// cells not yet known are NaN then.
  void settle();

 private:
  struct Row {
    std::vector<Vector> models;     // (nodes)
    std::vector<double> distances;  // (nodes), squared, from the mean
    std::size_t arrived = 0;
    Time latest{};
  };

  void evaluate(std::size_t index, Row& row);

  ComputeGraph& graph_;
  Recorder& recorder_;
  const WorkloadFacts& facts_;
  std::vector<Vector> models_;
  std::map<std::size_t, Row> rows_;
  std::int64_t steps_finished_ = 0;
};

}  // namespace starling
