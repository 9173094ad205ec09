// The fabrics: physical networks that machines are built with, each with its usual deterministic
// routing. Every cable is two links, one per direction (split-duplex). Hosts are numbered as nodes,
// from 0; where a fabric has more hosts than there are nodes, the last ones stay idle.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "network_models/links.hpp"
#include "network_models/presets.hpp"
#include "sim/base/section.hpp"

namespace starling::network_models {

/// All hosts at one ideal switch: a message crosses the sender's link up and the receiver's down.
Fabric crossbar(NodeId hosts, Link link);

/// Host 0 in the middle, which passes on what the others send each other, each over one cable.
Fabric star(NodeId hosts, Link link);

/// Hosts at the points of a grid that wraps around, sides[0] varying fastest; cables join neighbors
/// along each side > 1. Routes go along dimension 0 first, then 1, ..., the shorter way; of two
/// equal ones upwards, but downwards to coordinate 0 (so does SimGrid). A ring is a torus of one
/// side.
Fabric torus(const std::vector<NodeId>& sides, Link link);

/// 2^dimensions hosts, cables between those that differ in one bit. Lowest different bit first.
Fabric hypercube(int dimensions, Link link);

/// A parallel-ports generalized fat tree, PGFT(levels; children; parents; cables): a switch of
/// level l + 1 has children[l] below it, whatever is below has parents[l] above it, joined by
/// cables[l] parallel cables. Zahavi, "Fat-trees routing and node ordering providing contention
/// free traffic for MPI global collectives", J. Parallel and Distributed Computing 72(11), 2012.
struct FatTree {
  std::vector<NodeId> children;
  std::vector<NodeId> parents;
  std::vector<NodeId> cables;

  NodeId hosts() const;
};

/// The k-ary fat tree of three levels, from switches with k ports: k^3 / 4 hosts.
/// `oversubscription` times as many hosts hang on each lowest switch. Al-Fares, Loukissas, Vahdat,
/// "A scalable, commodity data center network architecture", SIGCOMM 2008.
FatTree k_ary(NodeId k, NodeId oversubscription);

/// d-mod-k routing: at level l upwards by port floor(destination / (parents[0] ... parents[l - 1]))
/// mod (parents[l] cables[l]), until the destination lies below; downwards there is one way, and
/// of parallel cables number source mod cables[l].
Fabric fat_tree(const FatTree& tree, Link link);

/// A dragonfly: groups of routers that are joined all to all, global cables between all groups.
/// Kim, Dally, Scott, Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008.
struct Dragonfly {
  NodeId hosts_per_router;  // p
  NodeId routers;           // a, of a group
  NodeId global_links;      // h, of a router
  NodeId groups;            // g <= a h + 1
  bool is_valiant = false;  // over a third group, which the pair determines; else minimal

  NodeId hosts() const { return hosts_per_router * routers * groups; }
};

/// Global port j of group i (at its router j / h) leads to group (i + 1 + j mod (g - 1)) mod g; of
/// several cables between two groups a pair takes one by its hash (way_between).
/// Between all groups there are as many; ports that are left over are free.
Fabric dragonfly(const Dragonfly& shape, Link link);

/// Cables between switches.
using Cables = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

/// The slim fly (McKay, Miller, Siran graphs of diameter 2) for the power of a prime q = 4 w + e, e
/// = -1, 0 or 1, with so many hosts at each of its 2 q^2 routers. Shortest routes, spread over equal
/// ones by a hash of the pair (way_between). Besta and Hoefler, "Slim Fly: a cost effective low-diameter
/// network topology", SC 2014; sets for prime powers as in Hafner, "Geometric realisation of the
/// graphs of McKay-Miller-Siran", J. Combinatorial Theory B 90, 2004.
Fabric slim_fly(NodeId q, NodeId hosts_per_router, Link link);

/// Those of the slim fly: router (0, x, y) is switch x q + y, (1, m, c) is q^2 + m q + c.
Cables slim_fly_cables(NodeId q);

/// HyperX: switches at the points of a grid, cables between all that differ in one coordinate
/// (Hamming graph), sides[0] varying fastest. Shortest routes, spread likewise. Ahn, Binkert, Davis,
/// McLaren, Schreiber, "HyperX: topology, routing, and packaging of efficient large-scale networks",
/// SC 2009.
Fabric hyperx(const std::vector<NodeId>& sides, NodeId hosts_per_switch, Link link);
Cables hyperx_cables(const std::vector<NodeId>& sides);

/// Jellyfish: a random graph in which each switch has `degree` cables to others (one may have one
/// less if switches * degree is odd). Shortest routes, spread likewise. Singla, Hong, Popa, Godfrey,
/// "Jellyfish: networking data centers randomly", NSDI 2012.
Fabric jellyfish(NodeId switches, NodeId degree, NodeId hosts_per_switch, std::uint64_t seed,
                 Link link);
Cables jellyfish_cables(NodeId switches, NodeId degree, std::uint64_t seed);

/// How nodes share hosts: consecutive ones, and each of them one of the host's network cards (NICs), consecutive ones again.
struct SharedHosts {
  NodeId nodes_per_host;
  NodeId nics_per_host;
  Link local;  // that messages within a host cross

  NodeId host_of(NodeId node) const { return node / nodes_per_host; }
  NodeId nic_of(NodeId node) const {
    const std::int64_t place = node % nodes_per_host;
    return host_of(node) * nics_per_host +
           static_cast<NodeId>(place * nics_per_host / nodes_per_host);
  }
};

/// `hosts` of several nodes, whose NICs are the hosts of `fabric`.
Fabric share_hosts(Fabric fabric, NodeId hosts, const SharedHosts& shared);

/// What a scenario says of every link; a file that draws the fabric may say it of each instead.
struct UsualLink {
  std::optional<Bandwidth> bandwidth;
  std::optional<Duration> latency;
};

/// Reads the key `file` for so many hosts; what it returns reads the file and wires it, after
/// section.finish(), with usual links where it does not say (fabric_file.cpp).
std::function<Fabric()> read_fabric_file(const Section& section, NodeId hosts, UsualLink usual);

/// The same for sites far apart by a matrix of latencies (fabric_matrix.cpp). The link given is a
/// host's own.
std::function<Fabric(Link)> read_fabric_matrix(const Section& section, NodeId hosts);

/// ScenarioError of `key` unless `latency` is at most longest_latency.
void expect_latency(const Section& section, std::string_view key, Duration latency);

/// Reads the keys fabric, latency, bandwidth and those of the fabric named, for so many nodes, and
/// checks them. What it returns builds the fabric, after section.finish(); the section must outlive
/// it. Both throw ScenarioError.
std::function<Fabric()> read_fabric(const Section& section, NodeId nodes, std::uint64_t seed,
                                    const std::optional<Preset>& preset = {});

}  // namespace starling::network_models
