// The fluid network and its TCP variant: cases by hand, and times that SimGrid 3.32 gives for the
// same exchanges (with network/optim:Full, its correct mode). Files in reference/: one message over
// six networks; two flows with different round-trip times on one link; last and mean time of finish
// of exchange patterns among 64 nodes; the time of every node for some of them.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "network_models/fabrics.hpp"
#include "network_models/fluid.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/network_models/exchange_run.hpp"
#include "tests/network_models/scripted_run.hpp"
#include "tests/network_models/simple_network.hpp"
#include "tests/network_models/smpi_factors.hpp"
#include "tests/support/reference_table.hpp"
#include "tests/support/relative.hpp"

namespace starling::test_fluid {
namespace {

using network_test::in_ns;
using network_test::Keys;
using network_test::simple;
using network_test::Times;
using network_test::with;
using test::number;
using test::Row;

std::vector<Row> table(const std::string& name) {
  return test::reference_table("tests/network_models/reference/" + name);
}

/// The rules of SimGrid's models: LV08, and CM02 with or without cross traffic; SMPI with its factors by size; or plain sharing.
network_models::FlowRules rules_of(const std::string& model) {
  if (model == "maxmin_lat0") return {};
  network_models::FlowRules rules{.window = 4194304, .is_weighted = true};
  if (model == "SMPI") {
    const auto factor = [](const char* text) {
      const Section section = network_test::section({{"factor", text}});
      return network_models::read_size_factor(section, "factor", 1, 1, "");
    };
    rules.latency_factor = factor(network_test::smpi_latency_factor);
    rules.bandwidth_factor = factor(network_test::smpi_bandwidth_factor);
    rules.weight_bytes = 8775;
  }
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
    CHECK(off <= 1e-9);
    worst = std::max(worst, off);
  }
  CHECK(finish_of.size() == 12);
  MESSAGE("largest relative deviation ", worst);
}

TEST_CASE("fluid: 16,384 messages on a fat tree of 4096 hosts take as long as in SimGrid") {
  // Four random permutations of 100 MB without latency; SimGrid 3.32 (Full): 0.104 s, and
  // 0.066563245233 s in the mean.
  const network_models::FatTree tree{{16, 16, 16}, {1, 16, 16}, {1, 1, 1}};
  network_models::Fluid network(network_models::fat_tree(tree, link_of(12.5e9, 0)), 4096, {},
                                {.is_checked = true});
  const network_test::ExchangeRun run(network,
                                      network_test::exchange("perm4", 4096, 1, 100'000'000));
  CHECK(run.messages() == 16'384);
  CHECK(deviation(run.last_finish(), 0.104) <= 1e-11);
  CHECK(deviation(run.mean_finish(), 0.066563245233) <= 1e-11);
}

// ----- by hand

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

TEST_CASE("fluid: messages of a pair that are not concurrent follow each other") {
  // The large one, 1000 B, is through at 2000 + 1000 ns, the small one, ready since 2000, 100 ns
  // later; the empty one with it. Node 2's 1000 B share with one of them at a time: at half speed
  // from 2000, the large one and they are through at 4000, and the small one at 4100.
  const auto model = network_test::network(with(simple, {{"concurrent", "no"}}), 3);
  const network_test::ScriptedRun alone(
      *model, {{0, 0, 1, 1'000}, {0, 0, 1, 100}, {0, 0, 1, 0}, {0, 2, 1, 0}});
  CHECK(in_ns(alone.arrivals) == Times{3'000, 3'100, 3'100, 2'000});
  CHECK(alone.order == std::vector<std::size_t>{3, 0, 1, 2});
  const network_test::ScriptedRun beside(*model,
                                         {{0, 0, 1, 1'000}, {0, 0, 1, 100}, {0, 2, 1, 1'000}});
  CHECK(in_ns(beside.arrivals) == Times{4'000, 4'100, 4'000});
  // One that is not ready when its predecessor is through pays the rest of its latency first.
  const network_test::ScriptedRun late(*model, {{0, 0, 1, 1'000}, {2'500'000, 0, 1, 100}});
  CHECK(in_ns(late.arrivals) == Times{3'000, 4'600});
}

TEST_CASE("fluid: messages of a stream follow each other, whatever comes in between") {
  // A and C are of a stream, B is not. A and B join at 2000 ns and share: B, 1000 B, is through at 4000, A, 2000 B, at 5000.
  // C, 500 B, sets off then: 5000 + 2000 + 500.
  const auto model = network_test::network(simple, 3);
  const network_test::ScriptedRun run(*model,
                                      {{0, 0, 1, 2'000, 7}, {0, 0, 1, 1'000}, {0, 0, 1, 500, 7}});
  CHECK(in_ns(run.arrivals) == Times{5'000, 5'000, 7'500});
  // So do two streams that alternate. A's and B's share until B's is through; the next of B's sets off when B's is
  // delivered, behind A's, at 5000, as A's does: they join at 7000 and share, 500 B and 1000 B.
  const network_test::ScriptedRun two(
      *model, {{0, 0, 1, 2'000, 7}, {0, 0, 1, 1'000, 8}, {0, 0, 1, 500, 7}, {0, 0, 1, 1'000, 8}});
  CHECK(in_ns(two.arrivals) == Times{5'000, 5'000, 8'000, 8'500});
  // Streams of other pairs do not matter.
  const network_test::ScriptedRun apart(*model, {{0, 0, 1, 1'000, 7}, {0, 2, 1, 1'000, 7}});
  CHECK(in_ns(apart.arrivals) == Times{4'000, 4'000});
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
  const auto model = network_test::network(with(simple, {{"fabric", "ring"}}), 6);
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
  CHECK(model->link_cost().seconds_per_byte == test::relative(1 / 0.97e9));
}

TEST_CASE("fluid: mistakes in its keys are named") {
  CHECK_THROWS_WITH_AS(network_test::network({{"kind", "fluid"}, {"latency", "1 us"}}, 2),
                       doctest::Contains("network.bandwidth is missing"), ScenarioError);
  CHECK_THROWS_WITH_AS(network_test::network(with(simple, {{"k", "4"}}), 2),
                       doctest::Contains("test.ini:7: network.k is not a key here"), ScenarioError);
  CHECK_THROWS_WITH_AS(
      network_test::network(
          {{"kind", "tcp"}, {"latency", "1 us"}, {"bandwidth", "1 GB/s"}, {"cross_traffic", "2"}},
          2),
      doctest::Contains("must be from 0 to 1, got 2"), ScenarioError);
}

// ----- what links carried

TEST_CASE("fluid: the log knows bytes, time in use, peak rate and stretches of every link") {
  // As in the first case by hand: A alone from 2000 to 3000 ns, with B until 5000, alone until 7000.
  const auto model = network_test::network(simple, 5);
  TimelineEnd timeline(Time{Duration{6'000'000}});
  NetworkLog log(timeline);
  model->watch(log);
  const network_test::ScriptedRun run(*model, {{0, 0, 2, 4'000}, {1'000'000, 1, 2, 1'000}});
  Recorder recorder;
  log.report(recorder);
  const std::vector<LinkTotals> expected = {
      {"host 0 up", 1e9, 1e9, Duration{5'000'000}, 4'000, 1},
      {"host 1 up", 1e9, 5e8, Duration{2'000'000}, 1'000, 1},
      {"host 2 down", 1e9, 1e9, Duration{5'000'000}, 5'000, 2}};
  CHECK(recorder.links == expected);
  const auto at = [](std::int64_t ns) { return Time{Duration{1'000 * ns}}; };
  std::vector<LinkSegment> up;
  for (const LinkSegment& segment : recorder.link_timeline) {
    if (segment.link == 0) up.push_back(segment);
  }
  // Cut at 6000.
  CHECK(up == std::vector<LinkSegment>{{0, 1e9, at(2'000), at(3'000)},
                                       {0, 5e8, at(3'000), at(5'000)},
                                       {0, 1e9, at(5'000), at(6'000)}});
}

TEST_CASE("fluid: what messages under way have brought across by the end of a run counts") {
  // At 4000 ns A has sent 1000 bytes alone and 500 beside B; with factors of 0.5 by size half as many.
  const Keys by_size = {{"kind", "tcp"},         {"latency", "1 us"},
                        {"bandwidth", "1 GB/s"}, {"latency_factor", "1"},
                        {"window", "0 B"},       {"weight_bytes", "0 B"},
                        {"cross_traffic", "0"},  {"bandwidth_factor", "0 B: 0.5"}};
  for (const auto& [keys, share] : {std::pair(simple, 2), std::pair(by_size, 1)}) {
    const auto model = network_test::network(keys, 5);
    TimelineEnd timeline(Time::max());
    NetworkLog log(timeline);
    model->watch(log);
    const network_test::ScriptedRun run(*model, {{0, 0, 2, 4'000}, {1'000'000, 1, 2, 1'000}},
                                        Time{Duration{4'000'000}});
    log.pass_to(run.now());
    Recorder recorder;
    log.report(recorder);
    log.report(recorder);  // replaces the one before
    CHECK(recorder.links == std::vector<LinkTotals>{
                                {"host 0 up", 1e9, 1e9, Duration{2'000'000}, share * 750, 1},
                                {"host 1 up", 1e9, 5e8, Duration{1'000'000}, share * 250, 1},
                                {"host 2 down", 1e9, 1e9, Duration{2'000'000}, share * 1'000, 2}});
    const auto at = [](std::int64_t ns) { return Time{Duration{1'000 * ns}}; };
    CHECK(recorder.link_timeline.back() == LinkSegment{2, 1e9, at(2'000), at(4'000)});
  }
}

TEST_CASE("fluid: the bytes of all links are those of the messages times their hops") {
  const auto model =
      network_test::network(with(simple, {{"fabric", "torus"}, {"sides", "4, 4"}}), 16);
  TimelineEnd timeline;
  NetworkLog log(timeline);
  model->watch(log);
  std::vector<network_test::Start> starts;
  // 0 -> 5 is one step along each side, 0 -> 2 two along one: 2 hops each; 0 -> 1 one.
  for (NodeId i = 0; i < 16; ++i) {
    starts.push_back({0, i, (i / 4 * 4 + (i + 1) % 4 + 4) % 16, 1'000});
    starts.push_back({0, i, i / 4 * 4 + (i + 1) % 4, 10});
  }
  const network_test::ScriptedRun run(*model, starts);
  Recorder recorder;
  log.report(recorder);
  std::int64_t bytes = 0;
  double longest = 0;
  for (const LinkTotals& link : recorder.links) {
    bytes += link.bytes;
    longest = std::max(longest, link.peak_rate);
  }
  CHECK(bytes == 16 * (2 * 1'000 + 10));
  CHECK(longest == doctest::Approx(1e9));
  CHECK(recorder.link_timeline.empty());
}

TEST_CASE("fluid: a log tells how many messages shared a link at once") {
  // Three leave host 0, two of them for host 1, which two others send to later: four at once there. All end a ms later.
  auto model = network_test::network(with(simple, {{"fabric", "crossbar"}}), 6);
  TimelineEnd timeline;
  NetworkLog log(timeline);
  model->watch(log);
  const network_test::ScriptedRun run(*model, {{0, 0, 1, 1'000'000},
                                               {0, 0, 1, 1'000'000},
                                               {0, 0, 2, 1'000'000},
                                               {500'000'000, 3, 1, 1'000'000},
                                               {500'000'000, 4, 1, 1'000'000}});
  Recorder recorder;
  log.report(recorder);
  std::map<std::string, std::int64_t> most;
  for (const LinkTotals& link : recorder.links) most[link.name] = link.most_messages;
  CHECK(most["host 0 up"] == 3);
  CHECK(most["host 1 down"] == 4);
  CHECK(most["host 2 down"] == 1);
  CHECK(most["host 3 up"] == 1);
}

// ----- with less accuracy

TEST_CASE("fluid: with accuracy = 0.001 an exchange takes as long to 0.1 %") {
  // Three rounds of random 4-regular exchanges over the few global links of a dragonfly, in which
  // every node goes on by itself: sharing changes all the time, all over the network.
  const auto fabric = network_models::dragonfly({4, 4, 4, 16}, link_of(12.5e9, 5e-7));
  const auto scripts = network_test::exchange("perm4", 256, 3, 100'000'000);
  const auto finish = [&](double accuracy) {
    network_models::Fluid network(fabric, 256, {}, {.accuracy = accuracy, .is_checked = true});
    return network_test::ExchangeRun(network, scripts).finish;
  };
  const auto exact = finish(0);
  const auto near = finish(0.001);
  double worst = 0;
  double mean = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double off = deviation(to_seconds(near[i]), to_seconds(exact[i]));
    worst = std::max(worst, off);
    mean += off / 256;
  }
  MESSAGE("times of finish are off by at most ", worst, ", in the mean by ", mean);
  CHECK(mean > 0);  // (it is used)
  CHECK(worst <= 1e-3);
  CHECK(mean <= 1e-4);
}

TEST_CASE("fluid: a transfer past the end of the clock is an error, not an early arrival") {
  // 1e18 B at 1 B/s is 1e18 s; the clock ends after 9.2e6 s.
  auto keys = simple;
  keys[2].second = "1 B/s";
  const auto model = network_test::network(keys, 2);
  CHECK_THROWS_WITH_AS(network_test::ScriptedRun(*model, {{0, 0, 1, 1'000'000'000'000'000'000}}),
                       doctest::Contains("106 days"), Error);
}

TEST_CASE("fluid: a latency past the end of the clock is an error") {
  const auto refusal = [](NodeId nodes, const std::string& factor) {
    return [=] {
      network_test::network({{"kind", "tcp"},
                             {"fabric", "ring"},
                             {"latency", "60 s"},
                             {"bandwidth", "1 GB/s"},
                             {"latency_factor", factor}},
                            nodes);
    };
  };
  CHECK_NOTHROW(refusal(100, "1")());
  CHECK_THROWS_WITH_AS(refusal(500, "1000")(),
                       doctest::Contains("virtual time passes the end of the clock"), Error);
  CHECK_THROWS_WITH_AS(refusal(400'000, "1")(),
                       doctest::Contains("virtual time passes the end of the clock"), Error);
}

TEST_CASE("fluid: on every fabric random messages keep the rules of sharing, weighted or not") {
  for (const std::string fabric : {"crossbar", "dragonfly", "fat_tree", "hypercube", "hyperx",
                                   "jellyfish", "ring", "slim_fly", "star", "torus"}) {
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

}  // namespace starling::test_fluid
