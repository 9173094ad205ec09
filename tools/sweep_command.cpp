// starling sweep: runs every point of a scenario's [sweep] section, each as a process of its own, and leaves a table.
//
// The folder holds what is known: NAME.h5 per point (a point is finished if that says so), NAME.log if a point failed,
// scenario.ini (the settings of the sweep, see sweep_folder.hpp), and the tables points.csv, table.csv, table.h5. So a killed sweep goes on
// where it was when it is started again, and within a point where its checkpoint was, if the scenario asks for some.
//
// Under mpirun every process takes its share of the points. Whoever is done waits for the others, as mpirun would kill
// them if one ended because a point failed; the first one tells how it ended.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "scenarios/assemble.hpp"
#include "scenarios/checkpointing.hpp"
#include "scenarios/sweep.hpp"
#include "sim/base/error.hpp"
#include "sim/base/shipped_file.hpp"
#include "sim/base/text.hpp"
#include "starling_version.hpp"
#include "tools/arguments.hpp"
#include "tools/failure.hpp"
#include "tools/meet_signals.hpp"
#include "tools/on_all_ranks.hpp"
#include "tools/process_pool.hpp"
#include "tools/progress.hpp"
#include "tools/say.hpp"
#include "tools/sweep_check.hpp"
#include "tools/sweep_folder.hpp"
#include "tools/sweep_log.hpp"
#include "tools/sweep_shard.hpp"
#include "tools/sweep_table.hpp"

namespace starling {

namespace po = boost::program_options;
namespace fs = std::filesystem;

namespace {

constexpr auto longest_check = std::chrono::seconds(5);

std::atomic<int> sweep_asked_to_end = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler uses it");
extern "C" void note_sweep_signal(int signal) { sweep_asked_to_end = signal; }
constexpr std::initializer_list<int> ending_signals = {SIGINT, SIGTERM, SIGHUP};

/// What this process does of a sweep.
struct Job {
  const Scenario& scenario;
  const Sweep& sweep;
  const std::vector<std::string>& words;  // of the command line: the scenario, and what it changes
  fs::path folder;
  std::size_t at_a_time;  // points
  bool speaks;            // the first process, unless it is to be quiet
};

struct Ending {
  std::vector<std::string> failures;  // names of points
  std::vector<std::size_t> taken;     // points that another sweep in this folder runs
  bool is_whole = true;               // nobody asked it to end
  std::string changed;  // why no more points began: the scenario has changed; "" if not
};

/// What is another than in `scenario` where that was read from `words`; "" if nothing is. Every point reads it once more.
std::string changed_setting(const Scenario& scenario, const std::vector<std::string>& words) {
  const std::string before = without_sweep(scenario.to_text());
  std::string now;
  try {
    now = without_sweep(read_scenario(words).to_text());
  } catch (const std::exception& error) {
    return error.what();
  }
  if (now == before) return "";
  return fmt::format("{}: has changed since the sweep began ({} then, {} now)", words[0],
                     quoted_other_line(before, now), quoted_other_line(now, before));
}

/// The processes of the points `todo`.
std::vector<ProcessPool::Task> tasks_of(const Job& job, const std::vector<std::size_t>& todo) {
  const std::string program = program_path();
  if (program.empty()) throw Error("a sweep needs /proc to find its own program");
  std::vector<ProcessPool::Task> tasks;
  for (const std::size_t i : todo) {
    const SweepPoint& point = job.sweep.points[i];
    ProcessPool::Task task{{program, "run"}, log_of(job.folder, point).string()};
    task.words.insert(task.words.end(), job.words.begin(), job.words.end());
    for (const std::string& setting : job.sweep.overrides(point)) task.words.push_back(setting);
    task.words.insert(task.words.end(),
                      {"--quiet", "--resume", "-o", results_of(job.folder, point).string()});
    tasks.push_back(std::move(task));
  }
  return tasks;
}

Ending run_points(const Job& job, const std::vector<std::size_t>& todo) {
  const std::vector<ProcessPool::Task> tasks = tasks_of(job, todo);
  Ending outcome;
  std::vector<std::size_t> well;  // tasks that ended so
  std::size_t done = 0;
  Progress progress;
  const auto ended = [&](std::size_t task, int status) {
    ++done;
    if (status == ProcessPool::taken) {
      outcome.taken.push_back(todo[task]);
      return;
    }
    // One that was asked to end has not failed, and runs again next time.
    const bool was_asked = sweep_asked_to_end != 0 && status > 128;
    if (status == 0) well.push_back(task);
    const SweepPoint& point = job.sweep.points[todo[task]];
    if (status == 0 || was_asked) {
      std::error_code none;
      fs::remove(log_of(job.folder, point), none);
      return;
    }
    outcome.failures.push_back(point.name);
    complete_log(log_of(job.folder, point), job.sweep, point, status);
  };
  const auto pulse = [&] {
    if (job.speaks) {
      progress.show(static_cast<double>(done) / static_cast<double>(tasks.size()),
                    fmt::format("{} of {} points", done, tasks.size()));
    }
    return sweep_asked_to_end != 0;
  };
  const auto goes_on = [&] {
    outcome.changed = changed_setting(job.scenario, job.words);
    return outcome.changed.empty();
  };
  // A point is a run of its own, not a process of ours.
  ProcessPool pool(job.at_a_time, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"});
  outcome.is_whole = pool.run(tasks, ended, pulse, goes_on);
  progress.clear();
  for (const std::size_t task : well) {
    const SweepPoint& point = job.sweep.points[todo[task]];
    if (fs::exists(results_of(job.folder, point))) continue;
    outcome.failures.push_back(point.name);
    std::ofstream(log_of(job.folder, point)) << "starling: its results have gone since it ended\n";
  }
  return outcome;
}

/// The same, and once more of points that another sweep had begun: it may have been killed since.
Ending run_all_points(const Job& job, SweepTable& table, const std::vector<std::size_t>& todo) {
  Ending all = run_points(job, todo);
  std::vector<std::size_t> left = std::exchange(all.taken, {});
  std::erase_if(left, [&](std::size_t point) { return table.is_finished(point); });
  if (left.empty() || left.size() == todo.size() || !all.is_whole || !all.changed.empty()) {
    all.taken = left;
    return all;
  }
  Ending again = run_points(job, left);
  again.failures.insert(again.failures.begin(), all.failures.begin(), all.failures.end());
  return again;
}

#ifdef STARLING_HAVE_MPI
/// Waits for the other processes of the job; then the first one calls `end` with what all have met.
void end_together(const Ending& own, const std::function<void(const Ending&)>& end) {
  meet_signals(ending_signals, SIG_DFL);  // nothing is left to be saved
  in_session([&](MpiSession& session) {
    std::string names;
    for (const std::string& name : own.failures) names += name + '\n';
    const std::vector<std::string> told = session.gather(names);
    const std::string changed = session.share_failure(own.changed);
    on_all_ranks(session, [&] {
      if (session.rank() > 0) return;
      Ending all = own;
      all.changed = changed;
      all.failures.clear();
      for (const std::string& text : told) {
        std::istringstream lines(text);
        for (std::string name; std::getline(lines, name);) all.failures.push_back(name);
      }
      end(all);
    });
  });
}
#endif

/// Writes the tables of the finished points, and returns how many these are. An Error tells the points that `failed`, too.
std::size_t write_tables(SweepTable& table, const std::string& failed) {
  try {
    return table.write();
  } catch (const Error& error) {
    throw Error(fmt::format("{}{}{}", error.what(), failed.empty() ? "" : "\n", failed));
  }
}

/// Makes the folder ready, and warns of results in it that are of none of the points.
void make_ready(const Job& job) {
  const std::vector<std::string> dropped = prepare_folder(job.folder, job.scenario, job.sweep);
  if (!job.speaks || dropped.empty()) return;
  say("starling: warning: {}: the results of {} point{} that this sweep lacks stay there, "
      "outside its tables: {}{}\n",
      job.folder.string(), dropped.size(), dropped.size() == 1 ? "" : "s", dropped.front(),
      dropped.size() == 1 ? "" : ", ..");
}

/// Throws Error if points that are finished have read other files than are there now; warns if another version of the
/// program ran them.
void check_finished(const Job& job, SweepTable& table) {
  const std::string changed = table.changed_file();
  if (!changed.empty()) {
    throw Error(
        fmt::format("{}: {}; choose another folder with -o, or remove the results of points that "
                    "shall run again",
                    job.folder.string(), changed));
  }
  const std::string other_version = table.other_version(STARLING_VERSION);
  if (job.speaks && !other_version.empty())
    say("starling: warning: {}: {}\n", job.folder.string(), other_version);
}

/// Writes the tables, says how far the sweep is unless it is to be quiet, and throws what has gone wrong in it.
void conclude(const Job& job, SweepTable& table, const Ending& ending, bool is_quiet) {
  const std::string failed = tell_failures(ending.failures, job.folder, job.sweep);
  const std::size_t finished = write_tables(table, failed);
  const bool is_last = finished == job.sweep.points.size();
  if (job.speaks || (is_last && ending.is_whole && !is_quiet)) {
    fmt::print("{} of {} points are finished{}; {}\n", finished, job.sweep.points.size(),
               ending.taken.empty()
                   ? ""
                   : fmt::format(", {} were under way elsewhere", ending.taken.size()),
               ending.is_whole ? "see " + (job.folder / "table.csv").string()
                               : "started again, the sweep goes on");
  }
  if (job.speaks) {
    for (const std::string& warning : table.warnings()) say("starling: warning: {}\n", warning);
  }
  if (!ending.is_whole) throw Interrupted(sweep_asked_to_end);
  const std::string other_failures = failed.empty() ? "" : '\n' + failed;
  if (!ending.changed.empty())
    throw Error(fmt::format("{}; no more points began{}", ending.changed, other_failures));
  const std::string changed_meanwhile = table.changed_file();
  if (!changed_meanwhile.empty())
    throw Error(fmt::format("{}: {}{}", job.folder.string(), changed_meanwhile, other_failures));
  if (!failed.empty()) throw Error(failed);
}

void list_points(const Sweep& sweep, const Shard& shard) {
  for (std::size_t i = shard.index; i < sweep.points.size(); i += shard.count)
    fmt::print("{}\n", sweep.points[i].name);
}

/// The points of this shard that are not finished yet. Logs and checkpoints of the others go: who was killed as they ended left
/// them.
std::vector<std::size_t> unfinished(const Job& job, const Shard& shard, SweepTable& table) {
  std::vector<std::size_t> todo;
  std::size_t found = 0;
  for (std::size_t i = shard.index; i < job.sweep.points.size(); i += shard.count) {
    if (!table.is_finished(i)) {
      todo.push_back(i);
      continue;
    }
    ++found;
    std::error_code none;
    fs::remove(log_of(job.folder, job.sweep.points[i]), none);
    remove_checkpoints(results_of(job.folder, job.sweep.points[i]).string());
  }
  if (job.speaks && found > 0)
    fmt::print("{} finished already\n",
               found == 1 ? "1 point is" : fmt::format("{} points are", found));
  return todo;
}

}  // namespace

void sweep_command(const Arguments& arguments) {
  po::options_description options("options");
  options.add_options()("output,o", po::value<std::string>(),
                        "folder of the results (default: results/NAME)")(
      "jobs,j", po::value<std::string>(), "points at a time (default: one per core)")(
      "shard", po::value<std::string>(),
      "i/n: only every n-th point from the i-th on, for job arrays; mpirun does that by itself")(
      "list", "print the points and run none")("quiet,q", "no progress, no closing lines");
  po::variables_map values;
  if (!parse_arguments(arguments, "sweep",
                       "starling sweep SCENARIO.ini [section.key=value ...] [options]", options,
                       values))
    return;
  const auto words = values["words"].as<std::vector<std::string>>();
  const Shard shard = read_shard(text_option(values, "shard"));
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::optional<std::string> jobs = text_option(values, "jobs");
  const std::size_t at_a_time =
      jobs ? read_jobs(*jobs) : std::max<std::size_t>(1, cores / shard.on_this_machine);
  const Scenario scenario = read_scenario(words);
  const Sweep sweep = read_sweep(scenario);
  const std::optional<std::string> output = text_option(values, "output");
  const fs::path folder =
      output ? fs::path(*output) : fs::path(default_output(scenario.name())).replace_extension();
  const bool is_quiet = values.count("quiet") > 0;
  const Job job{scenario, sweep, words, folder, at_a_time, !is_quiet && shard.index == 0};
  const PointDoubts doubts = check_points(scenario, sweep, folder, longest_check);
  if (job.speaks && !doubts.wrong.empty())
    say("starling: warning: {}\nthe other points run\n", doubts.wrong);
  if (job.speaks && !doubts.warnings.empty()) say("starling: warning: {}\n", doubts.warnings);
  if (values.count("list") > 0) return list_points(sweep, shard);
  meet_signals(ending_signals, note_sweep_signal);
  make_ready(job);
  SweepTable table(sweep, folder);
  check_finished(job, table);
  const std::vector<std::size_t> todo = unfinished(job, shard, table);

  share_machine(cores, job.at_a_time * shard.on_this_machine);
  const Ending own = run_all_points(job, table, todo);
  const auto end = [&](const Ending& ending) { conclude(job, table, ending, is_quiet); };
#ifdef STARLING_HAVE_MPI
  if (shard.is_of_job && own.is_whole) return end_together(own, end);
#endif
  end(own);
}

}  // namespace starling
