// Shortest ways by layers around their end, over a graph of Boost.Graph whose edges lie in flat arrays.

#include "network_models/switch_graph.hpp"

#include <algorithm>
#include <deque>
#include <limits>

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/range/iterator_range.hpp>
#include <fmt/core.h>

#include "sim/base/error.hpp"

namespace starling::network_models {

struct SwitchGraph::Graph {
  using List = boost::compressed_sparse_row_graph<boost::bidirectionalS, boost::no_property, Arc,
                                                  boost::no_property, std::uint32_t, std::uint32_t>;
  static constexpr std::uint32_t unreached = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::int64_t farthest = std::numeric_limits<std::int64_t>::max();

  /// What is left of the way from each switch.
  struct Tree {
    std::vector<std::uint32_t> hops;
    std::vector<std::int64_t> latency;  // empty where all links have the same: hops say it
  };

  /// The arcs in the order in which they were given, switch by switch.
  template <class Ends>
  Graph(std::uint32_t switches, const std::vector<Arc>& arcs, const Ends& ends)
      : list(boost::edges_are_unsorted_multi_pass, ends.begin(), ends.end(), arcs.begin(),
             switches),
        has_latencies(std::ranges::any_of(
            arcs, [&](const Arc& arc) { return arc.latency != arcs.front().latency; })),
        trees(switches) {}

  bool forwards(std::size_t vertex) const { return forwards_.empty() || forwards_[vertex] != 0; }

  /// Of a way by the arc; one that the clock does not hold is told when the route is taken.
  static std::int64_t over(const Arc& arc, std::int64_t rest) {
    std::int64_t sum = 0;
    return __builtin_add_overflow(rest, arc.latency.count(), &sum) ? farthest : sum;
  }

  /// The shortest ways from everywhere to `to`. A switch is worked off when all of the layer before
  /// it has been, so that its own rest is final; behind the last layer there is nothing to find.
  Tree find(std::uint32_t to) const {
    const std::size_t switches = boost::num_vertices(list);
    Tree tree{std::vector(switches, unreached), {}};
    if (has_latencies) tree.latency.assign(switches, farthest);
    tree.hops[to] = 0;
    if (has_latencies) tree.latency[to] = 0;
    std::vector<std::uint32_t> queue{to};
    queue.reserve(switches);
    for (std::size_t i = 0; i < queue.size(); ++i) {
      const std::uint32_t at = queue[i];
      const std::uint32_t layer = tree.hops[at];
      if (queue.size() == switches && layer == tree.hops[queue.back()]) break;
      if (at != to && !forwards(at)) continue;
      for (const auto edge : boost::make_iterator_range(boost::in_edges(at, list))) {
        const std::uint32_t before = boost::source(edge, list);
        if (tree.hops[before] == unreached) {
          tree.hops[before] = layer + 1;
          queue.push_back(before);
        }
        if (has_latencies && tree.hops[before] == layer + 1) {
          const std::int64_t latency = over(list[edge], tree.latency[at]);
          tree.latency[before] = std::min(tree.latency[before], latency);
        }
      }
    }
    return tree;
  }

  /// Whether a shortest way from `at` to `to` begins with that edge.
  bool is_shortest(const Tree& tree, std::uint32_t at, List::edge_descriptor edge,
                   std::uint32_t to) const {
    const std::uint32_t next = boost::target(edge, list);
    return (next == to || forwards(next)) && tree.hops[next] + 1 == tree.hops[at] &&
           (!has_latencies || over(list[edge], tree.latency[next]) == tree.latency[at]);
  }

  /// The shortest ways to `to`, remembered; the oldest are forgotten when they become too many.
  const Tree& tree_to(std::uint32_t to) {
    Tree& known = trees[to];
    if (!known.hops.empty()) return known;
    const std::size_t size = boost::num_vertices(list) * (has_latencies ? 12 : 4);  // bytes
    while (!kept.empty() && (kept.size() + 1) * size > most_kept) {
      trees[kept.front()] = {};
      kept.pop_front();
    }
    kept.push_back(to);
    known = find(to);
    return known;
  }

  List list;
  bool has_latencies;
  std::vector<char> forwards_;
  std::vector<Tree> trees;         // by end, found when first needed
  std::deque<std::uint32_t> kept;  // their ends, the oldest first
  std::size_t most_kept = 0;       // bytes
};

SwitchGraph::SwitchGraph(std::uint32_t switches, const std::vector<Arc>& arcs,
                         const std::vector<char>& forwards, std::size_t most_kept) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ends;
  for (const Arc& arc : arcs) ends.emplace_back(arc.from, arc.to);
  graph_ = std::make_unique<Graph>(switches, arcs, ends);
  graph_->forwards_ = forwards;
  graph_->most_kept = most_kept;
}

SwitchGraph::~SwitchGraph() = default;
SwitchGraph::SwitchGraph(SwitchGraph&&) noexcept = default;

std::optional<std::pair<std::uint32_t, std::uint32_t>> SwitchGraph::unreachable(
    const std::vector<std::uint32_t>& ends, bool is_plain) const {
  for (const std::uint32_t to : ends) {
    const Graph::Tree tree = graph_->find(to);
    for (const std::uint32_t from : ends) {
      if (tree.hops[from] == Graph::unreached) return std::pair(from, to);
    }
    if (is_plain) break;
  }
  return std::nullopt;
}

void SwitchGraph::walk(std::uint32_t from, std::uint32_t to, std::uint64_t spread,
                       std::vector<LinkId>& links) {
  const Graph::Tree& tree = graph_->tree_to(to);
  const auto& list = graph_->list;
  if (tree.hops[from] == Graph::unreached) {
    throw Error(fmt::format("no way leads from switch {} to switch {}", from, to));
  }
  std::uint32_t at = from;
  while (at != to) {
    const auto is_shortest = [&](const auto& edge) {
      return graph_->is_shortest(tree, at, edge, to);
    };
    const auto around = boost::make_iterator_range(boost::out_edges(at, list));
    const auto ways =
        static_cast<std::uint64_t>(std::count_if(around.begin(), around.end(), is_shortest));
    std::uint64_t skip = spread % ways;
    spread /= ways;
    for (const auto edge : around) {
      if (!is_shortest(edge) || skip-- > 0) continue;
      links.push_back(list[edge].link);
      at = boost::target(edge, list);
      break;
    }
  }
}

// ----- fabrics

Fabric graph_fabric(std::vector<Link> links, SwitchGraph graph, std::vector<Port> ports,
                    std::function<std::string(LinkId)> name) {
  // Shared: a rule of routing is copied with its fabric, the ways that were found need not be.
  const auto shared = std::make_shared<SwitchGraph>(std::move(graph));
  const auto all_ports = std::make_shared<const std::vector<Port>>(std::move(ports));
  const auto route = [shared, all_ports](NodeId source, NodeId destination,
                                         std::vector<LinkId>& way) {
    const Port& from = (*all_ports)[static_cast<std::size_t>(source)];
    const Port& to = (*all_ports)[static_cast<std::size_t>(destination)];
    if (from.up != Port::none) way.push_back(from.up);
    shared->walk(from.vertex, to.vertex, way_between(source, destination), way);
    if (to.down != Port::none) way.push_back(to.down);
  };
  return {std::move(links), route, std::move(name)};
}

Fabric graph_fabric(std::uint32_t switches,
                    const std::vector<std::pair<std::uint32_t, std::uint32_t>>& cables,
                    NodeId hosts_per_switch, Link link) {
  const auto hosts = static_cast<LinkId>(switches) * static_cast<LinkId>(hosts_per_switch);
  std::vector<Arc> arcs;
  for (const auto& [a, b] : cables) {
    const auto first = static_cast<LinkId>(2 * hosts + arcs.size());
    arcs.push_back({a, b, first, link.latency});
    arcs.push_back({b, a, first + 1, link.latency});
  }
  std::vector<Port> ports;
  for (LinkId h = 0; h < hosts; ++h) {
    ports.push_back({h / static_cast<LinkId>(hosts_per_switch), 2 * h, 2 * h + 1});
  }
  std::vector<Link> links(2 * hosts + arcs.size(), link);
  auto name = [hosts, cables](LinkId id) {
    if (id < 2 * hosts) return host_link_name(id);
    const auto& [a, b] = cables[(id - 2 * hosts) / 2];
    return id % 2 == 0 ? fmt::format("switch {} -> switch {}", a, b)
                       : fmt::format("switch {} -> switch {}", b, a);
  };
  return graph_fabric(std::move(links), SwitchGraph(switches, arcs), std::move(ports),
                      std::move(name));
}

}  // namespace starling::network_models
