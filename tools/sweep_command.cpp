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
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
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
#include "tools/sweep_table.hpp"

namespace starling {

namespace po = boost::program_options;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t most_reasons_named = 10;
constexpr std::size_t most_points_named = 10;  // for each
constexpr auto longest_check = std::chrono::seconds(5);

std::atomic<int> sweep_asked_to_end = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler uses it");
extern "C" void note_sweep_signal(int signal) { sweep_asked_to_end = signal; }
constexpr std::initializer_list<int> ending_signals = {SIGINT, SIGTERM, SIGHUP};

/// Which of several processes this is.
struct Shard {
  std::size_t index = 0;
  std::size_t count = 1;
  std::size_t on_this_machine = 1;
  bool is_of_job = false;  // one of several that mpirun has started
};

/// A whole number, or 0 if the text is anything else.
std::size_t whole_number(std::string_view text) { return number_in<std::size_t>(text).value_or(0); }

std::size_t number_in_environment(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : whole_number(text);
}

std::size_t count_in_environment(const char* name) {
  return std::max<std::size_t>(1, number_in_environment(name));
}

/// From --shard, or from what mpirun tells its processes.
Shard read_shard(const po::variables_map& values) {
  Shard shard;
  if (values.count("shard") > 0) {
    const auto& text = values["shard"].as<std::string>();
    const std::size_t slash = text.find('/');
    shard.index = whole_number(std::string_view(text).substr(0, slash));
    shard.count = slash == text.npos ? 0 : whole_number(std::string_view(text).substr(slash + 1));
    if (shard.index < 1 || shard.index > shard.count)
      throw UsageError(
          fmt::format("--shard must be i/n with i from 1 to n, got {}", printable(text)));
    --shard.index;
  } else if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) {
    shard = {number_in_environment("OMPI_COMM_WORLD_RANK"),
             count_in_environment("OMPI_COMM_WORLD_SIZE"),
             count_in_environment("OMPI_COMM_WORLD_LOCAL_SIZE")};
  } else if (std::getenv("PMI_SIZE") != nullptr) {
    shard = {number_in_environment("PMI_RANK"), count_in_environment("PMI_SIZE"),
             count_in_environment("MPI_LOCALNRANKS")};
  }
  shard.is_of_job = values.count("shard") == 0 && shard.count > 1;
  return shard;
}

/// From --jobs, if it is there.
std::optional<std::size_t> read_jobs(const po::variables_map& values) {
  if (values.count("jobs") == 0) return std::nullopt;
  const auto& text = values["jobs"].as<std::string>();
  const std::size_t jobs = whole_number(text);
  if (jobs < 1 || jobs > 4096)
    throw UsageError(
        fmt::format("--jobs must be a whole number from 1 to 4096, got {}", printable(text)));
  return jobs;
}

/// One core for each of the points that run side by side, as far as there are cores, and its part of the memory.
void share_machine(std::size_t cores, std::size_t jobs) {
  setenv("OMP_WAIT_POLICY", "passive", 1);
  setenv("OMP_NUM_THREADS", std::to_string(std::max<std::size_t>(1, cores / jobs)).c_str(), 1);
  setenv("STARLING_JOBS", std::to_string(jobs).c_str(), 1);
}

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
std::vector<ProcessPool::Task> tasks_of(const Sweep& sweep, const std::vector<std::string>& words,
                                        const std::vector<std::size_t>& todo,
                                        const fs::path& folder) {
  const std::string program = program_path();
  if (program.empty()) throw Error("a sweep needs /proc to find its own program");
  std::vector<ProcessPool::Task> tasks;
  for (const std::size_t i : todo) {
    const SweepPoint& point = sweep.points[i];
    ProcessPool::Task task{{program, "run"}, log_of(folder, point).string()};
    task.words.insert(task.words.end(), words.begin(), words.end());
    for (const std::string& setting : sweep.overrides(point)) task.words.push_back(setting);
    task.words.insert(task.words.end(),
                      {"--quiet", "--resume", "-o", results_of(folder, point).string()});
    tasks.push_back(std::move(task));
  }
  return tasks;
}

Ending run_points(const Scenario& scenario, const Sweep& sweep,
                  const std::vector<std::string>& words, const std::vector<std::size_t>& todo,
                  const fs::path& folder, std::size_t jobs, bool speaks) {
  const std::vector<ProcessPool::Task> tasks = tasks_of(sweep, words, todo, folder);
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
    const SweepPoint& point = sweep.points[todo[task]];
    if (status == 0 || was_asked) {
      std::error_code none;
      fs::remove(log_of(folder, point), none);
      return;
    }
    outcome.failures.push_back(point.name);
    complete_log(log_of(folder, point), sweep, point, status);
  };
  const auto pulse = [&] {
    if (speaks) {
      progress.show(static_cast<double>(done) / static_cast<double>(tasks.size()),
                    fmt::format("{} of {} points", done, tasks.size()));
    }
    return sweep_asked_to_end != 0;
  };
  const auto goes_on = [&] {
    outcome.changed = changed_setting(scenario, words);
    return outcome.changed.empty();
  };
  // A point is a run of its own, not a process of ours.
  ProcessPool pool(jobs, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"});
  outcome.is_whole = pool.run(tasks, ended, pulse, goes_on);
  progress.clear();
  for (const std::size_t task : well) {
    const SweepPoint& point = sweep.points[todo[task]];
    if (fs::exists(results_of(folder, point))) continue;
    outcome.failures.push_back(point.name);
    std::ofstream(log_of(folder, point)) << "starling: its results have gone since it ended\n";
  }
  return outcome;
}

/// The same, and once more of points that another sweep had begun: it may have been killed since.
Ending run_all_points(const Scenario& scenario, const Sweep& sweep, SweepTable& table,
                      const std::vector<std::string>& words, const std::vector<std::size_t>& todo,
                      const fs::path& folder, std::size_t jobs, bool speaks) {
  Ending all = run_points(scenario, sweep, words, todo, folder, jobs, speaks);
  std::vector<std::size_t> left = std::exchange(all.taken, {});
  std::erase_if(left, [&](std::size_t point) { return table.is_finished(point); });
  if (left.empty() || left.size() == todo.size() || !all.is_whole || !all.changed.empty()) {
    all.taken = left;
    return all;
  }
  Ending again = run_points(scenario, sweep, words, left, folder, jobs, speaks);
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

/// Why points failed, and which, in the order of the sweep.
struct Reason {
  std::string why;
  std::vector<std::string> points;
};

/// Which points failed, and why, each reason once; nothing if none did.
std::string tell_failures(const std::vector<std::string>& failures, const fs::path& folder,
                          const Sweep& sweep) {
  if (failures.empty()) return "";
  std::vector<Reason> reasons;
  const std::set<std::string> failed(failures.begin(), failures.end());
  for (const SweepPoint& point : sweep.points) {
    if (!failed.contains(point.name)) continue;
    std::string why = reason_in(log_of(folder, point));
    if (why.empty()) why = "its log could not be written";
    auto known = std::ranges::find(reasons, why, &Reason::why);
    if (known == reasons.end()) known = reasons.insert(known, {std::move(why), {}});
    known->points.push_back(sweep.describe(point));
  }
  std::string text = fmt::format("{} point{} failed; the logs are in {}:", failures.size(),
                                 failures.size() == 1 ? "" : "s", folder.string());
  std::size_t untold = failures.size();
  for (const Reason& reason :
       std::span(reasons).first(std::min(reasons.size(), most_reasons_named))) {
    const std::size_t named = std::min(reason.points.size(), most_points_named);
    for (std::size_t i = 0; i < named; ++i)
      text += fmt::format("\n  {}: {}", reason.points[i], i == 0 ? reason.why : "the same");
    if (reason.points.size() > named)
      text += fmt::format("\n  .. and {} more: the same", reason.points.size() - named);
    untold -= reason.points.size();
  }
  if (untold > 0) text += fmt::format("\n  .. and {} more", untold);
  return text;
}

/// Writes the tables of the finished points, and returns how many these are. An Error tells the points that `failed`, too.
std::size_t write_tables(SweepTable& table, const std::string& failed) {
  try {
    return table.write();
  } catch (const Error& error) {
    throw Error(fmt::format("{}{}{}", error.what(), failed.empty() ? "" : "\n", failed));
  }
}

/// Makes the folder ready, and warns of results in it that are of none of the points.
void make_ready(const fs::path& folder, const Scenario& scenario, const Sweep& sweep, bool speaks) {
  const std::vector<std::string> dropped = prepare_folder(folder, scenario, sweep);
  if (!speaks || dropped.empty()) return;
  say("starling: warning: {}: the results of {} point{} that this sweep lacks stay there, "
      "outside its tables: {}{}\n",
      folder.string(), dropped.size(), dropped.size() == 1 ? "" : "s", dropped.front(),
      dropped.size() == 1 ? "" : ", ..");
}

/// Throws Error if points that are finished have read other files than are there now; warns if another version of the
/// program ran them.
void check_finished(SweepTable& table, const fs::path& folder, bool speaks) {
  const std::string changed = table.changed_file();
  if (!changed.empty()) {
    throw Error(
        fmt::format("{}: {}; choose another folder with -o, or remove the results of points that "
                    "shall run again",
                    folder.string(), changed));
  }
  const std::string other_version = table.other_version(STARLING_VERSION);
  if (speaks && !other_version.empty())
    say("starling: warning: {}: {}\n", folder.string(), other_version);
}

/// Writes the tables, says how far the sweep is unless it is to be quiet, and throws what has gone wrong in it.
void conclude(SweepTable& table, const Sweep& sweep, const fs::path& folder, const Ending& ending,
              bool speaks, bool is_quiet) {
  const std::string failed = tell_failures(ending.failures, folder, sweep);
  const std::size_t finished = write_tables(table, failed);
  const bool is_last = finished == sweep.points.size();
  if (speaks || (is_last && ending.is_whole && !is_quiet)) {
    fmt::print("{} of {} points are finished{}; {}\n", finished, sweep.points.size(),
               ending.taken.empty()
                   ? ""
                   : fmt::format(", {} were under way elsewhere", ending.taken.size()),
               ending.is_whole ? "see " + (folder / "table.csv").string()
                               : "started again, the sweep goes on");
  }
  if (const std::string diverging = table.diverging(); speaks && !diverging.empty())
    say("starling: warning: {}\n", diverging);
  if (!ending.is_whole) throw Interrupted(sweep_asked_to_end);
  const std::string other_failures = failed.empty() ? "" : '\n' + failed;
  if (!ending.changed.empty())
    throw Error(fmt::format("{}; no more points began{}", ending.changed, other_failures));
  const std::string changed_meanwhile = table.changed_file();
  if (!changed_meanwhile.empty())
    throw Error(fmt::format("{}: {}{}", folder.string(), changed_meanwhile, other_failures));
  if (!failed.empty()) throw Error(failed);
}

void list_points(const Sweep& sweep, const Shard& shard) {
  for (std::size_t i = shard.index; i < sweep.points.size(); i += shard.count)
    fmt::print("{}\n", sweep.points[i].name);
}

/// The points of this shard that are not finished yet. Logs and checkpoints of the others go: who was killed as they ended left
/// them.
std::vector<std::size_t> unfinished(const Sweep& sweep, const Shard& shard, SweepTable& table,
                                    const fs::path& folder, bool speaks) {
  std::vector<std::size_t> todo;
  std::size_t found = 0;
  for (std::size_t i = shard.index; i < sweep.points.size(); i += shard.count) {
    if (!table.is_finished(i)) {
      todo.push_back(i);
      continue;
    }
    ++found;
    std::error_code none;
    fs::remove(log_of(folder, sweep.points[i]), none);
    remove_checkpoints(results_of(folder, sweep.points[i]).string());
  }
  if (speaks && found > 0)
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
  const std::optional<std::size_t> asked_jobs = read_jobs(values);
  const Scenario scenario = read_scenario(words);
  const Sweep sweep = read_sweep(scenario);
  const Shard shard = read_shard(values);
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t jobs =
      asked_jobs.value_or(std::max<std::size_t>(1, cores / shard.on_this_machine));

  const fs::path folder = values.count("output") > 0
                              ? fs::path(values["output"].as<std::string>())
                              : fs::path(default_output(scenario.name())).replace_extension();
  const bool is_quiet = values.count("quiet") > 0;
  const bool speaks = !is_quiet && shard.index == 0;
  const PointDoubts doubts = check_points(scenario, sweep, folder, longest_check);
  if (speaks && !doubts.wrong.empty())
    say("starling: warning: {}\nthe other points run\n", doubts.wrong);
  if (speaks && !doubts.warnings.empty()) say("starling: warning: {}\n", doubts.warnings);
  if (values.count("list") > 0) return list_points(sweep, shard);
  meet_signals(ending_signals, note_sweep_signal);
  make_ready(folder, scenario, sweep, speaks);
  SweepTable table(sweep, folder);
  check_finished(table, folder, speaks);
  const std::vector<std::size_t> todo = unfinished(sweep, shard, table, folder, speaks);

  share_machine(cores, jobs * shard.on_this_machine);
  const Ending own = run_all_points(scenario, sweep, table, words, todo, folder, jobs, speaks);
  const auto end = [&](const Ending& ending) {
    conclude(table, sweep, folder, ending, speaks, is_quiet);
  };
#ifdef STARLING_HAVE_MPI
  if (shard.is_of_job && own.is_whole) return end_together(own, end);
#endif
  end(own);
}

}  // namespace starling
