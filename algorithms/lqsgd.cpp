// LQSGD: synchronous SGD whose mean gradient is estimated by lattice codes. A code of few bits is read beside the receiver's
// own vector, so that its error grows with how far gradients of nodes differ, not with how long they are.
//
//   every step all nodes are placed in a tree around a leader, drawn by all alike:
//     star   the leader is everybody's parent          tree   place p is the parent of 2 p + 1 and 2 p + 2
//   up      a node reads its children's codes beside its own g_i and sends its parent a code of the mean of its subtree
//   down    the leader sends a code of the mean of all; each passes it on and reads it beside its own g_i: the mean m
//   x <- x - learning_rate * m
//
// Codes are `bits` bits per entry of a cubic lattice, shifted by random offsets that both sides know, so they are unbiased; a
// cell's side is 2 y / (2^bits - 1), and what is nearer than y to the reader's vector in every entry is read right.
// y follows the gradients: going up, a node learns a radius that no g_i of its subtree is further from the subtree's mean
//   r = max(|g - mean|_inf, |child's mean as read - mean|_inf + child's r + half a cell)
// and after the leader's r the next bound is y = margin * 2 r, 2 r bounding the difference of any two gradients. The mean is
// sent down by this new bound, so it is read right for certain. On the way up gradients of the next step may differ by more:
// codes carry a hash of what they should be read as (4 bytes). Where it does not fit, the parent asks for the
// vector itself, 4 bytes per entry, counts that among `wrong_codes`, and y grows by what it sees. The first step, and one
// after a mean that was zero everywhere or not finite, sends everything uncompressed.
//
// With `rotation = hadamard` (RLQSGD) vectors are first turned by a random rotation that all share, which spreads what is
// large in few entries over all of them.
//
// Davies, Gurunathan, Moshrefi, Ashkboos, Alistarh, "New bounds for distributed mean estimation and variance reduction",
// ICLR 2021: mean estimation over a star and over a binary tree, with the bound tracked as in their experiments. That the
// mean read is a point of the lattice keeps all replicas equal to the bit. The radius in place of the largest difference
// that a leader sees, and the resending, are ours.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "algorithms/codec.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct LqsgdSettings {
  bool is_star;
  std::uint32_t bits;
  double margin;
  bool is_rotated;
  OptimizerSettings optimizer;

  /// Lattice codes for vectors nearer than `bound`; for 0, nothing is known and vectors travel as they are.
  SharedCodec codec(double bound) const {
    return bound > 0 ? lattice_codec(bound, bits, true) : exact_codec();
  }
  /// Side of a cell.
  double cell(double bound) const { return 2 * bound / ((1U << bits) - 1); }
  /// Of a code without hash.
  std::int64_t bytes(double bound, std::size_t size) const {
    return static_cast<std::int64_t>(bound > 0 ? (size * bits + 7) / 8 : 4 * size);
  }
};

/// A node's place in the tree of one step, counted from the leader.
class Place {
 public:
  Place(const Node& node, bool is_star, Step k)
      : nodes_(node.nodes()), fan_(is_star ? std::max<std::int64_t>(1, nodes_ - 1) : 2) {
    leader_ = static_cast<std::int64_t>(
        node.shared_random("leader", k).below(static_cast<std::uint64_t>(nodes_)));
    place_ = (node.id() - leader_ + nodes_) % nodes_;
  }
  NodeId leader() const { return node_at(0); }
  bool is_leader() const { return place_ == 0; }
  NodeId parent() const { return node_at((place_ - 1) / fan_); }

  struct Child {
    NodeId node;
    double nodes;  // of its subtree
  };
  std::vector<Child> children() const {
    std::vector<Child> all;
    const std::int64_t first = fan_ * place_ + 1;
    for (std::int64_t p = first; p < std::min(first + fan_, nodes_); ++p)
      all.push_back({node_at(p), nodes_below(p)});
    return all;
  }

 private:
  NodeId node_at(std::int64_t place) const {
    return static_cast<NodeId>((place + leader_) % nodes_);
  }
  /// Level by level: the places from `begin` to `end`.
  double nodes_below(std::int64_t place) const {
    double count = 0;
    std::int64_t begin = place;
    for (std::int64_t end = place + 1; begin < nodes_; end = fan_ * end + 1) {
      count += static_cast<double>(std::min(end, nodes_) - begin);
      begin = fan_ * begin + 1;
    }
    return count;
  }

  std::int64_t nodes_, fan_, leader_ = 0, place_ = 0;
};

constexpr Channel up = Channel::program;
constexpr Channel down = Channel::collective;
constexpr Channel again = Channel::request;  // asks for the vector itself
constexpr Channel plain = Channel::reply;    // is it

/// A mean and its radius: no vector of the subtree is further from it in any entry.
struct Subtree {
  Vector mean;
  double radius = 0;
  double nodes = 1;
  Scalar hash_difference{};  // not 0: the mean was read wrong; empty where that cannot be
};

/// The code of `v`, with the hash of what it should be read as.
Code hashed_code(const Codec& codec, const Vector& v, const Random& stream) {
  const Encoded encoded = encode(codec, v, stream, v);
  if (!codec.needs_reference()) return encoded.code;
  const std::array<Vector, 2> words{encoded.code.words,
                                    transformed(transforms::Hash{}, {encoded.decoded})};
  return {concatenate(words), encoded.code.bytes + 4};
}

/// What hashed_code() says beside `reference`.
Subtree read(const Codec& codec, const Message& message, const Random& stream,
             const Vector& reference) {
  Subtree subtree{.mean = message.values, .radius = message.number};
  if (!codec.needs_reference()) return subtree;
  const std::size_t words = message.values.size() - 1;
  subtree.mean = codec.decode(message.values.slice(0, words), reference.size(), stream, reference);
  if (subtree.mean.has_numbers()) {
    const Vector hash = transformed(transforms::Hash{}, {subtree.mean});
    subtree.hash_difference =
        measured(transforms::LargestDifference{}, {hash, message.values.slice(words, 1)});
  }
  return subtree;
}

/// The subtrees of a node's children. Those that were read wrong come a second time, uncompressed.
Task<std::vector<Subtree>> read_children(Node& node, const LqsgdSettings& settings,
                                         const Place& place, Step k, Vector own, double bound) {
  const SharedCodec codec = settings.codec(bound);
  const std::vector<Place::Child> children = place.children();
  std::vector<Subtree> subtrees;
  node.post_receives(tag_of(up, k));
  for (const Place::Child& child : children) {
    const Message m = co_await node.receive(child.node, tag_of(up, k));
    co_await decoding(node, *codec, own);
    subtrees.push_back(read(*codec, m, code_stream(node, child.node, k), own));
    subtrees.back().nodes = child.nodes;
  }
  node.close_receives(tag_of(up, k));
  std::vector<std::size_t> wrong;
  for (std::size_t c = 0; c < children.size(); ++c) {
    const Scalar& difference = subtrees[c].hash_difference;
    if (difference && difference.value() != 0) wrong.push_back(c);
  }
  for (const std::size_t c : wrong) node.send(children[c].node, tag_of(again, k));
  for (const std::size_t c : wrong) {
    const Message m = co_await node.receive(children[c].node, tag_of(plain, k));
    subtrees[c].mean = m.values;
  }
  if (!children.empty()) node.record("wrong_codes", k, static_cast<double>(wrong.size()));
  co_return subtrees;
}

/// The subtree of a node with the vector `own`, whose children's codes are off by half a cell at most.
Subtree join(const Vector& own, const std::vector<Subtree>& children, double half_cell) {
  Subtree all;
  for (const Subtree& child : children) all.nodes += child.nodes;
  std::vector<Weighted> terms{{1 / all.nodes, own}};
  for (const Subtree& child : children) terms.push_back({child.nodes / all.nodes, child.mean});
  all.mean = weighted_sum(terms);
  if (children.empty() || !own.has_numbers()) return all;

  // All are measured before the first is read, which computes them.
  std::vector<Scalar> distances{measured(transforms::LargestDifference{}, {own, all.mean})};
  for (const Subtree& child : children)
    distances.push_back(measured(transforms::LargestDifference{}, {child.mean, all.mean}));
  all.radius = distances[0].value();
  for (std::size_t c = 0; c < children.size(); ++c) {
    const double radius = distances[c + 1].value() + children[c].radius + half_cell;
    all.radius = std::max(all.radius, radius);
  }
  return all;
}

/// The bound for codes of the mean of `all` and of the next step's gradients; 0: none is known.
double next_bound(Node& node, const LqsgdSettings& settings, const Subtree& all) {
  if (!all.mean.has_numbers()) return 1;
  // A cell is no smaller than the spacing of floats near the largest entry: positions in finer ones are not exact.
  const Vector zeros = node.zeros(all.mean.size());
  const Scalar largest = measured(transforms::LargestDifference{}, {all.mean, zeros});
  const Scalar squares = squared_distance(all.mean, zeros);
  const double least = 0x1p-23 * largest.value() / settings.cell(1);
  const double bound = std::max(settings.margin * 2 * all.radius, least);
  // A mean that is not finite has no code: as it is, it tells everybody.
  return std::isfinite(bound) && std::isfinite(squares.value()) ? bound : 0;
}

/// The mean of all nodes' `own` as all of them read it; `bound` is that of this step's codes, then of the next.
Task<Vector> mean_estimate(Node& node, const LqsgdSettings& settings, Step k, Vector own,
                           double& bound) {
  if (node.nodes() == 1) co_return own;
  const Place place(node, settings.is_star, k);
  const std::vector<Subtree> children =
      co_await read_children(node, settings, place, k, own, bound);
  const Subtree all = join(own, children, settings.cell(bound) / 2);

  const Random mean_stream = code_stream(node, place.leader(), k, "mean");
  Code code;
  if (place.is_leader()) {
    bound = next_bound(node, settings, all);
    co_await encoding(node, *settings.codec(bound), all.mean);
    code = settings.codec(bound)->encode(all.mean, mean_stream);
  } else {
    const NodeId parent = place.parent();
    const SharedCodec codec = settings.codec(bound);
    co_await encoding(node, *codec, all.mean);
    node.send_code(parent, tag_of(up, k),
                   hashed_code(*codec, all.mean, code_stream(node, node.id(), k)), all.radius);
    const std::array<Pattern, 2> answers{{{parent, tag_of(down, k)}, {parent, tag_of(again, k)}}};
    Node::Select::Result answer = co_await node.select(answers);
    if (answer.index == 1) {  // answered once, should it come twice
      node.send(parent, tag_of(plain, k), all.mean);
      answer.message = co_await node.receive(parent, tag_of(down, k));
    }
    bound = answer.message.number;
    code = {answer.message.values, settings.bytes(bound, own.size())};
  }
  for (const Place::Child& child : place.children())
    node.send_code(child.node, tag_of(down, k), code, bound);
  co_await decoding(node, *settings.codec(bound), own);
  co_return settings.codec(bound)->decode(code.words, own.size(), mean_stream, own);
}

Task<> run(Node& node, const LqsgdSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Vector x = node.initial_model();
  double bound = 0;
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    const Random rotation = node.shared_random("rotation", k);
    Vector own = g.values;
    if (settings.is_rotated) own = transformed(transforms::Rotate{rotation, false}, {own});
    Vector mean = co_await mean_estimate(node, settings, k, own, bound);
    if (settings.is_rotated) mean = transformed(transforms::Rotate{rotation, true}, {mean});
    optimizer.update(x, mean, x, k);
    node.end_step(k, x);
  }
}

}  // namespace

Program lqsgd(const Section& section, const Context& context) {
  LqsgdSettings settings{};
  settings.is_star =
      section.choice<bool>("route", {{"star", true}, {"tree", false}}, "star",
                           "codes go to a leader and back, or up and down a binary tree");
  settings.bits =
      static_cast<std::uint32_t>(read_whole(section, "bits", 8, 2, 16, "bits of an entry"));
  settings.margin =
      read_between(section, "margin", 1.5, 1, 1000,
                   "how much more gradients may differ than those of the last step did");
  settings.is_rotated =
      section.choice<bool>("rotation", {{"none", false}, {"hadamard", true}}, "none",
                           "turn vectors at random, which spreads what is large in few entries");
  // Each level adds half a cell to the radius, y / (2^bits - 1). What comes back with the next bound must be less than y.
  const auto nodes = static_cast<std::uint32_t>(context.nodes);
  const int levels = settings.is_star ? 1 : std::bit_width(nodes) - 1;
  section.expect(
      2 * settings.margin * levels * settings.cell(1) / 2 < 1, "bits",
      "must be more: the errors of {} bits over {} level(s), {} times enlarged, make the "
      "bound grow for ever",
      settings.bits, levels, 2 * settings.margin);
  settings.optimizer = read_optimizer(section, context);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
