// Who else has a key is found by probes, with settings that the kind at hand never checked and that expect() lets pass: no maker
// may divide by one, or take it for a number of things that are there.
#include <doctest/doctest.h>

#include "algorithms/registry.hpp"
#include "kernels/registry.hpp"
#include "network_models/registry.hpp"
#include "tests/support/probes.hpp"
#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::test_probes {
namespace {

constexpr NodeId nodes = 4;

template <class Entries, class Make>
void probe(const Entries& kinds, Make make) {
  const auto ignore = [](const auto&, const Section&) {};
  test::probe_at_random(kinds, 300, test::odd_values, make, ignore);
}

}  // namespace

TEST_CASE("no maker trips over settings that it would refuse") {
  const auto make = [](const auto& kind, const Section& section) {
    static_cast<void>(kind.make(section, nodes, 1));
  };
  probe(topologies::catalog(), make);
  probe(network_models::catalog(), make);
  probe(workloads::catalog(), make);
  const Topology ring = topologies::mix(
      nodes,
      {{0, 1, 0}, {1, 2, 0}, {2, 3, 0}, {3, 0, 0}, {1, 0, 0}, {2, 1, 0}, {3, 2, 0}, {0, 3, 0}}, {});
  const WorkloadFacts facts;
  probe(algorithms::catalog(), [&](const algorithms::AlgorithmEntry& kind, const Section& section) {
    algorithms::read_exchange(section, kind);
    static_cast<void>(kind.make(section, {nodes, 10, ring, facts}));
  });
}

}  // namespace starling::test_probes
