// The table of a sweep: one line per finished point, and one per combination of settings with mean and spread over
// seeds. Plots and reports read nothing else of a sweep but this and the results files.
#pragma once

#include <filesystem>

#include "scenarios/sweep.hpp"

namespace starling {

/// Where the results of a point lie.
std::filesystem::path results_of(const std::filesystem::path& folder, const SweepPoint& point);

/// Whether the results file of a point is there and says that its run is complete.
bool is_finished(const std::filesystem::path& folder, const SweepPoint& point);

/// Writes, from the finished points of `sweep`,
///   points.csv   point, every swept key, then every outcome (tools/summary.hpp)
///   table.csv    every swept key but the seed, runs, then of every outcome mean and standard deviation (n - 1; empty
///                for one run)
/// The same sweep gives the same bytes. Returns the number of finished points.
std::size_t write_sweep_table(const Sweep& sweep, const std::filesystem::path& folder);

}  // namespace starling
