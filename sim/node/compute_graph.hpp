// ComputeGraph: records what is computed, runs it in batches when a value is needed (DESIGN.md 1).
//
// Recording. Every verb appends an operation on immutable values; nothing is computed. Three rules keep the
// recording small without changing a bit of any result:
//   * a sum onto a result that nobody else can see joins the pending operation as one more term (one pass over
//     memory instead of one per verb);
//   * the same sum or transform recorded twice is one operation, so nodes that compute the same thing, as all
//     members of an allreduce do, or all receivers of one code, share one result (copy on write);
//   * a result that is dropped before it ran is never computed.
// A sum that alone reads a gradient is computed with it, where the workload can (fold_sums.cpp).
//
// Running. What reads a result is recorded behind what makes it. When the window closes it is cut into stages: stage s
// holds the operations that depend on s gradients of the window. Within a stage sums run first, by depth, then all its
// gradients as ONE batched call. So nodes that never act at the same instant still share a batch, whatever the order they
// were recorded in. Where no sum stands between them, gradients of many stages are one call (executor.cpp).
//
// A window closes when a number is demanded, or when its gradients, operations or bytes reach their limits. While one
// window runs on the worker thread, the next is recorded. Windows close at recorded counts, never by the clock:
// statistics are repeatable. One header: a window's tables are private to the class, and handles count readers inline.
//
// Not thread-safe: one thread records. `Vector` handles belong to that thread too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/base/prefetch.hpp"
#include "sim/node/backend.hpp"
#include "sim/node/journal.hpp"
#include "sim/node/vector.hpp"
#include "sim/node/wish.hpp"
#include "sim/node/workload.hpp"
#include "sim/record/checkpoint.hpp"

namespace starling {

class Executor;
class Sharding;
class ShardPlan;
struct Sharing;

/// By node: the first of its gradients whose loss was not finite.
class DivergedAt {
 public:
  /// In any order.
  void add(NodeId node, Step draw) {
    const auto [found, is_new] = first_.try_emplace(node, draw);
    found->second = std::min(found->second, draw);
  }
  /// Whether the node had diverged before its gradient `draw`.
  bool is_before(NodeId node, Step draw) const {
    const auto found = first_.find(node);
    return found != first_.end() && found->second < draw;
  }
  const std::map<NodeId, Step>& by_node() const { return first_; }

 private:
  std::map<NodeId, Step> first_;
};

/// What was recorded and how well it batched.
struct GraphStatistics {
  std::int64_t gradients = 0;  // operations run, by kind
  std::int64_t sums = 0;
  std::int64_t transforms = 0;
  std::int64_t distances = 0;  // and other measures
  std::int64_t evaluations = 0;
  std::int64_t joined = 0;            // verbs that joined a pending sum
  std::int64_t shared = 0;            // verbs answered by an equal pending sum
  std::int64_t dropped = 0;           // operations nobody read
  std::int64_t folded = 0;            // sums computed with their gradient
  std::int64_t gradient_batches = 0;  // batched calls, by kind
  std::int64_t sum_batches = 0;       // without those folded
  std::int64_t transform_batches = 0;
  std::int64_t distance_batches = 0;
  std::int64_t evaluation_batches = 0;
  std::int64_t windows = 0;
  std::int64_t waves = 0;
  /// Most bytes of vectors, while sums run and between batches of gradients.
  std::int64_t peak_bytes = 0;
  double plan_seconds = 0;  // spent on saying what this process does, if processes share

  struct Counter {
    std::int64_t GraphStatistics::*number;
    const char* name;  // in results; null: not there, but in a mean
  };
  /// All that is counted, in the order of a checkpoint's counters.
  static std::span<const Counter> counters();
};

class ComputeGraph {
 public:
  struct Limits {
    /// A window closes when its results, if all were alive at once, would fill this many bytes.
    std::int64_t window_bytes = std::int64_t{1} << 30;
    /// .. or when it holds this many gradients; 0: 16 per node, but no more than 8192;
    std::int64_t window_gradients = 0;
    /// .. or this many operations, which methods of many small pieces reach first.
    std::size_t window_operations = std::size_t{1} << 17;
    /// Whether sums may be computed with their gradients; results do not depend on it.
    bool folds_sums = true;
    /// Whether a loss that is not finite ends the run (Diverged), or is only noted.
    bool stops_at_divergence = true;
  };
  enum class Execution {
    overlapped,  // windows run on a worker thread while the next is recorded (simulation)
    inline_      // windows run where a value is demanded (MPI ranks, whose gradients run elsewhere)
  };

  /// `backend` and `workload` outlive the graph. With `sharing` the numbers are computed together with other
  /// processes that record the same (sim/node/sharding.hpp).
  ComputeGraph(Backend& backend, const Workload& workload, Limits limits, Execution execution);
  ComputeGraph(Backend& backend, const Workload& workload, Limits limits, Execution execution,
               Sharing sharing);
  ~ComputeGraph();
  ComputeGraph(const ComputeGraph&) = delete;
  ComputeGraph& operator=(const ComputeGraph&) = delete;

  /// Where to look whose program records; without it all operations are node 0's. Outlives the graph.
  void follow(const NodeId& recorder) { recorder_ = &recorder; }

  // --- Recording -------------------------------------------------------------------------------------------

  /// The model all nodes start from; one shared value.
  Vector initial_model();
  Vector zeros(std::size_t size);
  /// So many standard normal numbers, drawn from `random` now.
  Vector normals(std::size_t size, Random random);
  /// Gradient of the node's draw-th mini-batch at `x`.
  Gradient gradient(NodeId node, Step draw, const Vector& x);
  ModelQuality evaluate(const Vector& x);

  // --- Values ----------------------------------------------------------------------------------------------

  /// Asks for what a verb on `x` will look at.
  void fetch_ahead(const Vector& x) const { prefetch_early(values_.data() + x.value_); }
  /// Closes the window and waits until everything recorded has been computed.
  void flush();
  /// Numbers of `x`, computed now if need be; valid until the next verb or flush after the last handle is gone.
  /// Empty for a workload without numbers. Shared: all processes must ask, process 0 alone gets an answer.
  std::span<const float> read(const Vector& x);
  double read(const Scalar& scalar);
  /// Writes the number to `where` once it is computed, at the latest by the next flush(). `where` must stay.
  void deliver(const Scalar& scalar, double* where);
  /// After a failure, when nothing is computed any more: writes what had been computed of that. What is not known stays as it is.
  /// Shared: nothing is written, because how far each process came is left to chance.
  void deliver_known();
  /// A new value with room for `size` floats that the caller fills through `room` (receiving a message).
  Vector make(std::size_t size, std::span<float>& room);

  /// A gradient computed outside the graph, on another thread (MPI): flushes, then hands out a request with its
  /// memory in place. Between begin and finish only `request` may be touched by the other thread.
  struct Job {
    GradientRequest request;
    Vector x;
    Gradient result;
  };
  Job begin_gradient(NodeId node, Step draw, const Vector& x);
  void finish_gradient(Job& job);

  // --- Checkpoints (compute_graph_state.cpp) -----------------------------------------------------------------

  /// From the first operation on: keeps every number that is read or delivered.
  void keep_journal();
  /// From the first operation on: computes nothing; numbers come from `journal`, until end_replay().
  void begin_replay(std::span<const double> journal);
  /// Bytes of a window from now on.
  void set_window(std::int64_t bytes);
  std::int64_t window() const { return limits_.window_bytes; }
  /// Flushes and fills in what the graph has to say: journal, and what lives. The journal belongs to the graph.
  void describe(Checkpoint& checkpoint);
  /// Numbers of a vector that describe() named, before anything else is recorded.
  void fetch(const Checkpoint::Vector& vector, std::span<float> to);
  /// At the place where `file` was made: flushes, loads what lives there, and computes from now on. Throws Error if
  /// something else lives here.
  void end_replay(const CheckpointFile& file);
  bool is_replaying() const { return journal_.is_replaying(); }

  // --- Where processes share the work ------------------------------------------------------------------------

  /// What all want by now: `own`; shared: what anybody had wished when the last window ended that all know to have
  /// ended, the same everywhere. A checkpoint (describe()) grants it.
  Wish agree(const Wish& own);
  /// Shared: this process alone has failed, outside of the numbers; or all is done. Both meet the other
  /// processes, and throw what all agree on if one has failed.
  void abandon(std::exception_ptr failure);
  void close();
  /// Nodes with a loss that was not finite, and the gradient where that was so first. Flushes.
  const DivergedAt& diverged();

  bool has_numbers() const { return has_numbers_; }
  std::size_t parameters() const { return parameters_; }
  const WorkloadFacts& facts() const { return workload_.facts(); }
  GraphStatistics statistics() const;

 private:
  friend class Vector;
  friend class Scalar;
  friend class Executor;
  friend class Sharding;
  friend class ShardPlan;
  friend Vector weighted_sum(std::span<const Weighted> terms, Where where);
  friend Vector concatenate(std::span<const Vector> pieces, Where where);
  friend Vector transformed(const Transform& transform, std::initializer_list<Vector> inputs,
                            Where where);
  friend Scalar measured(const Measure& measure, std::initializer_list<Vector> inputs, Where where);
  friend Scalar squared_distance(const Vector& a, const Vector& b, Where where);

  using ValueId = std::uint32_t;
  using OperationId = std::uint32_t;
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  // Producer of a value that is not made in this window after all.
  static constexpr OperationId never = none - 1;
  static constexpr NodeId nobody = -1;

  enum class Kind : std::uint8_t {
    sum,
    concatenation,
    transform,
    distance,
    measure,
    evaluation,
    gradient
  };

  enum class Fate : std::uint8_t {
    runs,
    folded,  // a sum that its gradient computes
    dropped
  };

  /// When an operation may run: stage in the high half, depth within the stage in the low half. Its result can be read
  /// at the next level: a gradient's at the first of the next stage.
  using Level = std::uint64_t;
  static constexpr Level gradient_depth = 0xffff'ffff;
  static constexpr Level last = ~Level{0};

  struct Term {
    ValueId value;
    OperationId producer = none;  // in the window; recorded before the one that reads
    std::uint32_t offset;
    std::uint32_t size;
    float factor;
    std::uint32_t next;  // in terms, or none
  };

  /// A scalar; it stays where it is.
  struct alignas(cache_line / 2) Slot {
    std::uint32_t handles = 0;
    std::int64_t window = 0;  // computed when this window has run
    double number = 0;
  };

  struct alignas(cache_line) Operation {
    Kind kind{};
    Fate fate = Fate::runs;
    std::uint8_t folded_sums = 0;   // gradient: that are computed with it,
    std::uint8_t folded_terms = 0;  // and all their terms
    std::uint32_t term_count = 0;
    std::uint32_t first_term = none;
    std::uint32_t last_term = none;
    std::uint32_t size = 0;                 // floats of the result
    ValueId out = none;                     // none: only scalars
    std::uint32_t call = none;              // transform, measure, gradient: in the window's list
    OperationId next_folded = none;         // gradient, folded sum: the (next) sum computed with it
    OperationId next_alike = none;          // finished before it, with the same first value
    NodeId recorder = 0;                    // whose program recorded it
    std::uint32_t wave = 0;                 // those of one wave run together
    Slot* scalars[2] = {nullptr, nullptr};  // written; null if nobody may read them
  };

  /// Where an operation belongs, as found when its window closes.
  struct Place {
    Level level = 0;
    OperationId gradient = none;  // that it is, or is computed with if that gets folded
    std::uint8_t sums = 0;        // gradient: that could join it
    std::uint8_t readers = 0;     // gradient: terms of those sums
  };

  /// The recording thread's side of a value. The executor keeps the numbers, under the same id.
  struct alignas(cache_line / 2) Value {
    std::uint32_t handles = 0;
    std::uint32_t readers : 31 = 0;    // terms of the open window that read it
    std::uint32_t is_touched : 1 = 0;  // listed in the window's uses
    std::uint32_t size = 0;
    NodeId recorder = nobody;         // whose program recorded it; the host makes some itself
    OperationId producer = none;      // in the open window
    OperationId newest_alike = none;  // there, that begins with this value
    std::int64_t window = 0;          // has numbers when this window has run
  };

  /// A value as one window uses it.
  struct Use {
    ValueId value;
    std::uint32_t size;
    std::uint32_t readers;  // terms of the window that read it
    bool dies;              // no handle is left: released after the last reader
  };

  /// A recorded window, as handed to the executor.
  struct Window {
    std::vector<Operation> operations;
    std::vector<Term> terms;
    std::vector<Transform> transforms;
    std::vector<Measure> measures;
    std::vector<BatchName> batches;
    std::vector<OperationId> order;  // operations to run, by wave, then as recorded
    std::vector<Use> uses;
    std::vector<ValueId> garbage;  // released before anything runs
    std::size_t value_count = 0;

    /// Makes it as empty as a new one, but for its memory.
    void clear();
  };

  /// Numbers of a value in host memory, where the backend keeps its own elsewhere.
  struct HostCopy {
    std::vector<float> values;
    bool is_ahead;  // made by the host, and not yet written to the backend
  };

  /// A gradient that waits for the next window.
  struct PutOff {
    Operation gradient;
    BatchName batch;
    Term x;
  };

  void retain(ValueId value) { ++values_[value].handles; }
  void release(ValueId value);
  void retain_slot(std::uint32_t slot) { ++slots_[slot].handles; }
  void release_slot(std::uint32_t slot);

  ValueId new_value(std::uint32_t size);
  std::uint32_t new_slot();
  Operation& begin(Kind kind);
  /// Begins a gradient.
  Operation& begin(const BatchName& batch, const Vector& x);
  void add_term(Operation& operation, const Vector& v, float factor);
  /// Lists a value among the window's uses.
  void touch(ValueId value);
  void set_output(Operation& operation, ValueId value);
  Scalar set_scalar(Operation& operation, int index);
  /// Completes the sum, concatenation or transform begun last: answers with an equal pending one if there is one.
  /// The value is retained for the caller.
  ValueId finish(std::uint32_t size);
  Vector finish_vector(std::size_t size);
  OperationId find_equal(const Operation& operation) const;
  bool equal(const Operation& a, const Operation& b) const;
  /// The pending sum that is all of `x` and that nobody else can see, or null.
  Operation* growable(const Vector& x);
  /// Records the pending sum anew, behind what it is about to read.
  Operation& move_to_end(ValueId sum);
  /// Lets `x` name all of a value that has been retained for it.
  void rename(Vector& x, ValueId value);
  void scale(Vector& x, double factor);
  void add_scaled(Vector& x, double factor, const Vector& y);
  Vector hollow(std::uint32_t size);
  bool is_full() const;
  void close_if_full();
  void fetch_output(const Operation& operation) const {
    if (operation.out != none) prefetch(&values_[operation.out]);
  }
  /// Drops what nobody reads, and puts off gradients that nobody reads yet, if asked to.
  std::vector<PutOff> drop_unread(bool puts_off);
  /// Finds when each operation can run, and which sums fold into a gradient (fold_sums.cpp).
  void place_operations();
  /// The earliest level of the operation; of a sum also the gradient that it might join, or none.
  Place earliest(const Operation& operation) const;
  bool can_join(const Operation& sum, OperationId gradient);
  void order_by_level();
  /// Says of every value of the window how often it is read there and whether it lives on.
  std::vector<ValueId> resolve_uses();
  /// Closes the window; `puts_off`: of one that is only full.
  void submit(bool puts_off);
  void complete();
  std::vector<Checkpoint::Vector> living_vectors() const;
  /// Writes what the host has made to the backend, if that has not been done.
  void bring_up(ValueId value);

  Backend& backend_;
  const Workload& workload_;
  const bool has_numbers_;
  const bool folds_sums_;
  const std::size_t parameters_;
  const double wire_bytes_per_float_;
  Limits limits_;
  const NodeId* recorder_;

  std::vector<Value> values_;
  std::vector<ValueId> free_values_;
  std::vector<ValueId> released_;  // not read in the open window; has room for all
  std::vector<ValueId> freed_at_completion_;
  std::deque<Slot> slots_;
  std::vector<std::uint32_t> free_slots_, slots_freed_at_completion_;

  Window open_;                                             // being recorded
  std::vector<Place> places_;                               // of its operations
  std::vector<std::pair<OperationId, OperationId>> joins_;  // gradient and sum that could join it
  std::vector<std::pair<Level, std::size_t>> levels_;       // of the window, with their operations
  OperationId newest_of_nothing_ = none;                    // zeros: the newest alike
  std::int64_t open_window_ = 1;
  std::int64_t completed_window_ = 0;
  std::int64_t open_bytes_ = 0;
  std::int64_t open_gradients_ = 0;

  std::unordered_map<ValueId, HostCopy> host_copies_;  // until the value is gone
  std::deque<std::pair<Scalar, double*>> deliveries_;  // in order of window

  Journal journal_;
  Wish agreed_;  // by the processes that share the work

  Vector initial_model_;
  GraphStatistics recorded_;
  std::unique_ptr<Executor> executor_;
};

// --- Handles, which programs copy all the time --------------------------------------------------------------------

inline void ComputeGraph::release(ValueId id) {
  Value& value = values_[id];
  if (--value.handles > 0 || value.is_touched)
    return;                 // a touched value is looked at when its window closes
  released_.push_back(id);  // has room
}

inline void ComputeGraph::release_slot(std::uint32_t slot) {
  if (--slots_[slot].handles > 0) return;
  // An operation of a window that has not run yet still writes to the slot.
  (slots_[slot].window <= completed_window_ ? free_slots_ : slots_freed_at_completion_)
      .push_back(slot);
}

inline Vector::Vector(const Vector& other)
    : graph_(other.graph_), value_(other.value_), place_(other.place_), size_(other.size_) {
  if (graph_ != nullptr) graph_->retain(value_);
}

inline Vector& Vector::operator=(const Vector& other) {
  Vector copy(other);
  return *this = std::move(copy);
}

inline void Vector::release() { graph_->release(value_); }

inline std::int64_t Vector::wire_bytes() const {
  const double bytes_per_float = are_numbers() ? 4.0 : graph_->wire_bytes_per_float_;
  auto floats = static_cast<double>(size_);
  if (offset() != 0 && !graph_->has_numbers_) {  // a fraction
    constexpr double unit = 1.0 / (std::uint64_t{1} << fraction_bits);
    floats += unit * offset();
  }
  return static_cast<std::int64_t>(floats * bytes_per_float + 0.5);
}

inline Scalar::Scalar(const Scalar& other) : graph_(other.graph_), slot_(other.slot_) {
  if (graph_ != nullptr) graph_->retain_slot(slot_);
}

inline Scalar::~Scalar() {
  if (graph_ != nullptr) graph_->release_slot(slot_);
}

}  // namespace starling
