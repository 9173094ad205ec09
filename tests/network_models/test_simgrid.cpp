// Uneven exchanges over fabrics of odd shapes, read from keys, take as long as in SimGrid 3.32 (network/optim:Full, its
// correct mode): reference/simgrid_uneven.csv has the time of finish of every node, tools/bench/compare_simgrid.py
// makes it. test_fluid.cpp has even exchanges among 64 nodes.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/network_models/exchange_run.hpp"
#include "tests/network_models/scripted_run.hpp"
#include "tests/support/reference_table.hpp"

namespace starling::test_simgrid {
namespace {

using network_test::Keys;
using test::number;
using test::Row;

/// Keys of [network] for the fabric and the model of a row.
Keys keys_of(const Row& row) {
  const std::string& model = row.at("simgrid_model");
  Keys keys = {
      {"kind", model == "maxmin_lat0" ? "fluid" : "tcp"},
      {"bandwidth", row.at("link_bw_Bps") + " B/s"},
      {"latency", fmt::format("{} ps", std::llround(1e12 * number(row, "link_latency_s")))},
      {"check", "yes"}};
  if (model.starts_with("cm02")) {
    keys.insert(keys.end(),
                {{"latency_factor", "1"}, {"bandwidth_factor", "1"}, {"weight_bytes", "0 B"}});
  }
  if (model.ends_with("nocross")) keys.emplace_back("cross_traffic", "0");
  const std::string& fabric = row.at("fabric");
  for (std::size_t begin = 0; begin < fabric.size();) {
    const std::size_t end = std::min(fabric.find(" | ", begin), fabric.size());
    const std::size_t equals = fabric.find(" = ", begin);
    keys.emplace_back(fabric.substr(begin, equals - begin),
                      fabric.substr(equals + 3, end - equals - 3));
    begin = end + 3;
  }
  return keys;
}

/// In each step two permutations, each node to the one after it, 1 B to 100 MB.
std::vector<network_test::Script> uneven_exchange(NodeId nodes, int rounds) {
  std::vector<network_test::Script> scripts(static_cast<std::size_t>(nodes),
                                            network_test::Script(static_cast<std::size_t>(rounds)));
  for (std::uint64_t p = 0; p < 2 * static_cast<std::uint64_t>(rounds); ++p) {
    const auto order = network_test::reference_permutation(nodes, p);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::uint64_t k = p * order.size() + i;
      std::uint64_t largest = 10;
      for (std::uint64_t digits = k % 8; digits > 0; --digits) largest *= 10;
      std::uint64_t state = k;
      const std::uint64_t bytes = 1 + network_test::splitmix64(state) % largest;
      const NodeId source = order[i];
      const NodeId destination = order[(i + 1) % order.size()];
      scripts[static_cast<std::size_t>(source)][p / 2].sends.push_back(
          {destination, static_cast<std::int64_t>(bytes)});
      scripts[static_cast<std::size_t>(destination)][p / 2].receives.push_back(source);
    }
  }
  return scripts;
}

/// Within 2 ms.
std::vector<Time> uneven_start(NodeId nodes) {
  std::vector<Time> start;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(nodes); ++i) {
    std::uint64_t state = (std::uint64_t{1} << 32) + i;
    start.emplace_back(
        Duration{static_cast<std::int64_t>(network_test::splitmix64(state) % 2'000'000'000)});
  }
  return start;
}

}  // namespace

TEST_CASE(
    "uneven messages between nodes that start at different times take as long as in SimGrid") {
  double worst = 0;
  const auto rows = test::reference_table("tests/network_models/reference/simgrid_uneven.csv");
  for (const Row& row : rows) {
    CAPTURE(row.at("fabric"));
    CAPTURE(row.at("simgrid_model"));
    const auto nodes = static_cast<NodeId>(number(row, "N"));
    const auto network = network_test::network(keys_of(row), nodes);
    const network_test::ExchangeRun run(
        *network, uneven_exchange(nodes, static_cast<int>(number(row, "rounds"))),
        uneven_start(nodes));
    std::istringstream expected(row.at("simgrid_finish_s"));
    for (const Time finish : run.finish) {
      double seconds = 0;
      expected >> seconds;
      const double off = std::abs(to_seconds(finish) / seconds - 1);
      CHECK(off <= 1e-9);
      worst = std::max(worst, off);
    }
  }
  CHECK(rows.size() == 10);
  MESSAGE("largest relative deviation ", worst);
}

}  // namespace starling::test_simgrid
