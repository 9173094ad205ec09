// Loops over requests on all threads, and who stands back for another thread of the process.
#include <atomic>
#include <new>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>
#include <sched.h>

#include "kernels/for_all.hpp"

namespace starling::test_for_all {
namespace {

struct Nothing {};

/// All of OpenMP's threads on, as many as asked for while it lives.
class Threads {
 public:
  explicit Threads(int count) { omp_set_num_threads(count); }
  ~Threads() { omp_set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_ = omp_get_max_threads();
};

/// Requests in strips of eight; records until so many have begun.
class Owner final : public RowOwner {
 public:
  Owner(std::size_t count, std::size_t busy) : threads(count), requests_(count), busy_(busy) {
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i < count; ++i) {
      requests_[i].draw = static_cast<Step>(i);
      if (i % 8 == 7) ends.push_back(i + 1);
    }
    queue_.reset(ends);
  }
  GradientRequest* begin(RequestQueue::Lane& lane) override {
    const auto index = queue_.take(lane, [](std::size_t) { return true; });
    if (index && *index == too_large) throw std::bad_alloc();
    if (index) threads[begun_++] = omp_get_thread_num();
    return index ? &requests_[*index] : nullptr;
  }
  void end(GradientRequest&) override { ++ended; }
  void leave(RequestQueue::Lane& lane) override { queue_.leave(lane); }
  void fail() override {
    queue_.stop();
    has_failed = true;
  }
  bool is_recording() const override { return begun_ < busy_; }

  std::size_t too_large = ~std::size_t{0};  // the request that does not fit into memory
  std::vector<int> threads;                 // in order of beginning
  std::atomic<std::size_t> ended = 0;
  std::atomic<bool> has_failed = false;
  std::size_t begun() const { return begun_; }

 private:
  RequestQueue queue_;
  std::vector<GradientRequest> requests_;
  std::size_t busy_;
  std::atomic<std::size_t> begun_ = 0;
};

}  // namespace

TEST_CASE("while the owner records and there is no processor for it, one thread stands back") {
  constexpr std::size_t count = 2000, busy = 900;
  const int processors = omp_get_num_procs();
  for (const int threads : {2, processors - 1, processors, processors + 1, 3 * processors}) {
    if (threads < 2) continue;
    CAPTURE(threads);
    const Threads all(threads);
    Owner owner(count, busy);
    std::vector<int> times(count);
    for_all_of<Nothing>(owner, count, 9e6, [&](GradientRequest& request, Nothing&, Crew::Member*) {
      ++times[static_cast<std::size_t>(request.draw)];
      sched_yield();
    });
    CHECK(times == std::vector<int>(count, 1));
    CHECK(owner.ended == count);
    bool is_absent = true;
    for (std::size_t i = 0; i < busy; ++i) is_absent = is_absent && owner.threads[i] != threads - 1;
    if (threads >= processors) CHECK(is_absent);
  }
}

TEST_CASE("after a request has failed no other begins, and its exception is thrown") {
  for (const int threads : {1, 2, 5}) {
    const Threads all(threads);
    Owner owner(10'000, 0);
    // What lies behind the one that fails waits for it: every other thread has begun one of those, at most.
    const auto task = [&](const GradientRequest& request, Nothing&, Crew::Member*) {
      if (request.draw == 17) throw std::runtime_error("seventeen");
      while (request.draw > 17 && !owner.has_failed) sched_yield();
    };
    CHECK_THROWS_WITH_AS(for_all_of<Nothing>(owner, 10'000, 9e6, task), "seventeen",
                         std::runtime_error);
    if (threads == 1) CHECK(owner.ended == 17);
    CHECK(owner.begun() >= 18);
    CHECK(owner.begun() <= 18 + static_cast<std::size_t>(threads) - 1);
  }
}

TEST_CASE("a request that cannot begin has failed, too") {
  for (const int threads : {1, 2, 5}) {
    const Threads all(threads);
    Owner owner(10'000, 0);
    owner.too_large = 17;
    const auto task = [&](const GradientRequest& request, Nothing&, Crew::Member*) {
      while (request.draw > 17 && !owner.has_failed) sched_yield();
    };
    CHECK_THROWS_AS(for_all_of<Nothing>(owner, 10'000, 9e6, task), std::bad_alloc);
    if (threads == 1) CHECK(owner.ended == 17);
    CHECK(owner.begun() >= 17);
    CHECK(owner.begun() <= 17 + static_cast<std::size_t>(threads) - 1);
  }
}

TEST_CASE("what a task throws is thrown when all others are done") {
  for (const int threads : {1, 4}) {
    const Threads all(threads);
    std::atomic<int> done = 0;
    const auto task = [&](std::size_t i, Nothing&) {
      if (i == 17) throw std::runtime_error("seventeen");
      ++done;
    };
    CHECK_THROWS_WITH_AS(for_all<Nothing>(100, 9e6, task), "seventeen", std::runtime_error);
    CHECK(done == 99);
  }
}

}  // namespace starling::test_for_all
