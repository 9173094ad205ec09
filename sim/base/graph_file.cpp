// Boost's readers, and what they leave out: names of GraphML's vertices, lines (graph_text.hpp), and attributes that
// nobody reads. One file, for it alone in sim/ may include Boost, and both formats end in the same checks.

#include "sim/base/graph_file.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/graphml.hpp>
#include <boost/graph/graphviz.hpp>
#include <boost/property_map/dynamic_property_map.hpp>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <boost/range/iterator_range.hpp>

#include "sim/base/did_you_mean.hpp"
#include "sim/base/graph_text.hpp"
#include "sim/base/text.hpp"
#include "sim/base/text_file.hpp"

namespace starling {
namespace {

// ----- attributes

/// Which attributes are kept: those that are known, and those that look like one, to be refused. All
/// others are for other programs, of which each has its own.
class Attention {
 public:
  explicit Attention(const GraphAttributes& known) : known_(known), all_(known.vertices) {
    all_.insert(all_.end(), known.edges.begin(), known.edges.end());
  }

  bool keeps(const std::string& name) {
    const auto [decision, is_new] = decisions_.emplace(name, false);
    if (is_new) decision->second = is_in(all_, name) || !suggestion(all_, name).empty();
    return decision->second;
  }
  bool keeps(const std::string& name, const std::string& value) {
    return keeps(name) || !meant(value).empty();
  }

  void refuse_strangers(const GraphFile& graph) const {
    const auto name_of = [&](std::size_t v) { return graph.vertices[v].name; };
    refuse_strangers(graph.attributes, {}, 0, [] { return std::string("the graph"); });
    const auto refuse = [this](const GraphFile::Attributes& attributes, const Names& known,
                               std::size_t line, auto owner) {
      refuse_strangers(attributes, known, line, owner);
      refuse_misnamed(attributes, known, line, owner);
    };
    for (const GraphFile::Vertex& vertex : graph.vertices) {
      refuse(vertex.attributes, known_.vertices, vertex.line,
             [&] { return fmt::format("vertex {}", vertex.name); });
    }
    for (const GraphFile::Edge& edge : graph.edges) {
      refuse(edge.attributes, known_.edges, edge.line, [&] {
        return fmt::format("the edge between {} and {}", name_of(edge.source),
                           name_of(edge.target));
      });
    }
  }

 private:
  using Names = std::vector<std::string>;

  static bool is_in(const Names& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  }

  /// "; did you mean latency?", whatever the case of the letters; nothing for what Graphviz writes.
  static std::string suggestion(const Names& names, std::string found) {
    found = lower(std::move(found));
    if (found == "height" || found == "lheight") return {};  // no weights
    return did_you_mean(found, names);
  }

  std::string meant(std::string_view value) const {
    return known_.meant ? known_.meant(value) : std::string();
  }

  template <class Owner>
  void refuse_misnamed(const GraphFile::Attributes& attributes, const Names& known,
                       std::size_t line, Owner owner) const {
    for (const auto& [name, value] : attributes) {
      const std::string other = is_in(known, name) ? std::string() : meant(value);
      if (!is_in(known, other) || attributes.contains(other)) continue;
      throw GraphFileError(
          line, fmt::format("{} has {} = {}, expected that as {}", owner(), name, value, other));
    }
  }

  template <class Owner>
  void refuse_strangers(const GraphFile::Attributes& attributes, const Names& known,
                        std::size_t line, Owner owner) const {
    for (const auto& [name, value] : attributes) {
      if (is_in(known, name) || !decisions_.at(name)) continue;
      const std::string way_out = is_in(known_.edges, name) ? "; it is one of edges"
                                  : is_in(known_.vertices, name)
                                      ? "; it is one of vertices"
                                      : suggestion(known.empty() ? all_ : known, name);
      throw GraphFileError(line, fmt::format("unknown attribute {} of {}{}", name, owner(),
                                             way_out.empty() ? suggestion(all_, name) : way_out));
    }
  }

  const GraphAttributes& known_;
  Names all_;
  std::map<std::string, bool> decisions_;
};

// ----- DOT

template <class Direction>
GraphFile read_dot_as(const std::string& text, Attention& attention) {
  // Of a bidirectional graph, too, edges() are in order of insertion; of a directed one not.
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, Direction, GraphFile::Attributes,
                                      GraphFile::Attributes>;
  using Traits = boost::graph_traits<Graph>;
  using Vertex = typename Traits::vertex_descriptor;
  using Edge = typename Traits::edge_descriptor;
  constexpr const char* name = "node_id";
  GraphFile result{.is_directed = !std::is_same_v<Direction, boost::undirectedS>,
                   .attributes = {},
                   .vertices = {},
                   .edges = {}};
  Graph graph;
  std::vector<std::string> names;
  // Boost asks for a property map for each attribute that has none: it is kept then and there.
  const auto keep = [&](const std::string& key, const boost::any& owner, const boost::any& value) {
    const auto& text_of_value = boost::any_cast<const std::string&>(value);
    const auto* const vertex = boost::any_cast<Vertex>(&owner);
    if (vertex != nullptr && key == name) {
      names.resize(boost::num_vertices(graph));
      names[*vertex] = text_of_value;
    } else if (attention.keeps(key, text_of_value)) {
      const auto* const edge = boost::any_cast<Edge>(&owner);
      auto& attributes = vertex != nullptr ? graph[*vertex]
                         : edge != nullptr ? graph[*edge]
                                           : result.attributes;
      attributes[key] = text_of_value;
    }
    return boost::shared_ptr<boost::dynamic_property_map>();
  };
  boost::dynamic_properties properties(keep);
  boost::read_graphviz(text, graph, properties, name);

  const OperatorLines lines = find_operators(text);
  for (const auto vertex : boost::make_iterator_range(boost::vertices(graph))) {
    const auto line = lines.names.find(names[vertex]);
    result.vertices.push_back(
        {names[vertex], graph[vertex], line == lines.names.end() ? 0 : line->second});
  }
  const bool has_lines = lines.edges.size() == boost::num_edges(graph);
  for (const auto edge : boost::make_iterator_range(boost::edges(graph))) {
    result.edges.push_back({boost::source(edge, graph), boost::target(edge, graph), graph[edge],
                            has_lines ? lines.edges[result.edges.size()] : 0});
  }
  return result;
}

GraphFile read_dot(const std::string& text, Attention& attention) {
  try {
    return read_dot_as<boost::undirectedS>(text, attention);
  } catch (const boost::directed_graph_error&) {
    return read_dot_as<boost::bidirectionalS>(text, attention);
  }
}

/// What Boost's parser says of a text; empty if it finds no fault.
std::string dot_fault(const std::string& text) {
  const GraphAttributes none;
  Attention attention(none);
  try {
    read_dot(text, attention);
  } catch (const boost::bad_graphviz_syntax& error) {
    return error.what();
  }
  return {};
}

/// The line of a fault. The parser tells none, but it reads forward only: the fault is in the last of the
/// fewest lines that have it.
std::size_t dot_fault_line(const std::string& text) {
  std::vector<std::size_t> ends;  // of lines
  for (std::size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1)) {
    ends.push_back(at + 1);
  }
  if (text.empty() || text.back() != '\n') ends.push_back(text.size());
  const std::string fault = dot_fault(text);
  const bool is_at_end = dot_fault(text + "\n]") != fault;
  if (is_at_end) return ends.size();
  const auto line = std::ranges::partition_point(
      ends, [&](std::size_t end) { return dot_fault(text.substr(0, end)) != fault; });
  return static_cast<std::size_t>(line - ends.begin()) + 1;
}

// ----- GraphML

/// Receives what Boost's GraphML reader finds. Not its ready-made receiver, which insists on
/// declared types.
class GraphmlReceiver : public boost::mutate_graph {
 public:
  GraphmlReceiver(GraphFile& graph, Attention& attention) : graph_(graph), attention_(attention) {}

  std::size_t vertices() const { return vertices_.size(); }
  /// Attributes by vertex, in order of appearance.
  const std::vector<GraphFile::Attributes>& vertex_attributes() const { return vertices_; }

  bool is_directed() const override { return graph_.is_directed; }
  boost::any do_add_vertex() override {
    vertices_.emplace_back();
    return vertices_.size() - 1;
  }
  std::pair<boost::any, bool> do_add_edge(boost::any source, boost::any target) override {
    graph_.edges.push_back(
        {boost::any_cast<std::size_t>(source), boost::any_cast<std::size_t>(target), {}, 0});
    return {graph_.edges.size() - 1, true};
  }
  void set_graph_property(const std::string& name, const std::string& value,
                          const std::string&) override {
    set(graph_.attributes, name, value);
  }
  void set_vertex_property(const std::string& name, boost::any vertex, const std::string& value,
                           const std::string&) override {
    set(vertices_[boost::any_cast<std::size_t>(vertex)], name, value);
  }
  void set_edge_property(const std::string& name, boost::any edge, const std::string& value,
                         const std::string&) override {
    set(graph_.edges[boost::any_cast<std::size_t>(edge)].attributes, name, value);
  }

 private:
  void set(GraphFile::Attributes& attributes, const std::string& name, const std::string& value) {
    if (attention_.keeps(name, value)) attributes[name] = value;
  }

  GraphFile& graph_;
  Attention& attention_;
  std::vector<GraphFile::Attributes> vertices_;
};

/// The names of the nodes in order of appearance, which is the order in which Boost's reader
/// numbers them (it keeps the names to itself). What it would lose is an error here: other graphs than
/// the first, hyperedges, data whose key no <key> declares, and data with a known key that no <key> names.
std::vector<std::string> graphml_names(const std::string& text, Attention& attention) {
  using boost::property_tree::ptree;
  const ptree::path_type attr_name("<xmlattr>/attr.name", '/');
  std::istringstream stream(text);
  ptree document;
  boost::property_tree::read_xml(stream, document);
  const auto refuse = [](const std::string& what) { throw std::runtime_error(what); };
  const auto graph = document.get_child_optional("graphml.graph");
  if (!graph) refuse("expected a tag graphml with a tag graph in it, found none");
  if (document.get_child("graphml").count("graph") > 1) refuse("expected one graph, found several");
  std::set<std::string> declared, named;
  for (const auto& [tag, key] : document.get_child("graphml")) {
    if (tag != "key") continue;
    const auto id = key.get("<xmlattr>.id", "");
    declared.insert(id);
    if (key.get_optional<std::string>(attr_name)) named.insert(id);
  }
  std::vector<std::string> names;
  for (const auto& [tag, owner] : *graph) {
    if (tag == "node") names.push_back(owner.get<std::string>("<xmlattr>.id"));
    if (tag == "hyperedge") refuse("expected edges between two nodes, found a hyperedge");
    for (const auto& [inner, data] : owner) {
      if (inner == "graph") refuse("expected one graph, found another within a node");
      const auto key = data.get("<xmlattr>.key", "");
      if (inner != "data" || named.contains(key)) continue;
      if (declared.contains(key) && !attention.keeps(key)) continue;
      refuse(fmt::format(
          "expected <key id=\"{0}\" attr.name=..> for the data with key {0}, found none", key));
    }
  }
  return names;
}

GraphFile read_graphml_as(const std::string& text, bool is_directed, Attention& attention) {
  const std::vector<std::string> names = graphml_names(text, attention);
  GraphFile graph{.is_directed = is_directed, .attributes = {}, .vertices = {}, .edges = {}};
  GraphmlReceiver receiver(graph, attention);
  std::istringstream stream(text);
  boost::read_graphml(stream, receiver, 0);
  if (receiver.vertices() != names.size()) {
    throw std::runtime_error(
        fmt::format("it declares {} nodes, each of which must have an id of its own, but {} "
                    "different ones occur",
                    names.size(), receiver.vertices()));
  }
  const TagLines lines = find_tags(text);
  const bool has_vertex_lines = lines.vertices.size() == names.size();
  for (std::size_t v = 0; v < names.size(); ++v) {
    graph.vertices.push_back(
        {names[v], receiver.vertex_attributes()[v], has_vertex_lines ? lines.vertices[v] : 0});
  }
  if (lines.edges.size() == graph.edges.size()) {
    for (std::size_t e = 0; e < graph.edges.size(); ++e) graph.edges[e].line = lines.edges[e];
  }
  return graph;
}

GraphFile read_graphml(const std::string& text, Attention& attention) {
  try {
    return read_graphml_as(text, false, attention);
  } catch (const boost::directed_graph_error&) {
    return read_graphml_as(text, true, attention);
  }
}

}  // namespace

// ----- both

GraphFile parse_graph(const std::string& text, GraphFormat format, const GraphAttributes& known) {
  const bool is_graphml = format == GraphFormat::graphml;
  const std::string plain = is_graphml ? plain_graphml(text) : plain_dot(text);
  Attention attention(known);
  try {
    // Before Boost recurses: the scan refuses what is nested too deep.
    is_graphml ? static_cast<void>(find_tags(plain)) : static_cast<void>(find_operators(plain));
    GraphFile graph = is_graphml ? read_graphml(plain, attention) : read_dot(plain, attention);
    attention.refuse_strangers(graph);
    return graph;
  } catch (const GraphFileError&) {
    throw;
  } catch (const boost::undirected_graph_error&) {
    throw GraphFileError(0, "expected edges that are all directed or all undirected, found both");
  } catch (const boost::bad_graphviz_syntax& error) {
    throw GraphFileError(dot_fault_line(plain),
                         fmt::format("not a valid DOT file: {}", error.what()));
  } catch (const boost::property_tree::xml_parser_error& error) {
    throw GraphFileError(error.line(),
                         fmt::format("not a valid GraphML file: {}", error.message()));
  } catch (const boost::property_tree::ptree_bad_path& error) {
    const std::string path = error.path<boost::property_tree::path>().dump();
    throw GraphFileError(0, fmt::format("not a valid GraphML file: a tag lacks the attribute {}",
                                        path.substr(path.find_last_of("./") + 1)));
  } catch (const std::exception& error) {
    throw GraphFileError(
        0, fmt::format("not a valid {} file: {}", is_graphml ? "GraphML" : "DOT", error.what()));
  }
}

void fail_at(const Section& section, std::string_view key, const std::string& path,
             std::size_t line, const std::string& what) {
  section.fail(key, "{}{}: {}", path, line > 0 ? fmt::format(":{}", line) : "", what);
}

GraphFile read_graph(const Section& section, std::string_view key, const std::string& path,
                     const GraphAttributes& known, std::string_view other_formats) {
  const std::size_t dot = path.find_last_of("./");
  const std::string extension =
      dot == path.npos || path[dot] == '/' ? "" : lower(path.substr(dot + 1));
  const bool is_graphml = extension == "graphml" || extension == "xml";
  section.expect(is_graphml || extension == "dot" || extension == "gv", key,
                 "must end in {}.graphml, .xml, .dot or .gv, got {}", other_formats, path);

  const std::string text = read_text(section, key, path);
  try {
    return parse_graph(text, is_graphml ? GraphFormat::graphml : GraphFormat::dot, known);
  } catch (const GraphFileError& error) {
    fail_at(section, key, path, error.line, error.what());
  }
}

namespace {

/// Cuts the digits that `text` begins with off; returns them without leading zeros.
std::string_view take_digits(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::size_t begin = std::min(text.find_first_not_of('0'), end);
  const std::string_view digits = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return digits;
}

/// The order of names in which n2 comes before n10: digits in a row count as a number, all else as bytes.
bool comes_before(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::string_view whole_a = a, whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a[0]) && is_digit(b[0])) {
      const std::string_view number_a = take_digits(a), number_b = take_digits(b);
      if (number_a.size() != number_b.size()) return number_a.size() < number_b.size();
      if (number_a != number_b) return number_a < number_b;
    } else {
      if (a[0] != b[0]) return a.substr(0, 1) < b.substr(0, 1);
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() && b.empty()) return whole_a < whole_b;  // n1 and n01
  return a.empty();
}

}  // namespace

std::vector<NodeId> node_numbers(const std::vector<std::string>& names) {
  std::vector<std::size_t> order(names.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, comes_before,
                    [&](std::size_t i) -> const std::string& { return names[i]; });
  std::vector<NodeId> numbers(names.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    numbers[order[rank]] = static_cast<NodeId>(rank);
  }
  return numbers;
}

std::string_view attribute(const GraphFile::Attributes& attributes, std::string_view name) {
  const auto found = attributes.find(name);
  return found == attributes.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace starling
