// Loops over requests on all threads: their order, and who stands back for another thread of the process.
#include <atomic>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>
#include <sched.h>

#include "kernels/for_all.hpp"

using namespace starling;

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

}  // namespace

TEST_CASE("a task may wait for any that has a smaller index") {
  constexpr std::size_t count = 700;  // chunks of 8
  for (const int threads : {1, 2, 5}) {
    const Threads all(threads);
    std::atomic<std::size_t> done = 0;
    for_all<Nothing>(count, [&](std::size_t i, Nothing&) {
      while (done != i) sched_yield();
      ++done;
    });
    CHECK(done == count);
  }
}

TEST_CASE("while somebody else is busy and there is no processor for him, one thread stands back") {
  constexpr std::size_t count = 2000, busy = 900;
  const int processors = omp_get_num_procs();
  for (const int threads : {2, processors - 1, processors, processors + 1, 3 * processors}) {
    if (threads < 2) continue;
    CAPTURE(threads);
    const Threads all(threads);
    std::vector<int> times(count);
    std::vector<int> thread(count);
    std::atomic<std::size_t> begun = 0;
    for_all<Nothing>(
        count,
        [&](std::size_t i, Nothing&) {
          ++times[i];
          thread[i] = omp_get_thread_num();
          ++begun;
          sched_yield();
        },
        [&] { return begun < busy; });
    CHECK(times == std::vector<int>(count, 1));
    const auto stood_back = [&](std::size_t i) { return thread[i] != threads - 1; };
    bool is_absent = true;
    for (std::size_t i = 0; i < busy; ++i) is_absent = is_absent && stood_back(i);
    if (threads >= processors) CHECK(is_absent);
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
    CHECK_THROWS_WITH_AS(for_all<Nothing>(100, task), "seventeen", std::runtime_error);
    CHECK(done == 99);
  }
}
