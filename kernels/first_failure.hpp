// The first exception of several threads. None may leave a parallel region, not even that of one thread: it would end the program.
#pragma once

#include <exception>

namespace starling {

class FirstFailure {
 public:
  /// In a handler: keeps what was thrown, if it is the first.
  void note() noexcept {
#pragma omp critical(starling_first_failure)
    if (!failure_) failure_ = std::current_exception();
  }
  /// Behind the region.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
};

}  // namespace starling
