#include "algorithms/push_shares.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include <fmt/core.h>

#include "algorithms/exchange.hpp"
#include "algorithms/pieces.hpp"
#include "sim/base/error.hpp"

namespace starling::algorithms {

Vector Mass::model() const {
  Vector z = x;
  z.scale(1 / w);
  return z;
}

void Mass::expect_weight(Step k) const {
  constexpr double least = std::numeric_limits<float>::min();
  if (w >= least || !x.has_numbers()) return;
  throw Error(
      fmt::format("its push-sum weight fell to {:.2g} by the end of step {}: those that send to it "
                  "are too slow, or have stopped",
                  w, k + 1));
}

void Mass::fold(const Message& share) {
  x.add(share.values);
  w += share.number;
}

void Mass::fold(const Node& node, const Message& share, Step k, const Codec& codec) {
  x.add(codec.decode(share.values, x.size(), code_stream(node, share.source, k), {}));
  w += share.number;
}

void Shares::send(Node& node, Mass& mass, Step k, const Codec& codec) const {
  const Tag tag = tag_of(Channel::program, k);
  if (codec.is_exact()) return send(node, mass, tag);
  Vector rest = mass.x;
  for (const Out& to : out) {
    Vector share = mass.x;
    share.scale(to.weight);
    const Encoded encoded = encode(codec, share, code_stream(node, node.id(), k));
    node.send_code(to.peer, tag, encoded.code, to.weight * mass.w);
    rest.add_scaled(-1, encoded.decoded);
  }
  mass.x = rest;
  mass.w *= kept;
}

void Shares::send(Node& node, Mass& mass, Tag tag) const {
  for (const Out& to : out) {
    Vector share = mass.x;
    share.scale(to.weight);
    node.send(to.peer, tag, share, to.weight * mass.w);
  }
  mass.x.scale(kept);
  mass.w *= kept;
}

Task<> Shares::exchange(Node& node, Mass& mass, Tag tag) const {
  const Cut cut(node, mass.x);
  const Time begin = node.begin_exchange();
  const double w = mass.w;
  mass.w *= kept;
  Parts sums(cut.count());
  for (std::size_t i = 0; i < cut.count(); ++i) {
    const Tag own = tag_of_part(tag, i);
    Vector part = cut.part(i);
    node.post_receives(own);
    co_await node.stage_out(cut[i], part, begin);
    co_await node.operate(part, 2);  // the model; a scaled copy, one for all peers
    for (const Out& to : out) {
      Vector share = part;
      share.scale(to.weight);
      node.send_from_host(to.peer, own, share, i == 0 ? to.weight * w : 0);
    }
    part.scale(kept);
    for (const NodeId peer : in) {
      const Message share = co_await node.receive(peer, own);
      part.add(share.values);
      mass.w += share.number;
    }
    node.close_receives(own);
    co_await node.sent(own);
    const auto received = static_cast<int>(in.size());
    co_await node.operate(part, received);  // the scaled copy is in the cache
    node.stage_in(part);
    sums.add(std::move(part));
  }
  co_await node.staged_in();
  mass.x = sums.join();
}

Task<> Shares::exchange(Node& node, Mass& mass, Step k, const Codec& codec) const {
  const Tag tag = tag_of(Channel::program, k);
  if (codec.is_exact()) {
    co_await exchange(node, mass, tag);
    co_return;
  }
  co_await node.finish_backward();  // a code is made of the whole share
  node.post_receives(tag);
  co_await encoding(node, codec, mass.x, out.size());
  send(node, mass, k, codec);
  for (const NodeId peer : in) {
    const Message share = co_await node.receive(peer, tag);
    mass.fold(node, share, k, codec);
  }
  node.close_receives(tag);
  co_await node.sent(tag);
  co_await decoding(node, codec, mass.x, in.size());
}

namespace {

/// Powers of two below `nodes`.
int powers_below(NodeId nodes) {
  return static_cast<int>(std::bit_width(static_cast<std::uint32_t>(nodes - 1)));
}

/// The first so many powers of two, with `both_ways` each followed by the same way back; the same node only once.
std::vector<NodeId> exponential_distances(NodeId nodes, int powers, bool both_ways) {
  std::vector<NodeId> distances;
  const auto add = [&distances](NodeId distance) {
    if (std::ranges::find(distances, distance) == distances.end()) distances.push_back(distance);
  };
  for (int power = 0; power < powers; ++power) {
    const NodeId distance = NodeId{1} << power;
    add(distance);
    if (both_ways) add(nodes - distance);
  }
  return distances;
}

}  // namespace

PushSchedule::PushSchedule(const Section& section, const Context& context) {
  struct Peers {
    int number;
    bool both_ways = false;
  };
  const auto peers = section.choice<Peers>(
      "peers",
      {{"one_peer", {1}},
       {"two_peer", {2}},
       {"four_peer", {4}},
       {"both_ways", {1, true}},
       {"topology", {0}}},
      "one_peer",
      "whom a node sends to: one, two or four exponential peers (at most as many as there are "
      "distances), one on either side in turn, or all neighbors");
  peers_ = peers.number;
  if (peers_ == 0) section.note_other("topology");
  const int powers = powers_below(context.nodes);
  const auto distances = section.optional<std::int64_t>(
      "distances", 0,
      "how many powers of two exponential peers cycle through, from 1 on; 0: all below the nodes");
  section.expect(distances >= 0 && distances <= powers, "distances",
                 "must be from 0 to {} with {} nodes, got {}", powers, context.nodes, distances);
  section.expect(distances == 0 || peers_ > 0, "distances", "needs exponential peers");
  distances_ = exponential_distances(
      context.nodes, distances == 0 ? powers : static_cast<int>(distances), peers.both_ways);
  is_uniform_ =
      section.choice<bool>("weights", {{"uniform", true}, {"topology", false}}, "uniform",
                           "shares: 1 / (receivers + 1) each, or the topology's mixing weights");
  section.expect(is_uniform_ || peers_ == 0, "weights", "= topology needs peers = topology");
  section.expect(is_uniform_ || has_unit_columns(context.topology), "weights",
                 "= topology needs mixing weights whose columns sum to one");
  codec_ = read_plain_codec(section);
  peers_ = std::min(peers_, powers);
}

bool PushSchedule::has_positive_shares(const Topology& topology) const {
  return is_uniform_ || least_weight(topology) > 0;
}

Shares PushSchedule::at(const Node& node, Step k) const {
  Shares shares;
  if (peers_ == 0) {
    const double even = 1.0 / static_cast<double>(node.out(k).size() + 1);
    const auto share = [&](const Edge& edge) {
      return is_uniform_ ? even : static_cast<double>(edge.weight);
    };
    for_each_edge_out(node, k, [&](const Edge& edge) {
      shares.out.push_back({edge.peer, share(edge)});
    });
    // In order of peer, whatever the turns: a sum of floats has an order.
    for (const Edge& edge : node.out(k)) shares.kept -= share(edge);
    for (const Edge& edge : node.in(k)) shares.in.push_back(edge.peer);
  } else {
    const NodeId n = node.nodes();
    for (int p = 0; p < peers_; ++p) {
      const NodeId distance = distances_[static_cast<std::size_t>(k + p) % distances_.size()];
      shares.out.push_back({(node.id() + distance) % n, 1.0 / (peers_ + 1)});
      shares.kept -= shares.out.back().weight;
      shares.in.push_back((node.id() + n - distance) % n);
    }
    std::sort(shares.in.begin(), shares.in.end());
  }
  return shares;
}

}  // namespace starling::algorithms
