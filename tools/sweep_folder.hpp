// The folder of a sweep: scenario.ini in it says whose points it holds.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/scenario.hpp"
#include "scenarios/sweep.hpp"

namespace starling {

/// Of the text of a scenario (Scenario::to_text()) what its points share: all but [sweep].
std::string without_sweep(const std::string& settings);

/// Writes a file of the folder. Several processes of a job may do so at once, so each writes a file of its own and then gives it
/// the name. (PartialFile counts on locks for that, which the file systems of clusters may refuse.) Throws Error; the old file is
/// untouched then.
void write_whole(const std::filesystem::path& path, const std::string& bytes);

/// Makes the folder ready for the sweep that `scenario` asks for. It may hold points already: of the same sweep, or of one that
/// had other values, and repetitions, of the same keys or of some of them. Returns the points of that one which have files
/// there, and are none of this sweep; their logs go. Throws Error if it holds another one, or tables of none.
std::vector<std::string> prepare_folder(const std::filesystem::path& folder,
                                        const Scenario& scenario, const Sweep& sweep);

}  // namespace starling
