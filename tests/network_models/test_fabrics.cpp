// Fabrics: counted, walked and compared. What lies at the ends of a link is not stored anywhere, it
// shows in the routes: where one link ends the next begins. So all routes of a fabric together tell
// the graph that it was wired as.

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "network_models/fabrics.hpp"
#include "network_models/galois.hpp"
#include "network_models/overrides.hpp"
#include "network_models/switch_graph.hpp"
#include "sim/base/error.hpp"
#include "tests/network_models/scripted_run.hpp"

namespace starling::test_fabrics {
namespace {

using namespace network_models;

constexpr Link some_link{1e9, Duration{1'000'000}};

std::vector<LinkId> route(const Fabric& fabric, NodeId source, NodeId destination) {
  std::vector<LinkId> result;
  fabric.route(source, destination, result);
  return result;
}

/// The points that all routes between `hosts` hosts imply: begins of links, ends of links and
/// hosts, joined where they must be the same.
class Wiring {
 public:
  Wiring(const Fabric& fabric, NodeId hosts)
      : links_(fabric.links.size()),
        parent_(2 * links_ + static_cast<std::size_t>(hosts)),
        is_used_(links_, false) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
    for (NodeId s = 0; s < hosts; ++s) {
      for (NodeId d = 0; d < hosts; ++d) {
        if (s == d) continue;
        const auto way = route(fabric, s, d);
        std::size_t at = host(s);
        for (const LinkId link : way) {
          REQUIRE(link < links_);
          is_used_[link] = true;
          join(at, 2 * link);
          at = 2 * link + 1;
        }
        join(at, host(d));
        longest_ = std::max(longest_, way.size());
      }
    }
    for (NodeId i = 0; i < hosts; ++i) hosts_.insert(find(host(i)));
    points_ = hosts_;
    for (std::size_t link = 0; link < links_; ++link) {
      if (!is_used_[link]) continue;
      ++used_;
      points_.insert(find(2 * link));
      points_.insert(find(2 * link + 1));
      ways_.insert({find(2 * link), find(2 * link + 1)});
    }
  }

  std::size_t distinct_hosts() const { return hosts_.size(); }
  std::size_t points() const { return points_.size(); }
  std::size_t used_links() const { return used_; }
  std::size_t longest() const { return longest_; }
  /// Pairs of points that a link leads between.
  std::size_t ways() const { return ways_.size(); }
  bool has_loops() const {
    return std::ranges::any_of(ways_, [](const auto& way) { return way.first == way.second; });
  }
  /// The links of `some` that are used, and those that begin or end at a host.
  std::set<LinkId> used(const std::vector<LinkId>& some) const {
    std::set<LinkId> found;
    std::ranges::copy_if(some, std::inserter(found, found.end()),
                         [&](LinkId link) { return is_used_[link]; });
    return found;
  }
  std::set<LinkId> links_at(NodeId i) {
    std::set<LinkId> found;
    for (LinkId link = 0; link < links_; ++link) {
      const bool is_there = find(2 * link) == find(host(i)) || find(2 * link + 1) == find(host(i));
      if (is_used_[link] && is_there) found.insert(link);
    }
    return found;
  }
  /// Whether every way has one back.
  bool is_symmetric() const {
    return std::ranges::all_of(ways_, [&](const auto& way) {
      return ways_.contains({way.second, way.first});
    });
  }

  /// How many of the routes are longer than the shortest way in this graph.
  std::size_t detours(const Fabric& fabric, NodeId hosts) {
    std::map<std::size_t, std::vector<std::size_t>> next;
    for (const auto& [from, to] : ways_) next[from].push_back(to);
    std::size_t count = 0;
    for (NodeId s = 0; s < hosts; ++s) {
      std::map<std::size_t, std::size_t> hops = {{find(host(s)), 0}};
      std::vector<std::size_t> queue = {find(host(s))};
      for (std::size_t i = 0; i < queue.size(); ++i) {
        for (const std::size_t to : next[queue[i]]) {
          if (hops.try_emplace(to, hops[queue[i]] + 1).second) queue.push_back(to);
        }
      }
      for (NodeId d = 0; d < hosts; ++d) {
        if (s != d) count += route(fabric, s, d).size() != hops[find(host(d))];
      }
    }
    return count;
  }

 private:
  std::size_t host(NodeId i) const { return 2 * links_ + static_cast<std::size_t>(i); }
  std::size_t find(std::size_t point) {
    while (parent_[point] != point) point = parent_[point] = parent_[parent_[point]];
    return point;
  }
  void join(std::size_t a, std::size_t b) { parent_[find(a)] = find(b); }

  std::size_t links_;
  std::vector<std::size_t> parent_;  // begin of link l: 2 l, end: 2 l + 1, then hosts
  std::vector<bool> is_used_;
  std::set<std::size_t> hosts_, points_;
  std::set<std::pair<std::size_t, std::size_t>> ways_;
  std::size_t used_ = 0;
  std::size_t longest_ = 0;
};

struct Case {
  std::string name;
  Fabric fabric;
  NodeId hosts;
  std::size_t switches;
  std::size_t links;  // that some route uses
  std::size_t longest;
  bool takes_shortest;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back({"crossbar", crossbar(7, some_link), 7, 1, 14, 2, true});
  all.push_back({"ring", torus({9}, some_link), 9, 0, 18, 4, true});
  // Of an even ring, the longest ways go up, save those to 0, which come down.
  all.push_back({"even ring", torus({8}, some_link), 8, 0, 16, 4, true});
  all.push_back({"torus", torus({4, 3, 5}, some_link), 60, 0, 360, 2 + 1 + 2, true});
  // Three cables between two, two rings of three.
  all.push_back({"flat torus", torus({2, 1, 3}, some_link), 6, 0, 6 + 12, 2, true});
  all.push_back({"hypercube", hypercube(5, some_link), 32, 0, 160, 5, true});
  // k = 4: 16 hosts, 20 switches; each of the three levels has 16 cables.
  all.push_back({"fat tree", fat_tree(k_ary(4, 1), some_link), 16, 20, 96, 6, true});
  // Twice the hosts: 32 cables below, the levels above as before.
  all.push_back({"oversubscribed", fat_tree(k_ary(4, 2), some_link), 32, 20, 128, 6, true});
  all.push_back({"PGFT", fat_tree({{3, 4}, {1, 2}, {1, 2}}, some_link), 12, 4 + 2,
                 2 * (12 + 4 * 2 * 2), 4, true});
  // Dragonfly p = 2, a = 4, h = 2, g = 9: as many groups as can be, 36 routers with 3 local and 2
  // global links each.
  all.push_back({"dragonfly", dragonfly({2, 4, 2, 9}, some_link), 72, 36, 144 + 36 * 5, 5, false});
  // Half the groups: two cables between each two groups.
  all.push_back(
      {"small dragonfly", dragonfly({2, 4, 2, 5}, some_link), 40, 20, 80 + 20 * 5, 5, false});
  // Slim fly q = 5, k' = 7: 50 routers.
  all.push_back({"slim fly", slim_fly(5, 2, some_link), 100, 50, 200 + 50 * 7, 4, true});
  // q = 4, k' = 6: 32 routers.
  all.push_back({"slim fly 4", slim_fly(4, 2, some_link), 64, 32, 128 + 32 * 6, 4, true});
  all.push_back({"star", star(6, some_link), 6, 0, 10, 2, true});
  // 4 x 3 switches, each with 3 + 2 neighbors, all within 2.
  all.push_back({"hyperx", hyperx({4, 3}, 2, some_link), 24, 12, 48 + 12 * 5, 4, true});
  // 10 switches with 4 cables each.
  all.push_back({"jellyfish", jellyfish(10, 4, 1, 7, some_link), 10, 10, 20 + 10 * 4, 4, true});
  return all;
}

}  // namespace

TEST_CASE("fabrics: their routes imply as many hosts, switches and links as they were built of") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    Wiring wiring(c.fabric, c.hosts);
    CHECK(wiring.distinct_hosts() == static_cast<std::size_t>(c.hosts));
    CHECK(wiring.points() == static_cast<std::size_t>(c.hosts) + c.switches);
    CHECK(wiring.used_links() == c.links);
    CHECK(wiring.longest() == c.longest);
    CHECK_FALSE(wiring.has_loops());
    CHECK(wiring.is_symmetric());
    if (c.takes_shortest) CHECK(wiring.detours(c.fabric, c.hosts) == 0);
    for (NodeId host = 0; host < c.hosts; ++host) {
      CAPTURE(host);
      CHECK(wiring.used(c.fabric.links_at(host)) == wiring.links_at(host));
    }
  }
}

TEST_CASE("fabrics: routes are those of SimGrid, link by link") {
  // Its links have names, ours numbers: each name must always stand for the same number and vice
  // versa.
  std::ifstream file("tests/network_models/reference/simgrid_routes.csv");
  REQUIRE(file.is_open());
  const std::map<std::string, Fabric> fabrics = {
      {"flat", crossbar(64, some_link)},
      {"ring", torus({64}, some_link)},
      {"torus3", torus({4, 4, 4}, some_link)},
      {"fattree", fat_tree({{8, 8}, {1, 8}, {1, 1}}, some_link)},
      {"fattree2t", fat_tree({{8, 8}, {1, 4}, {1, 1}}, some_link)}};
  std::map<std::pair<std::string, std::string>, LinkId> number_of;
  std::map<std::pair<std::string, LinkId>, std::string> name_of;
  std::string line;
  std::getline(file, line);
  int routes = 0;
  while (std::getline(file, line)) {
    CAPTURE(line);
    std::istringstream stream(line);
    std::string platform, source, destination, name;
    std::getline(stream, platform, ',');
    std::getline(stream, source, ',');
    std::getline(stream, destination, ',');
    const auto ours = route(fabrics.at(platform), std::stoi(source), std::stoi(destination));
    std::vector<std::string> theirs;
    while (std::getline(stream, name, '|')) theirs.push_back(name);
    REQUIRE(ours.size() == theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      CHECK(number_of.try_emplace({platform, theirs[i]}, ours[i]).first->second == ours[i]);
      CHECK(name_of.try_emplace({platform, ours[i]}, theirs[i]).first->second == theirs[i]);
    }
    ++routes;
  }
  CHECK(routes == 280);
}

TEST_CASE(
    "fat tree: all hosts that send to one host come down the same way, and other ways differ") {
  // d-mod-k: the way down to a host from the top depends on that host alone; and in the full tree
  // the hosts of one switch have different tops.
  const Fabric fabric = fat_tree(k_ary(4, 1), some_link);
  for (NodeId d = 0; d < 16; ++d) {
    std::set<LinkId> down_from_top;
    for (NodeId s = 0; s < 16; ++s) {
      if (s / 4 != d / 4) down_from_top.insert(route(fabric, s, d)[3]);
    }
    CHECK(down_from_top.size() == 1);
  }
  std::set<LinkId> into_top;
  for (NodeId d = 12; d < 16; ++d) into_top.insert(route(fabric, 0, d)[2]);
  CHECK(into_top.size() == 4);
}

TEST_CASE("dragonfly: ways have the links that a drawing of three groups shows") {
  // p = 1, a = 2, h = 1, g = 3. Host i is at router i, group i / 2. Port j (= router j) of group i
  // leads to group i + 1 + j: router 0 up to the next group, where it arrives at port g - 2 - j =
  // 1, router 1.
  const Fabric fabric = dragonfly({1, 2, 1, 3}, some_link);
  const auto hops = [&](NodeId s, NodeId d) { return route(fabric, s, d).size(); };
  CHECK(hops(0, 1) == 3);  // up, local, down
  CHECK(hops(0, 3) == 3);  // up, global, down: router 0 of group 0 to router 1 of group 1
  CHECK(hops(0, 2) == 4);  // and on to router 0
  CHECK(hops(1, 3) == 4);  // first to router 0
  CHECK(hops(1, 2) == 5);
  CHECK(hops(1, 4) == 3);  // router 1 leads to group 2, router 0
  // 0 -> 3 and 1 -> 2 share the only global link from group 0 to 1.
  CHECK(route(fabric, 0, 3)[1] == route(fabric, 1, 2)[2]);
  // From a group back to itself: local, in every group, without leaving its chassis or group.
  CHECK(hops(2, 3) == 3);
  CHECK(hops(5, 4) == 3);
}

TEST_CASE("dragonfly: over a third group no way takes more than two global links") {
  const Dragonfly shape{2, 4, 2, 9, true};
  const Fabric valiant = dragonfly(shape, some_link);
  const Fabric minimal = dragonfly({2, 4, 2, 9, false}, some_link);
  Wiring wiring(valiant, 72);
  CHECK(wiring.distinct_hosts() == 72);
  CHECK(wiring.points() == 72 + 36);
  CHECK(wiring.longest() == 7);
  CHECK_FALSE(wiring.has_loops());
  // Host pairs of groups 0 and 1, 64 of them: over one global cable, or spread over many.
  const LinkId first_global = 2 * 72 + 36 * 4;
  std::map<LinkId, int> load_of_minimal, load_of_valiant;
  for (NodeId s = 0; s < 8; ++s) {
    for (NodeId d = 8; d < 16; ++d) {
      int globals = 0;
      for (const LinkId link : route(minimal, s, d)) load_of_minimal[link] += link >= first_global;
      for (const LinkId link : route(valiant, s, d)) {
        load_of_valiant[link] += link >= first_global;
        globals += link >= first_global;
      }
      CHECK(globals == 2);
    }
  }
  const auto highest = [](const std::map<LinkId, int>& loads) {
    return std::ranges::max_element(loads, {}, [](const auto& l) { return l.second; })->second;
  };
  CHECK(highest(load_of_minimal) == 64);
  CHECK(highest(load_of_valiant) < 32);
}

TEST_CASE("slim fly: its routers have (3 q - e) / 2 neighbors, all within two steps") {
  // q = 4 w + e. Hosts for half the ports: 200, 588, 2178, 3380 for q = 5, 7, 11, 13.
  for (const NodeId q : {4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 25, 27}) {
    CAPTURE(q);
    const auto routers = static_cast<std::size_t>(2 * q * q);
    const auto degree = static_cast<std::size_t>((3 * q - (q % 4 == 0   ? 0
                                                           : q % 4 == 1 ? 1
                                                                        : -1)) /
                                                 2);
    std::vector<std::set<std::uint32_t>> around(routers);
    const auto edges = slim_fly_cables(q);
    for (const auto& [a, b] : edges) {
      CHECK(around[a].insert(b).second);  // each edge once
      CHECK(around[b].insert(a).second);
    }
    for (std::uint32_t r = 0; r < routers; ++r) {
      CHECK(around[r].size() == degree);
      std::set<std::uint32_t> reached = around[r];
      for (const std::uint32_t next : around[r]) {
        reached.insert(around[next].begin(), around[next].end());
      }
      CHECK(reached.size() == routers);  // (itself among them)
    }
  }
}

TEST_CASE("finite fields: sums and products are those of polynomials") {
  // GF(4): x^2 = x + 1; 2 is x, 3 is x + 1. x (x + 1) = x^2 + x = 1, x x = 3, (x + 1)^2 = x^2 + 1 = x.
  const GaloisField four(4);
  CHECK(four.add(2, 3) == 1);
  CHECK(four.multiply(2, 3) == 1);
  CHECK(four.multiply(2, 2) == 3);
  CHECK(four.multiply(3, 3) == 2);
  // GF(7): the smallest primitive root is 3.
  CHECK(GaloisField(7).power(1) == 3);
  CHECK(GaloisField(7).subtract(2, 5) == 4);
  CHECK(GaloisField(7).multiply(5, 3) == 1);
  for (const int q : {8, 9, 16, 25, 27, 49, 64, 81, 121, 125, 128, 169}) {
    CAPTURE(q);
    const GaloisField field(q);
    const int p = GaloisField::prime_of(q);
    for (int a = 0; a < q; ++a) {
      int sum = 0;
      for (int i = 0; i < p; ++i) sum = field.add(sum, a);
      CHECK(sum == 0);
      const int b = (a * 7 + 3) % q;
      const int c = (a * 5 + 1) % q;
      CHECK(field.add(field.subtract(a, b), b) == a);
      CHECK(field.multiply(a, field.add(b, c)) ==
            field.add(field.multiply(a, b), field.multiply(a, c)));
    }
  }
  for (const int none : {1, 6, 12, 100}) CHECK(GaloisField::prime_of(none) == 0);
}

TEST_CASE("HyperX: switches that differ in one coordinate are neighbors") {
  // 3 x 2: 0 1 2 in the first row, 3 4 5 in the second.
  const Cables expected = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 4}, {2, 5}, {3, 4}, {3, 5}, {4, 5}};
  CHECK(hyperx_cables({3, 2}) == expected);
}

TEST_CASE("Jellyfish: a regular graph, connected, another one for another seed") {
  for (const auto& [switches, degree] : {std::pair(20, 4), std::pair(50, 7), std::pair(5, 4)}) {
    const Cables cables = jellyfish_cables(switches, degree, 1);
    std::vector<int> ends(static_cast<std::size_t>(switches), 0);
    for (const auto& [a, b] : cables) {
      CHECK(a < b);
      ++ends[a];
      ++ends[b];
    }
    CHECK(std::set(cables.begin(), cables.end()).size() == cables.size());
    CHECK(std::ranges::count(ends, degree) == switches);
    CHECK(cables == jellyfish_cables(switches, degree, 1));
    if (degree + 1 < switches) CHECK(cables != jellyfish_cables(switches, degree, 2));
  }
  // With two ports each nine switches may fall into two rings or three; only one ring of all is connected.
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<std::set<std::uint32_t>> around(9);
    for (const auto& [a, b] : jellyfish_cables(9, 2, seed)) {
      around[a].insert(b);
      around[b].insert(a);
    }
    std::uint32_t at = 0;
    int length = 0;
    for (std::uint32_t before = 0; length == 0 || at != 0; ++length) {
      const std::uint32_t next =
          length > 0 && *around[at].begin() == before ? *around[at].rbegin() : *around[at].begin();
      before = std::exchange(at, next);
    }
    CHECK(length == 9);
  }
  // 7 switches with 3 ports: an odd port is left over.
  CHECK(jellyfish_cables(7, 3, 1).size() == 10);
}

TEST_CASE("fabrics: links have names, and those of hosts lead where they say") {
  const auto name = [](const Fabric& fabric, NodeId s, NodeId d, std::size_t i) {
    return fabric.name(route(fabric, s, d)[i]);
  };
  CHECK(name(crossbar(4, some_link), 2, 3, 0) == "host 2 up");
  CHECK(name(crossbar(4, some_link), 2, 3, 1) == "host 3 down");
  CHECK(name(star(4, some_link), 2, 3, 0) == "host 2 -> host 0");
  CHECK(name(star(4, some_link), 2, 3, 1) == "host 0 -> host 3");
  CHECK(name(torus({4, 3}, some_link), 0, 3, 0) == "host 0 -> host 3");
  CHECK(name(torus({4, 3}, some_link), 3, 0, 0) == "host 3 -> host 0");
  CHECK(name(torus({4, 3}, some_link), 1, 9, 0) == "host 1 -> host 9");
  CHECK(name(hypercube(3, some_link), 5, 1, 0) == "host 5 -> host 1");
  CHECK(name(slim_fly(5, 1, some_link), 0, 1, 0) == "host 0 up");
  // five switches with four ports are all joined to each other
  CHECK(name(jellyfish(5, 4, 1, 1, some_link), 1, 3, 1) == "switch 1 -> switch 3");
  CHECK(name(jellyfish(5, 4, 1, 1, some_link), 3, 1, 1) == "switch 3 -> switch 1");
  CHECK(Fabric{}.name(3) == "link 3");
  // k = 4: hosts 0, 1 at edge 0; edges 0, 1 in pod 0 below aggregation 0, 1; 4 cores. By d-mod-k 0
  // to 4 goes up by port 0 of the edge and port 4 / 2 mod 2 = 0 of the aggregation; 0 to 7 by
  // port 1 and port 1.
  const Fabric tree = fat_tree(k_ary(4, 1), some_link);
  const auto names = [&](NodeId s, NodeId d) {
    std::vector<std::string> found;
    for (const LinkId link : route(tree, s, d)) found.push_back(tree.name(link));
    return found;
  };
  CHECK(names(0, 4) == std::vector<std::string>{
                           "host 0 up", "edge 0 -> aggregation 0", "aggregation 0 -> core 0",
                           "core 0 -> aggregation 2", "aggregation 2 -> edge 2", "host 4 down"});
  CHECK(names(0, 7) == std::vector<std::string>{
                           "host 0 up", "edge 0 -> aggregation 1", "aggregation 1 -> core 3",
                           "core 3 -> aggregation 3", "aggregation 3 -> edge 3", "host 7 down"});
  // p = 1, a = 2, h = 1, g = 3: router 0 leads to group 1, router 3 (see above).
  const Fabric fly = dragonfly({1, 2, 1, 3}, some_link);
  CHECK(name(fly, 0, 3, 1) == "router 0 -> router 3");
  CHECK(name(fly, 0, 1, 1) == "router 0 -> router 1");
  CHECK(name(fly, 3, 0, 1) == "router 3 -> router 0");
  // Two global ports at each of two routers, three other groups: of four ports of a group one is free.
  const LinkId first_global = 2 * 8 + 8 * 2;
  CHECK(dragonfly({1, 2, 2, 4}, some_link).name(first_global + 2) == "router 1 -> router 6");
  CHECK(dragonfly({1, 2, 2, 4}, some_link).name(first_global + 3) == "router 1 free port 1");
  CHECK(dragonfly({2, 2, 1, 1}, some_link).name(2 * 4 + 2 * 2) == "router 0 free port 0");
}

TEST_CASE("fabrics: each link has a name of its own, parallel ones by their number") {
  std::vector<Case> all = cases();
  all.push_back({"two cables", fat_tree({{2, 2}, {1, 2}, {2, 2}}, some_link), 4, 0, 0, 0, true});
  all.push_back({"six cables", dragonfly({1, 3, 2, 2}, some_link), 6, 0, 0, 0, true});
  for (const Case& c : all) {
    CAPTURE(c.name);
    std::set<LinkId> used;
    for (NodeId s = 0; s < c.hosts; ++s) {
      for (NodeId d = 0; d < c.hosts; ++d) {
        if (s == d) continue;
        for (const LinkId link : route(c.fabric, s, d)) used.insert(link);
      }
    }
    std::set<std::string> names;
    for (const LinkId link : used) names.insert(c.fabric.name(link));
    CHECK(names.size() == used.size());
    if (c.name == "two cables") {
      for (const char* name : {"host 3 -> edge 1", "host 3 -> edge 1 (2)", "core 1 -> edge 0 (2)"})
        CHECK(names.contains(name));
    }
    if (c.name == "six cables") CHECK(names.contains("router 5 -> router 2 (2)"));
  }
}

TEST_CASE("hosts of several nodes share one port, and have a link of their own") {
  // Nodes 0-2 on host 0, 3-5 on host 1.
  const Link local{5e9, Duration{0}};
  const Fabric fabric = share_hosts(crossbar(2, some_link), 2, {3, 1, local});
  CHECK(route(fabric, 0, 2) == std::vector<LinkId>{4});
  CHECK(route(fabric, 3, 4) == std::vector<LinkId>{5});
  CHECK(fabric.links[4].bytes_per_second == 5e9);
  CHECK(route(fabric, 0, 4) == std::vector<LinkId>{0, 3});
  CHECK(route(fabric, 2, 5) == std::vector<LinkId>{0, 3});
}

TEST_CASE("nodes of a host are divided among its network cards") {
  // Nodes 0-2 on host 0, 3-5 on host 1: 0, 1 and 3, 4 by the first of its two cards, 2 and 5 by the second.
  const Link local{5e9, Duration{0}};
  const Fabric fabric = share_hosts(crossbar(4, some_link), 2, {3, 2, local});
  CHECK(route(fabric, 0, 2) == std::vector<LinkId>{8});
  CHECK(route(fabric, 0, 4) == std::vector<LinkId>{0, 5});
  CHECK(route(fabric, 1, 5) == std::vector<LinkId>{0, 7});
  CHECK(route(fabric, 2, 5) == std::vector<LinkId>{2, 7});
  CHECK(route(fabric, 5, 1) == std::vector<LinkId>{6, 1});
  // Of as many as a scenario may have, too.
  CHECK(SharedHosts{1'000'000, 1'000'000, local}.nic_of(1'999'999) == 1'999'999);
}

TEST_CASE("a host can be given links of its own bandwidth, on any fabric") {
  // On a fat tree its cable, two links; on a ring the two cables to its neighbors, four.
  const auto slow_down = [](Fabric& fabric, NodeId host) {
    for (const LinkId link : fabric.links_at(host)) fabric.links[link].bytes_per_second = 1e6;
  };
  Fabric tree = fat_tree(k_ary(4, 1), some_link);
  slow_down(tree, 5);
  const auto is_slow = [](const Link& link) { return link.bytes_per_second == 1e6; };
  CHECK(std::ranges::count_if(tree.links, is_slow) == 2);
  CHECK(is_slow(tree.links[route(tree, 5, 12).front()]));
  CHECK(is_slow(tree.links[route(tree, 0, 5).back()]));
  Fabric ring = torus({8}, some_link);
  slow_down(ring, 5);
  CHECK(std::ranges::count_if(ring.links, is_slow) == 4);
  CHECK(is_slow(ring.links[route(ring, 4, 5).back()]));

  // And by the scenario: a tenth of the others, or as said.
  const Section section = network_test::section({{"latency", "1 us"},
                                                 {"bandwidth", "1 GB/s"},
                                                 {"slow_hosts", "1, 2"},
                                                 {"slow_bandwidth", "3 MB/s"}});
  const auto build = read_fabric(section, 4, 1);
  section.finish();
  const Fabric fabric = build();
  CHECK(fabric.links[1].bytes_per_second == 1e9);
  for (const LinkId link : {2, 3, 4, 5}) CHECK(fabric.links[link].bytes_per_second == 3e6);
}

TEST_CASE("values of hosts ask for no routes, of which there are hosts times hosts") {
  const Section section = network_test::section({{"host_latencies", "0-99: 5 us"}});
  const auto set_hosts = read_host_values(section, 100);
  Fabric fabric = torus({10, 10}, some_link);
  fabric.route = [](NodeId, NodeId, std::vector<LinkId>&) { FAIL("a route was asked for"); };
  set_hosts(fabric);
  for (const Link& link : fabric.links) CHECK(link.latency == Duration{5'000'000});
}

TEST_CASE("routes are remembered, with the latency and the slowest link of the way") {
  Fabric fabric = torus({6}, some_link);
  fabric.links[2].bytes_per_second = 1e6;  // from 1 upwards
  Routes routes(fabric);
  const std::uint32_t number = routes.find(0, 3);
  CHECK(routes.links_of(number).size() == 3);
  CHECK(routes.latency(number) == Duration{3'000'000});
  CHECK(routes.bytes_per_second(number) == 1e6);
  const LinkId* const where = routes.links_of(number).data();
  for (NodeId s = 0; s < 6; ++s) {
    for (NodeId d = 0; d < 6; ++d) {
      if (s != d) routes.find(s, d);
    }
  }
  CHECK(routes.size() == 30);
  CHECK(routes.find(0, 3) == number);
  CHECK(routes.links_of(number).data() == where);
}

TEST_CASE("routes longer than a block of the arena lie in it as others do") {
  // From one node of a ring of 140,000 to the one across: 70,000 links, of which a block holds 65,536.
  constexpr NodeId nodes = 140'000;
  Routes routes(torus({nodes}, some_link));
  const auto links_between = [&](NodeId source, NodeId destination) {
    const auto links = routes.links_of(routes.find(source, destination));
    return std::vector<LinkId>(links.begin(), links.end());
  };
  const std::vector<std::pair<NodeId, NodeId>> pairs = {
      {0, 1}, {0, nodes / 2}, {1, 2}, {7, 7 + nodes / 2}, {2, 3}};
  std::vector<std::vector<LinkId>> found;
  for (const auto& [source, destination] : pairs) {
    found.push_back(links_between(source, destination));
    Fabric fabric = torus({nodes}, some_link);
    std::vector<LinkId> expected;
    fabric.route(source, destination, expected);
    CHECK(found.back() == expected);
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    CHECK(links_between(pairs[i].first, pairs[i].second) == found[i]);
  }
}

TEST_CASE("routes stay where they are while thousands of others are found") {
  Routes routes(crossbar(300, some_link));
  std::vector<const LinkId*> where;
  for (NodeId s = 0; s < 300; ++s) {
    for (NodeId d = 0; d < 300; ++d) {
      if (s != d) where.push_back(routes.links_of(routes.find(s, d)).data());
    }
  }
  std::size_t i = 0;
  for (NodeId s = 0; s < 300; ++s) {
    for (NodeId d = 0; d < 300; ++d) {
      if (s == d) continue;
      REQUIRE(routes.find(s, d) == i);
      REQUIRE(routes.links_of(static_cast<std::uint32_t>(i)).data() == where[i]);
      REQUIRE(where[i][0] == static_cast<LinkId>(2 * s));
      ++i;
    }
  }
}

TEST_CASE("a graph without a way between two switches says so") {
  const auto both_ways = [](std::vector<std::pair<std::uint32_t, std::uint32_t>> cables) {
    std::vector<Arc> arcs;
    for (const auto& [a, b] : cables) {
      arcs.push_back({a, b, static_cast<LinkId>(arcs.size()), {}});
      arcs.push_back({b, a, static_cast<LinkId>(arcs.size()), {}});
    }
    return arcs;
  };
  SwitchGraph graph(4, both_ways({{0, 1}, {2, 3}}));
  CHECK(graph.unreachable({0, 1, 2}, true) == std::pair(2U, 0U));
  std::vector<LinkId> way;
  CHECK_THROWS_WITH_AS(graph.walk(0, 3, 0, way), doctest::Contains("switch 0 to switch 3"), Error);
  const auto line = both_ways({{0, 1}, {1, 2}});
  CHECK_FALSE(SwitchGraph(3, line).unreachable({0, 1, 2}, false));
  // If 1 passes nothing on, it can still be an end.
  const SwitchGraph closed(3, line, {1, 0, 1});
  CHECK_FALSE(closed.unreachable({0, 1}, false));
  CHECK(closed.unreachable({0, 1, 2}, false) == std::pair(2U, 0U));
}

TEST_CASE("shortest ways: fewest links, then least latency, then in turn, parallel cables too") {
  //     1        0 -> 1 -> 3 and 0 -> 2 -> 3 have two links; over 2 it is 3 us, over 1 it is 4.
  //   /   \      Two cables of 1 us from 2 to 3.
  // 0       3    0 -> 4 -> 5 -> 3 has no latency, but three links.
  //   \   //
  //     2
  const auto us = [](int count) { return Duration{1'000'000LL * count}; };
  SwitchGraph graph(6, {{0, 1, 10, us(2)},
                        {1, 3, 11, us(2)},
                        {0, 2, 12, us(2)},
                        {2, 3, 13, us(1)},
                        {2, 3, 14, us(1)},
                        {0, 4, 15, us(0)},
                        {4, 5, 16, us(0)},
                        {5, 3, 17, us(0)}});
  const auto way = [&](std::uint64_t spread) {
    std::vector<LinkId> links;
    graph.walk(0, 3, spread, links);
    return links;
  };
  CHECK(way(0) == std::vector<LinkId>{12, 13});
  CHECK(way(1) == std::vector<LinkId>{12, 14});
  CHECK(way(2) == std::vector<LinkId>{12, 13});
}

TEST_CASE("regular partners spread over all equal ways; by a sum they missed half of them") {
  // Two leaves of 16 hosts, four spines; two cables between any two groups of a dragonfly.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> cables;
  for (std::uint32_t leaf : {0U, 1U}) {
    for (std::uint32_t spine = 2; spine < 6; ++spine) cables.emplace_back(leaf, spine);
  }
  std::vector<Arc> arcs;
  for (const auto& [a, b] : cables) {
    const auto first = static_cast<LinkId>(64 + arcs.size());
    arcs.push_back({a, b, first, {}});
    arcs.push_back({b, a, first + 1, {}});
  }
  std::vector<Port> ports;
  for (LinkId h = 0; h < 32; ++h) ports.push_back({h / 16, 2 * h, 2 * h + 1});
  const Fabric tree = graph_fabric(std::vector<Link>(64 + arcs.size(), some_link),
                                   SwitchGraph(6, arcs), ports, host_link_name);
  const Dragonfly shape{4, 4, 2, 5};
  REQUIRE(shape.routers * shape.global_links / (shape.groups - 1) == 2);
  const Fabric groups = dragonfly(shape, some_link);
  const auto shared = [](const Fabric& fabric, NodeId hosts, auto partner) {
    std::map<LinkId, int> crossings;
    std::vector<LinkId> way;
    for (NodeId i = 0; i < hosts; ++i) {
      way.clear();
      fabric.route(i, partner(i), way);
      for (const LinkId link : way) ++crossings[link];
    }
    return crossings;
  };
  const auto across = shared(tree, 32, [](NodeId i) { return i ^ 16; });
  std::size_t used = 0;
  for (const auto& [link, crossings] : across) used += link >= 64 ? 1 : 0;
  CHECK(used == 16);  // up and down, all of them
  // Neighboring groups, host by host: 16 messages over two cables; by a sum of even numbers all over one.
  const auto ahead = shared(groups, 64, [](NodeId i) { return i + 16; });
  int most = 0;
  for (const auto& [link, crossings] : ahead) most = std::max(most, crossings);
  CHECK(most < 16);
  CHECK(way_between(3, 5) == way_between(5, 3));
}

TEST_CASE("shortest ways: any graph's are those of a plain search, however few are remembered") {
  constexpr std::uint32_t switches = 12;
  std::uint64_t state = 1;
  const auto draw = [&](std::uint64_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33) % below;
  };
  for (int trial = 0; trial < 30; ++trial) {
    const std::uint64_t latencies = trial % 3 == 0 ? 1 : 3;  // different ones
    std::vector<Arc> arcs;
    for (LinkId link = 0; link < 40; ++link) {
      arcs.push_back({static_cast<std::uint32_t>(draw(switches)),
                      static_cast<std::uint32_t>(draw(switches)), link,
                      Duration{static_cast<std::int64_t>(1 + draw(latencies))}});
    }
    std::vector<char> forwards(switches, 1);
    if (trial % 2 == 0) forwards[draw(switches)] = 0;
    SwitchGraph all(switches, arcs, forwards);
    SwitchGraph few(switches, arcs, forwards, 200);
    for (std::uint32_t to = 0; to < switches; ++to) {
      // Hops and latency to `to`, by going over all arcs until nothing changes.
      constexpr std::pair unreached(std::int64_t{1000}, std::int64_t{0});
      std::vector rest(switches, unreached);
      rest[to] = {0, 0};
      const auto over = [&](const Arc& arc) {
        return arc.to == to || forwards[arc.to] != 0
                   ? std::pair(rest[arc.to].first + 1, rest[arc.to].second + arc.latency.count())
                   : unreached;
      };
      for (std::uint32_t round = 0; round < switches; ++round) {
        for (const Arc& arc : arcs) rest[arc.from] = std::min(rest[arc.from], over(arc));
      }
      for (std::uint32_t from = 0; from < switches; ++from) {
        if (rest[from] >= unreached) continue;
        std::vector<LinkId> expected;
        const std::uint64_t spread = draw(1000);
        std::uint64_t left = spread;
        for (std::uint32_t at = from; at != to;) {
          std::vector<Arc> ways;
          for (const Arc& arc : arcs) {
            if (arc.from == at && over(arc) == rest[at]) ways.push_back(arc);
          }
          const Arc& taken = ways[left % ways.size()];
          left /= ways.size();
          expected.push_back(taken.link);
          at = taken.to;
        }
        std::vector<LinkId> way, again;
        all.walk(from, to, spread, way);
        few.walk(from, to, spread, again);
        REQUIRE(way == expected);
        REQUIRE(again == expected);
      }
    }
  }
}

TEST_CASE("fabrics: a scenario names them, and without a shape they are the smallest that fit") {
  struct Expected {
    std::string fabric;
    NodeId nodes;
    std::size_t links;
  };
  const Expected all[] = {
      {"crossbar", 10, 20},
      {"ring", 10, 20},
      {"torus", 27, 27 * 6},                     // 3 x 3 x 3
      {"torus", 28, 64 * 6},                     // 4 x 4 x 4
      {"hypercube", 32, 160},                    // 2^5
      {"hypercube", 33, 6 * 64},                 // 2^6
      {"fat_tree", 16, 96},                      // k = 4
      {"fat_tree", 17, 6 * 54},                  // k = 6, 54 hosts
      {"dragonfly", 72, 144 + 36 * 4 + 36 * 2},  // p = 2, a = 4, h = 2, g = 9; links to itself idle
      {"slim_fly", 200, 400 + 50 * 7},           // q = 5
      {"slim_fly", 201, 2 * 588 + 98 * 11},      // q = 7: k' = 11
      {"slim_fly", 589, 2 * 768 + 128 * 12},     // q = 8: k' = 12
      {"star", 10, 18},
      {"hyperx", 27, 54 + 9 * 4},      // 3 x 3 switches, 3 hosts each
      {"jellyfish", 16, 40 + 20 * 3},  // k = 4: 20 switches, a host each, 3 cables
  };
  for (const Expected& expected : all) {
    CAPTURE(expected.fabric);
    CAPTURE(expected.nodes);
    const Section section = network_test::section(
        {{"fabric", expected.fabric}, {"latency", "1 us"}, {"bandwidth", "1 GB/s"}});
    const auto build = read_fabric(section, expected.nodes, 1);
    section.finish();
    CHECK(build().links.size() == expected.links);
  }
}

TEST_CASE("fabrics: a shape that cannot be is refused, with what is wrong") {
  const auto refused = [](network_test::Keys keys, NodeId nodes, const std::string& message) {
    keys.insert(keys.end(), {{"latency", "1 us"}, {"bandwidth", "1 GB/s"}});
    const Section section = network_test::section(keys);
    CHECK_THROWS_WITH_AS(read_fabric(section, nodes, 1), doctest::Contains(message.c_str()),
                         ScenarioError);
  };
  refused({{"fabric", "torus"}, {"sides", "4, 4"}}, 17, "network.sides gives a fabric of 16 hosts");
  refused({{"fabric", "torus"}, {"sides", "4, 2.5"}}, 8, "whole numbers");
  refused({{"fabric", "fat_tree"}, {"k", "5"}}, 8, "must be even, got 5");
  refused({{"fabric", "fat_tree"}, {"k", "4"}}, 17, "16 hosts, expected at least 17");
  refused({{"fabric", "fat_tree"}, {"children", "4, 4"}, {"parents", "1"}}, 8, "as many numbers");
  refused({{"fabric", "dragonfly"}, {"routers", "2"}, {"global_links", "1"}, {"groups", "4"}}, 4,
          "at most a h + 1 = 3, got 4");
  refused({{"fabric", "slim_fly"}, {"q", "12"}}, 8, "must be the power of a prime");
  // Too many links. 3000 x 3000 switches with a host and 2 * 2999 neighbors each: 9e6 (1 + 2999) cables.
  refused({{"fabric", "hyperx"}, {"sides", "3000, 3000"}, {"hosts_per_switch", "1"}}, 8,
          "gives a fabric of 2 * 2.7e+10 links, of 16 bytes each 805 GiB, expected at most 1e+08");
  // Sides of one have links, too, which no message crosses: 1e6 points of 60 dimensions.
  std::string sides = "1000000";
  for (int d = 1; d < 60; ++d) sides += ", 1";
  refused({{"fabric", "torus"}, {"sides", sides}}, 8, "gives a fabric of 2 * 6e+07 links");
  // 100,000 switches with a host and 99,999 cables to others each.
  refused({{"fabric", "jellyfish"}, {"switches", "100000"}, {"degree", "99999"}}, 8,
          "gives a fabric of 2 * 5.00005e+09 links");
  // 100 hosts below 10 switches, each with 10,000 cables to each of 100,000 above.
  refused({{"fabric", "fat_tree"},
           {"children", "10, 10"},
           {"parents", "1, 100000"},
           {"cables", "1, 10000"}},
          8, "gives a fabric of 2 * 1e+10 links");
  refused({{"fabric", "jellyfish"}, {"switches", "5"}, {"degree", "5"}}, 5,
          "less than switches, 4");
  refused({{"fabric", "jellyfish"}, {"switches", "5"}, {"degree", "3"}, {"hosts_per_switch", "1"}},
          6, "network.switches gives a fabric of 5 hosts");
  refused({{"fabric", "hyperx"}, {"sides", "2, 2"}, {"hosts_per_switch", "1"}}, 5, "4 hosts");
  refused({{"fabric", "cube"}}, 8, "cube");
  refused({{"slow_hosts", "8"}}, 8, "must be numbers of hosts, 0 to 7, got 8");
  refused({{"nodes_per_host", "0"}}, 8, "must be from 1");
  refused({{"nodes_per_host", "2"}}, 8,
          "local_bandwidth is missing: what all messages within a host of nodes_per_host = 2");
}

}  // namespace starling::test_fabrics
