// The commands of the program `starling`, one function each. They print to standard output and throw what goes
// wrong; main() turns that into a sentence and an exit status.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace starling {

/// Words after the command's name.
using Arguments = std::vector<std::string>;

/// What the command of this name does, in a few words (starling.cpp).
std::string_view summary_of(std::string_view command);

void run_command(const Arguments& arguments);
void resume_command(const Arguments& arguments);
void describe_command(const Arguments& arguments);
void list_command(const Arguments& arguments);
void sweep_command(const Arguments& arguments);
void calibrate_command(const Arguments& arguments);
void compare_command(const Arguments& arguments);
void report_command(const Arguments& arguments);
void export_command(const Arguments& arguments);

}  // namespace starling
