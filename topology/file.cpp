// A topology from a file: GraphML (.graphml, .xml) or DOT (.dot, .gv), undirected or directed,
// through the readers of Boost.Graph.
//
// Numbers  If the names of the nodes are 0..n-1, all after the same letters if any (n0, n1, ...),
//          they are the numbers of the nodes. Otherwise nodes are numbered from 0 in (byte) order
//          of their names.
// Weights  An edge may have an attribute `weight`, the mixing weight; then all must. A directed
//          edge from j to i gives W_ij; an undirected one W_ij and W_ji. W_ii is what the row
//          leaves of one. Without the attribute: Metropolis weights if undirected,
//          1/(1 + in-degree) if directed.

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/graphml.hpp>
#include <boost/graph/graphviz.hpp>
#include <boost/property_map/dynamic_property_map.hpp>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <boost/range/iterator_range.hpp>

#include "topology/connectivity.hpp"
#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::topologies {
namespace {

struct FileEdge {
  std::size_t source;
  std::size_t target;
  std::string weight;  // as written; empty if absent
};

/// What a file says, before anything of it is checked.
struct FileGraph {
  bool is_directed = false;
  std::vector<std::string> names;
  std::vector<FileEdge> edges;
};

// ----- DOT

struct DotNode {
  std::string name;
};
struct DotEdge {
  std::string weight;
};

template <class Direction>
FileGraph read_dot_as(const std::string& text) {
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, Direction, DotNode, DotEdge>;
  Graph graph;
  boost::dynamic_properties properties(boost::ignore_other_properties);
  properties.property("node_id", boost::get(&DotNode::name, graph));
  properties.property("weight", boost::get(&DotEdge::weight, graph));
  boost::read_graphviz(text, graph, properties);

  FileGraph result{
      .is_directed = std::is_same_v<Direction, boost::directedS>, .names = {}, .edges = {}};
  for (const auto vertex : boost::make_iterator_range(boost::vertices(graph))) {
    result.names.push_back(graph[vertex].name);
  }
  for (const auto edge : boost::make_iterator_range(boost::edges(graph))) {
    result.edges.push_back(
        {boost::source(edge, graph), boost::target(edge, graph), graph[edge].weight});
  }
  return result;
}

FileGraph read_dot(const std::string& text) {
  try {
    return read_dot_as<boost::undirectedS>(text);
  } catch (const boost::directed_graph_error&) {
    return read_dot_as<boost::directedS>(text);
  }
}

// ----- GraphML

/// Receives what Boost's GraphML reader finds. Not its ready-made receiver, which insists on
/// declared types.
class GraphmlReceiver : public boost::mutate_graph {
 public:
  GraphmlReceiver(FileGraph& graph, std::size_t& vertices) : graph_(graph), vertices_(vertices) {}

  bool is_directed() const override { return graph_.is_directed; }
  boost::any do_add_vertex() override { return vertices_++; }
  std::pair<boost::any, bool> do_add_edge(boost::any source, boost::any target) override {
    graph_.edges.push_back(
        {boost::any_cast<std::size_t>(source), boost::any_cast<std::size_t>(target), ""});
    return {graph_.edges.size() - 1, true};
  }
  void set_graph_property(const std::string&, const std::string&, const std::string&) override {}
  void set_vertex_property(const std::string&, boost::any, const std::string&,
                           const std::string&) override {}
  void set_edge_property(const std::string& name, boost::any edge, const std::string& value,
                         const std::string&) override {
    if (name == "weight") graph_.edges[boost::any_cast<std::size_t>(edge)].weight = value;
  }

 private:
  FileGraph& graph_;
  std::size_t& vertices_;
};

/// The names of the nodes in order of appearance, which is the order in which Boost's reader
/// numbers them (it keeps the names to itself).
std::vector<std::string> graphml_names(const std::string& text) {
  using boost::property_tree::ptree;
  std::istringstream stream(text);
  ptree document;
  boost::property_tree::read_xml(stream, document);
  std::vector<std::string> names;
  for (const auto& [tag, node] : document.get_child("graphml.graph")) {
    if (tag == "node") names.push_back(node.get<std::string>("<xmlattr>.id"));
  }
  return names;
}

FileGraph read_graphml(const std::string& text) {
  FileGraph graph;
  std::size_t vertices = 0;
  const auto read_as = [&](bool is_directed) {
    graph = {.is_directed = is_directed, .names = graphml_names(text), .edges = {}};
    vertices = 0;
    std::istringstream stream(text);
    GraphmlReceiver receiver(graph, vertices);
    boost::read_graphml(stream, receiver, 0);
  };
  try {
    read_as(false);
  } catch (const boost::directed_graph_error&) {
    read_as(true);
  }
  if (vertices != graph.names.size()) {
    throw std::runtime_error(
        fmt::format("it declares {} nodes, each of which must have an id of its own, but {} "
                    "different ones occur",
                    graph.names.size(), vertices));
  }
  return graph;
}

// ----- both

/// The numbers that the names contain if these are 0..n-1 behind one common prefix; else their
/// ranks.
std::vector<NodeId> node_numbers(const std::vector<std::string>& names) {
  std::vector<NodeId> numbers(names.size(), -1);
  std::vector<char> is_taken(names.size(), 0);
  const std::size_t prefix =
      names.empty() ? 0 : std::min(names[0].find_first_of("0123456789"), names[0].size());
  const auto take_number = [&](std::size_t i) {
    if (names[i].compare(0, prefix, names[0], 0, prefix) != 0) return false;
    std::size_t number = 0;
    const char* const end = names[i].data() + names[i].size();
    const auto [rest, error] = std::from_chars(names[i].data() + prefix, end, number);
    if (error != std::errc() || rest != end) return false;
    if (number >= names.size() || is_taken[number]) return false;
    is_taken[number] = 1;
    numbers[i] = static_cast<NodeId>(number);
    return true;
  };
  std::size_t taken = 0;
  while (taken < names.size() && take_number(taken)) ++taken;
  if (taken == names.size()) return numbers;

  std::vector<std::size_t> order(names.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) -> const std::string& { return names[i]; });
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    numbers[order[rank]] = static_cast<NodeId>(rank);
  }
  return numbers;
}

FileGraph read(const Section& section, const std::string& path) {
  const std::size_t dot = path.find_last_of("./");
  std::string extension = dot == path.npos || path[dot] == '/' ? "" : path.substr(dot + 1);
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool is_graphml = extension == "graphml" || extension == "xml";
  section.expect(is_graphml || extension == "dot" || extension == "gv", "path",
                 "must end in .graphml, .xml, .dot or .gv, got {}", path);

  errno = 0;
  std::ifstream stream(path);
  std::ostringstream content;
  if (stream) content << stream.rdbuf();
  // A directory opens but yields nothing; so does an empty file, which is no graph either.
  section.expect(stream.is_open() && !content.str().empty(), "path", "{}: cannot read: {}", path,
                 errno != 0 ? std::strerror(errno) : "it is empty");
  try {
    return is_graphml ? read_graphml(content.str()) : read_dot(content.str());
  } catch (const boost::undirected_graph_error&) {
    section.fail("path", "{}: expected edges that are all directed or all undirected, found both",
                 path);
  } catch (const boost::property_tree::xml_parser_error& error) {
    section.fail("path", "{}: not a valid GraphML file: line {}: {}", path, error.line(),
                 error.message());
  } catch (const std::exception& error) {
    section.fail("path", "{}: not a valid {} file: {}", path, is_graphml ? "GraphML" : "DOT",
                 error.what());
  }
}

/// The edges as arcs, checked: no loops, none twice; and unless weights are ignored, these on all
/// or none, each in (0, 1], at most 1 in all at each node.
class Arcs {
 public:
  Arcs(const Section& section, const std::string& path, const FileGraph& graph,
       bool ignores_weights)
      : section_(section),
        path_(path),
        numbers_(node_numbers(graph.names)),
        name_of_(graph.names.size()) {
    for (std::size_t v = 0; v < numbers_.size(); ++v) {
      name_of_[to_index(numbers_[v])] = graph.names[v];
    }
    has_weights_ = !ignores_weights && !graph.edges.empty() && !graph.edges.front().weight.empty();
    for (const FileEdge& edge : graph.edges) {
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

  void add(const FileEdge& edge, bool is_directed) {
    const NodeId source = numbers_[edge.source];
    const NodeId target = numbers_[edge.target];
    expect(source != target, "expected edges between two nodes, found one from {} to itself",
           name(source));
    const double weight = has_weights_ ? parse_weight(edge) : 0;
    arcs_.push_back({source, target, weight});
    if (!is_directed) arcs_.push_back({target, source, weight});
  }

  void expect_weight_like_others(const FileEdge& edge) const {
    expect(edge.weight.empty() != has_weights_,
           "expected a weight on every edge or on none, found an edge {} one (between {} and {})",
           has_weights_ ? "without" : "with", name(numbers_[edge.source]),
           name(numbers_[edge.target]));
  }

  double parse_weight(const FileEdge& edge) const {
    double weight = 0;
    const char* const end = edge.weight.data() + edge.weight.size();
    const auto [rest, error] = std::from_chars(edge.weight.data(), end, weight);
    expect(error == std::errc() && rest == end && weight > 0 && weight <= 1,
           "expected mixing weights above 0 and at most 1, found {} (between {} and {}); {}",
           edge.weight, name(numbers_[edge.source]), name(numbers_[edge.target]), way_out);
    return weight;
  }

  void reject_doubles() const {
    std::vector<std::pair<NodeId, NodeId>> ends;
    for (const Topology::Arc& arc : arcs_) ends.emplace_back(arc.sender, arc.receiver);
    std::ranges::sort(ends);
    const auto twice = std::ranges::adjacent_find(ends);
    if (twice == ends.end()) return;
    fail("expected each edge once, found two from {} to {}", name(twice->first),
         name(twice->second));
  }

  void check_rows() const {
    std::vector<double> sums(name_of_.size(), 0);
    for (const Topology::Arc& arc : arcs_) sums[to_index(arc.receiver)] += arc.weight;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      // Room for the rounding of weights that were floats, no more: W_ii must not be negative.
      expect(sums[i] <= 1 + 1e-7,
             "expected weights that add up to at most 1 at each node, found {} at {}; {}", sums[i],
             name_of_[i], way_out);
    }
  }

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    section_.fail("path", "{}: {}", path_, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void expect(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) fail(format, std::forward<Args>(args)...);
  }

  static constexpr const char* way_out = "mixing = uniform or metropolis ignores the weights";

  const Section& section_;
  const std::string& path_;
  std::vector<NodeId> numbers_;       // by vertex of the file
  std::vector<std::string> name_of_;  // by node
  bool has_weights_ = false;
  std::vector<Topology::Arc> arcs_;
};

}  // namespace

Topology file(const Section& section, NodeId nodes, std::uint64_t /*seed*/) {
  const auto given = section.required<std::string>("path", "a .graphml, .xml, .dot or .gv file");
  const std::string rule = section.choice(
      "mixing", {"auto", "file", "metropolis", "uniform"}, "auto",
      "weights: those in the file, 1/(1 + larger degree), or 1/(1 + own in-degree); auto: the "
      "file's if it has any, else metropolis, or uniform if directed");
  Mixing mixing = read_lazy(section);
  section.finish();

  const std::string path = section.resolve_path(given);
  const FileGraph graph = read(section, path);
  section.expect(graph.names.size() == static_cast<std::size_t>(nodes), "path",
                 "{}: expected a graph of {} nodes, found {}", path, nodes, graph.names.size());
  const Arcs arcs(section, path, graph, rule == "metropolis" || rule == "uniform");
  if (const auto apart = unreachable(nodes, arcs.list())) {
    section.fail("kind", "file: {} is not connected: no path leads from {} to {}", path,
                 arcs.name(apart->first), arcs.name(apart->second));
  }
  section.expect(rule != "file" || arcs.has_weights(), "mixing",
                 "is file, but no edge in {} has a weight", path);
  section.expect(rule != "metropolis" || !graph.is_directed, "mixing",
                 "must not be metropolis for a directed graph, as {} is", path);

  if (arcs.has_weights()) {
    std::vector<Topology::Arc> weighted = arcs.list();
    for (Topology::Arc& arc : weighted) arc.weight *= mixing.lazy ? 0.5 : 1.0;
    return complete_rows(nodes, {std::move(weighted)});
  }
  if (rule == "uniform" || graph.is_directed) mixing.weights = Weights::uniform;
  return mix(nodes, arcs.list(), mixing);
}

}  // namespace starling::topologies
