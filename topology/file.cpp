// A topology from a file: GraphML (.graphml, .xml) or DOT (.dot, .gv), undirected or directed
// (sim/base/graph_file.hpp), or a matrix in CSV (topology/matrix_file.hpp).
//
// Numbers  Nodes are numbered from 0 on in order of their names, in which n2 comes before n10: names
//          0, 1, .. or n0, n1, .. are the numbers of the nodes.
// Weights  An edge may have an attribute `weight`, the mixing weight; then all must. A directed
//          edge from j to i gives W_ij; an undirected one W_ij and W_ji. W_ii is what the row
//          leaves of one. Without the attribute: Metropolis weights if undirected,
//          1/(1 + in-degree) if directed.

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/graph_file.hpp"
#include "sim/base/text.hpp"
#include "topology/connectivity.hpp"
#include "topology/matrix_file.hpp"
#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::topologies {
namespace {

std::vector<std::string> names_of(const GraphFile& graph) {
  std::vector<std::string> names;
  for (const GraphFile::Vertex& vertex : graph.vertices) names.push_back(vertex.name);
  return names;
}

std::string_view weight_of(const GraphFile::Edge& edge) {
  return attribute(edge.attributes, "weight");
}

/// The edges as arcs, checked: no loops, none twice; and unless weights are ignored, these on all
/// or none, each in (0, 1], at most 1 in all at each node.
class Arcs {
 public:
  Arcs(const Section& section, const std::string& path, const GraphFile& graph,
       bool ignores_weights)
      : section_(section),
        path_(path),
        numbers_(node_numbers(names_of(graph))),
        name_of_(graph.vertices.size()) {
    for (std::size_t v = 0; v < numbers_.size(); ++v) {
      name_of_[to_index(numbers_[v])] = graph.vertices[v].name;
    }
    has_weights_ =
        !ignores_weights && !graph.edges.empty() && !weight_of(graph.edges.front()).empty();
    for (const GraphFile::Edge& edge : graph.edges) {
      if (!ignores_weights) expect_weight_like_others(edge);
      add(edge, graph.is_directed);
    }
    reject_doubles();
    if (has_weights_) check_rows();
  }

  bool has_weights() const { return has_weights_; }
  const std::vector<Topology::Arc>& list() const { return arcs_; }
  const std::string& name(NodeId node) const { return name_of_[to_index(node)]; }

 private:
  static std::size_t to_index(NodeId node) { return static_cast<std::size_t>(node); }

  void add(const GraphFile::Edge& edge, bool is_directed) {
    const NodeId source = numbers_[edge.source];
    const NodeId target = numbers_[edge.target];
    expect(source != target, edge.line,
           "expected edges between two nodes, found one from {} to itself", name(source));
    const double weight = has_weights_ ? parse_weight(edge) : 0;
    arcs_.push_back({source, target, weight});
    lines_.push_back(edge.line);
    if (is_directed) return;
    arcs_.push_back({target, source, weight});
    lines_.push_back(edge.line);
  }

  void expect_weight_like_others(const GraphFile::Edge& edge) const {
    expect(weight_of(edge).empty() != has_weights_, edge.line,
           "expected a weight on every edge or on none, found an edge {} one (between {} and {})",
           has_weights_ ? "without" : "with", name(numbers_[edge.source]),
           name(numbers_[edge.target]));
  }

  double parse_weight(const GraphFile::Edge& edge) const {
    const std::string_view text = weight_of(edge);
    const double weight = number_in<double>(text).value_or(0);
    expect(weight > 0 && weight <= 1, edge.line,
           "expected mixing weights above 0 and at most 1, found {} (between {} and {}); {}", text,
           name(numbers_[edge.source]), name(numbers_[edge.target]), way_out);
    return weight;
  }

  void reject_doubles() const {
    std::vector<std::pair<NodeId, NodeId>> ends;
    for (const Topology::Arc& arc : arcs_) ends.emplace_back(arc.sender, arc.receiver);
    std::vector<std::size_t> order(ends.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto ends_of = [&](std::size_t arc) { return ends[arc]; };
    std::ranges::stable_sort(order, {}, ends_of);
    const auto twice = std::ranges::adjacent_find(order, {}, ends_of);
    if (twice == order.end()) return;
    fail(lines_[*std::next(twice)], "expected each edge once, found two from {} to {}",
         name(ends_of(*twice).first), name(ends_of(*twice).second));
  }

  void check_rows() const {
    std::vector<double> sums(name_of_.size(), 0);
    for (const Topology::Arc& arc : arcs_) sums[to_index(arc.receiver)] += arc.weight;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      // Room for the rounding of weights that were floats, no more: W_ii must not be negative.
      expect(sums[i] <= 1 + 1e-7, 0,
             "expected weights that add up to at most 1 at each node, found {} at {}; {}", sums[i],
             name_of_[i], way_out);
    }
  }

  template <class... Args>
  [[noreturn]] void fail(std::size_t line, fmt::format_string<Args...> format,
                         Args&&... args) const {
    fail_at(section_, "path", path_, line, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void expect(bool condition, std::size_t line, fmt::format_string<Args...> format,
              Args&&... args) const {
    if (!condition) fail(line, format, std::forward<Args>(args)...);
  }

  static constexpr const char* way_out = "mixing = uniform or metropolis ignores the weights";

  const Section& section_;
  const std::string& path_;
  std::vector<NodeId> numbers_;       // by vertex of the file
  std::vector<std::string> name_of_;  // by node
  bool has_weights_ = false;
  std::vector<Topology::Arc> arcs_;
  std::vector<std::size_t> lines_;  // of the arcs
};

}  // namespace

Topology file(const Section& section, NodeId nodes, std::uint64_t seed) {
  const auto given = section.required<std::string>(
      "path", "a .graphml, .xml, .dot or .gv file, or a matrix as .csv");
  const std::string rule = section.choice(
      "mixing", {"auto", "file", "metropolis", "uniform", "best_constant", "fastest", "matcha"},
      "auto",
      "weights: those in the file, 1/(1 + larger degree), 1/(1 + own in-degree), the best weight "
      "that all share, the best symmetric weights, or a share of the edges at every step, drawn so "
      "that they "
      "mix best; auto: the file's if it has any, else metropolis, or uniform if directed");
  const Entries entries = rule == "auto"   ? Entries::by_value
                          : rule == "file" ? Entries::weights
                                           : Entries::links;
  const bool ignores_weights = entries == Entries::links;
  Mixing mixing = read_lazy(section);
  mixing.weights = weights_named(rule);
  read_matcha(section, seed, mixing);
  section.finish();

  const std::string path = section.resolve_path(given);
  const GraphFile graph =
      is_matrix(path)
          ? read_matrix(section, "path", path, entries)
          : read_graph(section, "path", path, {.vertices = {}, .edges = {"weight"}}, ".csv, ");
  section.expect(graph.vertices.size() == static_cast<std::size_t>(nodes), "path",
                 "{}: expected a graph of {} nodes, found {}", path, nodes, graph.vertices.size());
  const Arcs arcs(section, path, graph, ignores_weights);
  if (const auto apart = unreachable(nodes, arcs.list())) {
    section.fail("kind", "file: {} is not connected: no path leads from {} to {}", path,
                 arcs.name(apart->first), arcs.name(apart->second));
  }
  section.expect(rule != "file" || arcs.has_weights(), "mixing",
                 "is file, but no edge in {} has a weight", path);
  section.expect(!ignores_weights || rule == "uniform" || !graph.is_directed, "mixing",
                 "must not be {} for a directed graph, as {} is", rule, path);

  if (arcs.has_weights()) {
    std::vector<Topology::Arc> weighted = arcs.list();
    for (Topology::Arc& arc : weighted) arc.weight *= mixing.lazy ? 0.5 : 1.0;
    return complete_rows(nodes, {std::move(weighted)});
  }
  if (graph.is_directed) mixing.weights = Weights::uniform;
  return mix(nodes, arcs.list(), mixing);
}

}  // namespace starling::topologies
