// The table of routes, and shortest ways by Boost.Graph.

#include "network_models/links.hpp"

#include <algorithm>
#include <limits>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/range/iterator_range.hpp>
#include <fmt/format.h>

#include "sim/base/error.hpp"

namespace starling::network_models {
namespace {

constexpr std::uint64_t no_pair = std::numeric_limits<std::uint64_t>::max();

}  // namespace

// ----- Routes

Routes::Routes(Fabric fabric) : fabric_(std::move(fabric)), slots_(1024, {no_pair, 0}) {}

Routes::Slot& Routes::slot_of(std::uint64_t pair) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15u) >> 32) & mask;
  while (slots_[i].pair != pair && slots_[i].pair != no_pair) i = (i + 1) & mask;
  return slots_[i];
}

void Routes::grow() {
  std::vector<Slot> old(2 * slots_.size(), {no_pair, 0});
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.pair != no_pair) slot_of(slot.pair) = slot;
  }
}

std::span<const LinkId> Routes::keep(const std::vector<LinkId>& links) {
  if (arena_.empty() || arena_.back().capacity() - arena_.back().size() < links.size()) {
    arena_.emplace_back();
    arena_.back().reserve(std::max(block_size, links.size()));
  }
  std::vector<LinkId>& block = arena_.back();
  const std::size_t first = block.size();
  block.insert(block.end(), links.begin(), links.end());
  return std::span<const LinkId>(block).subspan(first);
}

std::uint32_t Routes::find(NodeId source, NodeId destination) {
  const auto pair =
      static_cast<std::uint64_t>(source) << 32 | static_cast<std::uint32_t>(destination);
  const Slot& known = slot_of(pair);
  if (known.pair == pair) [[likely]]
    return known.number;

  scratch_.clear();
  fabric_.route(source, destination, scratch_);
  ensure(!scratch_.empty(), "a route crosses a link");
  Route route{.links = keep(scratch_), .latency = {}, .bytes_per_second = MaxMin::unbounded};
  for (const LinkId link : route.links) {
    route.latency += fabric_.links[link].latency;
    route.bytes_per_second = std::min(route.bytes_per_second, fabric_.links[link].bytes_per_second);
  }
  routes_.push_back(route);
  const auto number = static_cast<std::uint32_t>(routes_.size() - 1);
  if (2 * routes_.size() > slots_.size()) grow();
  slot_of(pair) = {pair, number};
  return number;
}

// ----- SwitchGraph

struct SwitchGraph::Graph {
  using List = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS,
                                     boost::no_property, std::size_t>;
  static constexpr std::uint16_t unreached = std::numeric_limits<std::uint16_t>::max();

  explicit Graph(std::uint32_t switches) : list(switches), hops_to(switches) {}

  /// Hops from every switch to `to`.
  const std::vector<std::uint16_t>& hops(std::uint32_t to) {
    std::vector<std::uint16_t>& found = hops_to[to];
    if (found.empty()) {
      found.assign(boost::num_vertices(list), unreached);
      found[to] = 0;
      boost::breadth_first_search(list, boost::vertex(to, list),
                                  boost::visitor(boost::make_bfs_visitor(boost::record_distances(
                                      found.data(), boost::on_tree_edge()))));
    }
    return found;
  }

  List list;
  std::vector<std::vector<std::uint16_t>> hops_to;  // by switch, found when first needed
};

SwitchGraph::SwitchGraph(std::uint32_t switches,
                         std::vector<std::pair<std::uint32_t, std::uint32_t>> edges)
    : graph_(std::make_unique<Graph>(switches)) {
  for (std::size_t e = 0; e < edges.size(); ++e) {
    boost::add_edge(edges[e].first, edges[e].second, e, graph_->list);
  }
}

SwitchGraph::~SwitchGraph() = default;
SwitchGraph::SwitchGraph(SwitchGraph&&) noexcept = default;

std::size_t SwitchGraph::edges() const { return boost::num_edges(graph_->list); }

std::size_t SwitchGraph::degree(std::uint32_t vertex) const {
  return boost::out_degree(vertex, graph_->list);
}

bool SwitchGraph::is_connected() {
  const auto& hops = graph_->hops(0);
  return std::ranges::find(hops, Graph::unreached) == hops.end();
}

void SwitchGraph::walk(std::uint32_t from, std::uint32_t to, std::uint64_t spread,
                       const std::function<void(std::size_t, bool)>& visit) {
  const auto& hops = graph_->hops(to);
  const auto& list = graph_->list;
  if (hops[from] == Graph::unreached) {
    throw Error(fmt::format("no way leads from switch {} to switch {}", from, to));
  }
  std::size_t at = from;
  while (at != to) {
    const auto is_nearer = [&](const auto& edge) {
      return hops[boost::target(edge, list)] + 1 == hops[at];
    };
    const auto around = boost::make_iterator_range(boost::out_edges(at, list));
    const auto ways =
        static_cast<std::uint64_t>(std::count_if(around.begin(), around.end(), is_nearer));
    std::uint64_t skip = spread % ways;
    for (const auto edge : around) {
      if (!is_nearer(edge) || skip-- > 0) continue;
      const std::size_t next = boost::target(edge, list);
      // The two ends of an undirected edge are told apart by their numbers: forward is upwards.
      visit(list[edge], at < next);
      at = next;
      break;
    }
  }
}

}  // namespace starling::network_models
