// What Boost's readers of graphs do not tell or cannot read, from the text alone.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace starling {

/// Lines, from 1, of the tags <node and <edge of a GraphML file, in order.
struct TagLines {
  std::vector<std::size_t> vertices;
  std::vector<std::size_t> edges;
};

/// Throws GraphFileError for what is nested so deep that Boost's reader, which recurses, would end the program.
TagLines find_tags(std::string_view text);

/// The same graph, on the same lines, with what Boost's reader misses in a <key> that does not say what it is for: all.
std::string plain_graphml(std::string_view text);

/// Lines of the operators -- and -> of a DOT file, in order, and of the first use of each name.
struct OperatorLines {
  std::map<std::string, std::size_t> names;
  std::vector<std::size_t> edges;
};

/// Of what plain_dot() gives. Throws GraphFileError as find_tags() does.
OperatorLines find_operators(std::string_view text);

/// The same graph without comments and what Boost's parser of DOT stumbles over, on the same lines: a byte order mark, strings of
/// HTML and words in letters beyond ASCII (both in quotes instead), and subgraphs that are braces alone (a -- {b c}). Throws
/// GraphFileError for what it would silently read as several words, like 1e-3 or host.1 without quotes.
std::string plain_dot(std::string_view text);

}  // namespace starling
