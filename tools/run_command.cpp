// starling run: executes a scenario, simulated or over MPI, and ends with a short table.

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>

#include <fmt/format.h>

#include "scenarios/memory.hpp"
#include "scenarios/replay_check.hpp"
#include "scenarios/run.hpp"
#include "sim/base/error.hpp"
#ifdef STARLING_HAVE_MPI
#include "sim/mpi/mpi_session.hpp"
#endif
#include "sim/record/results_file.hpp"
#include "starling_version.hpp"
#include "tools/arguments.hpp"
#include "tools/assemble_on_all_ranks.hpp"
#include "tools/failure.hpp"
#include "tools/progress.hpp"
#include "tools/summary.hpp"

namespace starling {

namespace po = boost::program_options;

namespace {

volatile std::sig_atomic_t asked_to_end = 0;

extern "C" void note_signal(int signal) {
  asked_to_end = signal;
  std::signal(signal, SIG_DFL);  // a second one ends the program at once
}

/// Whether the models take so much memory that one wants to know.
bool is_large(const Assembly& parts) {
  const WorkloadFacts& facts = parts.workload->facts();
  return facts.has_numbers && model_bytes(parts.settings, facts) > (1 << 30);
}

void report(const Run& run) {
  fmt::print("{}\n{}", run.recorder().facts.at("workload"), summarize(run.recorder()));
  const auto replay = run.recorder().facts.find("replay");
  if (replay != run.recorder().facts.end()) fmt::print("  {:<36}{}\n", "replay", replay->second);
  if (is_large(run.assembly())) {
    fmt::print("  {:<36}{:.2f} GiB at most\n", "memory",
               static_cast<double>(peak_memory()) / (1 << 30));
  }
  fmt::print("  {:<36}{}\n", "results", run.assembly().settings.output);
}

void execute(Assembly parts, bool speaks, const std::function<void(Run&)>& how) {
  Progress progress;
  Run::Hooks hooks;
  if (speaks)
    hooks.progress = [&progress](double share, Time now) {
      progress.show(share, fmt::format("virtual time {:.4g} s", to_seconds(now)));
    };
  hooks.interruption = [] { return static_cast<int>(asked_to_end); };
  hooks.code_version = STARLING_VERSION;
  if (speaks && is_large(parts)) {
    fmt::print("memory: {}\n", describe_memory(parts.settings, parts.workload->facts()));
    std::fflush(stdout);
  }
  Run run(std::move(parts), std::move(hooks));
  try {
    how(run);
  } catch (const Interrupted&) {
    progress.clear();
    if (speaks) report(run);
    throw;
  } catch (...) {
    progress.clear();
    throw;
  }
  progress.clear();
  if (speaks) report(run);
}

#ifdef STARLING_HAVE_MPI
void run_over_mpi(const std::vector<std::string>& words, bool speaks) {
  MpiSession session;
  try {
    Assembly parts = assemble_on_all_ranks(session, words, check_for_mpi);
    execute(std::move(parts), speaks && session.rank() == 0,
            [&session](Run& run) { run.execute(session); });
  } catch (...) {
    // Told here, because the session's end may be the end of the process.
    const int status = tell(std::current_exception(), session.speaks());
    session.fail();
    throw Ended{status};
  }
}
#else
void run_over_mpi(const std::vector<std::string>&, bool) {
  throw Error("this starling was built without MPI");
}
#endif

/// Simulates in the order of the real run that wrote `path`. Results go beside it unless the words say where.
void replay(std::vector<std::string> words, const std::string& path, bool speaks) {
  const Recorder recorded = load(path);
  const bool has_output = std::ranges::any_of(
      words, [](const std::string& word) { return word.starts_with("run.output="); });
  if (!has_output) {
    const std::filesystem::path beside(path);
    words.push_back("run.output=" +
                    (beside.parent_path() / (beside.stem().string() + "_replay.h5")).string());
  }
  Assembly parts = assemble(read_scenario(words));
  std::error_code none;
  if (std::filesystem::equivalent(parts.settings.output, path, none)) {
    throw UsageError(fmt::format("--output must name another file than {}, the recording", path));
  }
  check_for_replay(parts, recorded, path);
  execute(std::move(parts), speaks, [&recorded](Run& run) { run.simulate(&recorded); });
}

}  // namespace

void run_command(const Arguments& arguments) {
  po::options_description options("options");
  options.add_options()("transport", po::value<std::string>()->default_value("simulated"),
                        "simulated, or mpi (under mpirun): where the nodes live")(
      "output,o", po::value<std::string>(), "results file (instead of run.output)")(
      "replay", po::value<std::string>(),
      "results of a run over MPI, whose order of events the simulation follows")(
      "quiet,q", "no progress, no table");
  po::variables_map values;
  if (!parse_arguments(arguments,
                       "starling run SCENARIO.ini|RESULTS.h5 [section.key=value ...] [options]",
                       options, values))
    return;
  const std::string transport = values["transport"].as<std::string>();
  if (transport != "simulated" && transport != "mpi") {
    throw UsageError(fmt::format("--transport must be simulated or mpi, got {}", transport));
  }
  auto words = values["words"].as<std::vector<std::string>>();
  if (values.count("output") > 0)
    words.push_back("run.output=" + values["output"].as<std::string>());

  std::signal(SIGINT, note_signal);
  std::signal(SIGTERM, note_signal);

  const bool speaks = values.count("quiet") == 0;
  if (values.count("replay") > 0) {
    if (transport != "simulated") throw UsageError("--replay is a simulation, got --transport mpi");
    replay(words, values["replay"].as<std::string>(), speaks);
  } else if (transport == "simulated") {
    execute(assemble(read_scenario(words)), speaks, [](Run& run) { run.simulate(); });
  } else {
    run_over_mpi(words, speaks);
  }
}

}  // namespace starling
