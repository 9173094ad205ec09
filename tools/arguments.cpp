#include "tools/arguments.hpp"

#include <filesystem>
#include <sstream>

#include <boost/program_options.hpp>
#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/record/facts.hpp"
#include "sim/record/results_file.hpp"
#include "tools/failure.hpp"

namespace starling {

namespace po = boost::program_options;

bool parse_arguments(const Arguments& arguments, std::string_view command, const std::string& usage,
                     po::options_description options, po::variables_map& values) {
  options.add_options()("help,h", "print this help");
  po::options_description all;
  all.add(options).add_options()("words",
                                 po::value<std::vector<std::string>>()->default_value({}, ""));
  po::positional_options_description positional;
  positional.add("words", -1);
  try {
    po::store(po::command_line_parser(arguments).options(all).positional(positional).run(), values);
    po::notify(values);
  } catch (const po::error& error) {
    throw UsageError(fmt::format("{}\nusage: {}", error.what(), usage));
  }
  if (values.count("help") == 0) return true;
  std::ostringstream text;
  text << options;
  fmt::print("usage: {}\n\nstarling {}: {}\n\n{}", usage, command, summary_of(command), text.str());
  return false;
}

std::optional<std::string> text_option(const po::variables_map& values, const char* name) {
  return values.count(name) > 0 ? std::optional(values[name].as<std::string>()) : std::nullopt;
}

void expect_scenario(const std::vector<std::string>& words) {
  if (words.empty()) throw UsageError("no scenario was named");
}

Scenario read_scenario(const std::vector<std::string>& words) {
  expect_scenario(words);
  const std::vector<std::string> overrides(words.begin() + 1, words.end());
  for (const std::string& word : overrides) {
    if (word.find('=') == std::string::npos || word.find('.') > word.find('=')) {
      throw UsageError(fmt::format("expected section.key=value, got {}", printable(word)));
    }
  }
  if (std::filesystem::path(words[0]).extension() != ".h5")
    return Scenario::read(words[0], overrides);
  const Recorder recorder = load(words[0]);
  const std::string scenario = fact(recorder.facts, "scenario");
  if (scenario.empty()) throw Error(fmt::format("{}: holds no scenario", words[0]));
  const std::string name = fact(recorder.facts, "scenario_name");
  return Scenario::parse(
      scenario, name.empty() ? words[0] : find_scenario(name, fact(recorder.machine, "folder")),
      overrides, words[0] + "/scenario");
}

}  // namespace starling
