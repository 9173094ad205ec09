// Workload: model and data of every node. What is the gradient, on which samples, how good is a model?
// An instance knows nothing of time, messages or algorithms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "sim/base/types.hpp"
#include "sim/node/backend.hpp"
#include "sim/node/request_queue.hpp"

namespace starling {

/// A weight matrix inside the flat model: rows x columns floats from `offset` on, inputs x outputs, panel-major
/// (transforms::PanelsToRows).
struct WeightMatrix {
  std::size_t offset = 0;
  std::uint32_t rows = 0, columns = 0;
};

/// What everybody may know of a workload without computing anything.
struct WorkloadFacts {
  std::string description;  // one line: "MLP 64-32-10 on digits, 1437 training samples, by label"
  std::size_t parameters = 0;  // floats of a model
  /// Floats that the network sees; differs for a stand-in (proxy, timing only).
  std::int64_t wire_parameters = 0;
  bool has_numbers = true;            // false: sizes only, no gradient is ever computed
  bool has_accuracy = false;          // evaluate() fills accuracy
  double batch_size = 1;              // samples of one gradient, on the mean where they differ
  std::string cost_unit = "sample";   // what batch_cost() counts: "sample" or "token"
  std::vector<std::size_t> tensors;   // floats of each tensor, first layer first; empty: one tensor
  std::vector<std::int64_t> samples;  // (nodes) training samples held by each node; for epochs
  std::vector<WeightMatrix> matrices{};  // in order of offset; what lies between is vectors
  /// What the accuracy is called among the results.
  std::string accuracy_metric = "test_accuracy";
  /// A saddle-point problem: so many parameters, at the end of the model, are maximized over, and
  /// minus the loss has this curvature in each of them (known, as it is a constant).
  std::size_t dual_parameters = 0;
  double dual_curvature = 0;
  bool counts_episodes = false;  // gradients() fills GradientRequest::episodes
  /// That a thread holds beside models while it computes a gradient or evaluates, at least: what lies between the layers.
  std::size_t scratch_floats = 0;
  /// Of samples, or whatever else defines the problem; of all nodes together.
  double data_bytes = 0;
};

/// One gradient to compute. Results depend on (node, draw, x) alone, to the bit, never on who shares the batch.
struct GradientRequest {
  NodeId node = 0;
  Step draw = 0;             // the node's draw-th mini-batch, from 0
  const float* x = nullptr;  // (parameters)
  /// (parameters), overwritten; does not alias any x. What a step subtracts: of dual parameters, minus the derivative.
  float* gradient = nullptr;
  double loss = 0;  // out: mean loss of the mini-batch at x; not finite if the gradient is not
  /// Not empty: not the gradient g is wanted (`gradient` is null) but these sums, to the bit what LinearJob says, in
  /// order. A term without values stands for g; one may be the result of an earlier sum. `out` may be x or all of
  /// another term, of which nothing is read afterwards. Only where Workload::folds_sums().
  std::span<const LinearJob> sums{};
  const LinearTerm* terms = nullptr;
  /// (parameters) What the thread is likely to read next, x of its next request, if it is in place; or null. For the cache.
  const float* next_x = nullptr;
  std::int64_t episodes = 0;  // out: how many ended in the rollout, where the numbers decide that
};

/// Who owns the rows that requests read and write. Between begin() and end() the rows of a request are in place; before,
/// its node and draw alone are known. All threads may call at once.
class RowOwner {
 public:
  virtual ~RowOwner() = default;
  /// A request that the thread of `lane` computes next, one that reads nothing that is still being made; waits while
  /// there is none. Null: all have begun, or one has failed. Throws Error if its rows do not fit into memory.
  virtual GradientRequest* begin(RequestQueue::Lane& lane) = 0;
  /// The request is done. What only it still read may hold the results of the next that begins on this thread.
  virtual void end(GradientRequest& request) = 0;
  /// The thread begins nothing more for now.
  virtual void leave(RequestQueue::Lane& lane) = 0;
  /// The exception being handled has ended a request, or kept it from beginning; no other begins.
  virtual void fail() = 0;
  /// Whether its owner's other thread, which records, is at work beside those that compute.
  virtual bool is_recording() const = 0;
};

/// Quality of one model on held-out data (for synthetic problems: the global objective).
struct EvaluationRequest {
  const float* x = nullptr;  // (parameters)
  double loss = 0;           // out
  // Out: fraction right, NaN if there is no such thing.
  double accuracy = std::numeric_limits<double>::quiet_NaN();
};

class Workload {
 public:
  virtual ~Workload() = default;
  virtual const WorkloadFacts& facts() const = 0;
  /// The model that all nodes start from; `x` has `parameters` floats.
  virtual void initial_model(std::span<float> x) const = 0;
  /// Size of the node's draw-th mini-batch in facts().cost_unit: its tokens where samples have lengths, else its
  /// samples. What a compute-time model turns into seconds. Any node and draw may be asked for, in any order.
  virtual std::int64_t batch_cost(NodeId node, Step draw) const = 0;
  /// (nodes) How many different labels the training samples of each node have, counted anew; empty if they have none.
  virtual std::vector<std::int32_t> labels() const { return {}; }
  /// Whether gradients() computes the sums of a request, too, so that gradients need not be stored.
  virtual bool folds_sums() const { return false; }
  /// Computes loss and gradient of every request, in parallel over requests with OpenMP. A non-finite result is
  /// not an error here; the caller looks at the loss. Called only if has_numbers.
  virtual void gradients(std::span<GradientRequest> requests) const = 0;
  /// The same for requests whose rows `owner` brings. The later a request begins and the sooner it ends, the fewer rows
  /// are in use at once, and the more of them are in the cache. Only where takes_one_by_one() may one request read what
  /// another makes.
  virtual void gradients_of(RowOwner& owner, std::span<GradientRequest> requests) const {
    RequestQueue::Lane lane;
    while (owner.begin(lane) != nullptr) {
    }
    gradients(requests);
    for (GradientRequest& request : requests) owner.end(request);
  }
  /// Whether gradients_of() ends each request before its thread begins the next.
  virtual bool takes_one_by_one() const { return false; }
  /// Evaluates every request; called only if has_numbers. Sums run in one fixed order.
  virtual void evaluate(std::span<EvaluationRequest> requests) const = 0;
};

}  // namespace starling
