#include "tools/sweep_log.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

namespace starling {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_reasons_named = 10;
constexpr std::size_t most_points_named = 10;  // for each

/// What is said of a point that ended without a word.
std::string why_silent(int status) {
  if (status <= 128) return fmt::format("ended with status {}\n", status);
  return fmt::format("ended by signal {} ({}){}\n", status - 128, strsignal(status - 128),
                     status - 128 == SIGKILL ? ", perhaps because memory ran out" : "");
}

/// Why points failed, and which, in the order of the sweep.
struct Reason {
  std::string why;
  std::vector<std::string> points;
};

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

std::string tell_failures(const std::vector<std::string>& failures, const fs::path& folder,
                          const Sweep& sweep) {
  if (failures.empty()) return "";
  std::vector<Reason> reasons;
  const std::set<std::string> failed(failures.begin(), failures.end());
  for (const SweepPoint& point : sweep.points) {
    if (!failed.contains(point.name)) continue;
    std::string why = reason_in(log_of(folder, point));
    if (why.empty()) why = "its log could not be written";
    auto known = std::ranges::find(reasons, why, &Reason::why);
    if (known == reasons.end()) known = reasons.insert(known, {std::move(why), {}});
    known->points.push_back(sweep.describe(point));
  }
  std::string text = fmt::format("{} point{} failed; the logs are in {}:", failures.size(),
                                 failures.size() == 1 ? "" : "s", folder.string());
  std::size_t untold = failures.size();
  for (const Reason& reason :
       std::span(reasons).first(std::min(reasons.size(), most_reasons_named))) {
    const std::size_t named = std::min(reason.points.size(), most_points_named);
    for (std::size_t i = 0; i < named; ++i)
      text += fmt::format("\n  {}: {}", reason.points[i], i == 0 ? reason.why : "the same");
    if (reason.points.size() > named)
      text += fmt::format("\n  .. and {} more: the same", reason.points.size() - named);
    untold -= reason.points.size();
  }
  if (untold > 0) text += fmt::format("\n  .. and {} more", untold);
  return text;
}

}  // namespace starling
