// Numbering of links, their names and rules of routing of the fabrics that are arithmetic on the
// numbers of hosts.

#include "network_models/fabrics.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include "sim/base/error.hpp"

namespace starling::network_models {
namespace {

std::vector<Link> equal_links(std::uint64_t count, Link link) {
  return std::vector<Link>(static_cast<std::size_t>(count), link);
}

LinkId link_id(std::int64_t number) { return static_cast<LinkId>(number); }

/// "edge 0 -> core 1"; of parallel links all but the first, 0, have their number behind it: "edge 0 -> core 1 (2)".
std::string between(std::string_view one, std::int64_t from, std::string_view other,
                    std::int64_t to, std::int64_t parallel = 0) {
  const std::string name = fmt::format("{} {} -> {} {}", one, from, other, to);
  return parallel == 0 ? name : fmt::format("{} ({})", name, parallel + 1);
}

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
          },
          host_link_name};
}

Fabric star(NodeId hosts, Link link) {
  // The cable of host i > 0: up 2 (i - 1), down one more.
  return {equal_links(2 * static_cast<std::uint64_t>(hosts - 1), link),
          [](NodeId source, NodeId destination, std::vector<LinkId>& links) {
            if (source != 0) links.push_back(link_id(2 * (source - 1)));
            if (destination != 0) links.push_back(link_id(2 * (destination - 1) + 1));
          },
          [](LinkId link_number) {
            const LinkId host = link_number / 2 + 1;
            return link_number % 2 == 0 ? between("host", host, "host", 0)
                                        : between("host", 0, "host", host);
          },
          [hosts](NodeId host) {
            if (host != 0) return std::vector{link_id(2 * (host - 1)), link_id(2 * host - 1)};
            std::vector<LinkId> all(2 * static_cast<std::size_t>(hosts - 1));
            std::iota(all.begin(), all.end(), LinkId{0});
            return all;
          }};
}

Fabric torus(const std::vector<NodeId>& sides, Link link) {
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
          },
          [sides, dimensions](LinkId number) {
            const NodeId cable = static_cast<NodeId>(number / 2);
            const NodeId lower = cable / dimensions;
            const auto d = static_cast<std::size_t>(cable % dimensions);
            const NodeId stride = product(sides, d);
            const NodeId here = lower / stride % sides[d];
            const NodeId upper = lower + ((here + 1) % sides[d] - here) * stride;
            return number % 2 == 0 ? between("host", lower, "host", upper)
                                   : between("host", upper, "host", lower);
          },
          [sides, dimensions](NodeId host) {
            std::vector<LinkId> found;
            NodeId stride = 1;
            for (NodeId d = 0; d < dimensions; ++d) {
              const NodeId side = sides[static_cast<std::size_t>(d)];
              const NodeId here = host / stride % side;
              const NodeId below = host + ((here + side - 1) % side - here) * stride;
              for (const NodeId lower : {host, below}) {
                const std::int64_t cable = lower * dimensions + d;
                if (side > 1)
                  found.insert(found.end(), {link_id(2 * cable), link_id(2 * cable + 1)});
              }
              stride *= side;
            }
            return found;
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
          },
          [dimensions](LinkId number) {
            const auto host = static_cast<NodeId>(number) / dimensions;
            const auto d = static_cast<NodeId>(number) % dimensions;
            return between("host", host, "host", host ^ (NodeId{1} << d));
          },
          [dimensions](NodeId host) {
            std::vector<LinkId> found;
            for (int d = 0; d < dimensions; ++d) {
              const NodeId other = host ^ (NodeId{1} << d);
              found.insert(found.end(),
                           {link_id(host * dimensions + d), link_id(other * dimensions + d)});
            }
            return found;
          }};
}

// ----- fat tree

NodeId FatTree::hosts() const { return product(children, children.size()); }

FatTree k_ary(NodeId k, NodeId oversubscription) {
  return {.children = {oversubscription * k / 2, k / 2, k},
          .parents = {1, k / 2, k / 2},
          .cables = {1, 1, 1}};
}

namespace {

/// What stands on a level of so many.
std::string level_name(std::size_t level, std::size_t levels) {
  if (level == 0) return "host";
  if (levels > 3) return fmt::format("level-{}", level);
  if (level == levels) return "core";
  return level == 1 ? "edge" : "aggregation";
}

}  // namespace

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
  const auto name = [=](LinkId number) {
    const auto id = static_cast<std::int64_t>(number);
    std::size_t l = 0;
    while (id >= first[l + 1]) ++l;
    const std::int64_t ports = tree.parents[l] * tree.cables[l];
    const std::int64_t below_it = (id - first[l]) / 2 / ports;
    const std::int64_t port = (id - first[l]) / 2 % ports;
    const std::int64_t parent = port % tree.parents[l];
    if (l == 0 && ports == 1) {
      return fmt::format("host {} {}", below_it, id % 2 == 0 ? "up" : "down");
    }
    const std::int64_t w = below_it % choices[l] + choices[l] * parent;
    const std::int64_t above = below_it / choices[l] / tree.children[l] * choices[l + 1] + w;
    const std::int64_t cable = port / tree.parents[l];
    return (id - first[l]) % 2 == 0
               ? between(level_name(l, levels), below_it, level_name(l + 1, levels), above, cable)
               : between(level_name(l + 1, levels), above, level_name(l, levels), below_it, cable);
  };
  const auto links_at = [ports = tree.parents[0] * tree.cables[0]](NodeId host) {
    std::vector<LinkId> found(2 * static_cast<std::size_t>(ports));
    std::iota(found.begin(), found.end(), link_id(2 * std::int64_t{host} * ports));
    return found;
  };
  return {equal_links(static_cast<std::uint64_t>(first[levels]), link), route, name, links_at};
}

// ----- dragonfly

namespace {

/// The numbers of its links: hosts' up and down, 2 per host; from router r of a group to r' of the same, a per router; out of
/// each global port, h per router.
struct DragonflyLinks {
  explicit DragonflyLinks(const Dragonfly& all)
      : shape(all),
        first_local(2 * std::int64_t{all.hosts()}),
        first_global(first_local + std::int64_t{all.routers} * all.groups * all.routers),
        count(first_global + std::int64_t{all.routers} * all.groups * all.global_links) {}

  Dragonfly shape;
  std::int64_t first_local, first_global, count;
};

std::string name_of(const DragonflyLinks& links, LinkId number) {
  const Dragonfly& shape = links.shape;
  const auto id = static_cast<std::int64_t>(number);
  if (id < links.first_local) return host_link_name(number);
  if (id < links.first_global) {
    const std::int64_t from = (id - links.first_local) / shape.routers;
    const std::int64_t to =
        from / shape.routers * shape.routers + (id - links.first_local) % shape.routers;
    return between("router", from, "router", to);
  }
  const std::int64_t from = (id - links.first_global) / shape.global_links;
  const std::int64_t ports = std::int64_t{shape.routers} * shape.global_links;  // of a group
  const std::int64_t port = (id - links.first_global) % ports;
  const std::int64_t others = std::max(shape.groups - 1, 1);
  if (shape.groups == 1 || port >= ports / others * others) {
    return fmt::format("router {} free port {}", from, port % shape.global_links);
  }
  const auto goal = [&](std::int64_t out) {
    const std::int64_t ahead = out % others + 1;
    const std::int64_t back = shape.groups - ahead - 1 + out / others * others;
    const std::int64_t group = (from / shape.routers + ahead) % shape.groups;
    return group * shape.routers + back / shape.global_links;
  };
  std::int64_t parallel = 0;  // to the same router, by lower ports
  for (std::int64_t other = port - port % shape.global_links; other < port; ++other)
    parallel += goal(other) == goal(port) ? 1 : 0;
  return between("router", from, "router", goal(port), parallel);
}

}  // namespace

Fabric dragonfly(const Dragonfly& shape, Link link) {
  const DragonflyLinks numbers(shape);
  const auto route = [=](NodeId source, NodeId destination, std::vector<LinkId>& links) {
    std::uint64_t way = way_between(source, destination);
    const auto take = [&way](std::uint64_t ways) {
      const std::uint64_t taken = way % ways;
      way /= ways;
      return taken;
    };
    NodeId at = source / shape.hosts_per_router;
    const NodeId goal = destination / shape.hosts_per_router;
    const NodeId goal_group = goal / shape.routers;
    const auto local_to = [&](NodeId router) {
      if (router == at) return;
      const auto out = std::int64_t{at} * shape.routers + router % shape.routers;
      links.push_back(link_id(numbers.first_local + out));
      at = router;
    };
    const auto global_to = [&](NodeId group) {
      const NodeId here = at / shape.routers;
      const NodeId others = shape.groups - 1;
      const NodeId cables = shape.routers * shape.global_links / others;
      const auto cable = static_cast<NodeId>(take(static_cast<std::uint64_t>(cables)));
      const NodeId ahead = (group - here + shape.groups) % shape.groups;
      const NodeId port = ahead - 1 + cable * others;
      const NodeId back = shape.groups - ahead - 1 + cable * others;
      local_to(here * shape.routers + port / shape.global_links);
      const auto out = std::int64_t{at} * shape.global_links + port % shape.global_links;
      links.push_back(link_id(numbers.first_global + out));
      at = group * shape.routers + back / shape.global_links;
    };
    links.push_back(link_id(2 * source));
    if (shape.is_valiant && at / shape.routers != goal_group && shape.groups > 2) {
      // One of the other groups, each about equally often.
      const NodeId here = at / shape.routers;
      auto third = static_cast<NodeId>(take(static_cast<std::uint64_t>(shape.groups - 2)));
      for (const NodeId taken : {std::min(here, goal_group), std::max(here, goal_group)}) {
        third += third >= taken ? 1 : 0;
      }
      global_to(third);
    }
    if (at / shape.routers != goal_group) global_to(goal_group);
    local_to(goal);
    links.push_back(link_id(2 * destination + 1));
  };
  const auto name = [numbers](LinkId number) { return name_of(numbers, number); };
  return {equal_links(static_cast<std::uint64_t>(numbers.count), link), route, name};
}

// ----- hosts

Fabric share_hosts(Fabric fabric, NodeId hosts, const SharedHosts& shared) {
  const auto first_local = static_cast<std::int64_t>(fabric.links.size());
  fabric.links.resize(fabric.links.size() + static_cast<std::size_t>(hosts), shared.local);
  fabric.route = [=, between_hosts = std::move(fabric.route)](NodeId source, NodeId destination,
                                                              std::vector<LinkId>& links) {
    const NodeId host = shared.host_of(source);
    if (host == shared.host_of(destination)) {
      links.push_back(link_id(first_local + host));
    } else {
      between_hosts(shared.nic_of(source), shared.nic_of(destination), links);
    }
  };
  fabric.name = [=, name = std::move(fabric.name)](LinkId number) {
    return number < static_cast<LinkId>(first_local)
               ? name(number)
               : fmt::format("host {} within", number - static_cast<LinkId>(first_local));
  };
  return fabric;
}

}  // namespace starling::network_models
