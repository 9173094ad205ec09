// What the tests of this folder share: topologies from a few settings and what their steps do, the
// message of a refused scenario, and a directory for files.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/section.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mixing_matrix.hpp"
#include "tests/support/section_of_keys.hpp"
#include "tests/support/temporary_directory.hpp"
#include "topology/connectivity.hpp"
#include "topology/registry.hpp"

namespace starling::topologies::test {

using starling::test::Keys;

/// A [topology] section of a scenario t.ini, in line 1, with kind in line 2 and each key one line
/// further.
inline Section section(const std::string& kind, const Keys& keys = {}) {
  std::vector<Setting> settings{{"kind", kind, "t.ini:2"}};
  for (const auto& [key, text] : keys) {
    const std::string line = std::to_string(settings.size() + 2);
    settings.push_back({key, text, "t.ini:" + line});
  }
  return Section("topology", "t.ini:1", settings);
}

inline Topology make(const std::string& kind, NodeId nodes, const Keys& keys = {},
                     std::uint64_t seed = 1) {
  const Section settings = section(kind, keys);
  return find(settings).make(settings, nodes, seed);
}

inline std::string refusal(const std::string& kind, NodeId nodes, const Keys& keys = {}) {
  return starling::test::message_of<ScenarioError>([&] { make(kind, nodes, keys); });
}

inline std::vector<NodeId> peers(Edges edges) {
  std::vector<NodeId> result;
  for (const Edge& edge : edges) result.push_back(edge.peer);
  return result;
}

/// Whether everybody reaches everybody along the arcs of the whole period.
inline bool is_connected(const Topology& topology) {
  std::vector<Topology::Arc> arcs;
  for (NodeId i = 0; i < topology.nodes(); ++i) {
    for (const NodeId peer : topology.neighbors(i)) arcs.push_back({i, peer, 0});
  }
  return !unreachable(topology.nodes(), arcs).has_value();
}

/// What one period of steps makes of one number per node.
inline std::vector<double> mixed(const Topology& topology, std::vector<double> x) {
  for (Step p = 0; p < static_cast<Step>(topology.period()); ++p) {
    std::vector<double> next;
    for (NodeId i = 0; i < topology.nodes(); ++i) {
      next.push_back(topology.self_weight(i, p) * x[static_cast<std::size_t>(i)]);
      for (const Edge& edge : topology.in(i, p))
        next.back() += edge.weight * x[static_cast<std::size_t>(edge.peer)];
    }
    x = std::move(next);
  }
  return x;
}

/// Largest distance of an entry of the product over a period from 1/n.
inline double distance_from_average(const Topology& topology) {
  const auto n = static_cast<std::size_t>(topology.nodes());
  double largest = 0;
  for (std::size_t j = 0; j < n; ++j) {
    std::vector<double> column(n);
    column[j] = 1;
    for (const double entry : mixed(topology, std::move(column)))
      largest = std::max(largest, std::abs(entry - 1.0 / static_cast<double>(n)));
  }
  return largest;
}

using starling::test::mixing_matrix;
using starling::test::TemporaryDirectory;

}  // namespace starling::topologies::test
