// What the commands share in reading their words: options by Boost.Program_options, and scenarios that come from an
// .ini file or from a results file that holds one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/scenario.hpp"
#include "tools/commands.hpp"

namespace boost::program_options {
class options_description;
class variables_map;
}  // namespace boost::program_options

namespace starling {

/// Parses the words of the command of this name. `usage` is the first line of its help. Positional words go to option "words".
/// Answers `--help` by printing and returning false. Throws UsageError.
bool parse_arguments(const Arguments& arguments, std::string_view command, const std::string& usage,
                     boost::program_options::options_description options,
                     boost::program_options::variables_map& values);

/// The text of an option; none if it is not given.
std::optional<std::string> text_option(const boost::program_options::variables_map& values,
                                       const char* name);

/// Throws UsageError if there are no words.
void expect_scenario(const std::vector<std::string>& words);

/// The scenario that words[0] names (an .ini file, or a results file whose run is repeated), with the overrides
/// "section.key=value" in the other words.
Scenario read_scenario(const std::vector<std::string>& words);

}  // namespace starling
