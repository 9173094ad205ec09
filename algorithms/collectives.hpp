// Collectives over any list of nodes, by messages in a fixed order of combination, so that simulation and MPI
// give the same bits. Where the transport offers closed-form collectives (`collectives = analytic`), the same
// sum is formed in the same order without the messages.
//
//   ring                 reduce-scatter, then allgather, around the list: n chunks, chunk c summed from member c on
//   recursive_doubling   whole vectors between partners at distance 1, 2, 4, ..; lower member first in each sum
//   rabenseifner         reduce-scatter by halving vectors at distance 1, 2, 4, .., then the way back; the sums
//                        are those of recursive_doubling, bit for bit
//   tree                 whole vectors up a binomial tree to the first member, and the result back down; the sums are
//                        those of recursive_doubling, too
//
//   by_size              per piece: recursive_doubling up to `collective_switch` bytes, else rabenseifner (as MPICH does)
//   hierarchical         rings of two levels: nodes `collective_group` by `collective_group` in order of id are hosts. The first
//                        half of a ring within each host leaves its sum of a chunk with every member, a ring adds it up among
//                        those that have the same chunk, one of each host, and the second half brings all chunks to all.
//                        Where hosts have unequal numbers of members, one ring of all.
//
// A vector of the model's size goes in the pieces of the ExchangePlan, one operation after the other; each is staged to
// host memory, summed there, and staged back. Pieces do not change sums, except those of `ring` and `hierarchical`, whose
// chunks begin elsewhere.
//
// If the number of members n is not a power of two, 2 (n - p) of them first fold into n - p (p the power below),
// neighbors in the list with the lower first, and get the result at the end.
//
// Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 19(1), 2005. Rings of two
// levels: Mikami et al., arXiv:1811.05233 (2D-torus all-reduce); Horovod does the same within hosts
// (HOROVOD_HIERARCHICAL_ALLREDUCE).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "sim/base/section.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

class Codec;

/// Reads the key `collective` of an algorithm's section, and notes and checks `collective_switch` and `collective_group`, whose
/// values are in the ExchangePlan.
CollectiveKind read_collective(const Section& section, std::string_view fallback = "rabenseifner");

/// Sum over `members` (sorted, the same list on each, containing the caller; must outlive the await) of their
/// `v`, all of one size. Every member gets the same bits. `tag` names the operation: unique among those that may
/// be under way between two members at one time. That the program goes through the sum once, to divide it, is counted here
/// (Node::operate()). Tensors of a bucket are copied into a buffer and out of it (Node::copy()), as Horovod does. With
/// `gathered` the last piece (the first tensors of the model) is not summed: each member brings a list of so many bytes,
/// all get all lists, and each adds up for itself, on the device.
/// With a `codec`, of entries that stand by themselves, each message is a code, of half as many bytes for instance, and what members bring
/// and every sum of two is rounded to what it can say, as libraries add up numbers of half precision. Codes of a piece are made when
/// it is there, and read when it is summed (Node::encode(), decode()); those on the way take no time. With a `piece` of the model
/// the vector is what is made of that, and leaves in one piece when that is there.
Task<Vector> allreduce(Node& node, std::span<const NodeId> members, Tag tag, Vector v,
                       CollectiveKind kind, std::int64_t gathered = 0, const Codec* codec = nullptr,
                       const Piece* piece = nullptr);

using Join = std::function<Vector(std::span<const Vector>)>;

/// What `join` makes of all that the members brought, in order of member, on each of them: codes travel around the ring unread,
/// n - 1 times the bytes of one. For what does not add. The conditions are those of allreduce(); where the members meet,
/// one of them joins for all, so `join` must not depend on who calls it.
Task<Vector> allgather(Node& node, std::span<const NodeId> members, Tag tag, Code own, Join join);

/// The `x` of node 0, sent to all down a binomial tree.
Task<Vector> broadcast(Node& node, Tag tag, Vector x);

/// Sum over all nodes of their `number`, the same bits on each: up a binomial tree to node 0, each
/// parent adding its children in order, and back. One sum with one `tag` at a time.
Task<double> sum_of_numbers(Node& node, Tag tag, double number);

/// The sum that allreduce() forms, from all members' vectors at once; `kind` is none of those that are put together from others.
Vector combine(std::span<const Vector> values, CollectiveKind kind);

}  // namespace starling::algorithms
