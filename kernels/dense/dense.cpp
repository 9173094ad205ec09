#include "kernels/dense/dense.hpp"

#include <cstdlib>
#include <string_view>

#include <fmt/core.h>

#include "sim/base/error.hpp"

namespace starling::dense {
namespace {

const Kernels& choose() {
  const auto runnable = runnable_kernels();
  const char* forced = std::getenv("STARLING_ISA");
  if (forced == nullptr || *forced == '\0') return *runnable.back();
  for (const Kernels* candidate : runnable) {
    if (std::string_view(forced) == candidate->name) return *candidate;
  }
  std::string names;
  for (const Kernels* candidate : runnable) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", candidate->name);
  }
  throw Error(fmt::format(
      "environment variable STARLING_ISA: expected one that this processor can run ({}), found {}",
      names, forced));
}

}  // namespace

std::vector<const Kernels*> runnable_kernels() {
  std::vector<const Kernels*> runnable = {&kernels_v1()};
#if defined(__x86_64__)
  __builtin_cpu_init();
#if defined(__clang__) && __clang_major__ < 18  // does not know the levels by name
  const bool is_v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                     __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool is_v4 = is_v3 && __builtin_cpu_supports("avx512f") &&
                     __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  const bool is_v3 = __builtin_cpu_supports("x86-64-v3");
  const bool is_v4 = __builtin_cpu_supports("x86-64-v4");
#endif
  if (is_v3) runnable.push_back(&kernels_v3());
  if (is_v4) runnable.push_back(&kernels_v4());
#endif
  return runnable;
}

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

}  // namespace starling::dense
