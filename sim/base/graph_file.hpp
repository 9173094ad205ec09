// Graphs from files: GraphML (.graphml, .xml) or DOT (.dot, .gv), undirected or directed, read by
// Boost.Graph. What the graph means is up to the reader's caller: who talks with whom (topology/file.cpp)
// or how a network is wired (network_models/fabric_file.cpp).
//
// Boost's readers tell no lines, so the text is scanned once more for where its vertices and edges
// begin. That fails for the edges of a DOT file that joins whole subgraphs ("a -- {b c}"); their
// line is 0.
#pragma once

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/section.hpp"
#include "sim/base/types.hpp"

namespace starling {

/// What a file says, before anything of it is checked.
struct GraphFile {
  using Attributes = std::map<std::string, std::string, std::less<>>;  // as written
  struct Vertex {
    std::string name;
    Attributes attributes;
    std::size_t line = 0;  // from 1; 0: not known
  };
  struct Edge {
    std::size_t source;
    std::size_t target;
    Attributes attributes;
    std::size_t line = 0;
  };

  bool is_directed = false;
  Attributes attributes;  // of the graph itself
  std::vector<Vertex> vertices;
  std::vector<Edge> edges;  // in order of the file
};

enum class GraphFormat { graphml, dot };

/// Names of the attributes that a caller reads.
struct GraphAttributes {
  std::vector<std::string> vertices;
  std::vector<std::string> edges;
  /// The attribute that such a value is of, whatever it is called ("switch": kind); empty: of any. Under another name it
  /// is refused where that attribute is not given.
  std::function<std::string(std::string_view value)> meant = {};
};

/// What is wrong with a file, and the line from 1, or 0 if it is not known.
struct GraphFileError : std::runtime_error {
  GraphFileError(std::size_t at, const std::string& what) : std::runtime_error(what), line(at) {}
  std::size_t line;
};

/// The graph that `text` describes, with its known attributes. One that looks like a known one ("latancy",
/// "Latency") or is at the wrong place is refused; all others, as drawing tools write them (pos, color),
/// are left out. Throws GraphFileError.
GraphFile parse_graph(const std::string& text, GraphFormat format, const GraphAttributes& known);

/// ScenarioError of `key`: "net.dot:12: what", without the line if that is 0.
[[noreturn]] void fail_at(const Section& section, std::string_view key, const std::string& path,
                          std::size_t line, const std::string& what);

/// Reads the file at `path`, which `key` of the section names. Throws ScenarioError, which tells of `other_formats` (".csv, "), too.
GraphFile read_graph(const Section& section, std::string_view key, const std::string& path,
                     const GraphAttributes& known, std::string_view other_formats = "");

/// Numbers of nodes by their names: from 0 on in order of name, in which n2 comes before n10. Names 0, 1, .. or n0, n1, ..
/// are the numbers of the nodes, then.
std::vector<NodeId> node_numbers(const std::vector<std::string>& names);

/// An attribute as it was written; empty if it is absent.
std::string_view attribute(const GraphFile::Attributes& attributes, std::string_view name);

}  // namespace starling
