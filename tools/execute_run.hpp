// What the commands that execute a scenario share: signals that end a run, progress, and the closing table.
#pragma once

#include <functional>

#include "scenarios/run.hpp"

namespace starling {

/// Executes a run of `parts` as `how` says. Ctrl-C and SIGTERM end it: results so far are kept, and a checkpoint if the
/// scenario asks for checkpoints; a second signal, half a second later or more, ends the program at once. If it `speaks`,
/// progress goes to standard error and a table to standard output.
void execute_run(Assembly parts, bool speaks, const std::function<void(Run&)>& how);

/// Says what in the scenario is allowed but hardly meant.
void warn_of_settings(const Assembly& parts);

}  // namespace starling
