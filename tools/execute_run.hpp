// What the commands that execute a scenario share: signals that end a run, progress, and the closing table.
#pragma once

#include <functional>

#include "scenarios/run.hpp"

namespace starling {

/// What a process says of a run, but for errors: nothing, as ranks other than 0; warnings alone, as with --quiet; or progress and
/// the closing table, too.
enum class Voice { silent, warnings, all };

/// Executes a run of `parts` as `how` says. SIGINT (Ctrl-C), SIGTERM, SIGHUP and SIGXCPU end it: results so far are kept, and a
/// checkpoint if the scenario asks for checkpoints; a second signal, half a second later or more, ends the program at once.
/// Warnings and progress go to standard error, the table to standard output.
void execute_run(Assembly parts, Voice voice, const std::function<void(Run&)>& how);

/// Says what in the scenario is allowed but hardly meant.
void warn_of_settings(const Assembly& parts);

}  // namespace starling
