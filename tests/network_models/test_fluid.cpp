// The fluid network and its TCP variant: cases by hand, and times that SimGrid 3.32 gives for the
// same exchanges (with network/optim:Full, its correct mode). Files in reference/: one message over
// six networks; two flows with different round-trip times on one link; last and mean time of finish
// of exchange patterns among 64 nodes; the time of every node for some of them.

#include <algorithm>
#include <cmath>
#include <fstream>
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
                                true);
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
    network_models::Fluid network(chain, 2, rules_of(row.at("simgrid_model")), true);
    const auto bytes = static_cast<std::int64_t>(number(row, "bytes"));
    const network_test::ScriptedRun run(network, {{0, 0, 1, bytes}});
    const double found = 1e-12 * static_cast<double>(run.arrivals[0]);
    const double expected = number(row, "simgrid_time_s");
    CAPTURE(row.at("case"));
    CAPTURE(row.at("simgrid_model"));
    CAPTURE(bytes);
    // Ours are whole picoseconds.
    CHECK(std::abs(found - expected) <= 1e-9 * expected + 1e-12);
    worst = std::max(worst, deviation(found, expected));
  }
  MESSAGE("largest relative deviation ", worst);
}

TEST_CASE("fluid: two flows of different round-trip times share a link as in SimGrid") {
  double worst = 0;
  for (const Row& row : table("simgrid_rtt_sharing.csv")) {
    // Links 0 and 1 the shared one, there and back; 2, 3 and 4, 5 private ones, ten times as fast.
    const auto shared =
        link_of(number(row, "shared_bw_Bps"), number(row, "shared_latency_s"));
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
    network_models::Fluid network(fabric, 4, rules_of(row.at("simgrid_model")), true);
    const network_test::ScriptedRun run(network, {{0, 0, 2, 100'000'000}, {0, 1, 3, 100'000'000}});
    CAPTURE(row.at("simgrid_model"));
    CAPTURE(number(row, "private_latency_B_s"));
    const double a = deviation(1e-12 * static_cast<double>(run.arrivals[0]), number(row, "finish_A_s"));
    const double b = deviation(1e-12 * static_cast<double>(run.arrivals[1]), number(row, "finish_B_s"));
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

}  // namespace starling
