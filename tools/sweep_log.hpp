// The logs of a sweep's points: what a point says on standard error, kept where it failed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/sweep.hpp"

namespace starling {

/// Where the log of a point lies.
std::filesystem::path log_of(const std::filesystem::path& folder, const SweepPoint& point);

/// Why a point failed: the first line of its log behind what it only warned of; "" if there is none.
std::string reason_in(const std::filesystem::path& log);

/// Writes what the log of a point that failed does not say by itself. `status` is as a shell's, 128 and more for a signal.
void complete_log(const std::filesystem::path& log, const Sweep& sweep, const SweepPoint& point,
                  int status);

/// Which of the points with these names failed, and why, each reason once; "" if there are none.
std::string tell_failures(const std::vector<std::string>& failures,
                          const std::filesystem::path& folder, const Sweep& sweep);

}  // namespace starling
