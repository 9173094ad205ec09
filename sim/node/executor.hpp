// Executor: runs the windows that a ComputeGraph records. Owns the numbers: one row of floats per live value,
// recycled through free lists by size. A row whose last reader is a sum becomes that sum's result in place.
//
// With a worker thread, one window runs while the next is recorded; the graph talks to the executor only
// between windows, so nothing here is locked but the hand-over.
#pragma once

#include <array>
#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sim/node/compute_graph.hpp"
#include "sim/node/sharding.hpp"

namespace starling {

class Executor {
 public:
  using ValueId = ComputeGraph::ValueId;
  using Window = ComputeGraph::Window;

  Executor(Backend& backend, const Workload& workload, bool threaded, bool stops_at_divergence,
           Sharing sharing);
  ~Executor();

  /// Runs `window`, on the worker thread if there is one (then returns at once). Only after wait().
  void run(Window&& window);
  /// Waits for the window in flight; rethrows what went wrong in it. Afterwards the executor is idle.
  void wait();
  /// The same, but keeps quiet about what went wrong.
  void rest();
  /// The window that ran last, to be recycled; only while idle.
  Window& finished() { return window_; }

  /// Row of a value that has run; only while idle.
  float* row(ValueId value) const { return rows_[value].floats; }
  /// Gives a value a row of `size` floats, or the one it has; only while idle.
  float* allocate(ValueId value, std::size_t size);
  const GraphStatistics& statistics() const { return statistics_; }
  /// Counts on from `statistics`, those of a run that goes on here.
  void restore(const GraphStatistics& statistics) {
    statistics_ = statistics;
    if (sharding_) sharding_->restore(statistics);
  }
  /// One reader of a value in the window is done: with the last, a row that dies is free.
  void drop(ValueId value) {
    Row& row = rows_[value];
    if (--row.readers == 0 && row.dies && row.floats != nullptr) give_back(row);
  }
  /// Null unless processes share the work.
  Sharding* sharding() { return sharding_.get(); }
  /// Throws Diverged, naming node and gradient, unless the loss is finite, or notes it; only while idle.
  void check_loss(const GradientRequest& request);
  /// See ComputeGraph; only while idle.
  const std::map<NodeId, Step>& diverged() const { return diverged_; }

 private:
  /// The numbers of a value, and what the window does with it.
  struct Row {
    float* floats = nullptr;
    std::uint32_t size = 0;
    std::uint32_t readers = 0;  // that have not run yet
    bool dies = false;          // with the last of them
  };

  /// Rows of one (rounded) size.
  struct Shelf {
    std::vector<float*> free;
    std::vector<float*> slabs;
    std::size_t rows_per_slab = 0;
  };

  float* take(std::size_t size);
  void give_back(Row& row);
  void work();
  void execute();
  void run_window();
  void run_wave(std::size_t begin, std::size_t end);
  void run_gradients(std::size_t begin, std::size_t end);
  /// Sorts gradients: neighbors in most topologies are near, what they share is still in the cache.
  void order_by_node(std::size_t begin, std::size_t end);
  std::array<std::span<const float>, most_inputs> inputs_of(
      const ComputeGraph::Operation& operation) const;
  /// Gives the result of `operation` the row of an input which is used up, or a new one. `x` is read, too.
  float* output_row(const ComputeGraph::Operation& operation, ValueId x = ComputeGraph::none);
  void fold(const ComputeGraph::Operation& gradient);
  void release_inputs(std::size_t begin, std::size_t end);
  void release_inputs(const ComputeGraph::Operation& operation);
  bool fits(const ComputeGraph::Operation& operation, const ComputeGraph::Term& term,
            std::uint32_t readers) const;

  Backend& backend_;
  const Workload& workload_;
  std::map<std::size_t, Shelf> shelves_;

  std::vector<Row> rows_;  // by value

  Window window_;
  std::vector<LinearJob> jobs_;
  std::vector<LinearTerm> terms_;
  std::vector<TransformJob> transforms_;
  std::vector<DistanceJob> distances_;
  std::vector<MeasureJob> measures_;
  std::vector<EvaluationRequest> evaluations_;
  std::vector<std::size_t> evaluated_;
  std::vector<GradientRequest> gradients_;
  std::vector<std::size_t> sums_end_;  // (gradients_), where the sums of each end in jobs_
  std::vector<std::uint64_t> keys_;    // node and operation
  std::int64_t live_bytes_ = 0;
  NodeId current_ = 0;  // whose gradient is looked at
  std::unique_ptr<Sharding> sharding_;
  GraphStatistics statistics_;
  const bool stops_at_divergence_;
  std::map<NodeId, Step> diverged_;

  enum class State { idle, running, stopping };
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::idle;
  std::exception_ptr failure_;
  std::thread worker_;
};

}  // namespace starling
