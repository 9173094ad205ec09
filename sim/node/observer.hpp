// Observer: watches nodes and fills the Recorder. Evaluates the mean model and the spread around it at the steps
// the scenario asks for: the mean over all nodes of the models after their own k-th step, whenever each got
// there, so that simulated and real runs of one algorithm are compared at equal work. Where nodes fail, a row is the
// mean over those that got as far: it waits for nodes that pause or join late, and does without those that have
// stopped before; "live_nodes" says how many it has.
//
// If asked for, it evaluates by time, too: at an instant the mean of the newest models that nodes have handed over by then,
// however many steps each has ended. Every rank of a real run takes those of its own nodes.
//
// Evaluation is itself recorded in the compute graph: it waits for nothing and stops no window.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
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
  /// `weight`: of x in the mean over the nodes, see Node::end_step().
  void end_step(NodeId node, Step k, const Vector& x, Time now, double weight = 1);
  /// `node` computes a gradient of somebody's `draw`-th mini-batch. Its next end_step() hands over a model that may know of it.
  void note_batch(NodeId node, Step draw) {
    if (draws_.empty()) [[likely]]
      return;
    Step& draws = draws_[static_cast<std::size_t>(node)];
    draws = std::max(draws, draw + 1);
  }
  /// Steps that `node` has ended.
  Step steps(NodeId node) const { return recorder_.nodes[static_cast<std::size_t>(node)].steps; }
  void count_messages(NodeId node, std::int64_t count, std::int64_t bytes) {
    NodeTotals& totals = recorder_.nodes[static_cast<std::size_t>(node)];
    totals.messages_sent += count;
    totals.bytes_sent += bytes;
  }
  void spend(NodeId node, Activity activity, Time begin, Time end) {
    if (presence_) [[unlikely]]
      return spend_present(node, activity, begin, end);
    recorder_.spend(node, activity, begin, end);
  }
  /// Since when, from `since` on, the node has been there all along until `now`.
  Time present_since(NodeId node, Time since, Time now) const {
    while (presence_ && since < now) {
      const auto [from, to] = presence_(node, since, now);
      if (to == now) return from;
      since = to;
    }
    return since;
  }
  void spend_waiting(NodeId node, Time since, Time network_since, Time now) {
    if (presence_) [[unlikely]]
      return spend_waiting_present(node, since, network_since, now);
    recorder_.spend_waiting(node, since, network_since, now);
  }

  /// Which table of evaluations.
  enum class By : std::uint8_t { step, time };
  /// What a node had done when it handed over a model.
  struct Handed {
    double weight = 1;  // of the model in the mean
    Step steps = 0;     // ended
    std::int64_t bytes_sent = 0;
    Step draws = std::numeric_limits<Step>::max();
  };
  /// The model of one node after the steps, or at the instant, of one row of a table.
  struct Snapshot {
    By by;
    NodeId node;
    std::size_t row;
    Time time;
    Vector model;  // by time it may be none
    Handed handed;
  };
  /// Adds a snapshot; the last of a row starts its evaluation.
  void add_snapshot(Snapshot snapshot);
  /// Keeps all snapshots until they are taken: those of a real run, whose time evaluations must not take.
  void put_off_evaluations() { are_put_off_ = true; }
  /// Snapshots of rows that are not complete here, by table, row and node; they are gone from the observer afterwards, and
  /// evaluations are no longer put off. Ranks of a real run hand them to rank 0.
  std::vector<Snapshot> take_snapshots();

  /// Evaluates the models of `nodes` by time: after `interval`, 2 `interval`, .. (zero: never) and at the end, which is
  /// `until` at the latest.
  void evaluate_by_time(std::pair<NodeId, NodeId> nodes, Duration interval, Time until);
  /// When the last step so far ended, of any node here.
  Time end() const { return last_step_; }
  /// All has happened: evaluates at the instants before `end`, and there.
  void pass_to_end(Time end);
  /// Stochastic weight averaging (Izmailov et al., UAI 2018, Algorithm 1): a node's model is, in evaluations and at the end, the
  /// mean of those after its `start`-th step and each `period`-th from there on; before `start` as it is. With weights, those of
  /// push-sum, it is that of the weighted models. The node itself goes on with its own.
  void average_steps(Step start, Step period);
  /// Waits for the numbers of each evaluation by step, or by time, and hands them over.
  using Judge = std::function<void(double loss, double accuracy)>;
  void judge(By by, Judge judge) { rows(by).judge = std::move(judge); }
  /// Models that rows keep because other nodes have not got as far yet, or evaluations are put off.
  std::size_t waiting_models() const { return waiting_models_; }
  /// Of the nodes that have not stopped the first that ended fewest steps; 0 if all have.
  NodeId slowest() const;

  /// `node` has stopped for ever at `time`, as is found now: rows do not wait for it any more.
  void lose(NodeId node, Time time);
  /// The first stretch of begin <= t < end in which a node is up; an empty one at the end if there is none.
  using Presence = std::function<std::pair<Time, Time>(NodeId node, Time begin, Time end)>;
  /// Nodes are away now and then: that time counts neither as computing nor as waiting or communicating.
  void leave_out_absence(Presence presence) { presence_ = std::move(presence); }
  /// Has every row of the evaluation table tell over how many nodes its mean is.
  void count_live_nodes() { counts_live_nodes_ = true; }

  /// Has evaluations tell of nodes' own models, too.
  void evaluate_nodes() { evaluates_nodes_ = true; }
  /// Has evaluations leave out models of nodes that diverged, and waits for the numbers to know them.
  void leave_out_diverged();
  /// The loss of `node` was not finite at its gradient `draw`, as another rank of a real run found.
  void add_diverged(NodeId node, Step draw) { diverged_elsewhere_.add(node, draw); }
  /// Those nodes, and how they were found: "node 3 at its gradient 17". Only with leave_out_diverged().
  std::vector<std::string> diverged_nodes();

  /// Model of `node` after its last finished step; empty if it finished none.
  Vector model(NodeId node) const {
    return models_.empty() ? Vector() : models_[static_cast<std::size_t>(node)];
  }
  void set_model(NodeId node, Vector x);
  /// The same of one that has ended its steps, at `now`: the evaluation at the end of the run, which is that of the last step, may
  /// come before.
  void set_final_model(NodeId node, Vector x, Time now, double weight = 1);
  /// (nodes) Those of all; they stay where they are.
  std::span<Vector> models();
  /// Steps finished, over all nodes.
  std::int64_t steps_finished() const { return steps_finished_; }
  /// Computes what is outstanding and completes the recorder's tables. The recorder may be saved before, too:
  /// cells not yet known are NaN then.
  void finish_evaluations();
  /// Fills in consensus distances, and what own models are worth, as far as they are known by now: their rows then are through. Before
  /// the recorder is saved.
  void note_models();
  /// Whether every node that has not stopped ended all steps.
  bool has_ended() const { return behind_ == 0; }
  /// After a run: throws Error if a node that has not stopped ended fewer steps than the run has.
  void check_steps(Step steps) const;
  /// After finish_evaluations(): throws Diverged, naming the step, if a mean model was no longer finite, unless those that diverged are left
  /// out. Gradients after it would have said so; after the last step there are none.
  void check_means() const;

 private:
  /// The same of nodes that are away now and then.
  void spend_present(NodeId node, Activity activity, Time begin, Time end);
  void spend_waiting_present(NodeId node, Time since, Time network_since, Time now);

  /// Of the models of one node after some of its steps.
  struct Average {
    Vector model;       // none yet: empty
    double weight = 0;  // sum of theirs
    Step models = 0;
  };

  struct Row {
    std::vector<Vector> models{};     // (nodes)
    std::vector<Handed> handed{};     // (nodes), with these
    std::vector<bool> has_arrived{};  // (nodes)
    std::vector<double> distances{};  // squared, from the mean; of those in the mean, by node
    std::vector<double> losses{};     // of these models themselves, where nodes are evaluated
    std::vector<double> accuracies{};
    std::size_t missing = 0;  // nodes to wait for
    Time latest{};
  };

  struct Rows {
    Table& table;
    std::map<std::size_t, Row> begun;  // until all is known
    std::size_t kept = 0;              // of these, when they were last looked through
    Judge judge = {};                  // empty: nobody waits for the numbers
  };

  /// Takes the model after `steps` steps of a node into its average, if it is one of those.
  void take_in(Average& average, Step steps, const Vector& x, double weight) const;
  /// `x` is what evaluations take as the node's model.
  void note_step(NodeId node, Step k, const Vector& x, Time now, double weight);

  Rows& rows(By by) { return by == By::step ? by_step_ : by_time_; }
  Row& row_of(Rows& rows, std::size_t index);
  /// Evaluates the models that these nodes have now, which they had at the next instant, already.
  void take_instant();
  /// Loses nodes that have stopped by then, before their last step. That they have is found at their next event, perhaps much later.
  void lose_stopped(Time time);
  void lose(NodeId node);
  std::optional<std::size_t> first_behind(Step steps) const;

  /// All models of a row are here.
  void complete(By by, std::size_t index, Row& row);
  /// How much had been done by then, and by how many nodes.
  void note_work(By by, std::size_t index, const Row& row);
  /// Records the mean model, its quality and how far the models lie from it.
  void evaluate(By by, std::size_t index, Row& row);
  /// The same of each of its models by itself.
  void evaluate_own(Row& row);
  /// Of the models of a row, all of which are known; false if they are not.
  bool note_models(Table& table, std::size_t index, const Row& row) const;
  void drop_diverged(By by, std::size_t index, Row& row);
  DivergedAt diverged();

  ComputeGraph& graph_;
  Recorder& recorder_;
  const WorkloadFacts& facts_;
  std::vector<Vector> models_;     // (nodes), from the first on
  std::vector<Handed> newest_;     // (nodes), with these; empty unless they are evaluated by time
  std::vector<Average> averages_;  // (nodes); empty: there are none
  Step average_start_ = 0;
  Step average_period_ = 0;
  Rows by_step_{recorder_.evaluation, {}, 0, {}};
  Rows by_time_{recorder_.evaluation_by_time, {}, 0, {}};
  std::pair<NodeId, NodeId> nodes_here_{0, 0};  // evaluated by time
  Duration interval_{};
  Time until_ = Time::max();
  Time next_instant_ = Time::max();
  std::size_t instants_ = 0;  // that have passed
  std::vector<bool> lost_;    // (nodes)
  std::size_t lost_nodes_ = 0;
  std::size_t behind_;  // nodes that have neither ended their steps nor stopped
  Time last_step_{};    // of any node, ended
  std::size_t waiting_models_ = 0;
  std::vector<std::size_t> evaluated_;  // rows by step, as they were complete
  Presence presence_;                   // empty: they are always up
  bool are_put_off_ = false;            // until all snapshots are taken
  bool counts_live_nodes_ = false;
  bool evaluates_nodes_ = false;
  bool leaves_out_diverged_ = false;
  /// (nodes), number behind those of all mini-batches of which each computed a gradient; empty: nobody asks.
  std::vector<Step> draws_;
  DivergedAt diverged_elsewhere_;
  std::map<NodeId, Step> not_finite_;  // the steps after which a node's model was first seen so
  std::int64_t steps_finished_ = 0;
};

}  // namespace starling
