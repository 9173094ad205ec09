// What ranks report and gather over MPI, and that it is what a simulation records. As test_mpi_transport.cpp.

#include <algorithm>
#include <cmath>
#include <deque>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/engine/network_model.hpp"
#include "sim/engine/simulated_transport.hpp"
#include "sim/mpi/records.hpp"
#include "tests/sim/mpi/scarce_memory.hpp"
#include "tests/sim/mpi/small_programs.hpp"
#include "tests/support/message_of.hpp"

namespace starling::test {
namespace {

Task<> dpsgd(Node& node) {
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    for (const Edge& edge : node.out()) node.send(edge.peer, static_cast<Tag>(k), x);
    const Gradient g = co_await node.gradient(x);
    x.scale(node.self_weight());
    for (const Edge& edge : node.in()) {
      const Message message = co_await node.receive(edge.peer, static_cast<Tag>(k));
      x.add_scaled(edge.weight, message.values);
    }
    x.add_scaled(-0.1, g.values);
    node.record("norm", k, squared_distance(x, node.initial_model()));
    node.end_step(k, x);
  }
}

/// Every message takes a microsecond.
class Wire final : public NetworkModel {
 public:
  void start(const Transfer& transfer, NetworkClock& clock) override {
    clock.deliver(clock.now() + from_seconds(1e-6), transfer.id);
  }
  void on_timer(std::uint64_t, NetworkClock&) override {}
  LinkCost link_cost() const override { return {from_seconds(1e-6), 0}; }
};

void check_equal_tables(const Table& a, const Table& b) {
  CHECK(a.metrics() == b.metrics());
  for (const std::string& metric : a.metrics()) {
    CHECK(a.rows(metric) == b.rows(metric));
    if (metric == "time") continue;
    for (std::size_t row = 0; row < a.rows(metric); ++row) {
      for (std::size_t column = 0; column < a.width(); ++column) {
        CAPTURE(metric);
        CHECK(a.value(metric, row, column) == b.value(metric, row, column));
      }
    }
  }
}

TEST_CASE("what ranks report while they run is what they have recorded so far") {
  const NodeId nodes = uneven();
  constexpr Step steps = 100;  // of 10 ms, with ten pulses a second
  Quadratic workload(nodes, 50);
  Recorder reported(nodes, {1, steps}, {2, steps}, Time{from_seconds(1000)});
  reported.acts.resize(static_cast<std::size_t>(nodes));
  int reports = 0;
  SmallRun* running = nullptr;
  const auto pulse = [&] {
    if (session().rank() != 0) return;
    const std::vector<std::string> told = running->reports.take();
    for (const std::string& report : told) unpack_records(report, reported);
    reports += told.empty() ? 0 : 1;
    running->reports.ask();
  };
  const auto duration = [](NodeId, Step, BatchName) { return from_seconds(0.01); };
  SmallRun run(nodes, workload, steps, duration, pulse);
  running = &run;
  run(dpsgd);
  Recorder& recorder = run.around.recorder;
  KnownRanks known;
  gather_results(session(), run.transport.block(), run.around.graph, run.around.observer, recorder,
                 false, known);
  if (session().rank() != 0) return;
  CHECK(reports >= 2);
  sort_timeline(reported);
  CHECK(std::ranges::includes(recorder.timeline, reported.timeline,
                              [](const Segment& a, const Segment& b) {
                                return std::tie(a.end, a.node) < std::tie(b.end, b.node);
                              }));
  for (std::size_t node = 0; node < recorder.nodes.size(); ++node) {
    const auto known = static_cast<std::size_t>(reported.nodes[node].steps);
    CHECK(known > 10);
    for (std::size_t row = 0; row < known; ++row) {
      CHECK(reported.steps.value("time", row, node) == recorder.steps.value("time", row, node));
      // Numbers become known later, and are told then.
      const double norm = reported.steps.value("norm", row, node);
      if (row < 10 || !std::isnan(norm)) CHECK(norm == recorder.steps.value("norm", row, node));
    }
    const std::vector<Act>& acts = reported.acts[node];
    CHECK(acts.size() > known);
    CHECK(std::ranges::equal(acts, std::span(recorder.acts[node]).first(acts.size())));
  }
}

/// How many rows of each node a recorder knows.
std::vector<std::size_t> known_rows(const Recorder& recorder) {
  std::vector<std::size_t> known(recorder.nodes.size());
  for (std::size_t node = 0; node < known.size(); ++node) {
    while (recorder.steps.value("time", known[node], node) ==
           static_cast<double>(1000 * node + known[node]))
      ++known[node];
    CHECK(recorder.acts[node].size() == known[node]);
  }
  return known;
}

TEST_CASE("reports for which a rank has no room are lost, and all is told anew") {
  constexpr std::size_t rows = 100;
  const NodeId nodes = uneven();
  const int last = session().ranks() - 1;
  const NodeBlock block = block_of(session().rank(), session().ranks(), nodes);
  Recorder recorder(nodes, {1, rows}, {1, rows}, Time{from_seconds(1000)});
  recorder.acts.resize(static_cast<std::size_t>(nodes));
  Recorder reported = recorder;
  Reports reports(session(), block, recorder);
  const auto report = [&](std::size_t to_row, bool is_scarce) {
    record_rows(recorder, block, to_row);
    if (session().rank() == 0) reports.ask();
    Census::Counts counts;
    reports.count(counts);
    counts.reports = session().largest(counts.reports);
    counts.restarts = session().largest(counts.restarts);
    if (is_scarce && session().rank() == last) largest_block = 500;
    reports.hear(counts);
    largest_block = any_block;
    reports.finish();
    if (session().rank() != 0) return;
    for (const std::string& told : reports.take()) unpack_records(told, reported);
  };
  report(30, false);
  const std::string failure = test::message_of([&] { report(60, true); });
  if (session().rank() == 0) {
    CHECK(failure == fmt::format("rank {} of {} has no room for what is reported of the nodes",
                                 last, session().ranks()));
    CHECK(known_rows(reported) == std::vector<std::size_t>(recorder.nodes.size(), 30));
    reports.restart();
    reported.timeline.clear();
    for (std::vector<Act>& acts : reported.acts) acts.clear();
  }
  report(80, false);
  report(100, false);
  if (session().rank() != 0) return;
  CHECK(known_rows(reported) == std::vector<std::size_t>(recorder.nodes.size(), 100));
  CHECK(reported.timeline.size() == 100 * recorder.nodes.size());
}

TEST_CASE("results for which a rank has no room are lost alone, and the rank is named on all") {
  constexpr std::size_t rows = 100;
  if (session().ranks() == 1) return;
  const NodeId nodes = uneven();
  const int last = session().ranks() - 1;
  const NodeBlock block = block_of(session().rank(), session().ranks(), nodes);
  Quadratic workload(nodes, 4);
  Surroundings around(nodes, workload, rows, ComputeGraph::Execution::inline_);
  around.recorder.acts.resize(static_cast<std::size_t>(nodes));
  record_rows(around.recorder, block, rows);
  KnownRanks known;
  if (session().rank() == last) largest_block = 500;
  const std::string failure = test::message_of([&] {
    gather_results(session(), block, around.graph, around.observer, around.recorder, true, known);
  });
  largest_block = any_block;
  CHECK(failure == fmt::format("rank {} of {} is out of memory", last, session().ranks()));
  if (session().rank() != 0) return;
  std::vector<std::size_t> expected(around.recorder.nodes.size(), rows);
  const NodeBlock lost = block_of(last, session().ranks(), nodes);
  std::fill(expected.begin() + lost.begin, expected.begin() + lost.end, 0);
  CHECK(known_rows(around.recorder) == expected);
}

TEST_CASE("gossip gives the same bits over MPI as simulated, in every column and every model") {
  for (const NodeId nodes : {static_cast<NodeId>(session().ranks()), uneven()}) {
    constexpr Step steps = 7;
    constexpr std::size_t parameters = 5000;
    Quadratic workload(nodes, parameters);
    SmallRun run(nodes, workload, steps);
    run(dpsgd);
    run.around.recorder.statistics["ranks"] = 1;
    KnownRanks known;
    gather_results(session(), run.transport.block(), run.around.graph, run.around.observer,
                   run.around.recorder, true, known);
    if (session().rank() != 0) continue;
    run.around.observer.finish_evaluations();
    const Recorder& real = run.around.recorder;
    // Of every node: its start; per step a gradient and a message of each neighbor, which is one if there is no other.
    const std::size_t neighbors = nodes == 1 ? 0 : nodes == 2 ? 1 : 2;
    for (const std::vector<Act>& acts : real.acts) {
      CHECK(acts.size() == 1 + steps * (1 + neighbors));
    }

    Surroundings around(nodes, workload, steps, ComputeGraph::Execution::overlapped);
    Wire wire;
    SimulatedTransport transport({.nodes = nodes, .pulse = {}}, wire, around.graph,
                                 [](NodeId, Step, BatchName) { return from_seconds(1e-3); });
    World world{transport, around.graph, around.observer, around.topology, steps, 1};
    std::deque<Node> all;
    for (NodeId i = 0; i < nodes; ++i) {
      Node& node = all.emplace_back(world, i);
      node.spawn(dpsgd(node));
    }
    transport.run();
    around.observer.finish_evaluations();
    const Recorder& simulated = around.recorder;

    check_equal_tables(simulated.steps, real.steps);
    check_equal_tables(simulated.evaluation, real.evaluation);
    CHECK(real.evaluation.rows("test_loss") == 4);  // after 2, 4, 6 and 7 steps
    for (NodeId i = 0; i < nodes; ++i) {
      const auto a = around.graph.read(around.observer.model(i));
      const auto b = run.around.graph.read(run.around.observer.model(i));
      CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()));
      const NodeTotals& totals = real.nodes[static_cast<std::size_t>(i)];
      CHECK(totals.steps == steps);
      CHECK(totals.messages_sent == simulated.nodes[static_cast<std::size_t>(i)].messages_sent);
      CHECK(totals.bytes_sent == simulated.nodes[static_cast<std::size_t>(i)].bytes_sent);
      CHECK(totals.compute > Duration{0});
      CHECK(totals.finished > Time{});
    }
    CHECK(real.statistics.at("ranks") == session().ranks());
    std::vector<int> computed(static_cast<std::size_t>(nodes));
    for (std::size_t i = 0; i < real.timeline.size(); ++i) {
      const Segment& segment = real.timeline[i];
      if (i > 0) CHECK(real.timeline[i - 1].end <= segment.end);
      if (segment.activity == Activity::compute) ++computed[static_cast<std::size_t>(segment.node)];
    }
    CHECK(computed == std::vector<int>(static_cast<std::size_t>(nodes), static_cast<int>(steps)));
  }
}

}  // namespace
}  // namespace starling::test
