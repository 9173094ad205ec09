// Who computes for which cluster: the part of GC-DC that is no messages.
//
// Of n nodes node i lives in cluster i / l, where l = n / clusters, and holds the data of its own cluster and
// of the next one (modulo clusters), so it may serve either.
#pragma once

#include <cstddef>
#include <vector>

namespace starling::algorithms {

/// Where a node serves: its cluster, and the row of the cluster's code that it computes.
struct Assignment {
  std::size_t cluster;
  std::size_t row;
  friend bool operator==(const Assignment&, const Assignment&) = default;
};

/// Everybody at home if no cluster has more than `tolerated` of the nodes that are `slow` (n); else half of
/// every cluster's nodes serve the next one, chosen so that the slow ones are spread: beginning with as few
/// slow ones as can be, a cluster hands one more of them on as long as it has two more than the next. Where that leaves
/// a cluster with more than tolerated although they could be spread, as few are handed on as that takes. Rows in order
/// of node.
std::vector<Assignment> assign_clusters(const std::vector<bool>& slow, std::size_t clusters,
                                        std::size_t tolerated);

}  // namespace starling::algorithms
