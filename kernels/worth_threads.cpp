#include "kernels/worth_threads.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>

#include <fmt/core.h>
#include <omp.h>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace starling {
namespace {

/// Seconds of a parallel region in which there is nothing to do, its threads asleep before.
double waking_seconds() {
  using Clock = std::chrono::steady_clock;
  constexpr auto falling_asleep = std::chrono::microseconds(20);
  std::array<double, 7> seconds{};
  for (double& each : seconds) {
    for (const auto begin = Clock::now(); Clock::now() - begin < falling_asleep;) continue;
    const auto begin = Clock::now();
#pragma omp parallel
    { asm volatile(""); }  // compilers leave out a region without anything
    each = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  std::ranges::sort(seconds);  // the first one starts the threads
  return seconds[seconds.size() / 2];
}

std::optional<double> told_waking_seconds() {
  const char* text = std::getenv("STARLING_WAKING_SECONDS");
  if (text == nullptr) return {};
  const auto told = number_in<double>(text);
  if (!told || !(*told >= 0))
    throw Error(fmt::format(
        "environment variable STARLING_WAKING_SECONDS: expected seconds, found {}", text));
  return told;
}

}  // namespace

bool is_worth_threads(double seconds) {
  constexpr double never = 2e-6;
  constexpr double always = 4e-3;
  const int threads = omp_get_max_threads();
  if (threads == 1) return false;
  static const std::optional<double> told = told_waking_seconds();
  if (!told && seconds <= never) return false;
  if (!told && seconds >= always) return true;
  static const double waking = told ? *told : waking_seconds();
  // Twice: threads wake up later where another one records.
  return seconds * (1 - 1.0 / threads) > 2 * waking;
}

}  // namespace starling
