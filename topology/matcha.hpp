// MATCHA: a graph's connections are split into matchings, of which every step uses some, at random: those that hold the graph together often, the
// others seldom. So a step costs a share of the messages, and averages nearly as well.
//
//   matchings      few of them: matchings.hpp
//   probabilities  p_j of the matching j: greatest algebraic connectivity of sum_j p_j L_j, where sum_j p_j <= budget times the
//                  number of matchings and 0 <= p_j <= 1; L_j is the Laplacian of the matching
//   a step         W = I - weight sum_j b_j L_j, where b_j is 1 with probability p_j, else 0
//   weight         least rho = ||E[W W] - J||_2, the factor by which a step shrinks the squared distance from the average, in the
//                  mean: E[W W] = I - 2 weight A + weight^2 (A A + 2 sum_j p_j (1 - p_j) L_j), A = sum_j p_j L_j
//
// Wang, Sahu, Yang, Joshi, Kar, "MATCHA: Speeding Up Decentralized SGD via Matching Decomposition Sampling", ICC 2019 (arXiv 1905.09435),
// section 3: steps 1 to 3, problems (4) and (9).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/base/types.hpp"
#include "topology/matchings.hpp"
#include "topology/mixing.hpp"

namespace starling::topologies {

/// A graph's matchings and how they are used.
struct Matcha {
  Matchings matchings;
  std::vector<double> probabilities;  // of each
  double weight;
  double rho;
};

/// Nodes and connections beyond which find_matcha() would take more than some seconds.
inline constexpr NodeId matcha_most_nodes = 256;
inline constexpr std::size_t matcha_most_connections = 4096;

/// The matchings of a connected graph; 0 < budget <= 1. What is maximized and minimized comes within 1e-9 of its best. One thread, no library for numbers:
/// the same bits on every machine. Throws std::invalid_argument past the limits above.
Matcha find_matcha(NodeId nodes, std::span<const Connection> connections, double budget);

}  // namespace starling::topologies
