// Whether threads are woken; tests of kernels run with STARLING_WAKING_SECONDS = 0 (tests/meson.build).

#include <cstdlib>
#include <thread>

#include <doctest/doctest.h>
#include <omp.h>

#include "kernels/worth_threads.hpp"

namespace starling::test_worth_threads {
namespace {

TEST_CASE("one thread alone wakes nobody, others share what is told to be worth it") {
  const char* told = std::getenv("STARLING_WAKING_SECONDS");
  const double waking = told == nullptr ? 1e-3 : std::atof(told);  // at most, where it is measured
  std::thread([waking] {  // that one may set its own number of threads
    omp_set_num_threads(1);
    CHECK_FALSE(is_worth_threads(1));
    omp_set_num_threads(2);
    CHECK_FALSE(is_worth_threads(0));
    CHECK(is_worth_threads(4.1 * waking + 1e-9));
  })
      .join();
}

}  // namespace
}  // namespace starling::test_worth_threads
