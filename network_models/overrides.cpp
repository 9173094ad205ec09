#include "network_models/overrides.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <tuple>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace starling::network_models {
namespace {

/// Gives the links at each host of `values` its own; of two such hosts at a link the one whose value is the `slower`.
template <class T, class Slower>
void set_at_hosts(Fabric& fabric, const std::vector<RangeValue<T>>& values, Slower slower,
                  void (*set)(Link&, T)) {
  std::map<NodeId, T> at_hosts;
  for (const auto& [first, last, value] : values) {
    for (NodeId host = first; host <= last; ++host) at_hosts.insert_or_assign(host, value);
  }
  std::map<LinkId, T> at_links;
  for (const auto& [host, value] : at_hosts) {
    for (const LinkId link : fabric.links_at(host)) {
      const auto [entry, is_first] = at_links.try_emplace(link, value);
      if (!is_first) entry->second = slower(entry->second, value);
    }
  }
  for (const auto& [link, value] : at_links) set(fabric.links[link], value);
}

void set_bandwidth(Link& link, Bandwidth value) { link.bytes_per_second = value.bytes_per_second; }
void set_latency(Link& link, Duration value) { link.latency = value; }

}  // namespace

std::vector<std::pair<std::string, std::string>> read_pairs(const Section& section,
                                                            std::string_view key,
                                                            std::string_view help) {
  const auto text = section.optional<std::string>(key, "", help);
  std::vector<std::pair<std::string, std::string>> pairs;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    const std::size_t colon = item.rfind(':');
    section.expect(colon != item.npos && !trim(item.substr(0, colon)).empty(), key,
                   "must be pairs such as \"a: b, c: d\", got \"{}\"", trim(item));
    pairs.emplace_back(trim(item.substr(0, colon)), trim(item.substr(colon + 1)));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return pairs;
}

std::pair<NodeId, NodeId> parse_range(const Section& section, std::string_view key,
                                      const std::string& text, NodeId count) {
  NodeId first = 0;
  NodeId last = 0;
  const char* const end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, first);
  last = first;
  bool is_range = error == std::errc();
  if (is_range && rest != end && *rest == '-') {
    const auto second = std::from_chars(rest + 1, end, last);
    rest = second.ptr;
    is_range = second.ec == std::errc();
  }
  section.expect(is_range && rest == end && 0 <= first && first <= last && last < count, key,
                 "must name numbers or ranges such as 5-9, from 0 to {}, got \"{}\"", count - 1,
                 text);
  return {first, last};
}

void warn_repeated(const Section& section, std::string_view key,
                   const std::vector<std::pair<NodeId, NodeId>>& ranges) {
  std::vector<std::size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(
      order, {}, [&](std::size_t i) { return std::tuple(ranges[i].first, -ranges[i].second, i); });
  std::vector<std::size_t> around;  // each within the one before
  for (const std::size_t i : order) {
    const auto [first, last] = ranges[i];
    while (!around.empty() && ranges[around.back()].second < first) around.pop_back();
    if (!around.empty()) {
      const std::size_t wider = around.back();
      const bool is_exception =
          wider < i && last <= ranges[wider].second && ranges[i] != ranges[wider];
      if (!is_exception) {
        return section.warn(key, "names {} more than once: what comes later prevails", first);
      }
    }
    around.push_back(i);
  }
}

bool matches(std::string_view name, std::string_view pattern) {
  std::size_t at = 0, star = pattern.npos, since = 0;  // what the last star takes begins at `since`
  std::size_t p = 0;
  while (at < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      since = at;
    } else if (p < pattern.size() && pattern[p] == name[at]) {
      ++p;
      ++at;
    } else if (star != pattern.npos) {  // the last star takes one more
      p = star + 1;
      at = ++since;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

std::vector<LinkId> LinkNames::find(std::string_view pattern) const {
  std::vector<LinkId> links;
  if (pattern.find('*') == pattern.npos) {
    const auto [first, last] = by_name_.equal_range(pattern);
    for (auto entry = first; entry != last; ++entry) links.push_back(entry->second);
    std::ranges::sort(links);
  } else {
    for (LinkId link = 0; link < names_.size(); ++link) {
      if (matches(names_[link], pattern)) links.push_back(link);
    }
  }
  return links;
}

const std::vector<LinkId>& LinkNames::called(const Section& section, std::string_view key,
                                             std::string_view where, const std::string& pattern) {
  if (names_.empty()) {
    for (LinkId link = 0; link < fabric_.links.size(); ++link) {
      names_.push_back(fabric_.name(link));
    }
    for (LinkId link = 0; link < names_.size(); ++link) by_name_.emplace(names_[link], link);
  }
  const auto [entry, is_new] = found_.try_emplace(pattern);
  if (is_new) entry->second = find(pattern);
  if (entry->second.empty()) {
    section.fail(key, "{}must name links of the fabric, from \"{}\" to \"{}\", got \"{}\"", where,
                 names_.empty() ? "" : names_.front(), names_.empty() ? "" : names_.back(),
                 pattern);
  }
  return entry->second;
}

std::function<void(Fabric&)> read_host_values(const Section& section, NodeId hosts) {
  const auto bandwidths =
      read_ranges(section, "host_bandwidths", hosts, parse_bandwidth,
                  "of the links at these hosts, such as 3: 1 GB/s, 5-9: 100 MB/s; between two of "
                  "them the slower one's");
  const auto latencies = read_ranges(section, "host_latencies", hosts, parse_latency,
                                     "of the same links, such as 3: 20 us");
  return [=](Fabric& fabric) {
    const auto narrower = [](Bandwidth a, Bandwidth b) {
      return a.bytes_per_second < b.bytes_per_second ? a : b;
    };
    const auto longer = [](Duration a, Duration b) { return std::max(a, b); };
    set_at_hosts<Bandwidth>(fabric, bandwidths, narrower, set_bandwidth);
    set_at_hosts<Duration>(fabric, latencies, longer, set_latency);
  };
}

std::function<void(Fabric&)> read_link_values(const Section& section) {
  const auto bandwidths = read_named_values(section, "link_bandwidths", parse_bandwidth,
                                            "of links by name, * for any text, such as edge 1 -> "
                                            "*: 1 GB/s; host 3 * takes host 3 within, too");
  const auto latencies =
      read_named_values(section, "link_latencies", parse_latency, "of links by name likewise");
  return [=, &section](Fabric& fabric) {
    LinkNames names(fabric);
    const auto each = [&](std::string_view key, const auto& values, const auto& set) {
      for (const auto& [pattern, value] : values) {
        for (const LinkId link : names.called(section, key, "", pattern)) {
          set(fabric.links[link], value);
        }
      }
    };
    each("link_bandwidths", bandwidths, set_bandwidth);
    each("link_latencies", latencies, set_latency);
  };
}

}  // namespace starling::network_models
