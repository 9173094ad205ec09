// Mixing weights that are optimal for a graph: symmetric W with rows that sum to one, and the least
//
//   rho(W) = ||W - J||_2,    J the matrix of all 1/n,
//
// the factor by which a mixing step shrinks the distance from the average (1 minus the spectral gap).
//
//   best constant   all edges have the same weight. With the eigenvalues l_1 >= .. >= l_{n-1} > 0 of the
//                   Laplacian it is 2 / (l_1 + l_{n-1}), and rho = (l_1 - l_{n-1}) / (l_1 + l_{n-1})
//   fastest         each edge has its own (fastest distributed linear averaging): a convex problem,
//                   minimize s such that -s I <= W - J <= s I
//
// Weights may be negative. On edge-transitive graphs (rings, hypercubes, stars, complete ones) both are the
// same; on all graphs fastest <= best constant, and fastest <= Metropolis.
//
// Xiao, Boyd, "Fast linear iterations for distributed averaging", Systems & Control Letters 53, 2004. They
// use semidefinite programming or subgradients; here a barrier method, with a bound on what is missing.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/base/types.hpp"

namespace starling::topologies {

struct Connection;

/// The best constant weight of a connected graph of at least two nodes. Costs two spectral_gap()s. Throws
/// std::invalid_argument if these do not converge (a ring of more than some ten thousand nodes).
double best_constant_weight(NodeId nodes, std::span<const Connection> connections);

/// Connections beyond which fastest_weights() would take more than some seconds.
inline constexpr std::size_t fastest_limit = 400;

/// The fastest weights of a connected graph, in order of `connections`; their rho is at most 1e-9 above the
/// least. One thread, no library: the same bits on every machine. Takes time of the third power of
/// connections and nodes. Throws std::invalid_argument past `fastest_limit`.
std::vector<double> fastest_weights(NodeId nodes, std::span<const Connection> connections);

}  // namespace starling::topologies
