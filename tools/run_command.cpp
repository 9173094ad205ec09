// starling run: executes a scenario, simulated or over MPI, and ends with a short table.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include <boost/program_options.hpp>
#include <fmt/core.h>

#include "scenarios/checkpointing.hpp"
#include "scenarios/process_checks.hpp"
#include "scenarios/replay_check.hpp"
#include "scenarios/run.hpp"
#include "sim/base/error.hpp"
#include "sim/record/facts.hpp"
#include "sim/record/results_file.hpp"
#include "tools/arguments.hpp"
#include "tools/execute_run.hpp"
#include "tools/failure.hpp"
#include "tools/files_read.hpp"
#include "tools/on_all_ranks.hpp"
#include "tools/say.hpp"

namespace starling {

namespace po = boost::program_options;

namespace {

/// A run from a results file must not take its place: what a real run measured cannot be had again. Nor does one begin that
/// cannot be saved, by the process that `saves`.
void check_output(const std::vector<std::string>& words, const Assembly& parts, bool saves = true) {
  if (std::filesystem::path(parts.settings.output).extension() == ".csv") {
    throw UsageError(fmt::format(
        "{}: results are an HDF5 file, such as {}; starling export writes its tables as CSV",
        parts.settings.output,
        std::filesystem::path(parts.settings.output).replace_extension(".h5").string()));
  }
  refuse_to_replace_others(parts.settings.output);
  std::error_code none;
  if (std::filesystem::path(words[0]).extension() == ".h5" &&
      std::filesystem::equivalent(words[0], parts.settings.output, none)) {
    throw UsageError(fmt::format(
        "{} would be replaced by its repetition; name another file with --output", words[0]));
  }
  if (saves) expect_writable(parts.settings.output);
}

/// Of a run that is to be repeated from its results.
void warn_of_changed_files(const std::string& path) {
  const Recorder results = load(path);
  FilesNow now;
  for (const FileRead& file : files_read(fact(results.machine, "files"))) {
    if (now.has_changed(file, fact(results.machine, "folder")))
      say("starling: warning: {} has changed since the run of {} read it\n", file.name, path);
  }
}

/// The newest whole checkpoint beside the results file of a run; nothing if there is none.
std::unique_ptr<CheckpointFile> checkpoint_of(const Assembly& parts) {
  if (!has_checkpoint(parts.settings.output)) return nullptr;
  try {
    FoundCheckpoint found = find_checkpoint(parts.settings.output);
    if (!found.warning.empty()) say("starling: warning: {}\n", found.warning);
    return std::move(found.file);
  } catch (const Error& error) {
    say("starling: warning: {}; the run begins anew\n", error.what());
    return nullptr;
  }
}

/// Where results go that come of another results file: beside it, unless the words say where.
void write_beside(std::vector<std::string>& words, const std::string& path, const char* ending) {
  const auto is_output = [](const std::string& word) { return word.starts_with("run.output="); };
  if (std::ranges::any_of(words, is_output)) return;
  const std::filesystem::path beside(path);
  words.push_back("run.output=" +
                  (beside.parent_path() / (beside.stem().string() + ending)).string());
}

/// The same of a run that begins, which must not take away what another has left to go on from, either.
void check_start(const std::vector<std::string>& words, const Assembly& parts, bool saves = true) {
  check_output(words, parts, saves);
  if (saves && std::filesystem::path(words[0]).extension() == ".h5")
    warn_of_changed_files(words[0]);
  const std::string& results = parts.settings.output;
  if (!has_checkpoint(results)) return;
  throw Error(fmt::format(
      "{}: another run has left a checkpoint, which this one would remove: starling resume {} goes "
      "on with it; to begin anew, remove {}.checkpoint*, or name another file with --output",
      results, results, results));
}

void simulate_alone(const std::vector<std::string>& words, Voice voice) {
  Assembly parts = assemble(read_scenario(words));
  check_start(words, parts);
  execute_run(std::move(parts), voice, [](Run& run) { run.simulate(); });
}

#ifdef STARLING_HAVE_MPI
void run_over_mpi(const std::vector<std::string>& words, Voice voice) {
  in_session([&](MpiSession& session) {
    const auto check = [&session, &words](const Assembly& parts) {
      check_for_mpi(parts, session.ranks());
      check_start(words, parts, session.rank() == 0);
    };
    Assembly parts = assemble_on_all_ranks(session, words, check);
    execute_run(std::move(parts), session.rank() == 0 ? voice : Voice::silent,
                [&session](Run& run) { run.execute(session); });
  });
}

/// A replay follows one real run in one process; under mpirun, `starling resume` goes on.
void check_alone(const char* option) {
  if (!MpiSession::is_launched()) return;
  in_session([option](MpiSession& session) {
    if (session.ranks() == 1) return;
    session.share_failure(option);  // every rank has the same to say
    throw UsageError(fmt::format("{} is for one process, got {} from mpirun: run it without",
                                 option, session.ranks()));
  });
}

/// A simulation: by this process, or by all that mpirun has started.
void simulate(const std::vector<std::string>& words, Voice voice) {
  const auto alone = [&] { simulate_alone(words, voice); };
  if (!MpiSession::is_launched()) return alone();
  in_session([&](MpiSession& session) {
    const int ranks = session.ranks();
    if (ranks == 1) return alone();
    const auto check = [&session, ranks, &words](const Assembly& parts) {
      check_for_sharing(parts, ranks);
      check_start(words, parts, session.rank() == 0);
    };
    Assembly parts = assemble_on_all_ranks(session, words, check);
    execute_run(std::move(parts), session.rank() == 0 ? voice : Voice::silent,
                [&session](Run& run) { run.share(session); });
  });
}
#else
void run_over_mpi(const std::vector<std::string>&, Voice) {
  throw Error("this starling was built without MPI");
}

void simulate(const std::vector<std::string>& words, Voice voice) { simulate_alone(words, voice); }

void check_alone(const char*) {}
#endif

/// Goes on with a simulation that was ended early, if its checkpoint is there and of this scenario, or begins it.
void go_on(const std::vector<std::string>& words, Voice voice) {
  Assembly parts = assemble(read_scenario(words));
  check_output(words, parts);
  std::unique_ptr<CheckpointFile> from = checkpoint_of(parts);
  execute_run(std::move(parts), voice, [&from](Run& run) {
    from ? run.resume_or_simulate(std::move(from)) : run.simulate();
  });
}

/// Simulates in the order of the real run that wrote `path`. Results go beside it unless the words say where.
void replay(std::vector<std::string> words, const std::string& path, Voice voice) {
  const Recorder recorded = load(path);
  write_beside(words, path, "_replay.h5");
  Assembly parts = assemble(read_scenario(words));
  std::error_code none;
  if (std::filesystem::equivalent(parts.settings.output, path, none)) {
    throw UsageError(fmt::format("--output must name another file than {}, the recording", path));
  }
  check_start(words, parts);
  check_for_replay(parts, recorded, path);
  parts.settings.closed_form_collectives = false;  // the recorded run exchanged messages
  const std::string other = other_scenario(parts, recorded);
  const std::string hint =
      other.empty() ? "" : fmt::format("another scenario was recorded: here is {}", other);
  try {
    execute_run(std::move(parts), voice, [&recorded](Run& run) { run.simulate(&recorded); });
  } catch (const Halted& halted) {
    throw Halted(halted.what() + (hint.empty() ? "" : "; " + hint));
  }
  if (voice != Voice::silent && !hint.empty()) say("starling: warning: {}: {}\n", path, hint);
}

}  // namespace

void run_command(const Arguments& arguments) {
  po::options_description options("options");
  options.add_options()("transport", po::value<std::string>()->default_value("simulated"),
                        "simulated, or mpi (under mpirun): where the nodes live")(
      "output,o", po::value<std::string>(), "results file (instead of run.output)")(
      "replay", po::value<std::string>(),
      "results of a run over MPI, whose order of events the simulation follows")(
      "resume", "go on from the run's checkpoint, if it has left one")(
      "quiet,q", "no progress, no table; warnings alone");
  po::variables_map values;
  if (!parse_arguments(arguments, "run",
                       "starling run SCENARIO.ini|RESULTS.h5 [section.key=value ...] [options]",
                       options, values))
    return;
  const std::string transport = values["transport"].as<std::string>();
  if (transport != "simulated" && transport != "mpi") {
    throw UsageError(fmt::format("--transport must be simulated or mpi, got {}", transport));
  }
  auto words = values["words"].as<std::vector<std::string>>();
  expect_scenario(words);
  if (const auto output = text_option(values, "output")) words.push_back("run.output=" + *output);

  if (values.count("replay") == 0 && std::filesystem::path(words[0]).extension() == ".h5")
    write_beside(words, words[0],
                 "_again.h5");  // the path in it may be that of other results by now

  const Voice voice = values.count("quiet") == 0 ? Voice::all : Voice::warnings;
  if (values.count("replay") > 0 && values.count("resume") > 0)
    throw UsageError("--replay and --resume do not go together");
  if (values.count("replay") > 0) {
    if (transport != "simulated") throw UsageError("--replay is a simulation, got --transport mpi");
    check_alone("--replay");
    replay(words, values["replay"].as<std::string>(), voice);
  } else if (values.count("resume") > 0) {
    if (transport != "simulated") throw UsageError("--resume is a simulation, got --transport mpi");
    check_alone("--resume");
    go_on(words, voice);
  } else if (transport == "simulated") {
    simulate(words, voice);
  } else {
    run_over_mpi(words, voice);
  }
}

}  // namespace starling
