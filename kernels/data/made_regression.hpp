// Samples of a linear regression that are made, so that its answer is known. Node i has samples (z, y), z of independent
// standard normal numbers,
//
//   y = <u_i, z> + e,    u_i = u + node_spread s_i,    e = noise r,
//
// u, s_i and r standard normal, too. Over all samples there could be, the loss of weights w and a bias c (linear.hpp) at node i
// is (|w - u_i|^2 + c^2 + noise^2) / 2, and the mean of all nodes is least at the mean of u_i, with c = 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/data/dataset.hpp"
#include "sim/base/types.hpp"

namespace starling {

struct MadeRegression {
  NodeId nodes = 1;
  std::size_t features = 1;
  std::size_t samples = 1;       // over all nodes, as equal as can be, the first ones get the rest
  std::size_t test_samples = 1;  // the t-th is one of node t mod nodes
  double noise = 0;
  double node_spread = 0;
  std::uint64_t seed = 1;
};

/// (features), u_i.
std::vector<double> true_weights(const MadeRegression& made, NodeId node);

/// The samples, node after node.
SplitDataset make_samples(const MadeRegression& made);

/// Which of them are whose, as of partition().
std::vector<std::vector<std::int32_t>> parts_of(const MadeRegression& made);

}  // namespace starling
