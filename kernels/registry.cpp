// catalog.inc is read twice, to declare makers and to fill the table: nothing is half registered.
#include "kernels/registry.hpp"

#include "sim/base/kinds.hpp"
#include "sim/base/numbers.hpp"

namespace starling::workloads {

#define WORKLOAD(name, summary) \
  std::unique_ptr<Workload> name(const Section& section, NodeId nodes, std::uint64_t seed);
#include "kernels/catalog.inc"
#undef WORKLOAD

namespace {

constexpr WorkloadEntry entries[] = {
#define WORKLOAD(name, summary) {#name, summary, name},
#include "kernels/catalog.inc"
#undef WORKLOAD
};

}  // namespace

std::span<const WorkloadEntry> catalog() { return entries; }

const WorkloadEntry& find(const Section& section) {
  return find_kind(section, entries, "", "which workload");
}

std::int64_t read_wire_parameters(const Section& section) {
  return read_whole(section, "wire_parameters", 0, 0, most_parameters,
                    "floats that a message with a model has on the wire; 0: as many as the model");
}

}  // namespace starling::workloads
