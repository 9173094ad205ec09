#include "tools/progress.hpp"

#include <cmath>
#include <cstdio>

#include <fmt/core.h>
#include <unistd.h>

#include "sim/base/environment.hpp"
#include "tools/say.hpp"

namespace starling {
namespace {

constexpr int bar_width = 30;
constexpr auto between_bars = std::chrono::milliseconds(100);
constexpr int heartbeat = 60;  // s

std::string duration_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f} s", seconds);
  if (seconds < 3600)
    return fmt::format("{:.0f} min {:02.0f} s", std::floor(seconds / 60), std::fmod(seconds, 60));
  return fmt::format("{:.0f} h {:02.0f} min", std::floor(seconds / 3600),
                     std::fmod(seconds / 60, 60));
}

}  // namespace

Progress::Progress()
    : is_terminal_(isatty(STDERR_FILENO) == 1),
      interval_(is_terminal_ ? between_bars
                             : std::chrono::seconds(count_in_environment("STARLING_HEARTBEAT",
                                                                         heartbeat, "seconds"))),
      started_(Clock::now()),
      last_shown_(is_terminal_ ? started_ - interval_ : started_) {}

void Progress::begin_at(double share) {
  share_before_ = share;
  started_ = Clock::now();
}

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - started_).count();
}

void Progress::show(double share, const std::string& what, const std::string& details) {
  const auto now = Clock::now();
  if (now - last_shown_ < interval_) return;
  last_shown_ = now;
  // Past run.until it is more; fmax() takes NaN for 0.
  share = std::fmin(std::fmax(share, 0.0), 1.0);
  const double done = share - share_before_;
  const std::string left = done > 0.002 ? duration_text(seconds() * (1 - share) / done) + " left"
                                        : std::string("starting");
  if (is_terminal_) {
    const int full = static_cast<int>(share * bar_width);
    say("\r  [{:=<{}}{: <{}}] {:3.0f} %  {}  {}\x1b[K", "", full, "", bar_width - full, 100 * share,
        what, left);
    std::fflush(stderr);
    is_shown_ = true;
  } else {
    say("{:3.0f} %, {}{}{}, {}\n", 100 * share, what, details.empty() ? "" : ", ", details, left);
  }
}

void Progress::clear() {
  if (is_shown_) say("\r\x1b[K");
  is_shown_ = false;
}

}  // namespace starling
