#include "scenarios/checkpointing.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "scenarios/scenario.hpp"
#include "sim/base/checksum.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/record/facts.hpp"

namespace starling {
namespace {

constexpr std::string_view suffix = ".checkpoint";
constexpr std::string_view previous_suffix = ".checkpoint.previous";
constexpr const char* wall_fact = "wall_seconds";
constexpr const char* folder_fact = "folder";
constexpr std::string_view file_prefix = "file ";

std::string newest_of(const std::string& results) { return results + std::string(suffix); }
std::string previous_of(const std::string& results) {
  return results + std::string(previous_suffix);
}

/// "500 steps"; 0 if `text` is something else.
Step parse_steps(std::string_view text) {
  constexpr std::string_view unit = " steps";
  if (!text.ends_with(unit)) return 0;
  text.remove_suffix(unit.size());
  return number_in<Step>(text).value_or(0);
}

/// Whether two scenarios, as they are described, have the same settings, but for where their results go: those may have been
/// renamed, and their checkpoint with them.
bool are_alike(const std::string& text, const std::string& other) {
  const auto without_output = [](const std::string& scenario) {
    const std::size_t line = scenario.find("\noutput = ");
    return line == scenario.npos
               ? scenario
               : scenario.substr(0, line) + scenario.substr(scenario.find('\n', line + 1));
  };
  const std::string here = without_output(text), there = without_output(other);
  return first_other_line(here, there).empty() && first_other_line(there, here).empty();
}

}  // namespace

CheckpointSchedule read_checkpoint(const Section& run) {
  const auto text = run.optional<std::string>(
      "checkpoint", "never",
      "how often a simulation saves what it needs to be resumed: 10 min, 500 steps, or never");
  if (text == "never") return {};
  if (const Step steps = parse_steps(text); steps > 0) return {.steps = steps};
  Duration wall{};
  try {
    wall = parse_duration(text);
  } catch (const std::invalid_argument&) {
  }
  const auto whole = std::chrono::duration_cast<std::chrono::nanoseconds>(wall);
  run.expect(whole.count() > 0, "checkpoint",
             "must be a time as 10 min, a number of steps as 500 steps, or never, got {}", text);
  return {.wall = whole};
}

bool has_checkpoint(const std::string& results) {
  namespace fs = std::filesystem;
  std::error_code none;
  return fs::exists(newest_of(results), none) || fs::exists(previous_of(results), none);
}

FoundCheckpoint find_checkpoint(const std::string& path) {
  namespace fs = std::filesystem;
  FoundCheckpoint found{.file = nullptr, .results = path, .warning = ""};
  for (const std::string_view ending : {previous_suffix, suffix}) {
    if (found.results.ends_with(ending)) found.results.resize(found.results.size() - ending.size());
  }
  const std::string newest = newest_of(found.results);
  const std::string previous = previous_of(found.results);
  if (!has_checkpoint(found.results))
    throw Error(
        fmt::format("{}: there is no checkpoint to resume; that of RESULTS.h5 is "
                    "RESULTS.h5.checkpoint, which simulations leave if run.checkpoint says how "
                    "often, runs over MPI never",
                    newest));
  if (!path.ends_with(previous_suffix)) {
    try {
      found.file = std::make_unique<CheckpointFile>(newest);
      return found;
    } catch (const Error& error) {
      if (!fs::exists(previous)) throw;
      found.warning = fmt::format("{}; going on from the one before it", error.what());
    }
  }
  found.file = std::make_unique<CheckpointFile>(previous);
  return found;
}

std::string other_folder_of(const CheckpointFile& file) {
  const auto& facts = file.content().facts;
  const std::string name = fact(facts, "scenario_name");
  const std::string folder = fact(facts, folder_fact);
  if (name.empty() || folder.empty()) return "";
  return find_scenario(name, folder) == name ? "" : folder;
}

void remove_checkpoints(const std::string& results) {
  std::error_code ignored;  // files that are not there
  const std::string newest = newest_of(results);
  // Who was killed while writing one has left its beginning (PartialFile).
  for (const std::string& path : {newest, previous_of(results), newest + ".partial"})
    std::filesystem::remove(path, ignored);
}

std::string checksum_of_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  fs::path there(path);
  if (!fs::exists(there, none)) there += ".gz";  // as IDX files may be found
  if (!fs::is_regular_file(there, none)) return "";
  std::uint32_t checksum = 0;
  std::ifstream file(there, std::ios::binary);
  std::vector<char> part(std::size_t{1} << 20);
  while (file.read(part.data(), std::ssize(part)) || file.gcount() > 0) {
    const auto bytes = std::as_bytes(std::span(part));
    checksum = crc32c(bytes.first(static_cast<std::size_t>(file.gcount())), checksum);
  }
  return fmt::format("{:08x}", checksum);
}

std::pair<std::string, std::string> file_fact(const FileRead& file) {
  return {std::string(file_prefix) + file.name, file.checksum};
}

void check_facts(const CheckpointFile& file, const std::map<std::string, std::string>& facts) {
  for (const auto& [name, here] : facts) {
    const auto found = file.content().facts.find(name);
    const std::string there = found == file.content().facts.end() ? "unknown" : found->second;
    if (there == here || (name == "scenario" && are_alike(there, here))) continue;
    if (name.starts_with(file_prefix)) {
      throw Error(fmt::format("{}: {} has changed since it was written", file.path(),
                              name.substr(file_prefix.size())));
    }
    if (name == "scenario") {
      throw Error(fmt::format("{}: is of another scenario ({} there, {} here)", file.path(),
                              quoted_other_line(there, here), quoted_other_line(here, there)));
    }
    if (name != "code_version") throw Error(file.path() + ": is of another scenario");
    throw Error(
        fmt::format("{}: was written by version {} of the program, this is {}: a run goes on "
                    "with the program that began it",
                    file.path(), there, here));
  }
}

Checkpointing::Checkpointing(Settings settings, ComputeGraph& graph,
                             std::unique_ptr<CheckpointFile> from)
    : settings_(std::move(settings)),
      graph_(graph),
      window_bytes_(graph.window()),
      from_(std::move(from)) {
  checkpoint_.facts = settings_.facts;
  checkpoint_.facts[folder_fact] = settings_.folder;
  if (from_ == nullptr) {
    checkpoint_.legs.push_back({.events = 0, .window_bytes = window_bytes_});
    graph_.keep_journal();
    plan_next({});
    return;
  }
  const Checkpoint& saved = from_->content();
  checkpoint_.legs = saved.legs;
  const std::string wall = fact(saved.facts, wall_fact);
  std::from_chars(wall.data(), wall.data() + wall.size(), wall_seconds_before_);
  if (settings_.writes) newest_ = from_->path();
  graph_.begin_replay(saved.journal);
  graph_.set_window(checkpoint_.legs.front().window_bytes);
}

void Checkpointing::pass(const Moment& place, bool is_asked) {
  if (is_replaying()) return follow(place);
  if (is_asked || place.steps >= due_steps_) write(place);
}

void Checkpointing::follow(const Moment& place) {
  const Checkpoint::Leg& leg = checkpoint_.legs[next_leg_];
  if (place.events < leg.events) return;
  if (place.events > leg.events) check_replayed();
  if (++next_leg_ < checkpoint_.legs.size()) {
    graph_.flush();
    graph_.set_window(leg.window_bytes);
    return;
  }
  graph_.end_replay(*from_);
  from_.reset();
  checkpoint_.legs.back().window_bytes = window_bytes_;  // of this machine
  graph_.set_window(window_bytes_);
  steps_before_ = place.steps;
  started_ = Clock::now();
  plan_next(place);
}

void Checkpointing::write(const Moment& place) {
  graph_.describe(checkpoint_);
  checkpoint_.legs.push_back({place.events, window_bytes_});
  if (settings_.writes) {
    save_whole();
  } else {  // all processes ask for a vector; one gets it
    for (const Checkpoint::Vector& vector : checkpoint_.vectors) graph_.fetch(vector, {});
  }
  plan_next(place);
}

void Checkpointing::save_whole() {
  const std::chrono::duration<double> wall = Clock::now() - started_;
  checkpoint_.facts[wall_fact] = fmt::format("{:.3f}", wall_seconds_before_ + wall.count());
  const std::string newest = newest_of(settings_.results);
  const std::string previous = previous_of(settings_.results);
  const auto make_way = [&] {
    namespace fs = std::filesystem;
    std::error_code ignored;  // a file that is not there
    if (newest_ == newest) {
      // A second name, so that at no moment the newest is missing; where there are none, it moves.
      std::error_code has_no_links;
      fs::remove(previous, ignored);
      fs::create_hard_link(newest, previous, has_no_links);
      if (has_no_links) fs::rename(newest, previous, ignored);
    } else if (newest_.empty()) {
      fs::remove(previous, ignored);  // of another run
    }  // else the newest was damaged: this run goes on from the previous, which stays
  };
  std::size_t fetched = 0;
  bool is_fetching = false;
  const auto fetch = [&](std::size_t index, std::span<float> to) {
    is_fetching = true;
    graph_.fetch(checkpoint_.vectors[index], to);
    is_fetching = false;
    ++fetched;
  };
  try {
    save(checkpoint_, fetch, newest, make_way);
    newest_ = newest;
  } catch (const Error& error) {
    if (is_fetching) throw;
    // Other processes ask for all vectors, whatever becomes of them here.
    std::vector<float> row;
    while (fetched < checkpoint_.vectors.size()) {
      row.resize(checkpoint_.vectors[fetched].size);
      fetch(fetched, row);
    }
    if (++lost_ == 1 && settings_.warn) {
      settings_.warn(
          fmt::format("{}; the run goes on {}", error.what(),
                      newest_.empty() ? "without a checkpoint" : "with the last good checkpoint"));
    }
  }
}

void Checkpointing::plan_next(const Moment& place) {
  const CheckpointSchedule& schedule = settings_.schedule;
  due_at_ = schedule.wall.count() > 0 ? Clock::now() + schedule.wall : Clock::time_point::max();
  due_steps_ = std::numeric_limits<std::int64_t>::max();
  if (schedule.steps == 0) return;
  const auto period = static_cast<std::int64_t>(
      std::min(0x1p62, static_cast<double>(schedule.steps) * settings_.nodes));
  due_steps_ = (place.steps / period + 1) * period;
}

void Checkpointing::check_replayed() const {
  if (!is_replaying()) return;
  throw Error(fmt::format(
      "{}: the replay passed the checkpoint's place: a file that the scenario names may "
      "have changed",
      from_->path()));
}

}  // namespace starling
