#include "tools/sweep_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scenarios/checkpointing.hpp"
#include "scenarios/scenario.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text_file.hpp"
#include "sim/record/facts.hpp"
#include "sim/record/results_file.hpp"
#include "tools/sweep_log.hpp"

namespace starling {
namespace {

namespace fs = std::filesystem;

/// What became of the points of an earlier sweep.
struct Change {
  std::string refused;               // why the folder is not for the sweep of now; "" if it is
  std::vector<std::string> dropped;  // points with files that it lacks
  std::map<std::string, std::string> renamed = {};  // points that have more keys now
  std::vector<SweepPoint> gone = {};                // whose names no point of now has
};

/// A scenario without [sweep], those of `keys`, and sections that have nothing else.
std::string settings_but(const std::vector<std::string>& keys, const std::string& scenario) {
  std::istringstream lines(without_sweep(scenario));
  std::string kept, section;
  bool is_named = false;  // the section is among what is kept
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) {
      section = line;
      is_named = false;
      continue;
    }
    const std::string name = section.empty() ? "" : section.substr(1, section.size() - 2);
    const std::string key = name + '.' + line.substr(0, line.find(' '));
    if (std::ranges::find(keys, key) != keys.end()) continue;
    if (!std::exchange(is_named, true)) kept += (kept.empty() ? "" : "\n") + section + '\n';
    kept += line + '\n';
  }
  return kept;
}

/// The sweep of now lists all keys of the one before, and more, or repeats its points.
bool adds_keys(const Sweep& before, const Sweep& now) {
  return now.keys != before.keys && std::ranges::all_of(before.keys, [&](const std::string& key) {
           return std::ranges::find(now.keys, key) != now.keys.end();
         });
}

/// The scenario of a point that has run, or begun to: of its results, or else of its checkpoint. Throws Error if there is neither.
Scenario scenario_of(const fs::path& results) {
  const std::string path = results.string();
  std::map<std::string, std::string> facts;
  try {
    facts = load(path).facts;
  } catch (const Error&) {  // not there yet, or damaged
    facts = find_checkpoint(path).file->content().facts;
  }
  return Scenario::parse(fact(facts, "scenario"), path);
}

/// The values that a point of the sweep before has in the sweep of now: of the keys that have a list only now those that it ran
/// with, as its results tell. Empty if nobody knows.
std::vector<std::string> values_now(const SweepPoint& point, const Sweep& before, const Sweep& now,
                                    const fs::path& results) {
  std::optional<Scenario> scenario;
  std::vector<std::string> values;
  for (std::size_t i = 0; i < now.keys.size(); ++i) {
    const auto old = std::ranges::find(before.keys, now.keys[i]);
    if (old != before.keys.end()) {
      values.push_back(point.values[static_cast<std::size_t>(old - before.keys.begin())]);
    } else if (now.keys[i] == seed_key && now.has_repeats) {
      values.push_back(now.points.front().values[i]);  // the first seed
    } else {
      try {
        if (!scenario) scenario = scenario_of(results);
      } catch (const Error&) {
        return {};
      }
      values.push_back(scenario->text_of(now.keys[i]).value_or("default"));
    }
  }
  return values;
}

/// A point of both sweeps must have the same file, and a file must be of the same point. What the sweep of now lacks stays
/// where it is: were it to come back, its file would be what a run gives.
Change compare(const Sweep& before, const Sweep& now, const fs::path& folder) {
  const bool is_extended = adds_keys(before, now);
  if (now.keys != before.keys && !is_extended) {
    return {fmt::format(" that lists {}, not {}", fmt::join(before.keys, ", "),
                        fmt::join(now.keys, ", ")),
            {}};
  }
  std::map<std::vector<std::string>, std::string_view> names;
  std::set<std::string_view> taken;
  for (const SweepPoint& point : now.points) {
    names.emplace(point.values, point.name);
    taken.insert(point.name);
  }
  Change change;
  for (const SweepPoint& point : before.points) {
    if (!taken.contains(point.name)) change.gone.push_back(point);
    const auto found = names.find(
        is_extended ? values_now(point, before, now, folder / (point.name + ".h5")) : point.values);
    if (is_extended && found != names.end()) {
      change.renamed.emplace(point.name, found->second);
      continue;
    }
    const bool is_dropped = found == names.end() && fs::exists(folder / (point.name + ".h5"));
    if (is_dropped && !taken.contains(point.name)) change.dropped.push_back(point.name);
    if (is_dropped ? taken.contains(point.name)
                   : found != names.end() && found->second != point.name)
      return {" whose points would have other files", {}};
  }
  return change;
}

/// The same of the sweep that an earlier one has left in the folder.
Change compare(const std::string& before, const fs::path& kept, const Sweep& now) {
  try {
    return compare(read_sweep(Scenario::parse(before, kept.string())), now, kept.parent_path());
  } catch (const ScenarioError&) {
    return {" that cannot be read", {}};  // written by other hands
  }
}

}  // namespace

std::string without_sweep(const std::string& settings) {
  std::istringstream lines(settings);
  std::string kept;
  bool is_inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) is_inside = line == "[sweep]";
    if (!is_inside && !line.empty()) kept += line + '\n';
  }
  return kept;
}

void write_whole(const fs::path& path, const std::string& bytes) {
  std::string partial = path.string() + ".XXXXXX";
  const int file = mkstemp(partial.data());
  bool is_written = file >= 0;
  for (std::size_t done = 0; is_written && done < bytes.size();) {
    const ssize_t count = ::write(file, bytes.data() + done, bytes.size() - done);
    is_written = count > 0 || (count < 0 && errno == EINTR);
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  const mode_t mask = umask(0);
  umask(mask);
  if (is_written) is_written = fchmod(file, 0666 & ~mask) == 0 && fsync(file) == 0;
  const int first_error = errno;  // why it is not written, if it is not
  if (file >= 0 && close(file) != 0) {
    is_written = false;
  } else {
    errno = first_error;
  }
  is_written = is_written && std::rename(partial.c_str(), path.c_str()) == 0;
  if (!is_written) {
    const std::string why = std::generic_category().message(errno);
    unlink(partial.c_str());
    throw Error(fmt::format("{}: cannot write: {}", path.string(), why));
  }
}

std::vector<std::string> prepare_folder(const fs::path& folder, const Scenario& scenario,
                                        const Sweep& sweep) {
  const std::string settings = scenario.to_text();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error(fmt::format("{}: cannot make: {}", folder.string(), error.message()));
  // Looked for first: who else begins this sweep writes them after its settings.
  fs::path table;
  for (const char* name : {"points.csv", "table.csv", "table.h5"}) {
    if (fs::exists(folder / name)) table = folder / name;
  }
  const fs::path kept = folder / "scenario.ini";
  if (!fs::exists(kept)) {
    if (!table.empty()) {
      throw Error(
          fmt::format("{}: is there already and of no sweep, as there is no {}; choose "
                      "another folder with -o",
                      table.string(), kept.string()));
    }
    write_whole(kept, settings);
    return {};
  }
  const std::string before = read_whole_file(kept);
  if (before == settings) return {};
  if (before.empty()) {
    throw Error(
        fmt::format("{}: is empty; remove it if the folder holds this sweep, or choose "
                    "another folder with -o",
                    kept.string()));
  }
  Change change;
  // What points ran with of the keys that they vary now is known of each; the scenario's own value is nobody's.
  const std::string own = settings_but(sweep.keys, settings);
  const std::string theirs = settings_but(sweep.keys, before);
  if (own == theirs) {
    change = compare(before, kept, sweep);
    if (change.refused.empty()) {
      for (const auto& [was, is] : change.renamed) {
        for (const char* ending : {".h5", ".h5.checkpoint", ".h5.checkpoint.previous"}) {
          const fs::path to = folder / (is + ending);
          std::error_code gone;  // not there yet, or another process of the job has renamed it
          if (!fs::exists(to)) fs::rename(folder / (was + ending), to, gone);
        }
      }
      // Else who reads the folder would count them as failed.
      for (const SweepPoint& point : change.gone) {
        std::error_code none;
        fs::remove(log_of(folder, point), none);
      }
      write_whole(kept, settings);
      return change.dropped;
    }
  }
  throw Error(fmt::format(
      "{}: holds a sweep of other settings{} ({} there, {} here); choose another folder with "
      "-o, or remove this one",
      folder.string(), change.refused,
      own == theirs ? quoted_other_line(before, settings) : quoted_other_line(theirs, own),
      own == theirs ? quoted_other_line(settings, before) : quoted_other_line(own, theirs)));
}

}  // namespace starling
