// GradientWorker: computes gradients one after the other on a thread of its own, so that the rank
// goes on serving messages meanwhile. The thread touches nothing but the request of a job;
// everything that hangs on a job is made and destroyed on the scheduler's thread. It takes no memory: where there is none, it
// could tell nobody.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <thread>

#include "sim/node/compute_graph.hpp"
#include "sim/node/fibre.hpp"
#include "sim/node/workload.hpp"

namespace starling {

class GradientWorker {
 public:
  /// A gradient to compute and who waits for it.
  struct Work {
    GradientWait* wait;   // null: nobody any more
    ReceiveWait* unless;  // waits beside it, or null
    ComputeGraph::Job job;
    Time begin;
    std::exception_ptr failure;  // what the workload threw
  };

  /// `workload` outlives the worker.
  explicit GradientWorker(const Workload& workload);
  /// Waits for the gradient under way; drops the others.
  ~GradientWorker();

  void submit(Work work);
  /// Nobody waits for the gradient any more beside which `unless` waited. It is computed nevertheless.
  void abandon(const ReceiveWait& unless);
  /// What has been computed since the last call, in the order of submission.
  std::list<Work> take_finished();
  /// Sleeps until a gradient is computed, at most for `nap`; not at all if one is waiting to be
  /// taken.
  void nap(std::chrono::nanoseconds nap);

 private:
  void compute();

  const Workload& workload_;
  std::mutex mutex_;
  std::condition_variable submitted_, finished_;
  std::list<Work> queue_;  // the front is being computed
  std::list<Work> done_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace starling
