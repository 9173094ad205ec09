#include "tools/sweep_log.hpp"

#include <csignal>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

namespace starling {
namespace {

namespace fs = std::filesystem;

/// What is said of a point that ended without a word.
std::string why_silent(int status) {
  if (status <= 128) return fmt::format("ended with status {}\n", status);
  return fmt::format("ended by signal {} ({}){}\n", status - 128, strsignal(status - 128),
                     status - 128 == SIGKILL ? ", perhaps because memory ran out" : "");
}

}  // namespace

fs::path log_of(const fs::path& folder, const SweepPoint& point) {
  return folder / (point.name + ".log");
}

std::string reason_in(const fs::path& log) {
  std::ifstream file(log);
  std::string line;
  while (std::getline(file, line) && line.starts_with("starling: warning: ")) line.clear();
  return line;
}

void complete_log(const fs::path& log, const Sweep& sweep, const SweepPoint& point, int status) {
  if (reason_in(log).empty()) std::ofstream(log, std::ios::app) << why_silent(status);
  if (point.is_cut) {  // for who has the folder alone
    std::ofstream(log, std::ios::app)
        << fmt::format("settings: {}\n", fmt::join(sweep.overrides(point), ", "));
  }
}

}  // namespace starling
