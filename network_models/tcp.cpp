// TCP as SimGrid models it (LV08): a fluid network whose flows pay 13.01 latencies for slow start,
// lose 3 % to headers, are held back by their window, share a link in proportion to
//   1 / (latency + sum over links of 20537 B / bandwidth),
// and load the way back with their acknowledgements. Made for wide areas: on a network of
// microseconds the latency factor is far too high. An undisturbed message of k bytes takes
//   13.01 latency + k / (0.97 min(bandwidth, window / (2 latency)));
// where one link carries both ways, as that within a host does, bandwidth / (1 + cross_traffic).
//
// Velho and Legrand, "Accuracy study and improvement of network simulation in the SimGrid
// framework", SIMUTools 2009. With factors 1, weight_bytes = 0 B and no cross traffic it is CM02:
// Casanova and Marchal, "A network model for simulation of Grid application", INRIA RR-4596, 2002.
//
// With factors by size and weight_bytes = 8775 B it is SMPI, SimGrid's model of MPI messages: Clauss et al., "Single node
// on-line simulation of MPI applications with SMPI", IPDPS 2011. A message of k bytes is then carried as k / bandwidth_factor.

#include "network_models/fabrics.hpp"
#include "network_models/fluid.hpp"
#include "network_models/presets.hpp"
#include "network_models/registry.hpp"

namespace starling::network_models {

std::unique_ptr<NetworkModel> tcp(const Section& section, NodeId nodes, std::uint64_t seed) {
  const auto preset = read_preset(section, {"10gbe", "wan"});
  const auto build = read_fabric(section, nodes, seed, preset);
  FlowRules rules{.is_weighted = true};
  rules.latency_factor =
      read_size_factor(section, "latency_factor", 13.01, 1000,
                       "latencies that a message pays before its first byte; or by size, such as "
                       "0 B: 2, 64 KiB: 11.6, each for messages of more bytes");
  rules.bandwidth_factor = read_size_factor(
      section, "bandwidth_factor", preset ? 1 : 0.97, 1,
      "of a link's bandwidth that carries payload, or by size likewise; a preset's bandwidth is "
      "payload");
  rules.window = static_cast<double>(
      section
          .optional<Bytes>("window", Bytes{4'194'304},
                           "at most so much is under way: rate <= bandwidth_factor * window / (2 "
                           "latency); 0 B: without bound")
          .count);
  rules.weight_bytes = static_cast<double>(
      section
          .optional<Bytes>("weight_bytes", Bytes{20'537},
                           "a flow's share of a link goes with 1 / (latency + sum over links of "
                           "weight_bytes / bandwidth)")
          .count);
  rules.back_share = section.optional<double>(
      "cross_traffic", 0.05, "of its rate that a flow takes on the way back; 0 is much faster");
  section.expect_range("cross_traffic", rules.back_share, 0, 1);
  return make_fluid(section, nodes, build, rules, seed);
}

}  // namespace starling::network_models
