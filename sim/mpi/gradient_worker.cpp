#include "sim/mpi/gradient_worker.hpp"

#include <utility>

#include "sim/node/worker_thread.hpp"

namespace starling {

GradientWorker::GradientWorker(const Workload& workload)
    : workload_(workload), thread_(start_worker([this] { compute(); })) {}

GradientWorker::~GradientWorker() {
  {
    std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  submitted_.notify_one();
  thread_.join();
}

void GradientWorker::submit(Work work) {
  std::list<Work> last;
  last.push_back(std::move(work));
  {
    std::lock_guard lock(mutex_);
    queue_.splice(queue_.end(), last);
  }
  submitted_.notify_one();
}

void GradientWorker::abandon(const ReceiveWait& unless) {
  std::lock_guard lock(mutex_);
  for (std::list<Work>* works : {&queue_, &done_}) {
    for (Work& work : *works) {
      if (work.unless == &unless) work.wait = nullptr;
    }
  }
}

std::list<GradientWorker::Work> GradientWorker::take_finished() {
  std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

void GradientWorker::nap(std::chrono::nanoseconds nap) {
  std::unique_lock lock(mutex_);
  finished_.wait_for(lock, nap, [this] { return !done_.empty(); });
}

void GradientWorker::compute() {
  std::unique_lock lock(mutex_);
  for (;;) {
    submitted_.wait(lock, [this] { return is_stopping_ || !queue_.empty(); });
    if (is_stopping_) return;
    Work& work = queue_.front();
    lock.unlock();
    try {
      workload_.gradients({&work.job.request, 1});
    } catch (...) {
      work.failure = std::current_exception();
    }
    lock.lock();
    done_.splice(done_.end(), queue_, queue_.begin());
    finished_.notify_one();
  }
}

}  // namespace starling
