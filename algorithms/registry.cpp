// The table of algorithms: catalog.inc is read twice, to declare the makers and to list them.

#include "algorithms/registry.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/error.hpp"

namespace starling::algorithms {
namespace {

constexpr AlgorithmEntry entries[] = {
#define ALGORITHM(name, summary) {#name, summary, &name},
#include "algorithms/catalog.inc"
#undef ALGORITHM
};

}  // namespace

std::span<const AlgorithmEntry> catalog() { return entries; }

const AlgorithmEntry& find(const Section& section) {
  std::vector<std::string> names;
  for (const AlgorithmEntry& entry : entries) names.emplace_back(entry.name);
  const std::string kind = section.choice("kind", names, "", "what every node runs");
  const auto found = std::ranges::find(entries, kind, &AlgorithmEntry::name);
  ensure(found != std::end(entries), "a choice is one of its options");
  return *found;
}

}  // namespace starling::algorithms
