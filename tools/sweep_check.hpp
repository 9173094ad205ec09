// What is wrong with the points of a sweep, told before the first one runs.
#pragma once

#include <chrono>
#include <filesystem>

#include "scenarios/scenario.hpp"
#include "scenarios/sweep.hpp"

namespace starling {

/// Builds what each point would run, and runs nothing: first the points with which every value of every key has been
/// seen, then the others, but for repetitions, for `at_most` (the first point always). Throws ScenarioError, or Error if
/// no setting is to blame, that says each thing that is wrong once, and at how many points.
void check_points(const Scenario& scenario, const Sweep& sweep, const std::filesystem::path& folder,
                  std::chrono::nanoseconds at_most);

}  // namespace starling
