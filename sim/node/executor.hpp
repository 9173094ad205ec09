// Executor: runs the windows that a ComputeGraph records. Owns the numbers (row_store.hpp). A row whose last reader is a
// sum becomes that sum's result in place. Gradients begin and end one by one, on any thread (RowOwner), strip by strip of
// nodes (request_queue.hpp).
//
// With a worker thread, one window runs while the next is recorded; the graph talks to the executor only
// between windows, so nothing here is locked but the hand-over.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sim/node/compute_graph.hpp"
#include "sim/node/row_store.hpp"
#include "sim/node/sharding.hpp"

namespace starling {

class Executor final : private RowOwner {
 public:
  using ValueId = ComputeGraph::ValueId;
  using Window = ComputeGraph::Window;

  Executor(Backend& backend, const Workload& workload, bool threaded, bool stops_at_divergence,
           Sharing sharing);
  ~Executor() override;

  /// Runs `window`, on the worker thread if there is one (then returns at once), and leaves an empty one with room of an
  /// earlier one, even if it throws. Only after wait().
  void run(Window& window);
  /// Waits for the window in flight; rethrows what went wrong in it. Afterwards the executor is idle.
  void wait();
  /// The same, but keeps quiet about what went wrong.
  void rest();

  /// Row of a value that has run; only while idle.
  float* row(ValueId value) const { return rows_.at(value); }
  /// Gives a value a row of `size` floats, or the one it has; only while idle.
  float* allocate(ValueId value, std::size_t size) { return rows_.allocate(value, size); }
  const GraphStatistics& statistics() const { return statistics_; }
  /// Counts on from `statistics`, those of a run that goes on here.
  void restore(const GraphStatistics& statistics) {
    statistics_ = statistics;
    if (sharding_) sharding_->restore(statistics);
  }
  /// One reader of a value in the window is done.
  void drop(ValueId value) { rows_.drop(value); }
  /// Null unless processes share the work.
  Sharding* sharding() { return sharding_.get(); }
  /// Throws Diverged, naming node and gradient, unless the loss is finite, or notes it; only while idle.
  void check_loss(const GradientRequest& request);
  /// See ComputeGraph; only while idle.
  const DivergedAt& diverged() const { return diverged_; }

 private:
  void work();
  void execute();
  void run_window();
  void run_wave(std::size_t begin, std::size_t end);
  /// Puts its operations into batches by kind.
  void collect_wave(std::size_t begin, std::size_t end);
  /// The same of the operation at a place of the window's order.
  void collect(std::size_t place);
  void call_batches();
  /// Runs gradients of so many waves.
  void run_gradients(std::size_t begin, std::size_t end, std::size_t waves);
  /// Of the batch that has run.
  void check_losses();
  /// Sorts them into strips of nodes, each of which is computed by one thread at a time: neighbors in most topologies are
  /// near, and what they share is still in the cache.
  void order_in_strips(std::size_t begin, std::size_t end, std::size_t waves);
  std::array<std::span<const float>, most_inputs> inputs_of(
      const ComputeGraph::Operation& operation) const;
  /// Gives the result of `operation` the row of an input which is used up, or a new one. `x` is read, too.
  float* output_row(const ComputeGraph::Operation& operation, ValueId x = ComputeGraph::none);
  /// The index-th gradient of the batch.
  const ComputeGraph::Operation& gradient(std::size_t index) const {
    return window_.operations[window_.order[first_gradient_ + index]];
  }
  std::size_t index_of(const GradientRequest& request) const {
    return static_cast<std::size_t>(&request - gradients_.data());
  }
  /// Asks for what try_to_begin() will look at some gradients after the index-th.
  void fetch_ahead(std::size_t index) const;
  GradientRequest* begin(RequestQueue::Lane& lane) override;
  void end(GradientRequest& request) override;
  void leave(RequestQueue::Lane& lane) override { queue_.leave(lane); }
  void fail() override { queue_.stop(); }
  bool is_recording() const override { return worker_.joinable() && !is_awaited_; }
  /// Whether all is there that the index-th gradient reads; then its rows are in place.
  bool try_to_begin(std::size_t index);
  void release_inputs(const ComputeGraph::Operation& operation);

  Backend& backend_;
  const Workload& workload_;
  RowStore rows_;

  Window window_;
  std::vector<LinearJob> jobs_;
  std::vector<LinearTerm> terms_;
  std::vector<TransformJob> transforms_;
  std::vector<DistanceJob> distances_;
  std::vector<MeasureJob> measures_;
  std::vector<EvaluationRequest> evaluations_;
  std::vector<std::size_t> evaluated_;
  std::vector<GradientRequest> gradients_;
  std::size_t first_gradient_ = 0;    // in the window's order
  RequestQueue queue_;                // of gradients
  std::vector<std::uint32_t> turns_;  // by operation: the first of those that read its result
  std::vector<std::size_t> keys_;     // of gradients: strip and turn
  std::vector<std::size_t> ends_;     // by key: where in the batch its gradients end
  std::vector<std::size_t> strips_;   // the gradient of the batch that each ends before
  std::vector<ComputeGraph::OperationId> unsorted_;
  NodeId current_ = 0;  // whose gradient is looked at
  std::unique_ptr<Sharding> sharding_;
  GraphStatistics statistics_;
  const bool stops_at_divergence_;
  DivergedAt diverged_;

  enum class State { idle, running, stopping };
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::idle;
  std::atomic<bool> is_awaited_ = false;
  std::exception_ptr failure_;
  std::thread worker_;
};

}  // namespace starling
