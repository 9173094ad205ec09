// Whole scenarios end when the same exchanges end in SimGrid 3.32 (network/optim:Full, its correct mode): the tables of
// tests/network_models/reference, this time through scenario, algorithm, engine and network model. A timing workload
// brings the bytes, and gradients take no time, so that what is left is messages.
//
// A message sets off when both sides have come to it, and a node goes on when its own messages, too, are through: eager_limit.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "scenarios/assemble.hpp"
#include "tests/network_models/exchange_run.hpp"
#include "tests/network_models/smpi_factors.hpp"
#include "tests/support/reference_table.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/temporary_directory.hpp"
#include "topology/mixing.hpp"

namespace starling::test_simgrid_runs {
namespace {

using test::number;
using test::Row;

std::vector<Row> table(const std::string& name) {
  return test::reference_table("tests/network_models/reference/" + name);
}

double deviation(double found, double expected) { return std::abs(found / expected - 1); }

/// [network] with the rules of one of SimGrid's models; the latency is that of a link.
std::string network_of(const std::string& model, double bytes_per_second, double latency) {
  std::string text = fmt::format("bandwidth = {} B/s\nlatency = {} ps\ncheck = yes\n",
                                 bytes_per_second, std::llround(1e12 * latency));
  if (model == "maxmin_lat0") return "kind = fluid\n" + text;
  text = "kind = tcp\n" + text;
  if (model == "LV08" || model == "lv08") return text;
  if (model == "SMPI") {
    return text + fmt::format("latency_factor = {}\nbandwidth_factor = {}\nweight_bytes = 8775 B\n",
                              network_test::smpi_latency_factor,
                              network_test::smpi_bandwidth_factor);
  }
  text += "latency_factor = 1\nbandwidth_factor = 1\nweight_bytes = 0 B\n";
  return model == "CM02" ? text : text + "cross_traffic = 0\n";
}

struct Experiment {
  NodeId nodes;
  Step steps;
  std::int64_t bytes;
  std::string network;    // text of the section
  std::string topology;   // its kind
  std::string algorithm;  // text of the section
  std::string compute = "gradient = 0 s\n";
  /// In place of `topology`: one that cannot be written in a scenario because it is not connected.
  std::optional<Topology> exchange = {};
};

Recorder run(Experiment experiment) {
  const std::string text = fmt::format(
      "[run]\nnodes = {}\nsteps = {}\n[topology]\nkind = {}\n[network]\n{}[compute]\n{}"
      "[workload]\nkind = timing\nbytes = {} B\n[algorithm]\n{}\nlearning_rate = 0.1\n",
      experiment.nodes, experiment.steps, experiment.topology, experiment.network,
      experiment.compute, experiment.bytes, experiment.algorithm);
  Assembly parts = assemble(Scenario::parse(text, "simgrid.ini"));
  if (experiment.exchange)
    parts.topology = std::make_unique<Topology>(std::move(*experiment.exchange));
  return test::simulated(std::move(parts))->recorder();
}

std::vector<double> finish_times(const Recorder& recorder) {
  std::vector<double> times;
  for (const NodeTotals& node : recorder.nodes) times.push_back(to_seconds(node.finished));
  return times;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// A topology in which nodes send what the scripts of a pattern say, step by step.
Topology topology_of(const std::vector<network_test::Script>& scripts) {
  std::vector<std::vector<Topology::Arc>> phases(scripts[1].size());
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    for (std::size_t k = 0; k < scripts[i].size(); ++k) {
      for (const network_test::Post& post : scripts[i][k].sends) {
        phases[k].push_back({static_cast<NodeId>(i), post.peer, 1.0 / 64});
      }
    }
  }
  return topologies::complete_rows(static_cast<NodeId>(scripts.size()), phases);
}

std::string fabric_of(const std::string& platform) {
  static const std::map<std::string, std::string> fabrics = {
      {"flat", "fabric = crossbar\n"},
      {"ring", "fabric = ring\n"},
      {"torus3", "fabric = torus\nsides = 4, 4, 4\n"},
      {"fattree", "fabric = fat_tree\nchildren = 8, 8\nparents = 1, 8\n"},
      {"fattree2t", "fabric = fat_tree\nchildren = 8, 8\nparents = 1, 4\n"}};
  return fabrics.at(platform);
}

/// The scenario whose algorithm sends what the pattern does: 100 MB per model among 64 nodes.
Experiment experiment_of(const std::string& platform, const std::string& pattern,
                         const std::string& model, Step rounds) {
  const double latency = model == "maxmin_lat0" ? 0 : 5e-7;
  Experiment experiment{
      .nodes = 64,
      .steps = rounds,
      .bytes = 100'000'000,
      .network = network_of(model, 12.5e9, latency) + fabric_of(platform) + "eager_limit = 0 B\n",
      .topology = "complete",
      .algorithm = "kind = dpsgd"};
  if (pattern == "nbr_ring") {
    experiment.topology = "ring";
  } else if (pattern == "exp1") {
    experiment.topology = "one_peer_exponential";
  } else if (pattern == "rd") {
    experiment.algorithm = "kind = allreduce\ncollective = recursive_doubling";
  } else if (pattern == "rab") {
    experiment.algorithm = "kind = allreduce\ncollective = rabenseifner";
  } else if (pattern == "ring_ar") {
    experiment.algorithm = "kind = allreduce\ncollective = ring";
  } else if (pattern == "wagma16") {
    experiment.algorithm = "kind = wagma\ngroup_size = 16\nactivation = full\ntau = 1000";
  } else if (pattern == "perm4") {
    // Nodes send to four peers at once, and to some of them twice: one step for each, and three more in which nobody
    // sends. None takes time; a node waits for what comes in step k only at the end of step k + 3.
    auto scripts = network_test::exchange(pattern, 64, 1, experiment.bytes);
    for (network_test::Script& script : scripts) {
      const std::vector<network_test::Post> sends = std::exchange(script, {}).at(0).sends;
      for (const network_test::Post& send : sends) script.push_back({{send}, {}});
      script.resize(7);
    }
    experiment.network = network_of(model, 12.5e9, latency) + fabric_of(platform);
    experiment.exchange = topology_of(scripts);
    experiment.steps = 7;
    experiment.algorithm = "kind = overlap_sgp\npeers = topology\ntau = 3";
  } else {
    experiment.exchange = topology_of(
        network_test::exchange(pattern, 64, static_cast<int>(rounds), experiment.bytes));
  }
  return experiment;
}

}  // namespace

TEST_CASE("exchanges of 64 nodes, run as scenarios, end when they do in SimGrid") {
  // Per pattern and platform, for maxmin_lat0, cm02_nocross and lv08: = if the last node and the mean over nodes are
  // compared, > if only the last.
  const std::vector<std::string> platforms = {"flat", "ring", "torus3", "fattree", "fattree2t"};
  const std::vector<std::string> models = {"maxmin_lat0", "cm02_nocross", "lv08"};
  const std::map<std::string, std::vector<std::string>> covered = {
      {"nbr_ring", {"===", "===", "===", "===", "==="}},
      {"exp1", {"===", "===", "===", "===", "==="}},
      {"match", {"===", "===", "===", "===", "==="}},
      {"rd", {"===", "===", "===", "===", "==="}},
      {"rab", {"===", "===", "===", "===", "==="}},
      {"wagma16", {"===", "===", "===", "===", "==="}},
      {"ring_ar", {"===", "===", "===", "===", "==="}},
      {"perm4", {">>>", ">>>", ">>>", ">>>", ">>>"}},
      {"incast", {"===", "===", "===", "===", "==="}}};
  double worst = 0;
  std::map<char, int> rows;
  for (const Row& row : table("simgrid_exchange.csv")) {
    const std::string& platform = row.at("platform");
    const std::string& pattern = row.at("pattern");
    const std::string& model = row.at("simgrid_model");
    const auto line = covered.find(pattern);
    if (line == covered.end()) continue;
    const auto column = std::ranges::find(platforms, platform) - platforms.begin();
    const auto place = std::ranges::find(models, model) - models.begin();
    const char what =
        line->second.at(static_cast<std::size_t>(column)).at(static_cast<std::size_t>(place));
    ++rows[what];
    const auto rounds = static_cast<Step>(number(row, "iters"));
    const auto finish = finish_times(run(experiment_of(platform, pattern, model, rounds)));
    const double last = deviation(std::ranges::max(finish), number(row, "simgrid_time_s"));
    CAPTURE(platform);
    CAPTURE(pattern);
    CAPTURE(model);
    CHECK(last <= 1e-8);
    worst = std::max(worst, last);
    if (what == '>') continue;
    const double off_mean = deviation(mean(finish), number(row, "simgrid_mean_finish_s"));
    CHECK(off_mean <= 1e-8);
    worst = std::max(worst, off_mean);
  }
  CHECK(rows['='] == 120);
  CHECK(rows['>'] == 15);
  MESSAGE("largest relative deviation ", worst);
}

TEST_CASE("nodes that start one millisecond after the other end when they do in SimGrid") {
  // The gradient of the first step takes node i i milliseconds, and nobody sends before. perm4's double messages are no step
  // of an algorithm, so its rows are left out.
  const test::TemporaryDirectory directory;
  std::string starts;
  for (int i = 0; i < 64; ++i) starts += fmt::format("{}{}", i == 0 ? "" : ",", 1e-3 * i);
  std::string rest = "0";
  for (int i = 1; i < 64; ++i) rest += ",0";
  int rows = 0;
  double worst = 0;
  for (const Row& row : table("simgrid_exchange.csv")) {
    const std::string& name = row.at("pattern");
    const std::size_t suffix = name.find("_stagger1ms");
    if (suffix == std::string::npos || name.starts_with("perm4")) continue;
    const std::string& model = row.at("simgrid_model");
    const auto rounds = static_cast<Step>(number(row, "iters"));
    Experiment experiment =
        experiment_of(row.at("platform"), name.substr(0, suffix), model, rounds);
    std::string trace = starts + "\n";
    for (Step k = 1; k < rounds; ++k) trace += rest + "\n";
    experiment.compute =
        fmt::format("distribution = trace\ntrace = {}\n", directory.write("trace.csv", trace));
    experiment.algorithm = "kind = dpsgd\norder = adapt_then_combine";
    const auto finish = finish_times(run(std::move(experiment)));
    CAPTURE(row.at("platform"));
    CAPTURE(name);
    CAPTURE(model);
    const double last = deviation(std::ranges::max(finish), number(row, "simgrid_time_s"));
    const double off_mean = deviation(mean(finish), number(row, "simgrid_mean_finish_s"));
    CHECK(last <= 1e-8);
    CHECK(off_mean <= 1e-8);
    worst = std::max({worst, last, off_mean});
    ++rows;
  }
  CHECK(rows == 12);
  MESSAGE("largest relative deviation ", worst);
}

TEST_CASE("one late node makes a synchronous sum later once, not for ever") {
  // Recursive doubling among 4 nodes takes 0.2 s a step; node 0 came 50 ms late to the first.
  const test::TemporaryDirectory directory;
  std::string trace = "0.05,0,0,0\n";
  for (int k = 1; k < 20; ++k) trace += "0,0,0,0\n";
  Experiment experiment{.nodes = 4,
                        .steps = 20,
                        .bytes = 100'000'000,
                        .network = network_of("maxmin_lat0", 1e9, 0),
                        .topology = "complete",
                        .algorithm = "kind = allreduce\ncollective = recursive_doubling"};
  experiment.compute =
      fmt::format("distribution = trace\ntrace = {}\n", directory.write("trace.csv", trace));
  const std::string network = experiment.network;
  const auto seconds_with = [&](const char* keys) {
    experiment.network = network + keys;
    return std::ranges::max(finish_times(run(experiment)));
  };
  // Its first message shares node 1's port with that of node 3's second round, which nobody has asked for.
  CHECK(seconds_with("") == doctest::Approx(20 * 0.2 + 0.1).epsilon(1e-9));
  CHECK(seconds_with("eager_limit = 8 KiB\n") == doctest::Approx(20 * 0.2 + 0.05).epsilon(1e-9));
  CHECK(seconds_with("blocking_collectives = no\n") > 1.5 * (20 * 0.2 + 0.05));
}

TEST_CASE("no node leaves a ring while chunks that it has sent still queue up at its host's port") {
  // Two hosts of eight nodes; the port of each carries 2 * 15 chunks of 1 / 16 in each of 10 steps, after gradients of 0.5 s.
  Experiment experiment{.nodes = 16,
                        .steps = 10,
                        .bytes = 400'000'000,
                        .network = network_of("maxmin_lat0", 1e9, 0) +
                                   "nodes_per_host = 8\nlocal_bandwidth = 1000 TB/s\n",
                        .topology = "complete",
                        .algorithm = "kind = allreduce\ncollective = ring\noverlap = none"};
  experiment.compute = "gradient = 500 ms\n";
  const double step = 0.5 + 2 * 15 / 16.0 * 0.4;
  CHECK(std::ranges::max(finish_times(run(experiment))) ==
        doctest::Approx(10 * step).epsilon(1e-4));
  experiment.network += "blocking_collectives = no\n";
  CHECK(std::ranges::max(finish_times(run(experiment))) < 0.95 * 10 * step);
}

TEST_CASE("chunks of a model without numbers are equal, so that nodes around a ring keep in step") {
  // 100 MB over 12.5 GB/s: 2 (n - 1) chunks of 100 MB / n, one after the other. With chunks of whole floats, of which some
  // are larger, nodes got apart and messages met: 0.07 % more on 128 nodes, 0.13 % on 256.
  for (const NodeId nodes : {64, 96, 128, 256}) {
    const auto time_of = [nodes](const std::string& collective) {
      return std::ranges::max(
          finish_times(run({.nodes = nodes,
                            .steps = 1,
                            .bytes = 100'000'000,
                            .network = network_of("maxmin_lat0", 12.5e9, 0),
                            .topology = "complete",
                            .algorithm = "kind = allreduce\ncollective = " + collective})));
    };
    CAPTURE(nodes);
    const double chunk = std::round(1e8 / nodes);  // a message has whole bytes
    CHECK(deviation(time_of("ring"), 2 * (nodes - 1) * chunk / 12.5e9) <= 1e-12);
    if (nodes == 96) continue;
    CHECK(deviation(time_of("rabenseifner"), 2 * (1e8 - chunk) / 12.5e9) <= 1e-8);
  }
}

TEST_CASE("a tree over shared links takes as long as its closed form") {
  // 2 log2 n (latency + bytes / bandwidth). A node sent to all its children at once, each got a share of its port, and those with
  // children of their own waited as long as the others: 1.25 times as long among 4 nodes, 2.25 among 64.
  for (const std::string model : {"maxmin_lat0", "CM02_nocross"}) {
    for (const int steps : {1, 2, 3, 6}) {
      const NodeId nodes = NodeId{1} << steps;
      const double latency = model == "maxmin_lat0" ? 0 : 1e-6;
      const Recorder recorder = run({.nodes = nodes,
                                     .steps = 1,
                                     .bytes = 100'000'000,
                                     .network = network_of(model, 12.5e9, latency),
                                     .topology = "complete",
                                     .algorithm = "kind = allreduce\ncollective = tree"});
      CAPTURE(nodes);
      CAPTURE(model);
      const double last = std::ranges::max(finish_times(recorder));
      CHECK(deviation(last, 2 * steps * (2 * latency + 1e8 / 12.5e9)) <= 1e-12);
    }
  }
}

TEST_CASE("every node of a random matching ends when it does in SimGrid") {
  double worst = 0;
  std::map<std::string, std::vector<double>> finish_of;
  for (const Row& row : table("simgrid_finish_times.csv")) {
    const std::string& pattern = row.at("pattern");
    if (pattern == "perm4") continue;  // its double messages are no step of an algorithm
    const std::string& platform = row.at("platform");
    const std::string& model = row.at("simgrid_model");
    const std::string name = fmt::format("{} {} {}", platform, pattern, model);
    if (!finish_of.contains(name)) {
      finish_of[name] = finish_times(run(experiment_of(platform, pattern, model, 1)));
    }
    const double found = finish_of[name][static_cast<std::size_t>(number(row, "node"))];
    const double off = deviation(found, number(row, "simgrid_finish_s"));
    CAPTURE(name);
    CAPTURE(row.at("node"));
    CHECK(off <= 1e-9);
    worst = std::max(worst, off);
  }
  CHECK(finish_of.size() == 6);
  MESSAGE("largest relative deviation ", worst);
}

TEST_CASE("one message between two of a ring's nodes takes as long as in SimGrid") {
  double worst = 0;
  int rows = 0;
  for (const Row& row : table("simgrid_p2p.csv")) {
    // From node 0 to the node `links` further on: on a ring of one more than twice as many that is the
    // shorter way. Models are whole floats, so the messages of 1 B are left out.
    const auto links = static_cast<NodeId>(number(row, "links"));
    const auto bytes = static_cast<std::int64_t>(number(row, "bytes"));
    if (bytes % 4 != 0) continue;
    const NodeId nodes = 2 * links + 1;
    const Recorder recorder =
        run({.nodes = nodes,
             .steps = 1,
             .bytes = bytes,
             .network = network_of(row.at("simgrid_model"), number(row, "link_bw_Bps"),
                                   number(row, "link_latency_s")) +
                        "fabric = ring\n",
             .topology = "complete",
             .algorithm = "kind = dpsgd",
             .exchange = topologies::complete_rows(nodes, {{{0, links, 0.5}}})});
    const double found = to_seconds(recorder.nodes[static_cast<std::size_t>(links)].finished);
    const double expected = number(row, "simgrid_time_s");
    CAPTURE(row.at("case"));
    CAPTURE(row.at("simgrid_model"));
    CAPTURE(bytes);
    CHECK(std::abs(found - expected) <= 1e-9 * expected + 1e-12);  // ours are whole picoseconds
    if (expected > 1e-3) worst = std::max(worst, deviation(found, expected));
    ++rows;
  }
  CHECK(rows == 168);
  MESSAGE("largest relative deviation of those above 1 ms ", worst);
}

TEST_CASE("two scenarios' flows of different round-trip times share a link as in SimGrid") {
  // Nodes 0 -> 2 are flow A, 1 -> 3 flow B. Both cross the cable from s to t; the private ones before it are ten
  // times as fast, those behind it cost nothing.
  const test::TemporaryDirectory directory;
  double worst = 0;
  for (const Row& row : table("simgrid_rtt_sharing.csv")) {
    const double shared = number(row, "shared_bw_Bps");
    const auto cable = [](const char* ends, double latency, double bandwidth) {
      return fmt::format("{} [latency=\"{} ps\", bandwidth=\"{} B/s\"];\n", ends,
                         std::llround(1e12 * latency), bandwidth);
    };
    const bool has_private =
        number(row, "private_latency_A_s") > 0 || number(row, "private_latency_B_s") > 0;
    const double fast = has_private ? 10 * shared : 1e24;
    const std::string graph = "graph { s [kind=switch]; t [kind=switch];\n" +
                              cable("0 -- s", number(row, "private_latency_A_s"), fast) +
                              cable("1 -- s", number(row, "private_latency_B_s"), fast) +
                              cable("s -- t", number(row, "shared_latency_s"), shared) +
                              cable("t -- 2", 0, 1e24) + cable("t -- 3", 0, 1e24) + "}\n";
    const Recorder recorder =
        run({.nodes = 4,
             .steps = 1,
             .bytes = 100'000'000,
             .network = network_of(row.at("simgrid_model"), shared, 0) +
                        "fabric = file\nfile = " + directory.write("shared.dot", graph) + "\n",
             .topology = "complete",
             .algorithm = "kind = dpsgd",
             .exchange = topologies::complete_rows(4, {{{0, 2, 0.5}, {1, 3, 0.5}}})});
    const double a = deviation(to_seconds(recorder.nodes[2].finished), number(row, "finish_A_s"));
    const double b = deviation(to_seconds(recorder.nodes[3].finished), number(row, "finish_B_s"));
    CAPTURE(row.at("simgrid_model"));
    CAPTURE(number(row, "private_latency_B_s"));
    CHECK(a <= 1e-9);
    CHECK(b <= 1e-9);
    worst = std::max({worst, a, b});
  }
  MESSAGE("largest relative deviation ", worst);
}

}  // namespace starling::test_simgrid_runs
