// The table of network models: catalog.inc is read twice, to declare the makers and to list them.

#include "network_models/registry.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/error.hpp"

namespace starling::network_models {

#define NETWORK_MODEL(name, summary) \
  std::unique_ptr<NetworkModel> name(const Section&, NodeId, std::uint64_t);
#include "network_models/catalog.inc"
#undef NETWORK_MODEL

namespace {

constexpr NetworkModelEntry entries[] = {
#define NETWORK_MODEL(name, summary) {#name, summary, &name},
#include "network_models/catalog.inc"
#undef NETWORK_MODEL
};

}  // namespace

std::span<const NetworkModelEntry> catalog() { return entries; }

const NetworkModelEntry& find(const Section& section) {
  std::vector<std::string> names;
  for (const NetworkModelEntry& entry : entries) names.emplace_back(entry.name);
  const std::string kind = section.choice("kind", names, "", "when does a message arrive");
  const auto found = std::ranges::find(entries, kind, &NetworkModelEntry::name);
  ensure(found != std::end(entries), "a choice is one of its options");
  return *found;
}

}  // namespace starling::network_models
