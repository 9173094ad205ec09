#include "network_models/link_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "network_models/clock_range.hpp"
#include "network_models/overrides.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/random.hpp"
#include "sim/base/text.hpp"

namespace starling::network_models {
namespace {

constexpr std::string_view schedule_key = "link_schedule";

/// One row of the file, without the links that it names.
struct ScheduleRow {
  Time time;
  std::string pattern;
  double factor;
};

ScheduleRow parse_row(const Section& section, const std::string& where, const CsvRow& row) {
  section.expect(row.cells.size() == 3, schedule_key,
                 "{}expected time, link, factor, found {} cells", where, row.cells.size());
  const double factor = number_in<double>(row.cells[2]).value_or(-1);
  section.expect(factor >= 0 && factor <= 1e6, schedule_key,
                 "{}expected a factor of the bandwidth from 0 on, found \"{}\"", where,
                 row.cells[2]);
  try {
    return {Time{parse_duration(row.cells[0])}, row.cells[1], factor};
  } catch (const std::invalid_argument& problem) {
    section.fail(schedule_key, "{}the time {}", where, problem.what());
  }
}

std::vector<LinkChange> read_changes(const Section& section, const std::string& path,
                                     LinkNames& names) {
  std::vector<LinkChange> changes;
  for (const CsvRow& row : read_csv(section, schedule_key, path)) {
    if (row.cells[0] == "time") continue;  // the header
    const std::string where = fmt::format("{}:{}: ", path, row.line);
    const ScheduleRow change = parse_row(section, where, row);
    section.expect(changes.empty() || changes.back().time <= change.time, schedule_key,
                   "{}expected rows in order of time, found {} after a later one", where,
                   row.cells[0]);
    for (const LinkId link : names.called(section, schedule_key, where, change.pattern)) {
      changes.push_back({change.time, link, change.factor});
    }
  }
  return changes;
}

}  // namespace

LinkSchedule::LinkSchedule(std::vector<LinkChange> changes, RandomFailures failures,
                           std::size_t links)
    : changes_(std::move(changes)), failures_(std::move(failures)), links_(links) {
  for (const LinkChange& change : changes_) {
    largest_factor_ = std::max(largest_factor_, change.factor);
    ++links_[change.link].rows;
  }
  if (failures_.interval == Duration{0}) return;
  for (const LinkId link : failures_.links) links_[link].fails = true;
}

/// The turn of a link that took its last one then; beyond the end of the clock it never comes.
void LinkSchedule::plan(LinkId link, Step turn, Time from) {
  State& state = links_[link];
  const Duration mean = turn % 2 == 0 ? failures_.interval : failures_.repair;
  Random random(failures_.seed, "link_failure", static_cast<NodeId>(link), turn);
  const double wait = std::ceil(random.exponential() * static_cast<double>(mean.count()));
  const bool comes = static_cast<double>(from.time_since_epoch().count()) + wait < end_of_clock;
  state.turn = turn;
  state.turns_at = comes
                       ? from + Duration{std::max<std::int64_t>(static_cast<std::int64_t>(wait), 1)}
                       : Time::max();
}

/// Makes up for the turns of a link up to that time.
void LinkSchedule::advance(LinkId link, Time until) {
  State& state = links_[link];
  if (!state.fails) return;
  if (state.turn < 0) plan(link, 0, Time{});
  while (state.turns_at <= until && state.turns_at < Time::max()) {
    state.is_away = state.turn % 2 == 0;
    change(link, state.turns_at);
    plan(link, state.turn + 1, state.turns_at);
  }
}

void LinkSchedule::change(LinkId link, Time time) {
  State& state = links_[link];
  const double factor = state.is_away ? 0 : state.scheduled;
  if (factor != state.factor) state.since = time;
  state.factor = factor;
}

Time LinkSchedule::next() const {
  const Time change = next_change_ < changes_.size() ? changes_[next_change_].time : Time::max();
  return turns_.empty() ? change : std::min(change, turns_.top().time);
}

void LinkSchedule::note(LinkId link, Time time, std::vector<LinkChange>& changes) {
  if (!std::exchange(links_[link].is_taken, true)) changes.push_back({time, link, 0});
}

void LinkSchedule::take(Time now, std::vector<LinkChange>& changes) {
  const std::size_t first = changes.size();
  while (next() <= now && next() < Time::max()) {
    const Time scheduled =
        next_change_ < changes_.size() ? changes_[next_change_].time : Time::max();
    if (scheduled == next()) {
      const auto [time, link, factor] = changes_[next_change_++];
      advance(link, time - Duration{1});
      links_[link].scheduled = factor;
      --links_[link].rows;
      change(link, time);
      note(link, time, changes);
      continue;
    }
    const auto [time, link] = turns_.top();
    turns_.pop();
    links_[link].is_followed = links_[link].uses > 0;
    if (!links_[link].is_followed) continue;
    advance(link, std::min(now, scheduled - Duration{1}));
    turns_.push({links_[link].turns_at, link});
    note(link, time, changes);
  }
  for (std::size_t i = first; i < changes.size(); ++i) {
    State& state = links_[changes[i].link];
    changes[i].factor = state.factor;
    state.is_taken = false;
  }
}

void LinkSchedule::use(LinkId link, Time now, std::vector<LinkChange>& changes) {
  State& state = links_[link];
  ++state.uses;
  if (!state.fails || std::exchange(state.is_followed, true)) return;
  advance(link, now);
  turns_.push({state.turns_at, link});
  changes.push_back({now, link, state.factor});
}

std::function<LinkSchedule(const Fabric&)> read_schedule(const Section& section,
                                                         std::uint64_t seed) {
  const auto file = section.optional<std::string>(
      schedule_key, "",
      "CSV file of time, link, factor: from then on a link carries that much of its bandwidth, 0: "
      "it is away; none: all stay as they are");
  const auto interval = section.optional<Duration>(
      "failure_interval", Duration{0},
      "mean time that a failing link works, exponential; 0 s: no link fails at random");
  const auto repair = section.optional<Duration>("repair_time", std::chrono::seconds(1),
                                                 "mean time that it is away, exponential");
  const auto pattern =
      section.optional<std::string>("failing_links", "*", "links that fail at random, by name");
  section.expect(interval == Duration{0} || interval >= std::chrono::microseconds(1),
                 "failure_interval", "must be 0 s or at least 1 us, got {}", to_text(interval));
  section.expect(repair > Duration{0}, "repair_time", "must be positive, got {}", to_text(repair));
  if (interval > Duration{0} && interval < repair) {
    section.warn("failure_interval",
                 "is {}, less than repair_time, {}: links are away {:.3g} % of the time",
                 to_text(interval), to_text(repair),
                 100 * to_seconds(repair) / (to_seconds(interval) + to_seconds(repair)));
  }
  for (const char* key : {"repair_time", "failing_links"}) {
    section.expect(!section.has(key) || section.has("failure_interval"), key,
                   "needs failure_interval, which says how often links fail");
  }
  return [=, &section](const Fabric& fabric) {
    LinkNames names(fabric);
    std::vector<LinkChange> changes;
    if (!file.empty()) changes = read_changes(section, section.resolve_path(file), names);
    RandomFailures failures{.interval = interval, .repair = repair, .links = {}, .seed = seed};
    if (interval > Duration{0}) {
      failures.links = names.called(section, "failing_links", "", pattern);
    }
    if (changes.empty() && failures.links.empty()) return LinkSchedule();
    return LinkSchedule(std::move(changes), std::move(failures), fabric.links.size());
  };
}

}  // namespace starling::network_models
