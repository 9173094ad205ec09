#include "tools/progress.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace starling {
namespace {

constexpr int bar_width = 30;
constexpr auto between_lines = std::chrono::seconds(10);

std::string duration_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f} s", seconds);
  if (seconds < 3600)
    return fmt::format("{:.0f} min {:02.0f} s", std::floor(seconds / 60), std::fmod(seconds, 60));
  return fmt::format("{:.0f} h {:02.0f} min", std::floor(seconds / 3600),
                     std::fmod(seconds / 60, 60));
}

}  // namespace

Progress::Progress()
    : is_terminal_(isatty(STDERR_FILENO) == 1), started_(Clock::now()), last_line_(started_) {}

void Progress::show(double share, const std::string& what) {
  const std::chrono::duration<double> spent = Clock::now() - started_;
  const std::string left = share > 0.002
                               ? duration_text(spent.count() * (1 - share) / share) + " left"
                               : std::string("starting");
  if (is_terminal_) {
    const int full = static_cast<int>(share * bar_width);
    fmt::print(stderr, "\r  [{:=<{}}{: <{}}] {:3.0f} %  {}  {}\x1b[K", "", full, "",
               bar_width - full, 100 * share, what, left);
    std::fflush(stderr);
    is_shown_ = true;
  } else if (Clock::now() - last_line_ >= between_lines) {
    last_line_ = Clock::now();
    fmt::print(stderr, "{:3.0f} %, {}, {}\n", 100 * share, what, left);
  }
}

void Progress::clear() {
  if (is_shown_) fmt::print(stderr, "\r\x1b[K");
  is_shown_ = false;
}

}  // namespace starling
