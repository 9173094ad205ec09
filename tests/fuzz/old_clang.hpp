// Makes Clang before 16 do for the fuzz targets: it looks for coroutines in std::experimental, and does not have what
// libstdc++ needs for std::source_location. Included before everything else by builds with -Dfuzz=true.
#pragma once

#if defined(__clang__) && __clang_major__ < 16

#if __clang_major__ < 15
#define __cpp_impl_coroutine 201902L
#include <coroutine>
namespace std::experimental {
using std::coroutine_handle;
using std::coroutine_traits;
}  // namespace std::experimental
#endif

namespace std {
struct source_location {
  static constexpr source_location current(const char* file = __builtin_FILE(),
                                           unsigned line = __builtin_LINE()) {
    return {file, line};
  }
  constexpr const char* file_name() const { return file_; }
  constexpr unsigned line() const { return line_; }
  const char* file_ = "";
  unsigned line_ = 0;
};
}  // namespace std

#endif
