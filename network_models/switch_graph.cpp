// Shortest ways by layers around their end, over a graph of Boost.Graph.

#include "network_models/switch_graph.hpp"

#include <algorithm>
#include <limits>

#include <boost/graph/adjacency_list.hpp>
#include <boost/range/iterator_range.hpp>
#include <fmt/format.h>

#include "sim/base/error.hpp"

namespace starling::network_models {

struct SwitchGraph::Graph {
  using List = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS,
                                     boost::no_property, Arc>;
  static constexpr std::uint32_t unreached = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t most_kept = std::size_t{1} << 24;  // ways, 256 MiB

  /// What is left of the way from a switch.
  struct Rest {
    std::uint32_t hops = unreached;
    std::int64_t latency = std::numeric_limits<std::int64_t>::max();
    friend bool operator==(const Rest&, const Rest&) = default;
  };
  using Tree = std::vector<Rest>;  // by switch

  bool forwards(std::size_t vertex) const { return forwards_.empty() || forwards_[vertex] != 0; }

  Rest over(const Arc& arc, const Rest& rest) const {
    return {rest.hops + 1, rest.latency + arc.latency.count()};
  }

  /// The shortest ways from everywhere to `to`. A switch is worked off when all of the layer before
  /// it has been, so that its own rest is final.
  Tree find(std::size_t to) const {
    Tree tree(boost::num_vertices(list));
    tree[to] = {0, 0};
    std::vector<std::size_t> queue{to};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      const std::size_t at = queue[i];
      if (at != to && !forwards(at)) continue;
      for (const auto edge : boost::make_iterator_range(boost::in_edges(at, list))) {
        const std::size_t before = boost::source(edge, list);
        const Rest rest = over(list[edge], tree[at]);
        if (tree[before].hops == unreached) queue.push_back(before);
        if (rest.hops < tree[before].hops ||
            (rest.hops == tree[before].hops && rest.latency < tree[before].latency)) {
          tree[before] = rest;
        }
      }
    }
    return tree;
  }

  /// The same, remembered. What is kept is thrown away when it becomes too much.
  const Tree& tree_to(std::size_t to) {
    Tree& known = trees[to];
    if (!known.empty()) return known;
    kept += boost::num_vertices(list);
    if (kept > most_kept) {
      for (Tree& tree : trees) Tree().swap(tree);
      kept = boost::num_vertices(list);
    }
    known = find(to);
    return known;
  }

  List list;
  std::vector<char> forwards_;
  std::vector<Tree> trees;  // by end, found when first needed
  std::size_t kept = 0;
};

SwitchGraph::SwitchGraph(std::uint32_t switches, const std::vector<Arc>& arcs,
                         const std::vector<char>& forwards)
    : graph_(std::make_unique<Graph>()) {
  graph_->list = Graph::List(switches);
  graph_->forwards_ = forwards;
  graph_->trees.resize(switches);
  for (const Arc& arc : arcs) boost::add_edge(arc.from, arc.to, arc, graph_->list);
}

SwitchGraph::~SwitchGraph() = default;
SwitchGraph::SwitchGraph(SwitchGraph&&) noexcept = default;

std::optional<std::pair<std::uint32_t, std::uint32_t>> SwitchGraph::unreachable(
    const std::vector<std::uint32_t>& ends, bool is_plain) const {
  for (const std::uint32_t to : ends) {
    const Graph::Tree tree = graph_->find(to);
    for (const std::uint32_t from : ends) {
      if (tree[from].hops == Graph::unreached) return std::pair(from, to);
    }
    if (is_plain) break;
  }
  return std::nullopt;
}

void SwitchGraph::walk(std::uint32_t from, std::uint32_t to, std::uint64_t spread,
                       std::vector<LinkId>& links) {
  const Graph::Tree& tree = graph_->tree_to(to);
  const auto& list = graph_->list;
  if (tree[from].hops == Graph::unreached) {
    throw Error(fmt::format("no way leads from switch {} to switch {}", from, to));
  }
  std::size_t at = from;
  while (at != to) {
    const auto is_shortest = [&](const auto& edge) {
      const std::size_t next = boost::target(edge, list);
      return (next == to || graph_->forwards(next)) && tree[next].hops != Graph::unreached &&
             graph_->over(list[edge], tree[next]) == tree[at];
    };
    const auto around = boost::make_iterator_range(boost::out_edges(at, list));
    const auto ways =
        static_cast<std::uint64_t>(std::count_if(around.begin(), around.end(), is_shortest));
    std::uint64_t skip = spread % ways;
    for (const auto edge : around) {
      if (!is_shortest(edge) || skip-- > 0) continue;
      links.push_back(list[edge].link);
      at = boost::target(edge, list);
      break;
    }
  }
}

std::vector<LinkId> SwitchGraph::links_at(std::uint32_t vertex) const {
  std::vector<LinkId> found;
  const auto& list = graph_->list;
  for (const auto edge : boost::make_iterator_range(boost::out_edges(vertex, list)))
    found.push_back(list[edge].link);
  for (const auto edge : boost::make_iterator_range(boost::in_edges(vertex, list)))
    found.push_back(list[edge].link);
  return found;
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
    shared->walk(from.vertex, to.vertex,
                 static_cast<std::uint64_t>(source) + static_cast<std::uint64_t>(destination), way);
    if (to.down != Port::none) way.push_back(to.down);
  };
  const auto links_at = [shared, all_ports](NodeId host) {
    const Port& port = (*all_ports)[static_cast<std::size_t>(host)];
    return port.up == Port::none ? shared->links_at(port.vertex)
                                 : std::vector<LinkId>{port.up, port.down};
  };
  return {std::move(links), route, std::move(name), links_at};
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
