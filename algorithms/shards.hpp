// Shards: a model cut into `servers` nearly equal pieces, piece s kept by the server fibre of node
// s. One server is the classical parameter server, as many as nodes spread its traffic evenly.
#pragma once

#include <vector>

#include <fmt/core.h>

#include "algorithms/optimizer.hpp"
#include "sim/base/section.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

/// Reads the key `servers`, 1 to the number of nodes.
inline NodeId read_servers(const Section& section, NodeId nodes) {
  const auto servers = section.optional<std::int64_t>(
      "servers", 1, "nodes that keep a piece of the model each and serve it beside their own work");
  section.expect(servers >= 1 && servers <= nodes, "servers",
                 "must be from 1 to the number of nodes ({}), got {}", nodes, servers);
  return static_cast<NodeId>(servers);
}

/// Reads the update rule of servers that know a piece of every gradient each.
inline void expect_whole_at_server(const Section& section, const OptimizerSettings& optimizer,
                                   NodeId servers) {
  expect_whole_gradient(section, optimizer, servers == 1,
                        fmt::format("which none of {} servers has: take servers = 1", servers));
}

/// Where piece `s` of a vector of `size` begins; that of `servers` is its end.
inline std::size_t shard_begin(NodeId s, NodeId servers, std::size_t size) {
  return static_cast<std::size_t>(s) * size / static_cast<std::size_t>(servers);
}

/// Piece `s` of `v`; no copy.
inline Vector shard(const Vector& v, NodeId s, NodeId servers) {
  const std::size_t begin = shard_begin(s, servers, v.size());
  return v.slice(begin, shard_begin(s + 1, servers, v.size()) - begin);
}

/// The vector that was cut.
inline Vector join_shards(const std::vector<Vector>& shards) {
  return shards.size() == 1 ? shards[0] : concatenate(shards);
}

}  // namespace starling::algorithms
