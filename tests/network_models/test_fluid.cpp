// The fluid network and its TCP variant: cases by hand, and times that SimGrid 3.32 gives for the
// same exchanges (with network/optim:Full, its correct mode). Files in reference/: one message over
// six networks; two flows with different round-trip times on one link; last and mean time of finish
// of exchange patterns among 64 nodes; the time of every node for some of them.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "network_models/fabrics.hpp"
#include "network_models/fluid.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/network_models/exchange_run.hpp"
#include "tests/network_models/scripted_run.hpp"

namespace starling {
namespace {

using Row = std::map<std::string, std::string>;

/// The rows of a table, by the names of its first line. The tests run in the project's root.
std::vector<Row> table(const std::string& name) {
  std::ifstream file("tests/network_models/reference/" + name);
  REQUIRE_MESSAGE(file.is_open(), name);
  const auto cells = [](const std::string& line) {
    std::vector<std::string> result;
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) result.push_back(cell);
    return result;
  };
  std::string line;
  std::getline(file, line);
  const auto names = cells(line);
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const auto values = cells(line);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i == 0) rows.emplace_back();
      rows.back()[names[i]] = values[i];
    }
  }
  return rows;
}

double number(const Row& row, const std::string& name) { return std::stod(row.at(name)); }

/// The rules of SimGrid's models: LV08, and CM02 with or without cross traffic; or plain sharing.
network_models::FlowRules rules_of(const std::string& model) {
  if (model == "maxmin_lat0") return {};
  network_models::FlowRules rules{.window = 4194304, .is_weighted = true};
  if (model == "CM02") rules.back_share = 0.05;
  if (model == "LV08" || model == "lv08") {
    rules.latency_factor = 13.01;
    rules.bandwidth_factor = 0.97;
    rules.weight_bytes = 20537;
    rules.back_share = 0.05;
  }
  return rules;
}

network_models::Fabric platform(const std::string& name, network_models::Link link) {
  using namespace network_models;
  if (name == "flat") return crossbar(64, link);
  if (name == "ring") return torus({64}, link);
  if (name == "torus3") return torus({4, 4, 4}, link);
  const NodeId parents = name == "fattree2t" ? 4 : 8;
  return fat_tree({.children = {8, 8}, .parents = {1, parents}, .cables = {1, 1}}, link);
}

network_models::Link link_of(double bytes_per_second, double latency) {
  return {bytes_per_second, from_seconds(latency)};
}

double deviation(double found, double expected) { return std::abs(found / expected - 1); }

/// Runs the exchange that a row of the reference describes.
network_test::ExchangeRun run_row(const std::string& name, const std::string& full_pattern,
                                  const std::string& model, int rounds) {
  const double latency = model == "maxmin_lat0" ? 0 : 5e-7;
  network_models::Fluid network(platform(name, link_of(12.5e9, latency)), 64, rules_of(model),
                                {.is_checked = true});
  const std::size_t suffix = full_pattern.find("_stagger1ms");
  const bool is_staggered = suffix != std::string::npos;
  std::vector<Time> start;
  for (int i = 0; i < 64; ++i) start.emplace_back(Duration{is_staggered ? i * 1'000'000'000LL : 0});
  return {network, network_test::exchange(full_pattern.substr(0, suffix), 64, rounds, 100'000'000),
          start};
}

}  // namespace

TEST_CASE("fluid: one message takes as long as in SimGrid") {
  double worst = 0;
  for (const Row& row : table("simgrid_p2p.csv")) {
    // A message from node 0 to node 1 over a chain of links of its own in each direction.
    const auto links = static_cast<network_models::LinkId>(number(row, "links"));
    const auto link = link_of(number(row, "link_bw_Bps"), number(row, "link_latency_s"));
    network_models::Fabric chain{
        std::vector<network_models::Link>(2 * links, link),
        [links](NodeId source, NodeId, std::vector<network_models::LinkId>& route) {
          for (network_models::LinkId i = 0; i < links; ++i) {
            route.push_back(source == 0 ? i : links + i);
          }
        }};
    network_models::Fluid network(chain, 2, rules_of(row.at("simgrid_model")),
                                  {.is_checked = true});
    const auto bytes = static_cast<std::int64_t>(number(row, "bytes"));
    const network_test::ScriptedRun run(network, {{0, 0, 1, bytes}});
    const double found = 1e-12 * static_cast<double>(run.arrivals[0]);
    const double expected = number(row, "simgrid_time_s");
    CAPTURE(row.at("case"));
    CAPTURE(row.at("simgrid_model"));
    CAPTURE(bytes);
    // Ours are whole picoseconds.
    CHECK(std::abs(found - expected) <= 1e-9 * expected + 1e-12);
    if (expected > 1e-3) worst = std::max(worst, deviation(found, expected));
  }
  MESSAGE("largest relative deviation of those above 1 ms ", worst);
}

TEST_CASE("fluid: two flows of different round-trip times share a link as in SimGrid") {
  double worst = 0;
  for (const Row& row : table("simgrid_rtt_sharing.csv")) {
    // Links 0 and 1 the shared one, there and back; 2, 3 and 4, 5 private ones, ten times as fast.
    const auto shared = link_of(number(row, "shared_bw_Bps"), number(row, "shared_latency_s"));
    const double fast = 10 * number(row, "shared_bw_Bps");
    const auto private_a = link_of(fast, number(row, "private_latency_A_s"));
    const auto private_b = link_of(fast, number(row, "private_latency_B_s"));
    const bool has_private =
        number(row, "private_latency_A_s") > 0 || number(row, "private_latency_B_s") > 0;
    network_models::Fabric fabric{
        {shared, shared, private_a, private_a, private_b, private_b},
        [=](NodeId source, NodeId destination, std::vector<network_models::LinkId>& route) {
          // Nodes 0 -> 2 is flow A, 1 -> 3 is flow B.
          const bool is_back = source >= 2;
          const auto way = static_cast<network_models::LinkId>(is_back ? 1 : 0);
          const NodeId first = std::min(source, destination);
          if (has_private) route.push_back((first == 0 ? 2 : 4) + way);
          route.push_back(way);
        }};
    network_models::Fluid network(fabric, 4, rules_of(row.at("simgrid_model")),
                                  {.is_checked = true});
    const network_test::ScriptedRun run(network, {{0, 0, 2, 100'000'000}, {0, 1, 3, 100'000'000}});
    CAPTURE(row.at("simgrid_model"));
    CAPTURE(number(row, "private_latency_B_s"));
    const double a =
        deviation(1e-12 * static_cast<double>(run.arrivals[0]), number(row, "finish_A_s"));
    const double b =
        deviation(1e-12 * static_cast<double>(run.arrivals[1]), number(row, "finish_B_s"));
    CHECK(a <= 1e-9);
    CHECK(b <= 1e-9);
    worst = std::max({worst, a, b});
  }
  MESSAGE("largest relative deviation ", worst);
}

TEST_CASE("fluid: exchanges among 64 nodes take as long as in SimGrid") {
  double worst = 0;
  for (const Row& row : table("simgrid_exchange.csv")) {
    const auto& model = row.at("simgrid_model");
    CAPTURE(row.at("platform"));
    CAPTURE(row.at("pattern"));
    CAPTURE(model);
    const auto run = run_row(row.at("platform"), row.at("pattern"), model,
                             static_cast<int>(number(row, "iters")));
    const double last = deviation(run.last_finish(), number(row, "simgrid_time_s"));
    const double mean = deviation(run.mean_finish(), number(row, "simgrid_mean_finish_s"));
    CHECK(last <= 1e-8);
    CHECK(mean <= 1e-8);
    worst = std::max({worst, last, mean});
  }
  MESSAGE("largest relative deviation ", worst);
}

TEST_CASE("fluid: every node of 64 finishes when it does in SimGrid") {
  // 12 exchanges, 64 rows each; a row's exchange is run when it is first met.
  double worst = 0;
  std::map<std::string, std::vector<Time>> finish_of;
  for (const Row& row : table("simgrid_finish_times.csv")) {
    const std::string name =
        row.at("platform") + " " + row.at("pattern") + " " + row.at("simgrid_model");
    if (!finish_of.contains(name)) {
      finish_of[name] =
          run_row(row.at("platform"), row.at("pattern"), row.at("simgrid_model"), 1).finish;
    }
    const auto node = static_cast<std::size_t>(number(row, "node"));
    const double off =
        deviation(to_seconds(finish_of[name][node]), number(row, "simgrid_finish_s"));
    CAPTURE(name);
    CAPTURE(node);
    CHECK(off <= 1e-8);
    worst = std::max(worst, off);
  }
  CHECK(finish_of.size() == 12);
  MESSAGE("largest relative deviation ", worst);
}

TEST_CASE("fluid: 16,384 messages on a fat tree of 4096 hosts take as long as in SimGrid") {
  // Four random permutations of 100 MB without latency; SimGrid 3.32 (Full): 0.104 s, and
  // 0.066563245233 s in the mean.
  const network_models::FatTree tree{{16, 16, 16}, {1, 16, 16}, {1, 1, 1}};
  network_models::Fluid network(network_models::fat_tree(tree, link_of(12.5e9, 0)), 4096, {});
  const network_test::ExchangeRun run(network,
                                      network_test::exchange("perm4", 4096, 1, 100'000'000));
  CHECK(run.messages() == 16'384);
  CHECK(deviation(run.last_finish(), 0.104) <= 1e-11);
  CHECK(deviation(run.mean_finish(), 0.066563245233) <= 1e-11);
}

// ----- by hand

namespace {

using Keys = std::vector<std::pair<std::string, std::string>>;
using Times = std::vector<std::int64_t>;

// Each of two links of a route costs 1 us, so a message sets off 2 us after its start; 1 GB/s is 1
// ns per byte.
const Keys simple = {{"kind", "fluid"}, {"latency", "1 us"}, {"bandwidth", "1 GB/s"}};

Keys with(Keys keys, const Keys& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

Times in_ns(const Times& picoseconds) {
  Times result;
  for (const std::int64_t time : picoseconds) {
    REQUIRE(time % 1'000 == 0);
    result.push_back(time / 1'000);
  }
  return result;
}

}  // namespace

TEST_CASE("fluid: a message meets another on its way and gives up half of the link") {
  // A from 0 to 2, 4000 B at 0, joins at 2000 ns. B from 1 to 2, 1000 B at 1000 ns, joins at 3000:
  // A has 3000 B left. Both get half: B is through at 3000 + 2000 = 5000. A, with 2000 B left, goes
  // on at full speed: 7000. C uses other links: 1000 + 2000 + 500.
  const auto model = network_test::network(simple, 5);
  const network_test::ScriptedRun run(
      *model, {{0, 0, 2, 4'000}, {1'000'000, 1, 2, 1'000}, {1'000'000, 3, 4, 500}});
  CHECK(in_ns(run.arrivals) == Times{7'000, 5'000, 3'500});
}

TEST_CASE("fluid: both directions of a cable carry full speed") {
  const auto model = network_test::network(simple, 2);
  const network_test::ScriptedRun run(*model, {{0, 0, 1, 1'000}, {0, 1, 0, 1'000}});
  CHECK(in_ns(run.arrivals) == Times{3'000, 3'000});
}

TEST_CASE("fluid: a small message of a pair does not overtake a large one, it comes right behind") {
  // Both join at 2000 ns and share: the small one, 100 B, is through at 2200, the large one, 1000
  // B, at 2000 + 200 + 900. An empty one takes no bandwidth, but keeps its place as well.
  const auto model = network_test::network(simple, 3);
  const network_test::ScriptedRun run(
      *model, {{0, 0, 1, 1'000}, {0, 0, 1, 100}, {0, 0, 1, 0}, {0, 2, 1, 0}});
  CHECK(in_ns(run.arrivals) == Times{3'100, 3'100, 3'100, 2'000});
  CHECK(run.order == std::vector<std::size_t>{3, 0, 1, 2});
}

TEST_CASE("fluid: without latency a message joins at once") {
  auto keys = simple;
  keys[1].second = "0 s";
  const auto model = network_test::network(keys, 3);
  const network_test::ScriptedRun run(*model, {{7'000, 0, 1, 1'000}, {7'000, 2, 1, 1'000}});
  CHECK(in_ns(run.arrivals) == Times{2'007, 2'007});
}

TEST_CASE("fluid: nodes of one host share its port, and a link between themselves") {
  // Nodes 0, 1 on host 0; 2, 3 on host 1. Two messages out of host 0: half of 1 GB/s each. Within
  // host 1: 100 ns, then 4 GB/s.
  const auto model = network_test::network(
      with(simple,
           {{"nodes_per_host", "2"}, {"local_latency", "100 ns"}, {"local_bandwidth", "4 GB/s"}}),
      4);
  const network_test::ScriptedRun run(*model,
                                      {{0, 0, 2, 1'000}, {0, 1, 3, 1'000}, {0, 2, 3, 4'000}});
  CHECK(in_ns(run.arrivals) == Times{4'000, 4'000, 1'100});
}

TEST_CASE("fluid: on a ring, messages share every link they both cross") {
  // 0 -> 2 and 1 -> 2 share the link from 1 to 2. The first has two links to pay, so joins at 2000
  // ns, the other at 1000 and is alone for 1000 ns. It has 1000 B left, both at half speed: 4000.
  // Then the first has 1000 B left: 5000.
  const auto model = network_test::network(with(simple, {{"fabric", "ring"}, {"check", "yes"}}), 6);
  const network_test::ScriptedRun run(*model, {{0, 0, 2, 2'000}, {0, 1, 2, 2'000}});
  CHECK(in_ns(run.arrivals) == Times{5'000, 4'000});
}

TEST_CASE("fluid: the cost of a link is that of the usual route") {
  // Crossbar: 2 us, 1 ns per byte. Ring of 5: 1, 2, 2, 1 hops: 1.5 us.
  CHECK(network_test::network(simple, 5)->link_cost().latency == Duration{2'000'000});
  CHECK(network_test::network(with(simple, {{"fabric", "ring"}}), 5)->link_cost().latency ==
        Duration{1'500'000});
  CHECK(network_test::network(simple, 1)->link_cost().latency == Duration{0});
  const auto model =
      network_test::network({{"kind", "tcp"}, {"latency", "1 us"}, {"bandwidth", "1 GB/s"}}, 4);
  CHECK(model->link_cost().latency == Duration{26'020'000});
  CHECK(model->link_cost().seconds_per_byte == doctest::Approx(1 / 0.97e9));
}

TEST_CASE("tcp: its keys are SimGrid's numbers, and can be changed one by one") {
  // 2 us of latency: 13.01 times that, then 0.97 GB/s: 26.02 us + 970 B / 0.97 GB/s.
  const Keys keys = {{"kind", "tcp"}, {"latency", "1 us"}, {"bandwidth", "1 GB/s"}};
  const network_test::Start start{0, 0, 1, 970};
  const auto arrival = [&](const Keys& more) {
    const auto model = network_test::network(with(keys, more), 3);
    return network_test::ScriptedRun(*model, {start}).arrivals[0];
  };
  CHECK(arrival({}) == 27'020'000);
  CHECK(arrival({{"latency_factor", "1"}}) == 3'000'000);
  CHECK(arrival({{"bandwidth_factor", "0.5"}}) == 26'020'000 + 1'940'000);
  // 400 B of window over a round trip of 4 us: 100 B/us, times 0.97.
  CHECK(arrival({{"window", "400 B"}}) == 26'020'000 + 10'000'000);
  CHECK(arrival({{"window", "0 B"}}) == 27'020'000);
}

TEST_CASE("fluid: mistakes in its keys are named") {
  CHECK_THROWS_WITH_AS(network_test::network({{"kind", "fluid"}, {"latency", "1 us"}}, 2),
                       doctest::Contains("network.bandwidth is missing"), ScenarioError);
  CHECK_THROWS_WITH_AS(network_test::network(with(simple, {{"k", "4"}}), 2),
                       doctest::Contains("network.k"), ScenarioError);
  CHECK_THROWS_WITH_AS(
      network_test::network(
          {{"kind", "tcp"}, {"latency", "1 us"}, {"bandwidth", "1 GB/s"}, {"cross_traffic", "2"}},
          2),
      doctest::Contains("must be from 0 to 1, got 2"), ScenarioError);
}

TEST_CASE("fluid: a transfer past the end of the clock is an error, not an early arrival") {
  // 1e18 B at 1 B/s is 1e18 s; the clock ends after 9.2e6 s.
  auto keys = simple;
  keys[2].second = "1 B/s";
  const auto model = network_test::network(keys, 2);
  CHECK_THROWS_WITH_AS(network_test::ScriptedRun(*model, {{0, 0, 1, 1'000'000'000'000'000'000}}),
                       doctest::Contains("106 days"), Error);
}

TEST_CASE("fluid: on every fabric random messages keep the rules of sharing, weighted or not") {
  for (const std::string fabric :
       {"crossbar", "dragonfly", "fat_tree", "hypercube", "hyperx", "jellyfish", "ring", "slim_fly",
        "star", "torus"}) {
    for (const std::string kind : {"fluid", "tcp"}) {
      CAPTURE(fabric);
      CAPTURE(kind);
      Random random(6, "every fabric");
      std::vector<network_test::Start> starts;
      for (int i = 0; i < 300; ++i) {
        const auto source = static_cast<NodeId>(random.below(50));
        const auto step = static_cast<NodeId>(1 + random.below(49));
        starts.push_back({static_cast<std::int64_t>(random.below(20) * 5'000'000), source,
                          (source + step) % 50, std::int64_t{1} << random.below(20)});
      }
      const auto model = network_test::network({{"kind", kind},
                                                {"fabric", fabric},
                                                {"latency", "1 us"},
                                                {"bandwidth", "1 GB/s"},
                                                {"check", "yes"}},
                                               50);
      const network_test::ScriptedRun run(*model, starts);
      CHECK(std::ranges::count(run.deliveries, 1) == 300);
    }
  }
}

}  // namespace starling
