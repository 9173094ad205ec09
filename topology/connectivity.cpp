// Connected components (union-find) and strongly connected components (Tarjan), both from
// Boost.Graph.

#include "topology/connectivity.hpp"

#include <cstddef>
#include <vector>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/strong_components.hpp>
#include <boost/pending/disjoint_sets.hpp>
#include <boost/property_map/property_map.hpp>

namespace starling::topologies {

std::optional<std::pair<NodeId, NodeId>> separated(NodeId nodes,
                                                   std::span<const Connection> connections) {
  // Not connected_components: random graphs are drawn and checked many times, and this needs no
  // adjacency lists.
  std::vector<std::size_t> rank(static_cast<std::size_t>(nodes));
  std::vector<std::size_t> parent(rank.size());
  const boost::identity_property_map numbers;
  boost::disjoint_sets parts(boost::make_iterator_property_map(rank.begin(), numbers),
                             boost::make_iterator_property_map(parent.begin(), numbers));
  for (std::size_t i = 0; i < parent.size(); ++i) parts.make_set(i);
  for (const auto& [first, second] : connections) {
    parts.union_set(static_cast<std::size_t>(first), static_cast<std::size_t>(second));
  }
  for (NodeId i = 1; i < nodes; ++i) {
    if (parts.find_set(static_cast<std::size_t>(i)) != parts.find_set(std::size_t{0})) {
      return std::pair(NodeId{0}, i);
    }
  }
  return std::nullopt;
}

std::optional<std::pair<NodeId, NodeId>> unreachable(NodeId nodes,
                                                     std::span<const Topology::Arc> arcs) {
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS> graph(
      static_cast<std::size_t>(nodes));
  for (const Topology::Arc& arc : arcs) {
    boost::add_edge(static_cast<std::size_t>(arc.sender), static_cast<std::size_t>(arc.receiver),
                    graph);
  }
  std::vector<int> component(static_cast<std::size_t>(nodes));
  const int components = boost::strong_components(
      graph,
      boost::make_iterator_property_map(component.begin(), boost::get(boost::vertex_index, graph)));
  if (components == 1) return std::nullopt;

  // Tarjan finishes a component only after all it can reach: no path leads out of component 0.
  NodeId inside = 0;
  NodeId outside = 0;
  while (component[static_cast<std::size_t>(inside)] != 0) ++inside;
  while (component[static_cast<std::size_t>(outside)] == 0) ++outside;
  return std::pair(inside, outside);
}

}  // namespace starling::topologies
