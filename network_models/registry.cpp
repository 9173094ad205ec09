// The table of network models: catalog.inc is read twice, to declare the makers and to list them.

#include "network_models/registry.hpp"

#include "sim/base/kinds.hpp"

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
  return find_kind(section, entries, "", "when does a message arrive");
}

}  // namespace starling::network_models
