// The key `kind`, which every catalog of components answers alike.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/section.hpp"

namespace starling {

/// The entry of `entries`, an array of what has a `name` and a `summary`, that the key `kind` of the section names, or
/// `fallback` does; an empty `fallback` makes the key required.
template <class Entries>
const auto& find_kind(const Section& section, const Entries& entries, std::string_view fallback,
                      std::string_view help) {
  std::vector<std::string> names, summaries;
  for (const auto& entry : entries) {
    names.emplace_back(entry.name);
    summaries.emplace_back(entry.summary);
  }
  const std::string kind = section.choice("kind", names, fallback, help, summaries);
  const auto found =
      std::ranges::find_if(entries, [&kind](const auto& entry) { return entry.name == kind; });
  ensure(found != std::end(entries), "a choice is one of its options");
  return *found;
}

}  // namespace starling
