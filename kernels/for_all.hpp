// How workloads spread requests over threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <omp.h>

#include "kernels/crew.hpp"
#include "kernels/first_failure.hpp"
#include "kernels/worth_threads.hpp"
#include "sim/node/workload.hpp"

namespace starling {

/// Calls task(i, work) for i < count, each of so many multiplications, on all threads if that is worth it, each with its own
/// `work`, and rethrows the first exception.
template <class Work, class Task>
void for_all(std::size_t count, double multiplications, const Task& task) {
  const std::size_t chunk = RequestQueue::short_strip(count);
  std::atomic<std::size_t> next = 0;
  FirstFailure failure;
  const double seconds = static_cast<double>(count) * multiplications / multiplications_per_second;
#pragma omp parallel if (count > 1 && is_worth_threads(seconds))
  {
    thread_local Work work;  // lives on between calls, so that batches do not allocate
    for (std::size_t first; (first = next.fetch_add(chunk)) < count;) {
      for (std::size_t i = first; i < std::min(first + chunk, count); ++i) {
        try {
          task(i, work);
        } catch (...) {
          failure.note();
        }
      }
    }
  }
  failure.rethrow();
}

/// Requests whose rows are in place, and which do not wait for each other.
class ReadyRequests final : public RowOwner {
 public:
  explicit ReadyRequests(std::span<GradientRequest> requests) : requests_(requests) {
    const std::size_t width = RequestQueue::short_strip(requests.size());
    std::vector<std::size_t> ends;
    for (std::size_t end = 0; end < requests.size();) {
      ends.push_back(end = std::min(end + width, requests.size()));
    }
    queue_.reset(ends);
  }
  GradientRequest* begin(RequestQueue::Lane& lane) override {
    const auto index = queue_.take(lane, [](std::size_t) { return true; });
    if (!index) return nullptr;
    GradientRequest* const request = &requests_[*index];
    request->next_x = *index + 1 < requests_.size() ? request[1].x : nullptr;
    return request;
  }
  void end(GradientRequest&) override {}
  void leave(RequestQueue::Lane& lane) override { queue_.leave(lane); }
  void fail() override { queue_.stop(); }
  bool is_recording() const override { return false; }

 private:
  std::span<GradientRequest> requests_;
  RequestQueue queue_;
};

/// A request of so many multiplications is worth the help of other threads: they come late to what takes less than some 0.2 ms.
inline constexpr double large_request = 1e7;

/// Calls task(request, work, member) for all of the `count` requests that `owner` hands out, each of so many multiplications,
/// on all threads if that is worth it, each with its own `work`, and rethrows the first exception, after which no other task
/// begins. Threads without a request help those that have a large one to do its parts (Crew); `member` is null if requests
/// are small. If there are as many threads as processors, one of them stands back while the owner records on another
/// thread: else the system would take a thread off its processor in the middle of a task, and all who read its result would
/// wait.
template <class Work, class Task>
void for_all_of(RowOwner& owner, std::size_t count, double multiplications, const Task& task) {
  const bool are_large = multiplications >= large_request;
  const double seconds = static_cast<double>(count) * multiplications / multiplications_per_second;
  const bool are_shared = (count > 1 || are_large) && is_worth_threads(seconds);
  const int threads = are_shared ? omp_get_max_threads() : 1;
  std::optional<Crew> crew;
  if (are_large && threads > 1) crew.emplace(static_cast<std::size_t>(threads));
  FirstFailure failure;
  const auto work_while = [&](const auto& goes_on) {
    thread_local Work work;
    RequestQueue::Lane lane;
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    Crew::Member* member = nullptr;
    if (crew) {
      crew->join();
      member = &crew->member(thread);
      lane.meanwhile = [&] { return crew->help(thread); };
    }
    while (goes_on()) {
      try {
        GradientRequest* const request = owner.begin(lane);
        if (request == nullptr) break;
        task(*request, work, member);
        owner.end(*request);
      } catch (...) {
        owner.fail();
        failure.note();
      }
    }
    owner.leave(lane);
    if (crew) {
      crew->leave();
      crew->help_while(thread, goes_on);
    }
  };
  if (threads > 1 && threads >= omp_get_num_procs() && owner.is_recording()) {
#pragma omp parallel if (threads > 2)
    if (omp_get_thread_num() < threads - 1) work_while([&] { return owner.is_recording(); });
  }
#pragma omp parallel if (threads > 1)
  work_while([] { return true; });
  failure.rethrow();
}

}  // namespace starling
