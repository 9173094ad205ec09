// The keys of [failures]: lists of outages as text, a file of them, chances.
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sim/base/number_file.hpp"
#include "sim/base/numbers.hpp"
#include "sim/base/text.hpp"
#include "sim/base/units.hpp"
#include "sim/engine/failures.hpp"

namespace starling {
namespace {

// Below it, a second has more failures than anybody could wait for.
constexpr Duration least_time_between_failures = std::chrono::microseconds(1);

/// Splits at the first `mark`; the second half is empty if there is none.
std::pair<std::string_view, std::string_view> split(std::string_view text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at == text.npos) return {trim(text), {}};
  return {trim(text.substr(0, at)), trim(text.substr(at + mark.size()))};
}

/// Reads "NODE @ TIME" or "NODE @ TIME for DURATION" out of a list.
class OutageList {
 public:
  OutageList(const Section& section, const char* key, const char* form, NodeId nodes)
      : section_(section), key_(key), form_(form), nodes_(nodes) {}

  /// Calls add(node, time, duration) for every item; a duration must be there or not, as told.
  template <class Add>
  void read(const char* help, bool has_duration, const Add& add) const {
    const auto text = section_.optional<std::string>(key_, "", help);
    std::string_view rest = text;
    while (!trim(rest).empty()) {
      const std::size_t comma = rest.find(',');
      const std::string_view item = trim(rest.substr(0, comma));
      const auto [node, times] = split(item, "@");
      const auto [begin, length] = split(times, "for");
      if (begin.empty() || length.empty() == has_duration) refuse(item);
      const NodeId who = parse_node(node, item);
      const Time since(parse_time(begin, item));
      const Duration duration = has_duration ? parse_time(length, item) : Duration{};
      if (duration > never - since)
        refuse(item, ", which ends past the end of the clock (106 days)");
      add(who, since, duration);
      rest = comma == rest.npos ? std::string_view() : rest.substr(comma + 1);
    }
  }

 private:
  [[noreturn]] void refuse(std::string_view item, std::string_view reason = "") const {
    section_.fail(key_, "must be a list like \"{}\", got \"{}\"{}", form_, item, reason);
  }

  NodeId parse_node(std::string_view text, std::string_view item) const {
    const auto node = number_in<std::int64_t>(text);
    if (!node || text.front() == '-') refuse(item);
    section_.expect(*node < nodes_, key_, "must name nodes from 0 to {}, got {}", nodes_ - 1,
                    *node);
    return static_cast<NodeId>(*node);
  }

  Duration parse_time(std::string_view text, std::string_view item) const {
    try {
      return parse_duration(text);
    } catch (const std::invalid_argument& error) {
      refuse(item, fmt::format(", whose time {}", error.what()));
    }
  }

  const Section& section_;
  const char* key_;
  const char* form_;
  NodeId nodes_;
};

void read_lists(const Section& section, NodeId nodes, std::vector<Outage>& outages) {
  OutageList(section, "stop", "3 @ 2 s, 5 @ 3 s", nodes)
      .read("nodes that stop for ever, and when, such as 3 @ 2 s, 5 @ 3 s", false,
            [&](NodeId node, Time begin, Duration) {
              outages.push_back({node, begin, never});
            });
  OutageList(section, "pause", "3 @ 2 s for 500 ms", nodes)
      .read("nodes that do nothing for a while and go on, such as 3 @ 2 s for 500 ms", true,
            [&](NodeId node, Time begin, Duration length) {
              outages.push_back({node, begin, begin + length});
            });
  OutageList(section, "join", "4 @ 1 s", nodes)
      .read("nodes that begin later than time zero, such as 4 @ 1 s", false,
            [&](NodeId node, Time end, Duration) {
              outages.push_back({node, Time{}, end});
            });
}

void read_outages(const std::string& path, NodeId nodes, std::vector<Outage>& outages) {
  constexpr const char* names = "node,begin,end";
  constexpr const char* expected = "node,begin,end in seconds";
  NumberFile file(path, "the outages of failures.outages", expected);
  while (file.next()) {
    const auto row = file.values();
    if (row.size() != 3) file.refuse(expected);
    // Columns in another order would pass as numbers.
    if (file.header().find(',') != std::string::npos && file.header() != names)
      file.refuse_header(names);
    if (!(row[0] >= 0 && row[0] < nodes && row[0] == std::floor(row[0])))
      file.refuse(fmt::format("a node from 0 to {}", nodes - 1));
    if (!(row[1] >= 0 && row[1] < row[2]))
      file.refuse("a begin that is not negative and before its end");
    try {
      outages.push_back({static_cast<NodeId>(row[0]), Time(from_seconds(row[1])),
                         std::isinf(row[2]) ? never : Time(from_seconds(row[2]))});
    } catch (const std::invalid_argument&) {
      file.refuse("times before the end of the clock (106 days), or inf");
    }
  }
}

double read_chance(const Section& section, const char* key, const char* help) {
  return read_between(section, key, 0, 0, 1, help);
}

}  // namespace

FailureSettings read_failures(const Section& section, NodeId nodes) {
  FailureSettings settings;
  read_lists(section, nodes, settings.outages);
  const std::string file = section.resolve_path(section.optional<std::string>(
      "outages", "", "CSV file: node,begin,end in seconds; end inf: stops"));
  settings.mean_time_between_failures = section.optional<Duration>(
      "mean_time_between_failures", Duration{0},
      "mean time that a node is up until it fails at random; 0 s: it never does");
  section.expect(settings.mean_time_between_failures == Duration::zero() ||
                     settings.mean_time_between_failures >= least_time_between_failures,
                 "mean_time_between_failures", "must be 0 s or at least {}, got {}",
                 to_text(least_time_between_failures),
                 to_text(settings.mean_time_between_failures));
  settings.mean_time_to_repair = section.optional<Duration>(
      "mean_time_to_repair", Duration{0}, "mean length of a random outage; 0 s: it has no end");
  settings.reliable_nodes = read_nodes(section, "reliable_nodes", nodes,
                                       "so many nodes, from node 0 on, never fail at random");
  section.expect(settings.reliable_nodes == 0 || section.has("mean_time_between_failures"),
                 "reliable_nodes",
                 "needs mean_time_between_failures, which says how often the others fail");
  section.expect(settings.mean_time_to_repair == Duration::zero() ||
                     settings.mean_time_between_failures > Duration::zero(),
                 "mean_time_to_repair", "needs mean_time_between_failures");
  settings.lose = read_chance(section, "lose", "chance that a message is lost");
  settings.duplicate = read_chance(section, "duplicate", "chance that a message comes twice");
  section.expect(settings.lose + settings.duplicate <= 1, "duplicate",
                 "and lose together must be at most 1, got {}", settings.lose + settings.duplicate);
  section.finish();
  if (!file.empty()) {
    const std::size_t listed = settings.outages.size();
    read_named_file(section, "outages", [&] { read_outages(file, nodes, settings.outages); });
    if (settings.outages.size() == listed)
      section.warn("outages", "names {}, which has no outages", file);
  }
  return settings;
}

}  // namespace starling
