// The physical network below a network model: links, and which of them a message crosses. A Fabric
// says both; Routes remembers each route it was asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "network_models/max_min.hpp"
#include "sim/base/cache_aligned.hpp"
#include "sim/base/time.hpp"
#include "sim/base/types.hpp"

namespace starling::network_models {

/// Of a link, so that sums of them stay on the clock.
inline constexpr Duration longest_latency = std::chrono::seconds(60);

/// parse_duration() of a link's latency; throws std::invalid_argument beyond longest_latency, too.
Duration parse_latency(std::string_view text);

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
  /// What a link is called in reports and in scenarios: "host 3 up", "edge 1 -> core 2".
  std::function<std::string(LinkId link)> name = [](LinkId link) {
    return fmt::format("link {}", link);
  };
  /// The links at a host: all that its messages begin or end on, and perhaps some that no route takes. By default numbers 2 h
  /// and 2 h + 1 are those of host h alone, upwards and downwards.
  std::function<std::vector<LinkId>(NodeId host)> links_at = [](NodeId host) {
    return std::vector<LinkId>{2 * static_cast<LinkId>(host), 2 * static_cast<LinkId>(host) + 1};
  };
};

/// Names of links that are numbered so.
std::string host_link_name(LinkId link);

/// Which of several equally good ways the messages between two nodes take: to be divided by how many there are, again and again
/// where ways part more than once; the remainders say it. Hashed, as switches do: by a sum or a difference regular partners
/// (i xor 2^b, i + k) would leave half of the ways idle. The same for both directions.
std::uint64_t way_between(NodeId a, NodeId b);

/// The routes of a fabric, each found when it is first asked for; their links lie in one arena that
/// never moves. Numbers of routes count up from 0 in order of first use.
class Routes {
 public:
  explicit Routes(Fabric fabric);

  /// Number of the route between two different nodes.
  std::uint32_t find(NodeId source, NodeId destination);
  std::size_t size() const { return routes_.size(); }
  NodeId source(std::uint32_t number) const { return routes_[number].source; }
  std::span<const LinkId> links_of(std::uint32_t number) const {
    const Route& route = routes_[number];
    return {&arena_[route.first / block_size][route.first % block_size], route.links};
  }
  /// The sum over the links.
  Duration latency(std::uint32_t number) const { return routes_[number].latency; }
  /// Of the slowest link.
  double bytes_per_second(std::uint32_t number) const;

  std::span<const Link> links() const { return fabric_.links; }
  std::string name(LinkId link) const { return fabric_.name(link); }

 private:
  static constexpr std::uint32_t block_size = 1U << 16;
  static constexpr std::uint32_t no_route = ~std::uint32_t{0};
  // There are as many as pairs of nodes that exchange anything.
  struct Route {
    NodeId source;
    NodeId destination;
    Duration latency;
    std::uint32_t first;  // link, in the arena
    std::uint32_t links;
  };
  static_assert(sizeof(Route) == 24);
  struct Slot {
    NodeId destination = 0;
    std::uint32_t number = no_route;  // whose source is known there
  };
  Slot& slot_of(NodeId source, NodeId destination);
  void grow();
  std::uint32_t keep(const std::vector<LinkId>& links);

  Fabric fabric_;
  std::vector<Route> routes_;
  std::vector<Slot, CacheAligned<Slot>>
      slots_;  // hash table, at most three quarters full: see slot_of()
  std::vector<std::vector<LinkId>> arena_;  // blocks that never grow past what they reserved
  std::vector<LinkId> scratch_;
};

}  // namespace starling::network_models
