// Mixing weights of undirected graphs and of given arcs, and the checks of their sums.

#include "topology/mixing.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "sim/base/numbers.hpp"
#include "sim/base/random.hpp"
#include "topology/matcha.hpp"
#include "topology/optimal_weights.hpp"
#include "topology/rounds.hpp"

namespace starling::topologies {
namespace {

std::size_t index(NodeId node) { return static_cast<std::size_t>(node); }

std::pair<NodeId, NodeId> ends(const Connection& c) { return {c.first, c.second}; }

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
         : name == "matcha"        ? Weights::matcha
                                   : Weights::metropolis;
}

Mixing read_mixing(const Section& section, std::uint64_t seed) {
  const std::string weights = section.choice(
      "mixing", {"metropolis", "uniform", "best_constant", "fastest", "matcha"}, "metropolis",
      "1/(1 + larger degree), doubly stochastic; 1/(1 + own degree); the best "
      "weight that all share; the best of all symmetric weights (both perhaps "
      "negative); or a share of the connections at every step, drawn so that they "
      "mix best");
  Mixing mixing = read_lazy(section);
  mixing.weights = weights_named(weights);
  read_matcha(section, seed, mixing);
  return mixing;
}

void read_matcha(const Section& section, std::uint64_t seed, Mixing& mixing) {
  if (mixing.weights != Weights::matcha) return;
  mixing.budget = read_share_above_0(
      section, "budget", 0.5, "share of the graph's matchings in use at a step, in the mean");
  mixing.rounds = read_rounds(section);
  mixing.seed = seed;
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

/// The connections of these arcs and their reverses, in order.
std::vector<Connection> connections_of(const std::vector<Topology::Arc>& arcs) {
  std::vector<Connection> connections;
  for (const Topology::Arc& arc : arcs) {
    if (arc.sender < arc.receiver) connections.push_back({arc.sender, arc.receiver});
  }
  std::ranges::sort(connections, {}, ends);
  return connections;
}

/// Gives both arcs of every connection its optimal weight.
void set_optimal_weights(NodeId nodes, std::vector<Topology::Arc>& arcs, Weights kind) {
  const std::vector<Connection> connections = connections_of(arcs);
  if (connections.empty()) return;
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

/// Of every step the arcs of the matchings that it draws.
std::vector<std::vector<Topology::Arc>> draw_matchings(NodeId nodes,
                                                       const std::vector<Connection>& connections,
                                                       const Mixing& mixing) {
  if (2.0 * static_cast<double>(connections.size()) * static_cast<double>(mixing.rounds) >
      static_cast<double>(arc_limit)) {
    throw std::invalid_argument(
        fmt::format("{} rounds of {} connections ask for more than the limit of {} arcs",
                    mixing.rounds, connections.size(), arc_limit));
  }
  const Matcha matcha = find_matcha(nodes, connections, mixing.budget);
  const double weight = matcha.weight * (mixing.lazy ? 0.5 : 1.0);
  std::vector<std::vector<Topology::Arc>> phases(static_cast<std::size_t>(mixing.rounds));
  for (Step r = 0; r < mixing.rounds; ++r) {
    Random random(mixing.seed, "matcha", shared_stream, r);
    for (std::size_t j = 0; j < matcha.matchings.size(); ++j) {
      if (random.uniform() >= matcha.probabilities[j]) continue;
      for (const auto& [first, second] : matcha.matchings[j]) {
        phases[static_cast<std::size_t>(r)].push_back({first, second, weight});
        phases[static_cast<std::size_t>(r)].push_back({second, first, weight});
      }
    }
  }
  return phases;
}

}  // namespace

Topology mix(NodeId nodes, std::vector<Topology::Arc> arcs, Mixing mixing) {
  if (mixing.weights == Weights::matcha) {
    return complete_rows(nodes, draw_matchings(nodes, connections_of(arcs), mixing));
  }
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
