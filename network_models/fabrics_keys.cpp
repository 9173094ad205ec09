// Reads a fabric from a scenario: which one, its shape, its links. A shape that is not given is the
// smallest that holds all nodes.

#include <algorithm>
#include <cmath>

#include "network_models/fabrics.hpp"
#include "network_models/galois.hpp"
#include "network_models/overrides.hpp"
#include "sim/base/error.hpp"

namespace starling::network_models {
namespace {

using Build = std::function<Fabric(Link)>;

/// A key that holds a list of whole numbers >= 1, at least one.
std::vector<NodeId> whole_numbers(const Section& section, std::string_view key,
                                  const std::vector<double>& fallback, std::string_view help) {
  std::vector<NodeId> result;
  for (const double value : section.numbers(key, fallback, help)) {
    section.expect(value >= 1 && value <= 1e6 && value == std::floor(value), key,
                   "must be whole numbers from 1 on, got {}", value);
    result.push_back(static_cast<NodeId>(std::clamp(value, 1.0, 1e6)));
  }
  return result;
}

NodeId whole_number(const Section& section, std::string_view key, NodeId fallback,
                    std::string_view help) {
  const auto value = section.optional<std::int64_t>(key, fallback, help);
  section.expect_range(key, value, 1, 1'000'000);
  return static_cast<NodeId>(std::clamp<std::int64_t>(value, 1, 1'000'000));
}

void expect_room(const Section& section, std::string_view key, double room, NodeId hosts) {
  section.expect(room >= hosts, key, "gives a fabric of {} hosts, expected at least {}", room,
                 hosts);
  section.expect(room <= 1e7, key, "gives a fabric of {} hosts, expected at most 1e7", room);
}

/// Fails with the arithmetic if so many cables would be more links than anybody can wait for. A double, as it may be huge.
void expect_links_fit(const Section& section, std::string_view key, double cables) {
  constexpr double most_links = 1e8;
  const double links = 2 * cables;
  section.expect(
      links <= most_links, key,
      "gives a fabric of 2 * {:.6g} links, of {} bytes each {:.3g} GiB, expected at most "
      "{:g} links",
      cables, sizeof(Link), links * sizeof(Link) / (1 << 30), most_links);
}

double count(const std::vector<NodeId>& factors) {
  double result = 1;
  for (const NodeId factor : factors) result *= factor;
  return result;
}

Build read_torus(const Section& section, NodeId hosts) {
  // As near to a cube as the number of hosts allows, and a side more rather than a host too few.
  const auto side = static_cast<double>(std::ceil(std::cbrt(hosts) - 1e-9));
  const auto sides = whole_numbers(
      section, "sides", {side, side, side},
      "hosts along each dimension, such as 4, 4, 2, the first along those that follow each other; "
      "of two ways of one length messages go upwards, but downwards to coordinate 0");
  expect_room(section, "sides", count(sides), hosts);
  expect_links_fit(section, "sides", count(sides) * static_cast<double>(sides.size()));
  return [sides](Link link) { return torus(sides, link); };
}

Build read_hypercube(const Section& section, NodeId hosts) {
  int dimensions = 0;
  while ((NodeId{1} << dimensions) < hosts) ++dimensions;
  expect_links_fit(section, "fabric", std::ldexp(dimensions, dimensions - 1));
  return [dimensions](Link link) { return hypercube(dimensions, link); };
}

/// Over all levels, cables from what stands there upwards.
double cables_of(const FatTree& tree) {
  double cables = 0;
  double standing = count(tree.children);  // hosts, then switches of each level
  for (std::size_t level = 0; level < tree.children.size(); ++level) {
    cables += standing * tree.parents[level] * tree.cables[level];
    standing *= 1.0 * tree.parents[level] / tree.children[level];
  }
  return cables;
}

Build read_pgft(const Section& section, NodeId hosts, FatTree tree) {
  const std::size_t levels = tree.children.size();
  for (const auto& [key, numbers] :
       {std::pair("parents", &tree.parents), std::pair("cables", &tree.cables)}) {
    section.expect(numbers->empty() || numbers->size() == levels, key,
                   "must be as many numbers as children, {}, got {}", levels, numbers->size());
    numbers->resize(levels, 1);
  }
  expect_room(section, "children", count(tree.children), hosts);
  expect_links_fit(section, "children", cables_of(tree));
  return [tree](Link link) { return fat_tree(tree, link); };
}

Build read_fat_tree(const Section& section, NodeId hosts) {
  FatTree tree;
  tree.children = whole_numbers(section, "children", {},
                                "of a switch, by level from below, for any PGFT; none: a k-ary "
                                "tree of three levels");
  tree.parents = whole_numbers(section, "parents", {},
                               "with children: above each host or switch, by level; none: 1");
  tree.cables = whole_numbers(section, "cables", {},
                              "with children: between a child and a parent, by level; none: 1");
  if (!tree.children.empty()) return read_pgft(section, hosts, std::move(tree));
  section.expect(tree.parents.empty(), "parents", "goes with children, which is missing");
  section.expect(tree.cables.empty(), "cables", "goes with children, which is missing");

  const NodeId over = whole_number(section, "oversubscription", 1,
                                   "hosts per lowest switch, over those a full tree would have");
  NodeId smallest = 2;
  while (std::int64_t{smallest} * smallest * smallest / 4 * over < hosts) smallest += 2;
  const NodeId k = whole_number(section, "k", smallest, "ports of a switch, even: k^3 / 4 hosts");
  section.expect(k % 2 == 0, "k", "must be even, got {}", k);
  expect_room(section, "k", 0.25 * k * k * k * over, hosts);
  const FatTree full = k_ary(k, over);
  expect_links_fit(section, "k", cables_of(full));
  return [full](Link link) { return fat_tree(full, link); };
}

Build read_dragonfly(const Section& section, NodeId hosts) {
  // Balanced: a = 2 p = 2 h, with as many groups as the global links allow.
  NodeId balanced = 1;
  while (2 * std::int64_t{balanced} * balanced * (2 * balanced * balanced + 1) < hosts) ++balanced;
  Dragonfly shape{};
  shape.hosts_per_router = whole_number(section, "hosts_per_router", balanced, "p");
  shape.routers = whole_number(section, "routers", 2 * balanced, "a: of a group");
  shape.global_links = whole_number(section, "global_links", balanced, "h: of a router");
  const double most = 1.0 * shape.routers * shape.global_links + 1;
  const double needed = std::ceil(hosts / (1.0 * shape.hosts_per_router * shape.routers) - 1e-9);
  shape.groups = whole_number(section, "groups", static_cast<NodeId>(std::max(needed, 1.0)),
                              "g, at most a h + 1");
  shape.is_valiant = section.choice("routing", {"minimal", "valiant"}, "minimal",
                                    "the direct way, or over a third group that the pair "
                                    "determines") == "valiant";
  section.expect(shape.groups <= most, "groups", "must be at most a h + 1 = {}, got {}", most,
                 shape.groups);
  expect_room(section, "groups", 1.0 * shape.hosts_per_router * shape.routers * shape.groups,
              hosts);
  const double routers = 1.0 * shape.routers * shape.groups;
  expect_links_fit(
      section, "routers",
      routers * (shape.hosts_per_router + 0.5 * (shape.routers - 1) + 0.5 * shape.global_links));
  return [shape](Link link) { return dragonfly(shape, link); };
}

Build read_slim_fly(const Section& section, NodeId hosts) {
  // Half of the ports for hosts: ceil(k' / 2) with k' = (3 q - e) / 2.
  const auto usual = [](NodeId q) {
    const NodeId degree = (3 * q - (q % 4 == 1 ? 1 : q % 4 == 3 ? -1 : 0)) / 2;
    return (degree + 1) / 2;
  };
  const auto is_fit = [](NodeId q) {
    return q >= 4 && q <= 200 && q % 4 != 2 && GaloisField::prime_of(q) > 0;
  };
  NodeId smallest = 5;
  while (!is_fit(smallest) || 2.0 * smallest * smallest * usual(smallest) < hosts) {
    if (++smallest == 200) break;
  }
  const NodeId q =
      whole_number(section, "q", smallest, "the power of a prime, from 4 to 199: 2 q^2 routers");
  section.expect(is_fit(q), "q", "must be the power of a prime from 4 to 199, got {}", q);
  const NodeId hosts_per_router =
      whole_number(section, "hosts_per_router", usual(q), "half the ports of a router");
  expect_room(section, "q", 2.0 * q * q * hosts_per_router, hosts);
  return [=](Link link) { return slim_fly(q, hosts_per_router, link); };
}

Build read_hyperx(const Section& section, NodeId hosts) {
  // Two dimensions of side s with s hosts at each switch: s^3 hosts.
  const auto side = static_cast<double>(std::max(std::ceil(std::cbrt(hosts) - 1e-9), 1.0));
  const auto sides =
      whole_numbers(section, "sides", {side, side}, "switches along each dimension, such as 8, 8");
  const double switches = count(sides);
  const auto hosts_per_switch =
      whole_number(section, "hosts_per_switch",
                   static_cast<NodeId>(std::clamp(std::ceil(hosts / switches - 1e-9), 1.0, 1e6)),
                   "the same at each");
  expect_room(section, "sides", switches * hosts_per_switch, hosts);
  double neighbors = 0;
  for (const NodeId s : sides) neighbors += s - 1;
  expect_links_fit(section, "sides", switches * (hosts_per_switch + 0.5 * neighbors));
  return [=](Link link) { return hyperx(sides, hosts_per_switch, link); };
}

Build read_jellyfish(const Section& section, NodeId hosts, std::uint64_t seed) {
  // The equipment of a k-ary fat tree: 5 k^2 / 4 switches with k ports, a fifth of them for hosts.
  NodeId k = 4;
  while (std::int64_t{k} * k * k / 4 < hosts) k += 2;
  const NodeId switches = whole_number(section, "switches", std::max(5 * k * k / 4, 5), "in all");
  const NodeId degree =
      whole_number(section, "degree", k - (k + 4) / 5, "cables of a switch to others");
  section.expect(switches <= 100'000, "switches", "must be at most 100000, got {}", switches);
  section.expect(degree >= 3 && degree < switches, "degree",
                 "must be from 3 to one less than switches, {}, got {}", switches - 1, degree);
  const auto hosts_per_switch =
      whole_number(section, "hosts_per_switch", std::max((hosts + switches - 1) / switches, 1),
                   "the same at each");
  expect_room(section, "switches", 1.0 * switches * hosts_per_switch, hosts);
  expect_links_fit(section, "degree", switches * (hosts_per_switch + 0.5 * degree));
  return [=](Link link) { return jellyfish(switches, degree, hosts_per_switch, seed, link); };
}

/// Reads a key of links that may be missing where a file draws the fabric.
template <class T>
std::optional<T> read_if_given(const Section& section, std::string_view key,
                               std::string_view help) {
  if (!section.peek<std::string>(key, "").empty()) return section.required<T>(key, help);
  section.optional<std::string>(key, "", help);
  return std::nullopt;
}

UsualLink read_usual_link(const Section& section, bool is_drawn,
                          const std::optional<Preset>& preset) {
  const char* bandwidth = "of every link, in each direction, unless a file says otherwise";
  const char* latency = "of every link likewise";
  if (is_drawn && !preset)
    return {read_if_given<Bandwidth>(section, "bandwidth", bandwidth),
            read_if_given<Duration>(section, "latency", latency)};
  return {read_unless_preset(section, "bandwidth", preset, &Preset::bandwidth, bandwidth),
          read_unless_preset(section, "latency", preset, &Preset::hop, latency)};
}

/// Reads the bandwidth of some links, by default the usual one over `divisor`; 0 if there is none and none `is_needed`.
double read_bandwidth(const Section& section, std::string_view key,
                      const std::optional<Bandwidth>& usual, double divisor, bool is_needed,
                      std::string_view help) {
  if (usual)
    return section.optional<Bandwidth>(key, Bandwidth{usual->bytes_per_second / divisor}, help)
        .bytes_per_second;
  const auto own = read_if_given<Bandwidth>(section, key, help);
  section.expect(own || !is_needed, key, "is missing, and network.bandwidth, its default, too");
  return own ? own->bytes_per_second : 0;
}

SharedHosts read_shared_hosts(const Section& section) {
  const NodeId nodes_per_host =
      whole_number(section, "nodes_per_host", 1, "that share the port of their host");
  const NodeId nics_per_host = whole_number(
      section, "nics_per_host", 1,
      "network cards that the nodes of a host are divided among, in order; each is a host of the "
      "fabric, also for other keys");
  section.expect(nics_per_host <= nodes_per_host, "nics_per_host",
                 "must be at most nodes_per_host, {}, got {}", nodes_per_host, nics_per_host);
  const auto local_bandwidth =
      read_if_given<Bandwidth>(section, "local_bandwidth",
                               "of all messages within a host together, such as 8 times what each "
                               "of 8 nodes may send there; needed where several nodes share one");
  section.expect(local_bandwidth || nodes_per_host == 1, "local_bandwidth",
                 "is missing: what all messages within a host of nodes_per_host = {} have together",
                 nodes_per_host);
  const Link local{.bytes_per_second = local_bandwidth.value_or(Bandwidth{}).bytes_per_second,
                   .latency = section.optional<Duration>("local_latency", Duration{0},
                                                         "of a message within a host")};
  expect_latency(section, "local_latency", local.latency);
  for (const char* key : {"local_bandwidth", "local_latency"}) {
    section.expect(!section.has(key) || section.has("nodes_per_host"), key,
                   "needs nodes_per_host, which says how many nodes share a host");
  }
  return {nodes_per_host, nics_per_host, local};
}

/// Hosts whose own links are slower.
struct SlowHosts {
  std::vector<NodeId> hosts;
  double bandwidth;

  void set(Fabric& fabric) const {
    for (const NodeId host : hosts) {
      for (const LinkId own : fabric.links_at(host)) fabric.links[own].bytes_per_second = bandwidth;
    }
  }
};

SlowHosts read_slow_hosts(const Section& section, NodeId hosts, const UsualLink& usual) {
  SlowHosts slow;
  for (const double host : section.numbers(
           "slow_hosts", {}, "hosts, from 0, whose own links have slow_bandwidth, such as 3, 17")) {
    const bool is_host = host >= 0 && host < hosts && host == std::floor(host);
    section.expect(is_host, "slow_hosts", "must be numbers of hosts, 0 to {}, got {}", hosts - 1,
                   host);
    if (is_host) slow.hosts.push_back(static_cast<NodeId>(host));  // a probe goes on with any
  }
  slow.bandwidth =
      read_bandwidth(section, "slow_bandwidth", usual.bandwidth, 10, !slow.hosts.empty(),
                     "of the links at slow_hosts; bandwidth / 10 if not given");
  section.expect(!section.has("slow_bandwidth") || section.has("slow_hosts"), "slow_bandwidth",
                 "needs slow_hosts, which says whose links are slow");
  return slow;
}

/// Reads the keys of a fabric of that kind.
Build read_kind(const Section& section, const std::string& kind, NodeId hosts,
                const UsualLink& usual, std::uint64_t seed) {
  if (kind == "dragonfly") return read_dragonfly(section, hosts);
  if (kind == "fat_tree") return read_fat_tree(section, hosts);
  if (kind == "file")
    return [draw = read_fabric_file(section, hosts, usual)](Link) { return draw(); };
  if (kind == "hypercube") return read_hypercube(section, hosts);
  if (kind == "hyperx") return read_hyperx(section, hosts);
  if (kind == "jellyfish") return read_jellyfish(section, hosts, seed);
  if (kind == "matrix") return read_fabric_matrix(section, hosts);
  if (kind == "ring") return [hosts](Link each) { return torus({hosts}, each); };
  if (kind == "slim_fly") return read_slim_fly(section, hosts);
  if (kind == "star") return [hosts](Link each) { return star(hosts, each); };
  if (kind == "torus") return read_torus(section, hosts);
  return [hosts](Link each) { return crossbar(hosts, each); };
}

}  // namespace

void expect_latency(const Section& section, std::string_view key, Duration latency) {
  section.expect(latency <= longest_latency, key, "must be at most {}, got {}",
                 to_text(longest_latency), to_text(latency));
}

std::function<Fabric()> read_fabric(const Section& section, NodeId nodes, std::uint64_t seed,
                                    const std::optional<Preset>& preset) {
  const std::string kind =
      section.choice("fabric",
                     {"crossbar", "dragonfly", "fat_tree", "file", "hypercube", "hyperx",
                      "jellyfish", "matrix", "ring", "slim_fly", "star", "torus"},
                     "crossbar", "how the hosts are wired");
  // A probe names no file: it learns the keys as they are for all other fabrics.
  const bool is_drawn = kind == "file" && section.has("file");
  const UsualLink usual = read_usual_link(section, is_drawn, preset);
  const Link link{.bytes_per_second = usual.bandwidth.value_or(Bandwidth{}).bytes_per_second,
                  .latency = usual.latency.value_or(Duration{0})};
  expect_latency(section, "latency", link.latency);
  section.expect(kind != "matrix" || !preset || section.has("latency"), "latency",
                 "is missing: with fabric = matrix it is that of each host's own links, two on a "
                 "way, and the preset's {} would come on top of the matrix's",
                 to_text(link.latency));
  const SharedHosts shared = read_shared_hosts(section);
  const NodeId machines = (nodes + shared.nodes_per_host - 1) / shared.nodes_per_host;
  const NodeId hosts = machines * shared.nics_per_host;  // of the fabric
  const SlowHosts slow = read_slow_hosts(section, hosts, usual);
  const Build build = read_kind(section, kind, hosts, usual, seed);
  const auto set_hosts = read_host_values(section, hosts);
  const auto set_links = read_link_values(section);
  return [=]() {
    Fabric fabric = build(link);
    slow.set(fabric);
    set_hosts(fabric);
    if (shared.nodes_per_host > 1) fabric = share_hosts(std::move(fabric), machines, shared);
    set_links(fabric);
    return fabric;
  };
}

}  // namespace starling::network_models
