// starling resume: goes on with a simulation from its newest checkpoint; its results are those of a run that nobody
// disturbed.

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "scenarios/checkpointing.hpp"
#include "sim/base/error.hpp"
#include "sim/record/results_file.hpp"
#include "tools/arguments.hpp"
#include "tools/execute_run.hpp"
#include "tools/failure.hpp"

namespace starling {

namespace po = boost::program_options;

namespace {

bool is_complete(const std::string& results) {
  if (!std::filesystem::exists(results)) return false;
  const Recorder recorder = load(results);
  const auto status = recorder.facts.find("status");
  return status != recorder.facts.end() && status->second == "complete";
}

}  // namespace

void resume_command(const Arguments& arguments) {
  po::options_description options("options");
  options.add_options()("quiet,q", "no progress, no table");
  po::variables_map values;
  if (!parse_arguments(arguments, "starling resume RESULTS.h5|CHECKPOINT [options]", options,
                       values))
    return;
  for (const char* size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* processes = std::getenv(size);
    if (processes != nullptr && std::atoi(processes) > 1) {
      throw UsageError("a run is resumed by one process: run starling resume without mpirun");
    }
  }
  const auto words = values["words"].as<std::vector<std::string>>();
  if (words.size() != 1) {
    throw UsageError(fmt::format(
        "expected one file, whose run is to go on as its scenario says, got {}", words.size()));
  }
  const bool speaks = values.count("quiet") == 0;
  const std::string& path = words[0];
  if (!std::filesystem::exists(path + ".checkpoint") &&
      !std::filesystem::exists(path + ".checkpoint.previous") && path.ends_with(".h5") &&
      is_complete(path)) {
    if (speaks) fmt::print("{}: the run is complete, there is nothing to resume\n", path);
    return;
  }
  FoundCheckpoint found = find_checkpoint(path);
  if (!found.warning.empty()) fmt::print(stderr, "starling: {}\n", found.warning);
  const auto& facts = found.file->content().facts;
  const auto scenario = facts.find("scenario");
  const auto name = facts.find("scenario_name");
  if (scenario == facts.end() || name == facts.end())
    throw Error(found.file->path() + ": names no scenario");
  Assembly parts = assemble(Scenario::parse(scenario->second, name->second));
  parts.settings.output = found.results;
  execute_run(std::move(parts), speaks, [&](Run& run) { run.resume(std::move(found.file)); });
}

}  // namespace starling
