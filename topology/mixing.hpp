// Mixing weights: which weight W_ij a node i gives to what it receives from j, and what it keeps
// for itself.
//
//   metropolis   W_ij = 1 / (1 + max(degree_i, degree_j)); symmetric, so doubly stochastic
//   uniform      W_ij = 1 / (1 + degree_i); the same on regular graphs, else only rows sum to one
//   best_constant, fastest   optimal symmetric ones, which may be negative: optimal_weights.hpp
//   matcha       at every step other connections, drawn as rounds.hpp says; symmetric: matcha.hpp
//   lazy         (I + W) / 2 of any: no eigenvalue below 0, which some algorithms (D2) need
//
// Xiao, Boyd and Lall, "A scheme for robust distributed sensor fusion based on average consensus",
// IPSN 2005.
//
// Weights are floats. W_ii is one minus the sum of the *rounded* weights, so rows sum to one as
// exactly as floats allow and a constant stays that constant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/base/section.hpp"
#include "sim/base/types.hpp"
#include "sim/node/topology.hpp"

namespace starling::topologies {

/// Two nodes that send to each other.
struct Connection {
  NodeId first;
  NodeId second;
};

enum class Weights { metropolis, uniform, best_constant, fastest, matcha };

struct Mixing {
  Weights weights = Weights::metropolis;
  bool lazy = false;
  // Of matcha alone.
  double budget = 1;
  Step rounds = 1;
  std::uint64_t seed = 0;
};

/// The weights of that name.
Weights weights_named(std::string_view name);
/// Reads the keys `mixing` and `lazy`, and those of matcha.
Mixing read_mixing(const Section& section, std::uint64_t seed);
/// Reads the keys of matcha, if these are its weights.
void read_matcha(const Section& section, std::uint64_t seed, Mixing& mixing);
/// Reads `lazy` alone, for graphs whose weights are settled.
Mixing read_lazy(const Section& section);

/// Arcs beyond which building a topology would need more than some 4 GB.
inline constexpr std::size_t arc_limit = 100'000'000;
/// Fails with the numbers if a topology of so many arcs, as `key` has it, would pass the limit. A
/// double, as it may be huge.
void expect_arcs_fit(const Section& section, std::string_view key, double arcs);

/// The topology of these connections, each given once, with these weights: static, but for matcha's. Throws
/// std::invalid_argument where optimal weights cannot be found.
Topology mix(NodeId nodes, std::span<const Connection> connections, Mixing mixing);

/// Likewise of these arcs, whose own weights are ignored; a degree is then an in-degree, and
/// Metropolis weights are symmetric only if every arc comes with its reverse, which optimal weights and
/// matcha's need.
Topology mix(NodeId nodes, std::vector<Topology::Arc> arcs, Mixing mixing);

/// The topology of these arcs, in which every W_ii is what the other weights of its row leave of
/// one.
Topology complete_rows(NodeId nodes, const std::vector<std::vector<Topology::Arc>>& phases);

/// True if in every phase no weight is negative (beyond `tolerance`) and every row of W sums to one
/// within `tolerance`. The default, n * 1e-7 and 1e-4 at most, covers the rounding of n float weights.
bool is_row_stochastic(const Topology& topology);
bool is_row_stochastic(const Topology& topology, double tolerance);

/// Likewise for the columns.
bool is_column_stochastic(const Topology& topology);
bool is_column_stochastic(const Topology& topology, double tolerance);

/// Both: the average over the nodes is kept.
bool is_doubly_stochastic(const Topology& topology);

}  // namespace starling::topologies
