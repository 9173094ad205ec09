#include "topology/matchings.hpp"

#include <algorithm>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/bipartite.hpp>
#include <boost/graph/edge_coloring.hpp>

namespace starling::topologies {
namespace {

using Color = boost::property<boost::edge_color_t, std::size_t>;
using Graph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, boost::no_property, Color>;

/// Colors a bipartite graph with as many colors as its degree (König 1916): where the first color free at one end of a connection is not free at the other, that and
/// the first one free there are swapped along the path of connections that begins at the other end, which never comes to the first.
void color_bipartite(Graph& graph) {
  const auto color = boost::get(boost::edge_color, graph);
  constexpr auto none = static_cast<std::size_t>(-1);
  for (const auto edge : boost::make_iterator_range(boost::edges(graph))) color[edge] = none;
  const auto of_color = [&](std::size_t node, std::size_t wanted) {
    const auto edges = boost::make_iterator_range(boost::out_edges(node, graph));
    return std::ranges::find_if(edges, [&](const auto& edge) { return color[edge] == wanted; });
  };
  const auto is_free = [&](std::size_t node, std::size_t wanted) {
    return of_color(node, wanted) == boost::out_edges(node, graph).second;
  };
  const auto first_free = [&](std::size_t node) {
    std::size_t found = 0;
    while (!is_free(node, found)) ++found;
    return found;
  };
  for (const auto edge : boost::make_iterator_range(boost::edges(graph))) {
    const std::size_t here = first_free(boost::source(edge, graph));
    std::size_t node = boost::target(edge, graph);
    const std::size_t there = first_free(node);
    // Connections of the path, which has color `here` first, and then both by turns.
    std::vector<boost::graph_traits<Graph>::edge_descriptor> path;
    for (std::size_t next = here; !is_free(node, next); next = next == here ? there : here) {
      path.push_back(*of_color(node, next));
      node = boost::target(path.back(), graph);
    }
    for (const auto& part : path) color[part] = color[part] == here ? there : here;
    color[edge] = here;
  }
}

}  // namespace

Matchings split_into_matchings(NodeId nodes, std::span<const Connection> connections) {
  Graph graph(static_cast<std::size_t>(nodes));
  for (const auto& [first, second] : connections) {
    boost::add_edge(static_cast<std::size_t>(first), static_cast<std::size_t>(second), graph);
  }
  const auto color = boost::get(boost::edge_color, graph);
  if (boost::is_bipartite(graph)) {
    color_bipartite(graph);
  } else {
    boost::edge_coloring(graph, color);
  }
  Matchings matchings;
  for (const auto edge : boost::make_iterator_range(boost::edges(graph))) {
    const std::size_t number = color[edge];
    if (number >= matchings.size()) matchings.resize(number + 1);
    matchings[number].push_back({static_cast<NodeId>(boost::source(edge, graph)),
                                 static_cast<NodeId>(boost::target(edge, graph))});
  }
  std::erase_if(matchings, [](const auto& matching) { return matching.empty(); });
  return matchings;
}

}  // namespace starling::topologies
