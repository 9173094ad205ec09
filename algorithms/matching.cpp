#include "algorithms/matching.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "algorithms/exchange.hpp"
#include "algorithms/pieces.hpp"

namespace starling::algorithms {
namespace {

std::vector<NodeId> draw(const Node& node, Step round) {
  Random random = node.shared_random("matching", round);
  const std::span<const NodeId> everybody = node.everybody();
  std::vector<NodeId> order(everybody.begin(), everybody.end());
  std::vector<NodeId> partner = order;
  const auto is_free = [&](NodeId i) { return partner[static_cast<std::size_t>(i)] == i; };
  random.shuffle(order);
  for (const NodeId i : order) {
    if (!is_free(i)) continue;
    std::vector<NodeId> candidates;
    std::ranges::copy_if(node.topology().neighbors(i), std::back_inserter(candidates), is_free);
    if (candidates.empty()) continue;
    const NodeId j = candidates[random.below(candidates.size())];
    partner[static_cast<std::size_t>(i)] = j;
    partner[static_cast<std::size_t>(j)] = i;
  }
  return partner;
}

/// As lattice codes the mean of what both say; else x + (Q(theirs) - Q(x)) / 2.
Task<Vector> average_codes_with(Node& node, NodeId peer, Step round, Vector x, SharedCodec codec) {
  const Random stream = code_stream(node, std::min(node.id(), peer), round);
  co_await encoding(node, *codec, x);
  const Encoded own = encode(*codec, x, stream, x);
  node.send_code(peer, tag_of(Channel::program, round), own.code);
  const Message m = co_await node.receive(peer, tag_of(Channel::program, round));
  co_await node.sent(m.tag);
  co_await decoding(node, *codec, x);
  const Vector theirs = codec->decode(m.values, x.size(), stream, x);
  if (codec->needs_reference()) {
    const bool is_lower = node.id() < peer;
    const Vector pair[] = {is_lower ? own.decoded : theirs, is_lower ? theirs : own.decoded};
    co_return mean(pair);
  }
  x.add_scaled(0.5, theirs);
  x.add_scaled(-0.5, own.decoded);
  co_return x;
}

}  // namespace

NodeId Matching::partner(const Node& node, Step round) {
  return rounds_.at(round, [&] { return draw(node, round); })[static_cast<std::size_t>(node.id())];
}

Task<Vector> average_with(Node& node, NodeId peer, Step round, Vector x) {
  const Cut cut(node, x);
  const Time begin = node.begin_exchange();
  const bool is_lower = node.id() < peer;
  Parts averages(cut.count());
  for (std::size_t i = 0; i < cut.count(); ++i) {
    const Tag tag = tag_of_part(tag_of(Channel::program, round), i);
    const Vector part = cut.part(i);
    co_await node.stage_out(cut[i], part, begin);
    node.send_from_host(peer, tag, part);
    const Message m = co_await node.receive(peer, tag);
    co_await node.sent(tag);
    const Vector pair[] = {is_lower ? part : m.values, is_lower ? m.values : part};
    averages.add(mean(pair));
    co_await node.operate(part, 2);  // both models
    node.stage_in(part);
  }
  co_await node.staged_in();
  co_return averages.join();
}

Task<Vector> average_with(Node& node, NodeId peer, Step round, Vector x, SharedCodec codec) {
  return codec->is_exact() ? average_with(node, peer, round, std::move(x))
                           : average_codes_with(node, peer, round, std::move(x), std::move(codec));
}

}  // namespace starling::algorithms
