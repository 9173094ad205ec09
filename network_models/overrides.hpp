// What single hosts and links have instead of the fabric's usual numbers, as scenarios write it:
//
//   host_bandwidths = 3: 1 GB/s, 5-9: 100 MB/s
//   link_latencies = switch 0 -> switch 4: 5 us, host 3 *: 2 us
//
// Links go by their names; * stands for any text. What comes later prevails; of two hosts at one link, the slower.
#pragma once

#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "network_models/links.hpp"
#include "sim/base/section.hpp"

namespace starling::network_models {

/// A value for numbers first .. last.
template <class T>
struct RangeValue {
  NodeId first;
  NodeId last;
  T value;
};

/// A value for the links of that name.
template <class T>
struct LinkValue {
  std::string pattern;
  T value;
};

/// The text of `key` as pairs: "a: b, c: d".
std::vector<std::pair<std::string, std::string>> read_pairs(const Section& section,
                                                            std::string_view key,
                                                            std::string_view help);

/// "3" or "5-9", from 0 to count - 1. Throws ScenarioError of the key.
std::pair<NodeId, NodeId> parse_range(const Section& section, std::string_view key,
                                      const std::string& text, NodeId count);

/// Calls parse(text), which throws std::invalid_argument, and locates what it throws.
template <class Parse>
auto parse_value(const Section& section, std::string_view key, const std::string& text,
                 Parse parse) {
  try {
    return parse(text);
  } catch (const std::invalid_argument& error) {
    section.fail(key, "{}", error.what());
  }
}

/// Warns if a number is in two ranges, which is hardly meant unless the later one is an exception within the earlier.
void warn_repeated(const Section& section, std::string_view key,
                   const std::vector<std::pair<NodeId, NodeId>>& ranges);

template <class Parse>
auto read_ranges(const Section& section, std::string_view key, NodeId count, Parse parse,
                 std::string_view help) {
  std::vector<RangeValue<decltype(parse(std::string()))>> values;
  std::vector<std::pair<NodeId, NodeId>> ranges;
  for (const auto& [who, what] : read_pairs(section, key, help)) {
    const auto [first, last] = parse_range(section, key, who, count);
    ranges.emplace_back(first, last);
    values.push_back({first, last, parse_value(section, key, what, parse)});
  }
  warn_repeated(section, key, ranges);
  return values;
}

template <class Parse>
auto read_named_values(const Section& section, std::string_view key, Parse parse,
                       std::string_view help) {
  std::vector<LinkValue<decltype(parse(std::string()))>> values;
  for (const auto& [who, what] : read_pairs(section, key, help)) {
    values.push_back({who, parse_value(section, key, what, parse)});
  }
  return values;
}

/// Whether `name` is `pattern`, in which * stands for any text.
bool matches(std::string_view name, std::string_view pattern);

/// Finds links by name for many patterns: each name is made, and each pattern is looked for, once.
class LinkNames {
 public:
  explicit LinkNames(const Fabric& fabric) : fabric_(fabric) {}

  /// The links whose name matches, in order; if there are none, throws ScenarioError with the names
  /// of some, `where` (may be empty) in front.
  const std::vector<LinkId>& called(const Section& section, std::string_view key,
                                    std::string_view where, const std::string& pattern);

 private:
  std::vector<LinkId> find(std::string_view pattern) const;

  const Fabric& fabric_;
  std::vector<std::string> names_;
  std::unordered_multimap<std::string_view, LinkId> by_name_;
  std::unordered_map<std::string, std::vector<LinkId>> found_;  // by pattern
};

/// Reads host_bandwidths and host_latencies for so many hosts. What it returns changes a fabric, after section.finish().
std::function<void(Fabric&)> read_host_values(const Section& section, NodeId hosts);

/// Reads link_bandwidths and link_latencies, likewise.
std::function<void(Fabric&)> read_link_values(const Section& section);

}  // namespace starling::network_models
