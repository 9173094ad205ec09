// Complete graph: everybody with everybody. All weights are 1/n, so one step is the exact average.

#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::topologies {

Topology complete(const Section& section, NodeId nodes, std::uint64_t /*seed*/) {
  const Mixing mixing = read_lazy(section);
  section.finish();
  const double weight = (mixing.lazy ? 0.5 : 1.0) / nodes;
  double self = 1;
  for (NodeId j = 1; j < nodes; ++j) self -= static_cast<double>(static_cast<float>(weight));
  return Topology::complete(nodes, weight, self);
}

}  // namespace starling::topologies
