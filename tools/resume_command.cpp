// starling resume: goes on with a simulation from its newest checkpoint; its results are those of a run that nobody
// disturbed.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include <boost/program_options.hpp>
#include <fmt/core.h>

#include "scenarios/checkpointing.hpp"
#include "scenarios/process_checks.hpp"
#include "sim/base/error.hpp"
#include "sim/record/facts.hpp"
#include "sim/record/results_file.hpp"
#include "tools/arguments.hpp"
#include "tools/execute_run.hpp"
#include "tools/failure.hpp"
#include "tools/on_all_ranks.hpp"
#include "tools/say.hpp"

namespace starling {

namespace po = boost::program_options;

namespace {

/// Whether `path` is the results file of a run that needs no checkpoint any more.
bool is_complete(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (has_checkpoint(path) || !path.ends_with(".h5") || !fs::exists(path, none)) return false;
  return load(path).is_complete();
}

void tell_complete(const std::string& path, Voice voice) {
  if (voice == Voice::all)
    fmt::print("{}: the run is complete, there is nothing to resume\n", path);
}

/// Of a results file; empty if it cannot be read.
std::string scenario_of(const std::string& path) {
  try {
    return fact(load(path).facts, "scenario");
  } catch (const Error&) {
    return "";  // damaged: all the more reason to go on
  }
}

/// Results that a later run has left there would be replaced.
void check_results(const FoundCheckpoint& found) {
  namespace fs = std::filesystem;
  const std::string& path = found.file->path();
  std::error_code none;  // results file
  if (fs::last_write_time(found.results, none) <= fs::last_write_time(path) || none) return;
  const std::string scenario = fact(found.file->content().facts, "scenario");
  const std::string there = scenario_of(found.results);
  if (there.empty() || scenario.empty() || there == scenario) return;
  throw Error(
      fmt::format("{}: holds later results, of another scenario than {}; move them away to "
                  "go on with that, or remove it",
                  found.results, path));
}

FoundCheckpoint find(const std::string& path) {
  FoundCheckpoint found = find_checkpoint(path);
  if (!found.warning.empty()) say("starling: {}\n", found.warning);
  check_results(found);
  return found;
}

/// What the checkpoint's run is made of; so many `hosts` share its models. Not by a process that `saves`, but cannot.
Assembly assemble_from(const FoundCheckpoint& found, bool saves = true, int hosts = 1) {
  const std::string scenario = fact(found.file->content().facts, "scenario");
  const std::string name = fact(found.file->content().facts, "scenario_name");
  if (scenario.empty() || name.empty()) throw Error(found.file->path() + ": names no scenario");
  Assembly parts =
      assemble(Scenario::parse(scenario, name, {}, found.file->path() + "/scenario"), hosts);
  parts.settings.output = found.results;
  refuse_to_replace_others(found.results);
  if (saves) expect_writable(found.results);
  return parts;
}

/// Goes to the folder in which the run of `path` was begun, if its scenario is found from there and not from here: relative
/// paths mean then what they meant. Returns where `path` is from there.
std::string go_to_its_folder(const std::string& path) {
  namespace fs = std::filesystem;
  try {
    const std::string folder = other_folder_of(*find_checkpoint(path).file);
    if (folder.empty()) return path;
    const fs::path whole = fs::absolute(path);
    fs::current_path(folder);
    return whole.lexically_normal().string();
  } catch (const std::exception&) {
    return path;  // what is wrong is told by who goes on
  }
}

void go_on_alone(const std::string& path, Voice voice) {
  if (is_complete(path)) return tell_complete(path, voice);
  FoundCheckpoint found = find(path);
  execute_run(assemble_from(found), voice, [&](Run& run) { run.resume(std::move(found.file)); });
}

#ifdef STARLING_HAVE_MPI
/// Goes on by this process, or by all that mpirun has started, however many there were before.
void go_on(const std::string& path, Voice voice) {
  if (!MpiSession::is_launched()) return go_on_alone(path, voice);
  in_session([&](MpiSession& session) {
    const int ranks = session.ranks();
    if (ranks == 1) return go_on_alone(path, voice);
    voice = session.rank() == 0 ? voice : Voice::silent;
    FoundCheckpoint found;
    std::string chosen;  // by rank 0, for all
    on_all_ranks(session, [&] {
      if (session.rank() != 0 || is_complete(path)) return;
      found = find(path);
      chosen = found.file->path();
    });
    chosen = session.broadcast(chosen);
    if (chosen.empty()) return tell_complete(path, voice);
    found.results = session.broadcast(found.results);
    std::optional<Assembly> parts;
    on_all_ranks(session, [&] {
      if (!found.file) found.file = std::make_unique<CheckpointFile>(chosen);
      parts = assemble_from(found, session.rank() == 0, session.hosts());
      check_for_sharing(*parts, ranks);
    });
    execute_run(std::move(*parts), voice,
                [&](Run& run) { run.share(session, std::move(found.file)); });
  });
}
#else
void go_on(const std::string& path, Voice voice) { go_on_alone(path, voice); }
#endif

}  // namespace

void resume_command(const Arguments& arguments) {
  po::options_description options("options");
  options.add_options()("quiet,q", "no progress, no table; warnings alone");
  po::variables_map values;
  if (!parse_arguments(arguments, "resume", "starling resume RESULTS.h5|CHECKPOINT [options]",
                       options, values))
    return;
  const auto words = values["words"].as<std::vector<std::string>>();
  if (words.size() != 1) {
    throw UsageError(fmt::format(
        "expected one file, whose run is to go on as its scenario says, got {}", words.size()));
  }
  const Voice voice = values.count("quiet") == 0 ? Voice::all : Voice::warnings;
  go_on(go_to_its_folder(words[0]), voice);
}

}  // namespace starling
