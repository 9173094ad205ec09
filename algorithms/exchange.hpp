// Exchanges that several algorithms share, built from Node's primitives alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "sim/base/section.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

/// Calls visit(edge) for everybody whom `node` sends to at step `k`, so that two send to one at a time as rarely as may be: from the
/// one above itself and around, or in the turns of the topology. If all began with the lowest, those would get all messages
/// at once while the ports of others stand idle.
template <class Visit>
void for_each_edge_out(const Node& node, Step k, const Visit& visit) {
  const Edges out = node.out(k);
  const std::span<const std::uint32_t> turns = node.topology().turns(node.id(), k);
  for (const std::uint32_t place : turns) visit(out[place]);
  if (!turns.empty()) return;
  const auto above = std::ranges::upper_bound(out, node.id(), {}, &Edge::peer);
  for (auto edge = above; edge != out.end(); ++edge) visit(*edge);
  for (auto edge = out.begin(); edge != above; ++edge) visit(*edge);
}

/// The same with send(peer).
template <class Send>
void for_each_receiver(const Node& node, Step k, const Send& send) {
  for_each_edge_out(node, k, [&send](const Edge& edge) { send(edge.peer); });
}

/// Begins an exchange: sends `x`, or its first piece (see pieces.hpp), to every neighbor of step `k`, tagged with the step. In
/// the programs' own channel, unless told otherwise: then other messages of the program need other tags.
Task<> send_to_neighbors(Node& node, Step k, Vector x, Channel channel = Channel::program);

/// sum_j W_ij x_j over the node itself (its `x`, the one that was sent) and what its neighbors sent with the tag of step `k`;
/// the own model first, then in order of peer. Further pieces go out one by one, each when the one before is mixed.
Task<Vector> mix_with_neighbors(Node& node, Step k, Vector x, Channel channel = Channel::program);

/// Sends `v` with `tag` and `number`: a vector of the model's size in its pieces, one message each, any other in one. What a
/// node sends by one tag again and again is numbered, so that pieces of two vectors do not mix where messages are lost.
void send_in_pieces(Node& node, NodeId to, Tag tag, const Vector& v, double number = 0);
/// Receives from `from` what send_in_pieces() sends; `size` is that of the vector.
Task<Message> receive_in_pieces(Node& node, NodeId from, Tag tag, std::size_t size);
/// The message that begins with the piece `first`: waits for the others from the same node. `size` is that of the vector.
Task<Message> receive_rest(Node& node, Message first, std::size_t size);

/// The tensors of `v`, which is of the model's size, first layer first.
std::vector<Vector> cut_into_tensors(const Node& node, const Vector& v);

/// Refuses topologies that change (running sums of neighbors would not fit the next phase) or are directed; notes that the
/// graph is read.
void expect_fixed_symmetric(const Section& section, std::string_view kind,
                            const Topology& topology);

/// Whether what each node sends has weights that sum to one at every step, its own share included (to 1e-4): with
/// rows that do, too, mixing keeps the mean.
bool has_unit_columns(const Topology& topology);

/// Whether as much comes to each node as leaves it, if all send to each neighbor with a chance that depends on the degrees of
/// both, the sender's first: a random walk is then at all equally often, and weights stay alike.
bool is_balanced(const Topology& topology, double (*chance)(double from, double to));

/// The smallest mixing weight of any step, those of nodes to themselves included.
double least_weight(const Topology& topology);

}  // namespace starling::algorithms
