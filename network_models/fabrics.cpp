// Numbering of links and rules of routing of each fabric. All are arithmetic on the numbers of
// hosts, but for the slim fly, whose ways are searched in the graph of its routers.

#include "network_models/fabrics.hpp"

#include <algorithm>
#include <memory>
#include <numeric>

#include "sim/base/error.hpp"

namespace starling::network_models {
namespace {

std::vector<Link> equal_links(std::uint64_t count, Link link) {
  return std::vector<Link>(static_cast<std::size_t>(count), link);
}

LinkId link_id(std::int64_t number) { return static_cast<LinkId>(number); }

NodeId product(const std::vector<NodeId>& factors, std::size_t count) {
  return std::accumulate(factors.begin(), factors.begin() + static_cast<std::ptrdiff_t>(count),
                         NodeId{1}, std::multiplies{});
}

}  // namespace

Fabric crossbar(NodeId hosts, Link link) {
  // Host i: up 2 i, down 2 i + 1.
  return {equal_links(2 * static_cast<std::uint64_t>(hosts), link),
          [](NodeId source, NodeId destination, std::vector<LinkId>& links) {
            links.push_back(link_id(2 * source));
            links.push_back(link_id(2 * destination + 1));
          }};
}

Fabric torus(std::vector<NodeId> sides, Link link) {
  // The cable from a point upwards along dimension d: number point * dimensions + d; its links are
  // twice that, and one more for the way back.
  const auto dimensions = static_cast<NodeId>(sides.size());
  const NodeId points = product(sides, sides.size());
  return {equal_links(2 * static_cast<std::uint64_t>(points) * sides.size(), link),
          [sides, dimensions](NodeId source, NodeId destination, std::vector<LinkId>& links) {
            NodeId at = source;
            NodeId stride = 1;
            for (NodeId d = 0; d < dimensions; ++d) {
              const NodeId side = sides[static_cast<std::size_t>(d)];
              const NodeId goal = destination / stride % side;
              const auto next = [&](NodeId point, NodeId step) {
                const NodeId here = point / stride % side;
                return point + ((here + step) % side - here) * stride;
              };
              const NodeId ahead = (goal - at / stride % side + side) % side;
              const bool is_upwards = 2 * ahead < side || (2 * ahead == side && goal != 0);
              while (at / stride % side != goal) {
                const NodeId to = next(at, is_upwards ? 1 : side - 1);
                const NodeId lower = is_upwards ? at : to;
                links.push_back(link_id(2 * (lower * dimensions + d) + (is_upwards ? 0 : 1)));
                at = to;
              }
              stride *= side;
            }
          }};
}

Fabric hypercube(int dimensions, Link link) {
  // The link out of a host along dimension d: host * dimensions + d.
  const auto hosts = std::uint64_t{1} << dimensions;
  return {equal_links(hosts * static_cast<std::uint64_t>(dimensions), link),
          [dimensions](NodeId source, NodeId destination, std::vector<LinkId>& links) {
            NodeId at = source;
            for (int d = 0; d < dimensions; ++d) {
              const NodeId bit = NodeId{1} << d;
              if (((at ^ destination) & bit) == 0) continue;
              links.push_back(link_id(at * dimensions + d));
              at ^= bit;
            }
          }};
}

// ----- fat tree

NodeId FatTree::hosts() const { return product(children, children.size()); }

FatTree k_ary(NodeId k, NodeId oversubscription) {
  return {.children = {oversubscription * k / 2, k / 2, k},
          .parents = {1, k / 2, k / 2},
          .cables = {1, 1, 1}};
}

Fabric fat_tree(const FatTree& tree, Link link) {
  // What stands on level l has a number: (host / below[l]) * choices[l] + w, where below[l] hosts
  // are below each, and w numbers the choices[l] switches with the same hosts below. w gains its
  // highest digit with each step upwards. Cable P of it upwards, to parent P mod parents[l]: number
  // P of its own; links are twice that (up), and one more (down).
  const std::size_t levels = tree.children.size();
  std::vector<NodeId> below(levels + 1);
  std::vector<NodeId> choices(levels + 1);
  std::vector<std::int64_t> first(levels + 1, 0);  // link of level l
  for (std::size_t l = 0; l <= levels; ++l) {
    below[l] = product(tree.children, l);
    choices[l] = product(tree.parents, l);
    if (l == levels) continue;
    const std::int64_t ports = tree.parents[l] * tree.cables[l];
    first[l + 1] = first[l] + 2 * ports * (tree.hosts() / below[l]) * choices[l];
  }
  const auto route = [=](NodeId source, NodeId destination, std::vector<LinkId>& links) {
    const auto cable = [&](std::size_t l, NodeId host, NodeId w, NodeId port) {
      const std::int64_t below_it = host / below[l] * choices[l] + w;
      return first[l] + 2 * (below_it * tree.parents[l] * tree.cables[l] + port);
    };
    std::size_t top = 0;
    NodeId w = 0;
    while (source / below[top] != destination / below[top]) {
      const NodeId port = destination / choices[top] % (tree.parents[top] * tree.cables[top]);
      links.push_back(link_id(cable(top, source, w, port)));
      w += choices[top] * (port % tree.parents[top]);
      ++top;
    }
    for (std::size_t l = top; l-- > 0;) {
      const NodeId parent = w / choices[l];
      w %= choices[l];
      const NodeId port = parent + source % tree.cables[l] * tree.parents[l];
      links.push_back(link_id(cable(l, destination, w, port) + 1));
    }
  };
  return {equal_links(static_cast<std::uint64_t>(first[levels]), link), route};
}

// ----- dragonfly

Fabric dragonfly(const Dragonfly& shape, Link link) {
  // Links: hosts' up and down, 2 per host; from router r of a group to r' of the same, a per
  // router; out of each global port, h per router.
  const std::int64_t routers = std::int64_t{shape.routers} * shape.groups;
  const std::int64_t first_local = 2 * std::int64_t{shape.hosts()};
  const std::int64_t first_global = first_local + routers * shape.routers;
  const std::int64_t count = first_global + routers * shape.global_links;
  const auto route = [=](NodeId source, NodeId destination, std::vector<LinkId>& links) {
    NodeId at = source / shape.hosts_per_router;
    const NodeId goal = destination / shape.hosts_per_router;
    const NodeId goal_group = goal / shape.routers;
    const auto local_to = [&](NodeId router) {
      if (router == at) return;
      const auto out = std::int64_t{at} * shape.routers + router % shape.routers;
      links.push_back(link_id(first_local + out));
      at = router;
    };
    const auto global_to = [&](NodeId group) {
      const NodeId here = at / shape.routers;
      const NodeId others = shape.groups - 1;
      const NodeId cables = shape.routers * shape.global_links / others;
      const NodeId cable = (source + destination) % cables;
      const NodeId ahead = (group - here + shape.groups) % shape.groups;
      const NodeId port = ahead - 1 + cable * others;
      const NodeId back = shape.groups - ahead - 1 + cable * others;
      local_to(here * shape.routers + port / shape.global_links);
      const auto out = std::int64_t{at} * shape.global_links + port % shape.global_links;
      links.push_back(link_id(first_global + out));
      at = group * shape.routers + back / shape.global_links;
    };
    links.push_back(link_id(2 * source));
    if (shape.is_valiant && at / shape.routers != goal_group && shape.groups > 2) {
      // One of the other groups, each about equally often.
      const auto mixed =
          (static_cast<std::uint64_t>(source) << 32 | static_cast<std::uint32_t>(destination)) *
          0x9E3779B97F4A7C15u;
      const NodeId here = at / shape.routers;
      auto third = static_cast<NodeId>((mixed >> 33) % static_cast<unsigned>(shape.groups - 2));
      for (const NodeId taken : {std::min(here, goal_group), std::max(here, goal_group)}) {
        third += third >= taken ? 1 : 0;
      }
      global_to(third);
    }
    if (at / shape.routers != goal_group) global_to(goal_group);
    local_to(goal);
    links.push_back(link_id(2 * destination + 1));
  };
  return {equal_links(static_cast<std::uint64_t>(count), link), route};
}

// ----- slim fly

std::vector<std::pair<std::uint32_t, std::uint32_t>> slim_fly_edges(NodeId q) {
  // Powers of the smallest primitive root z of q.
  std::vector<NodeId> powers;
  for (NodeId z = 2; powers.size() != static_cast<std::size_t>(q - 1); ++z) {
    powers.assign(1, 1);
    while (powers.back() * z % q != 1) powers.push_back(powers.back() * z % q);
  }
  // X and Y, the differences that join routers (0, x, .) and (1, m, .). With e = 1 the even and the
  // odd powers; with e = -1 the first half of each set likewise, the second half swapped.
  std::vector<char> in_x(static_cast<std::size_t>(q), 0);
  std::vector<char> in_y(static_cast<std::size_t>(q), 0);
  const NodeId w = (q + 1) / 4;
  for (NodeId i = 0; i < q; ++i) {
    const bool is_even = i % 2 == 0;
    const auto power = static_cast<std::size_t>(powers[static_cast<std::size_t>(i % (q - 1))]);
    if (q % 4 == 1) {
      (is_even ? in_x : in_y)[power] = 1;
    } else {
      if (is_even == (i <= 2 * w - 2)) in_x[power] = 1;
      if (is_even == (i >= 2 * w)) in_y[power] = 1;
    }
  }
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  const auto join = [&](NodeId a, NodeId b) {
    edges.emplace_back(static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b));
  };
  for (NodeId x = 0; x < q; ++x) {
    for (NodeId y = 0; y < q; ++y) {
      for (NodeId other = y + 1; other < q; ++other) {
        const auto difference = static_cast<std::size_t>(other - y);
        if (in_x[difference] != 0) join(x * q + y, x * q + other);
        if (in_y[difference] != 0) join(q * q + x * q + y, q * q + x * q + other);
      }
      for (NodeId m = 0; m < q; ++m) join(x * q + y, q * q + m * q + (y - m * x % q + q) % q);
    }
  }
  return edges;
}

Fabric slim_fly(NodeId q, NodeId hosts_per_router, Link link) {
  // Links: hosts' up and down, 2 per host; then 2 per edge.
  const std::int64_t hosts = 2 * std::int64_t{q} * q * hosts_per_router;
  const auto routers = static_cast<std::uint32_t>(2 * q * q);
  // Shared: a rule of routing is copied with its fabric, the graph's searches need not be.
  const auto graph = std::make_shared<SwitchGraph>(routers, slim_fly_edges(q));
  const auto route = [=](NodeId source, NodeId destination, std::vector<LinkId>& links) {
    links.push_back(link_id(2 * source));
    graph->walk(static_cast<std::uint32_t>(source / hosts_per_router),
                static_cast<std::uint32_t>(destination / hosts_per_router),
                static_cast<std::uint64_t>(source + destination),
                [&](std::size_t edge, bool is_forward) {
                  const auto first = 2 * (hosts + static_cast<std::int64_t>(edge));
                  links.push_back(link_id(first + (is_forward ? 0 : 1)));
                });
    links.push_back(link_id(2 * destination + 1));
  };
  return {equal_links(2 * (static_cast<std::uint64_t>(hosts) + graph->edges()), link), route};
}

// ----- hosts

void set_host_bandwidth(Fabric& fabric, NodeId hosts, NodeId host, double bytes_per_second) {
  std::vector<LinkId> links;
  for (NodeId other = 0; other < hosts; ++other) {
    if (other == host) continue;
    links.clear();
    fabric.route(host, other, links);
    fabric.links[links.front()].bytes_per_second = bytes_per_second;
    links.clear();
    fabric.route(other, host, links);
    fabric.links[links.back()].bytes_per_second = bytes_per_second;
  }
}

Fabric share_hosts(Fabric fabric, NodeId hosts, NodeId nodes_per_host, Link local) {
  const auto first_local = static_cast<std::int64_t>(fabric.links.size());
  fabric.links.resize(fabric.links.size() + static_cast<std::size_t>(hosts), local);
  fabric.route = [=, between = std::move(fabric.route)](NodeId source, NodeId destination,
                                                        std::vector<LinkId>& links) {
    const NodeId from = source / nodes_per_host;
    const NodeId to = destination / nodes_per_host;
    if (from == to) {
      links.push_back(link_id(first_local + from));
    } else {
      between(from, to, links);
    }
  };
  return fabric;
}

}  // namespace starling::network_models
