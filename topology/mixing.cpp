// Mixing weights of undirected graphs and of given arcs, and the checks of their sums.

#include "topology/mixing.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "topology/optimal_weights.hpp"

namespace starling::topologies {
namespace {

std::size_t index(NodeId node) { return static_cast<std::size_t>(node); }

bool sums_to_one(const Topology& topology, double tolerance,
                 Edges (Topology::*edges)(NodeId, Step) const) {
  const NodeId nodes = topology.is_complete() ? 1 : topology.nodes();  // there all have the same
  for (Step p = 0; p < static_cast<Step>(topology.period()); ++p) {
    for (NodeId i = 0; i < nodes; ++i) {
      double sum = topology.self_weight(i, p);
      bool negative = sum < -tolerance;
      for (const Edge& edge : (topology.*edges)(i, p)) {
        sum += edge.weight;
        negative |= edge.weight < -tolerance;
      }
      // Written so that a sum that is no number is no sum of one either.
      if (negative || !(std::abs(sum - 1) <= tolerance)) return false;
    }
  }
  return true;
}

double rounding(const Topology& topology) { return std::min(topology.nodes() * 1e-7, 1e-4); }

}  // namespace

Weights weights_named(std::string_view name) {
  return name == "uniform"         ? Weights::uniform
         : name == "best_constant" ? Weights::best_constant
         : name == "fastest"       ? Weights::fastest
                                   : Weights::metropolis;
}

Mixing read_mixing(const Section& section) {
  const std::string weights =
      section.choice("mixing", {"metropolis", "uniform", "best_constant", "fastest"}, "metropolis",
                     "1/(1 + larger degree), doubly stochastic; 1/(1 + own degree); the best "
                     "weight that all share; "
                     "or the best of all symmetric weights (both perhaps negative)");
  Mixing mixing = read_lazy(section);
  mixing.weights = weights_named(weights);
  return mixing;
}

Mixing read_lazy(const Section& section) {
  return {.lazy = section.optional<bool>("lazy", false, "use (I + W)/2 instead of W")};
}

void expect_arcs_fit(const Section& section, std::string_view key, double arcs) {
  section.expect(arcs <= static_cast<double>(arc_limit), key,
                 "asks for {:.3g} arcs of 40 bytes each, more than the limit of {}", arcs,
                 arc_limit);
}

Topology mix(NodeId nodes, std::span<const Connection> connections, Mixing mixing) {
  std::vector<Topology::Arc> arcs;
  arcs.reserve(2 * connections.size());
  for (const auto& [first, second] : connections) {
    arcs.push_back({.sender = first, .receiver = second, .weight = 0});
    arcs.push_back({.sender = second, .receiver = first, .weight = 0});
  }
  return mix(nodes, std::move(arcs), mixing);
}

namespace {

/// Gives both arcs of every connection its optimal weight.
void set_optimal_weights(NodeId nodes, std::vector<Topology::Arc>& arcs, Weights kind) {
  std::vector<Connection> connections;
  for (const Topology::Arc& arc : arcs) {
    if (arc.sender < arc.receiver) connections.push_back({arc.sender, arc.receiver});
  }
  if (connections.empty()) return;
  const auto ends = [](const Connection& c) { return std::pair(c.first, c.second); };
  std::ranges::sort(connections, {}, ends);
  if (kind == Weights::best_constant) {
    const double weight = best_constant_weight(nodes, connections);
    for (Topology::Arc& arc : arcs) arc.weight = weight;
    return;
  }
  const std::vector<double> weights = fastest_weights(nodes, connections);
  for (Topology::Arc& arc : arcs) {
    const std::pair<NodeId, NodeId> key = std::minmax(arc.sender, arc.receiver);
    const auto found = std::ranges::lower_bound(connections, key, {}, ends);
    arc.weight = weights[static_cast<std::size_t>(found - connections.begin())];
  }
}

}  // namespace

Topology mix(NodeId nodes, std::vector<Topology::Arc> arcs, Mixing mixing) {
  if (mixing.weights == Weights::best_constant || mixing.weights == Weights::fastest) {
    set_optimal_weights(nodes, arcs, mixing.weights);
    if (mixing.lazy) {
      for (Topology::Arc& arc : arcs) arc.weight *= 0.5;
    }
    return complete_rows(nodes, {std::move(arcs)});
  }
  std::vector<std::size_t> degree(index(nodes), 0);
  for (const Topology::Arc& arc : arcs) ++degree[index(arc.receiver)];
  const double share = mixing.lazy ? 0.5 : 1.0;
  for (Topology::Arc& arc : arcs) {
    std::size_t counted = degree[index(arc.receiver)];
    if (mixing.weights == Weights::metropolis) {
      counted = std::max(counted, degree[index(arc.sender)]);
    }
    arc.weight = share / static_cast<double>(1 + counted);
  }
  return complete_rows(nodes, {std::move(arcs)});
}

Topology complete_rows(NodeId nodes, const std::vector<std::vector<Topology::Arc>>& phases) {
  std::vector<std::vector<double>> self_weights;
  for (const std::vector<Topology::Arc>& arcs : phases) {
    std::vector<double>& self = self_weights.emplace_back(index(nodes), 1.0);
    for (const Topology::Arc& arc : arcs) {
      self[index(arc.receiver)] -= static_cast<double>(static_cast<float>(arc.weight));
    }
  }
  return Topology(nodes, phases, self_weights);
}

bool is_row_stochastic(const Topology& topology, double tolerance) {
  return sums_to_one(topology, tolerance, &Topology::in);
}

bool is_row_stochastic(const Topology& topology) {
  return is_row_stochastic(topology, rounding(topology));
}

bool is_column_stochastic(const Topology& topology, double tolerance) {
  return sums_to_one(topology, tolerance, &Topology::out);
}

bool is_column_stochastic(const Topology& topology) {
  return is_column_stochastic(topology, rounding(topology));
}

bool is_doubly_stochastic(const Topology& topology) {
  return is_row_stochastic(topology) && is_column_stochastic(topology);
}

}  // namespace starling::topologies
