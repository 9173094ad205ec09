// Graphs as matrices in CSV files, as NumPy writes them: a row per node, numbers without headings. Row i is what node i
// receives: number j of it is W_ij, the mixing weight of what comes from node j, or, where all numbers are 0 or 1, whether
// anything comes from there.
#pragma once

#include <string>
#include <string_view>

#include "sim/base/graph_file.hpp"
#include "sim/base/section.hpp"

namespace starling::topologies {

/// Whether a file of this name is a matrix.
bool is_matrix(std::string_view path);

enum class Entries { weights, links, by_value };

/// The graph of the matrix at `path`, of vertices 0, 1, ..; undirected if the matrix is symmetric. Its edges have the attribute
/// `weight` if entries are weights; then each row must add up to one, W_ii with it. Otherwise the diagonal means nothing.
/// Throws ScenarioError of `key`.
GraphFile read_matrix(const Section& section, std::string_view key, const std::string& path,
                      Entries entries);

}  // namespace starling::topologies
