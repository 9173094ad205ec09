// Shortest ways over a graph of switches: fewest hops, then least latency. Among equally good ones
// the turn at each switch is taken by a hash of the pair of hosts (way_between), so that different
// pairs spread over them; parallel cables count as so many ways.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "network_models/links.hpp"

namespace starling::network_models {

/// A link between two switches of a graph.
struct Arc {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  LinkId link = 0;
  Duration latency{};
};

class SwitchGraph {
 public:
  /// Switches 0 .. switches - 1. Ways pass through those alone that `forwards` names (all if it is
  /// empty); they may begin and end at the others. Of the ways found it remembers `most_kept` bytes,
  /// at least those to one end.
  SwitchGraph(std::uint32_t switches, const std::vector<Arc>& arcs,
              const std::vector<char>& forwards = {},
              std::size_t most_kept = std::size_t{256} << 20);
  ~SwitchGraph();
  SwitchGraph(SwitchGraph&&) noexcept;

  /// Two of `ends` between which no way leads, in this order, if there are any. `is_plain`: it is
  /// enough to look at the ways to the first.
  std::optional<std::pair<std::uint32_t, std::uint32_t>> unreachable(
      const std::vector<std::uint32_t>& ends, bool is_plain) const;

  /// Appends the links along a shortest way. Different `spread` choose different ways among equally
  /// good ones: its remainder at each switch, by whose number of them it is then divided. Throws Error
  /// if there is none.
  void walk(std::uint32_t from, std::uint32_t to, std::uint64_t spread, std::vector<LinkId>& links);

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

/// Where a host hangs in a graph of switches: at the end of a cable of its own, or it is a vertex
/// of the graph itself.
struct Port {
  static constexpr LinkId none = ~LinkId{0};
  std::uint32_t vertex;
  LinkId up = none;
  LinkId down = none;
};

/// A fabric of hosts at the ports of a graph of switches; links_at() is the default.
Fabric graph_fabric(std::vector<Link> links, SwitchGraph graph, std::vector<Port> ports,
                    std::function<std::string(LinkId)> name);

/// The usual case: equal links, hosts_per_switch hosts at each switch, host h at switch h /
/// hosts_per_switch. Links: hosts' up and down, 2 per host; then 2 per cable, there and back.
Fabric graph_fabric(std::uint32_t switches,
                    const std::vector<std::pair<std::uint32_t, std::uint32_t>>& cables,
                    NodeId hosts_per_switch, Link link);

}  // namespace starling::network_models
