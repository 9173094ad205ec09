// What is wrong with the points of a sweep, told before the first one runs.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "scenarios/scenario.hpp"
#include "scenarios/sweep.hpp"

namespace starling {

/// Each thing once, and at how many points; "" if there is none.
struct PointDoubts {
  std::string wrong;     // with some points
  std::string warnings;  // about what is allowed but hardly meant
};

/// Builds what each point would run, and runs nothing: first the points with which every value of every key has been
/// seen, then the others, but for repetitions, for `at_most` (the first point always). Throws ScenarioError, or Error if no
/// setting is to blame, if all of them are wrong, or the workload of none tells what has the target.
PointDoubts check_points(const Scenario& scenario, const Sweep& sweep,
                         const std::filesystem::path& folder, std::chrono::nanoseconds at_most);

}  // namespace starling
