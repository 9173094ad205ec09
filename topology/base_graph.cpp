// Base-(k+1) graph: a few rounds, in each of which a node averages with at most k others, after which all nodes have the
// exact mean, for any number of nodes n. Symmetric and doubly stochastic.
//
// Where no prime factor of n is larger than k + 1, the rounds are those of a hypercube with other sides: n is a product of
// factors up to k + 1, a node's number has a digit for each, and in the round of a digit those that differ in it alone average.
// Other n are written in base k + 1, n = a_1 (k+1)^(p_1) + .. + a_L (k+1)^(p_L), largest power first; part l of the nodes has
// a_l blocks of (k+1)^(p_l) of them.
//
//   first           every part averages within itself, as above
//   round of l < L  every node of the parts behind l averages with one node in each block of part l, so that these parts, and
//                   part l, have the mean of all nodes that part l and those behind it had; the nodes left over in part l
//                   average with each other, up to k + 1 of them
//   after it        part l averages within its blocks, while the rounds of the next parts go on
//
// If n = p q, q without prime factors up to k + 1, and that is no longer: p groups of q nodes do all this, then nodes with the
// same place in their groups average as a hypercube of p. There are at most 2 log(n) / log(k+1) + 2 rounds.
//
// Takezawa, Sato, Bao, Niwa, Yamada, "Beyond Exponential Graph: Communication-Efficient Topologies for Decentralized Learning
// via Finite-time Convergence", NeurIPS 2023, Algorithms 1 to 3, Theorem 1.

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::topologies {
namespace {

using Round = std::vector<Topology::Arc>;
using Rounds = std::vector<Round>;

/// Every `stride`-th node from `first` on.
struct Row {
  NodeId first;
  NodeId count;
  NodeId stride = 1;

  NodeId operator[](NodeId i) const { return first + i * stride; }
  /// Its i-th piece of `size` nodes.
  Row piece(NodeId i, NodeId size) const { return {(*this)[i * size], size, stride}; }
};

void connect(Round& round, NodeId a, NodeId b, double weight) {
  round.push_back({a, b, weight});
  round.push_back({b, a, weight});
}

/// `count` as a product of numbers from 2 to `most`, large ones last; what is left in front, 1 if nothing is.
std::vector<NodeId> factors_of(NodeId count, NodeId most) {
  std::vector<NodeId> factors;
  for (NodeId factor = std::min(most, count); factor >= 2; --factor) {
    for (; count % factor == 0; count /= factor) factors.push_back(factor);
  }
  factors.push_back(count);
  std::ranges::reverse(factors);
  return factors;
}

/// The rounds in which the nodes of a row average within it, one for each factor of their number.
class Hypercube {
 public:
  /// `factors` as of factors_of().
  explicit Hypercube(std::vector<NodeId> factors) : sides_(factors.begin() + 1, factors.end()) {}

  std::size_t rounds() const { return sides_.size(); }
  /// Adds the arcs of a round, counted on and on, to `round`.
  void add(Round& round, std::size_t number, const Row& row) const {
    if (sides_.empty()) return;
    number %= sides_.size();
    NodeId distance = 1;
    for (std::size_t r = 0; r < number; ++r) distance *= sides_[r];
    const NodeId side = sides_[number];
    for (NodeId i = 0; i < row.count; ++i) {
      const NodeId digit = i / distance % side;
      for (NodeId above = 1; digit + above < side; ++above)
        connect(round, row[i], row[i + above * distance], 1.0 / side);
    }
  }

 private:
  std::vector<NodeId> sides_;
};

class BaseGraph {
 public:
  explicit BaseGraph(NodeId degree) : most_(degree + 1) {}

  /// The rounds of so many nodes.
  Rounds make(NodeId nodes) const {
    const NodeId rest = factors_of(nodes, most_).front();
    const NodeId groups = nodes / rest;
    const Hypercube across = hypercube(groups);
    const Row all{0, nodes};
    if (rounds_by_digits(rest) + across.rounds() >= rounds_by_digits(nodes)) {
      Rounds rounds(rounds_by_digits(nodes));
      add_by_digits(rounds, all);
      return rounds;
    }
    Rounds rounds(rounds_by_digits(rest));
    for (NodeId g = 0; g < groups; ++g) add_by_digits(rounds, all.piece(g, rest));
    for (std::size_t r = 0; r < across.rounds(); ++r) {
      Round& round = rounds.emplace_back();
      for (NodeId place = 0; place < rest; ++place) across.add(round, r, {place, groups, rest});
    }
    return rounds;
  }

 private:
  /// Nodes of one digit: `blocks` times `size`, a power of the base.
  struct Part {
    Row row;
    NodeId blocks;
    NodeId size;
    std::size_t inner_rounds = 0;  // so far, within its blocks
  };

  Hypercube hypercube(NodeId count) const { return Hypercube(factors_of(count, most_)); }

  std::vector<Part> parts_of(const Row& row) const {
    NodeId size = 1;
    while (size <= row.count / most_) size *= most_;
    std::vector<Part> parts;
    for (NodeId begin = 0; begin < row.count; size /= most_) {
      const NodeId blocks = (row.count - begin) / size;
      if (blocks == 0) continue;
      parts.push_back({{row[begin], blocks * size, row.stride}, blocks, size});
      begin += blocks * size;
    }
    return parts;
  }

  /// One more round of a part within its blocks, or, where these are single nodes, within itself.
  void average_within(Round& round, Part& part) const {
    const NodeId size = part.size == 1 ? part.row.count : part.size;
    const Hypercube inner = hypercube(size);
    for (NodeId b = 0; b < part.row.count / size; ++b)
      inner.add(round, part.inner_rounds, part.row.piece(b, size));
    ++part.inner_rounds;
  }

  /// The round of part `l`, but for the parts before it.
  void average_with_those_behind(Round& round, const std::vector<Part>& parts,
                                 std::size_t l) const {
    const Part& part = parts[l];
    NodeId behind = 0;
    for (std::size_t other = l + 1; other < parts.size(); ++other) behind += parts[other].row.count;
    const double weight =
        static_cast<double>(part.size) / (static_cast<double>(part.row.count) + behind);
    NodeId left = part.size;  // in each block
    for (std::size_t other = parts.size(); --other > l;) {
      for (NodeId i = 0; i < parts[other].row.count; ++i) {
        --left;
        for (NodeId b = 0; b < part.blocks; ++b)
          connect(round, parts[other].row[i], part.row[b * part.size + left], weight);
      }
    }
    for (NodeId begin = 0; begin < part.blocks * left; begin += most_) {
      const NodeId group = std::min(most_, part.blocks * left - begin);
      const auto node = [&](NodeId i) {
        return part.row[(begin + i) / left * part.size + (begin + i) % left];
      };
      for (NodeId i = 0; i < group; ++i) {
        for (NodeId j = i + 1; j < group; ++j) connect(round, node(i), node(j), 1.0 / group);
      }
    }
  }

  bool is_hypercube(NodeId count) const { return factors_of(count, most_).front() == 1; }

  std::size_t rounds_by_digits(NodeId count) const {
    if (is_hypercube(count)) return hypercube(count).rounds();
    const Part largest = parts_of({0, count}).front();
    return hypercube(largest.row.count).rounds() + 1 + hypercube(largest.size).rounds();
  }

  /// Adds the arcs of a row to its rounds_by_digits().
  void add_by_digits(Rounds& rounds, const Row& row) const {
    const bool is_one = is_hypercube(row.count);
    std::vector<Part> parts = is_one ? std::vector<Part>{{row, 1, row.count}} : parts_of(row);
    const std::size_t first = hypercube(parts[0].row.count).rounds();
    for (const Part& part : parts) {
      const Hypercube whole = hypercube(part.row.count);
      for (std::size_t r = 0; r < first; ++r) whole.add(rounds[r], r, part.row);
    }
    for (std::size_t r = first; r < rounds.size(); ++r) {
      const std::size_t l = r - first;  // whose round it is
      const bool is_over = l + 1 >= parts.size();
      if (!is_over) average_with_those_behind(rounds[r], parts, l);
      for (Part& part : std::span(parts).first(is_over ? parts.size() : l))
        average_within(rounds[r], part);
    }
  }

  NodeId most_;  // that average with each other
};

}  // namespace

Topology base_graph(const Section& section, NodeId nodes, std::uint64_t /*seed*/) {
  const auto degree = section.optional<std::int64_t>(
      "degree", 1, "most nodes that a node averages with in a round, k");
  section.expect(degree >= 1, "degree", "must be at least 1, got {}", degree);
  section.finish();
  const NodeId used =
      static_cast<NodeId>(std::min<std::int64_t>(degree, std::max<NodeId>(nodes - 1, 1)));
  const double most_rounds = 2 * std::log(nodes) / std::log(used + 1.0) + 2;
  expect_arcs_fit(section, "kind", most_rounds * nodes * used);

  Rounds rounds = BaseGraph(used).make(nodes);
  if (rounds.empty()) rounds.emplace_back();  // one node: nobody to send to
  return complete_rows(nodes, rounds);
}

}  // namespace starling::topologies
