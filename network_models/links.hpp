// The physical network below a network model: links, and which of them a message crosses. A Fabric
// says both; Routes remembers each route it was asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "network_models/max_min.hpp"
#include "sim/base/time.hpp"
#include "sim/base/types.hpp"

namespace starling::network_models {

/// One direction of a cable: a cable of a split-duplex fabric is two links.
struct Link {
  double bytes_per_second;
  Duration latency;
};

/// Links, and a rule of routing over them.
struct Fabric {
  std::vector<Link> links;
  /// Appends the links from source to destination, two different nodes, in order of crossing; at
  /// least one, the same ones each time.
  std::function<void(NodeId source, NodeId destination, std::vector<LinkId>& links)> route;
};

/// The way from one node to another.
struct Route {
  std::span<const LinkId> links;
  Duration latency;         // sum
  double bytes_per_second;  // of the slowest link
};

/// The routes of a fabric, each found when it is first asked for; their links lie in one arena that
/// never moves. Numbers of routes count up from 0 in order of first use.
class Routes {
 public:
  explicit Routes(Fabric fabric);

  /// Number of the route between two different nodes.
  std::uint32_t find(NodeId source, NodeId destination);
  const Route& operator[](std::uint32_t number) const { return routes_[number]; }
  std::size_t size() const { return routes_.size(); }
  std::span<const Link> links() const { return fabric_.links; }

 private:
  static constexpr std::size_t block_size = std::size_t{1} << 16;
  struct Slot {
    std::uint64_t pair;
    std::uint32_t number;
  };
  Slot& slot_of(std::uint64_t pair);
  void grow();
  std::span<const LinkId> keep(const std::vector<LinkId>& links);

  Fabric fabric_;
  std::vector<Route> routes_;
  std::vector<Slot> slots_;                 // hash table with linear probing, at most half full
  std::vector<std::vector<LinkId>> arena_;  // blocks that never grow past what they reserved
  std::vector<LinkId> scratch_;
};

/// Shortest ways over an undirected graph of switches, found by breadth-first search. Among equally
/// short ones, the turn at each switch is taken by (source + destination) mod their number, so that
/// different pairs spread over them.
class SwitchGraph {
 public:
  /// `edges`: pairs of switches 0 .. switches - 1.
  SwitchGraph(std::uint32_t switches, std::vector<std::pair<std::uint32_t, std::uint32_t>> edges);
  ~SwitchGraph();
  SwitchGraph(SwitchGraph&&) noexcept;

  std::size_t edges() const;
  std::size_t degree(std::uint32_t vertex) const;
  /// Whether there is a way between any two switches.
  bool is_connected();

  /// Calls visit(edge, is_forward) along a shortest way; `is_forward` tells the direction in which
  /// edge number `edge` is crossed. Different `spread` choose different ways of equal length.
  /// Throws Error if there is none.
  void walk(std::uint32_t from, std::uint32_t to, std::uint64_t spread,
            const std::function<void(std::size_t edge, bool is_forward)>& visit);

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

}  // namespace starling::network_models
