// What nodes that stop, pause and join late, and messages that are lost or come twice, do to a run.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/sim/engine/simulation.hpp"
#include "tests/support/message_of.hpp"

namespace starling::test_simulated_failures {
using namespace std::chrono_literals;
using test::Simulation;

namespace {

using Log = std::vector<std::string>;

constexpr Time at(Duration since_start) { return Time(since_start); }

void note(Log& log, Node& node, const std::string& what) {
  log.push_back(fmt::format("{} {} at {:.6g}", node.id(), what, to_seconds(node.now())));
}

/// Node 0 sends 0, 1, 2, .. to node 1 every millisecond, which notes what it gets and when.
Task<> stream(Node& node, Log& log, int count) {
  for (int i = 0; i < count; ++i) {
    if (node.id() == 0) {
      node.send(1, 7, {}, i);
      co_await node.sleep(1ms);
    } else {
      const Message m = co_await node.receive(0, 7);
      note(log, node, fmt::format("got {}", m.number));
    }
  }
}

Task<> compute_twice(Node& node, Log& log) {
  const Vector x = node.initial_model();
  for (int i = 0; i < 2; ++i) {
    const Gradient g = co_await node.gradient(x);
    note(log, node, "computed");
  }
}

Task<> sleep_and_select(Node& node, Log& log) {
  co_await node.sleep(3ms);
  note(log, node, "woke");
  const Pattern patterns[] = {{any_source, 7}};
  const Time until = after(node.now(), 2ms);
  const Node::Select::Result got = co_await node.select(patterns, until);
  note(log, node, fmt::format("selected {}", got.index));
}

/// Nodes 0 and 1 send their models to node 2, which takes one.
Task<> send_models(Node& node, Log& log) {
  if (node.id() < 2) {
    node.send(2, 7, node.initial_model());
    co_return;
  }
  const Message m = co_await node.receive(any_source, 7);
  note(log, node, fmt::format("got {}", m.source));
}

/// Node 0 streams; node 1 takes what comes until a deadline.
Task<> stream_until(Node& node, Log& log, int count, Time deadline) {
  if (node.id() == 0) {
    co_await stream(node, log, count);
    co_return;
  }
  const Pattern patterns[] = {{any_source, 7}};
  for (;;) {
    const Node::Select::Result got = co_await node.select(patterns, deadline);
    if (got.index != 0) break;
    note(log, node, fmt::format("got {}", got.message.number));
  }
  note(log, node, "ended");
}

Task<> meet_all(Node& node, const std::vector<NodeId>& members) {
  co_await node.sleep(1ms);
  co_await node.meet(9, members, CollectiveKind::ring, node.initial_model());
}

Task<> finish_steps(Node& node) {
  const Vector x = node.initial_model();
  for (Step k = 0; k < 100; ++k) {
    const Gradient g = co_await node.gradient(x);
    node.end_step(k, x);
  }
}

std::string failure(Simulation& simulation, const Program& program) {
  return test::message_of<Stalled>([&] { simulation.run(program); });
}

}  // namespace

TEST_CASE("messages to a node that pauses wait and come in their order when it is back") {
  // Sent at 0 .. 5 ms, due 10 us later. Away from 1.5 to 4.01 ms: 2, 3 wait; 4 is due at the very
  // instant of return and stays behind them, although it was under way before they were held back.
  Simulation simulation(2, false, {.outages = {{1, at(1500us), at(4010us)}}});
  Log log;
  simulation.run([&log](Node& node) { return stream(node, log, 6); });
  CHECK(log == Log{"1 got 0 at 1e-05", "1 got 1 at 0.00101", "1 got 2 at 0.00401",
                   "1 got 3 at 0.00401", "1 got 4 at 0.00401", "1 got 5 at 0.00501"});
  CHECK(simulation.transport.failures().lost_messages == 0);
}

TEST_CASE("a deadline that passes within a pause keeps its place among the messages") {
  // Away from 0.5 to 4.5 ms; 1 and 2 are due before the deadline at 2.5 ms, 3 and 4 after it.
  Simulation simulation(2, false, {.outages = {{1, at(500us), at(4500us)}}});
  Log log;
  simulation.run([&log](Node& node) { return stream_until(node, log, 5, at(2500us)); });
  CHECK(log ==
        Log{"1 got 0 at 1e-05", "1 got 1 at 0.0045", "1 got 2 at 0.0045", "1 ended at 0.0045"});
}

TEST_CASE("a gradient rests while its node is away; sleeps and deadlines do not") {
  // Gradients of 1 ms, away from 0.4 to 3.4 ms: 4 ms, then 5 ms.
  Simulation computing(1, false, {.outages = {{0, at(400us), at(3400us)}}});
  Log log;
  computing.run([&log](Node& node) { return compute_twice(node, log); });
  CHECK(log == Log{"0 computed at 0.004", "0 computed at 0.005"});
  // A sleep until 3 ms ends with the outage at 4 ms; the deadline at 6 ms with the next, at 9 ms.
  Simulation sleeping(1, false, {.outages = {{0, at(1ms), at(4ms)}, {0, at(5ms), at(9ms)}}});
  log.clear();
  sleeping.run([&log](Node& node) { return sleep_and_select(node, log); });
  CHECK(log == Log{"0 woke at 0.004", "0 selected 1 at 0.009"});
}

TEST_CASE("a node that is away neither computes nor waits nor communicates") {
  // Gradients of 1 ms, away from 0.4 to 3.4 ms. Node 1 waits for what is sent at 0, 1 .. 5 ms, away from 1.5 to 4.5 ms.
  Simulation simulation(2, false, {.outages = {{1, at(1500us), at(4500us)}}});
  simulation.observer.leave_out_absence([&simulation](NodeId node, Time begin, Time end) {
    return simulation.failures.presence(node, begin, end);
  });
  Log log;
  simulation.run([&log](Node& node) { return stream(node, log, 6); });
  const NodeTotals& waiting = simulation.recorder.nodes[1];
  // 0, 1 and 5 come after 10 us each; 2, 3 and 4 have come during the pause.
  CHECK(waiting.communicate == 30us);
  CHECK(waiting.wait == 990us + 490us + 500us);
  Simulation computing(1, false, {.outages = {{0, at(400us), at(3400us)}}});
  computing.observer.leave_out_absence([&computing](NodeId node, Time begin, Time end) {
    return computing.failures.presence(node, begin, end);
  });
  computing.run([&log](Node& node) { return compute_twice(node, log); });
  CHECK(computing.recorder.nodes[0].compute == 2ms);
  CHECK(computing.recorder.timeline ==
        std::vector<Segment>{{0, Activity::compute, at(0us), at(400us)},
                             {0, Activity::compute, at(3400us), at(4ms)},
                             {0, Activity::compute, at(4ms), at(5ms)}});
}

TEST_CASE("who waits for a node that is away waits, and does not communicate") {
  // Node 1 passes on what node 0 sends at once, but is away from 5 us to 4 ms; the message would have come at 10 us.
  Simulation simulation(3, false, {.outages = {{1, at(5us), at(4ms)}}});
  simulation.observer.leave_out_absence([&simulation](NodeId node, Time begin, Time end) {
    return simulation.failures.presence(node, begin, end);
  });
  simulation.run([](Node& node) -> Task<> {
    if (node.id() > 0) const Message m = co_await node.receive(node.id() - 1, 1);
    if (node.id() < 2) node.send(node.id() + 1, 1, {});
  });
  CHECK(simulation.recorder.nodes[1].wait == 0us);
  CHECK(simulation.recorder.nodes[1].communicate == 5us);
  CHECK(simulation.recorder.nodes[2].wait == 4ms);
  CHECK(simulation.recorder.nodes[2].communicate == 10us);
}

TEST_CASE("a gradient is not done if its node stops before, not even if it pauses, too") {
  // Of 1 ms, 0.4 ms are done before the pause and 0.2 ms after it; 1 ms after its begin is within the pause.
  Simulation simulation(1, false,
                        {.outages = {{0, at(400us), at(3400us)}, {0, at(3600us), never}}});
  Log log;
  simulation.run([&log](Node& node) { return compute_twice(node, log); });
  CHECK(log.empty());
  CHECK(simulation.transport.failures().stopped_nodes == std::vector<NodeId>{0});
}

TEST_CASE("a node that joins late begins then, and its messages have waited for it") {
  Simulation simulation(2, false, {.outages = {{1, at(0ms), at(2500us)}}});
  Log log;
  simulation.run([&log](Node& node) { return stream(node, log, 4); });
  CHECK(log ==
        Log{"1 got 0 at 0.0025", "1 got 1 at 0.0025", "1 got 2 at 0.0025", "1 got 3 at 0.00301"});
}

TEST_CASE("messages to a node that has stopped are lost, and the run ends without it") {
  // Stops at 1.5 ms; 2, 3, 4, 5 reach it later.
  Simulation simulation(2, false, {.outages = {{1, at(1500us), never}}});
  Log log;
  simulation.run([&log](Node& node) { return stream(node, log, 6); });
  CHECK(log == Log{"1 got 0 at 1e-05", "1 got 1 at 0.00101"});
  CHECK(simulation.transport.failures().lost_messages == 4);
  CHECK(simulation.transport.failures().stopped_nodes == std::vector<NodeId>{1});
}

TEST_CASE("what a node sent before it stopped is delivered; then the others say what they miss") {
  // Node 0 sends 0 .. 3 by 3 ms and stops; node 1 waits for the fifth.
  Simulation simulation(2, false, {.outages = {{0, at(3500us), never}}});
  Log log;
  const std::string text = failure(simulation, [&log](Node& node) { return stream(node, log, 6); });
  CHECK(log.size() == 4);
  CHECK(text ==
        "stalled at 0.004 s of virtual time: node 0 stopped at 0.0035 s; node 1 waits for node 0 "
        "(tag 7) since 0.00301 s");
}

TEST_CASE("a collective in closed form says which member it waits for") {
  const std::vector<NodeId> members{0, 1, 2, 3};
  Simulation simulation(4, true, {.outages = {{2, at(500us), never}}});
  const std::string text =
      failure(simulation, [&members](Node& node) { return meet_all(node, members); });
  CHECK(text.starts_with("stalled at 0.001 s of virtual time: node 2 stopped at 0.0005 s; "));
  CHECK(text.ends_with("; 3 of 4 nodes wait in a collective (tag 9) for node 2"));
  Simulation without_two(4, true, {.outages = {{1, at(500us), never}, {2, at(500us), never}}});
  CHECK(failure(without_two, [&members](Node& node) {
          return meet_all(node, members);
        }).ends_with("; 2 of 4 nodes wait in a collective (tag 9) for node 1 and 1 more"));
}

TEST_CASE("a message that comes twice does so before the next of its pair") {
  Simulation simulation(2, false, {.outages = {}, .duplicate = 1});
  Log log;
  simulation.run([&log](Node& node) { return stream(node, log, 4); });
  CHECK(log ==
        Log{"1 got 0 at 1e-05", "1 got 0 at 1e-05", "1 got 1 at 0.00101", "1 got 1 at 0.00101"});
  CHECK(simulation.transport.failures().duplicated_messages == 4);
}

TEST_CASE("a message that is lost on the network keeps no device of its receiver busy") {
  // Node 0's first model is lost, node 1's is delivered; both leave their devices after 1 ms, and would take as long to get into
  // that of node 2, one after the other.
  const FailureSettings chance{.lose = 0.5};
  const auto fates = [&](std::uint64_t seed) {
    Failures failures(chance, 3, seed);
    const Failures::Fate first = failures.next_message(0);
    return std::pair(first, failures.next_message(1));
  };
  std::uint64_t seed = 1;
  while (fates(seed) != std::pair(Failures::Fate::lost, Failures::Fate::delivered)) ++seed;
  Host host({.staging_latency = 1ms}, 3);
  Simulation simulation(3, false, {}, nullptr, nullptr, Rendezvous::no_limit, &host);
  simulation.failures = Failures(chance, 3, seed);
  Log log;
  simulation.run([&log](Node& node) { return send_models(node, log); });
  CHECK(log == Log{"2 got 1 at 0.00201"});
  CHECK(simulation.transport.failures().lost_messages == 1);
}

TEST_CASE("a lost message is named in the end, if somebody waits for it") {
  Simulation simulation(2, false, {.outages = {}, .lose = 1});
  Log log;
  const std::string text = failure(simulation, [&log](Node& node) { return stream(node, log, 2); });
  CHECK(text ==
        "stalled at 0.002 s of virtual time: 2 messages were lost, the last from node 0 to node 1 "
        "(tag 7), due at 0.00101 s; node 1 waits for node 0 (tag 7) since 0 s");
}

TEST_CASE("evaluations wait for nodes that pause and go on without those that stopped") {
  // 100 steps of 1 ms, evaluated once at the end. Node 1 pauses for 50 ms, node 2 stops at 40 ms.
  Simulation simulation(3, false, {.outages = {{1, at(10ms), at(60ms)}, {2, at(40500us), never}}});
  simulation.observer.count_live_nodes();
  simulation.run([](Node& node) { return finish_steps(node); });
  simulation.observer.finish_evaluations();
  const Table& table = simulation.recorder.evaluation;
  CHECK(table.value("live_nodes", 0) == 2);
  CHECK(table.value("time", 0) == doctest::Approx(0.150));
  CHECK(!std::isnan(table.value("test_loss", 0)));
  CHECK(simulation.recorder.nodes[2].steps == 40);
  // Samples: 100 steps of two nodes and the 40 of the third, of batches as large as the workload says.
  const auto batch = static_cast<double>(simulation.workload.facts().batch_size);
  CHECK(table.value("samples", 0) == 240 * batch);
}

TEST_CASE("runs with failures repeat themselves, and outages nobody reaches change nothing") {
  Log once, again, whole;
  for (Log* log : {&once, &again}) {
    Simulation simulation(
        2, false, {.outages = {}, .mean_time_between_failures = 1ms, .mean_time_to_repair = 2ms});
    simulation.run([log](Node& node) { return stream(node, *log, 50); });
  }
  Simulation late(2, false, {.outages = {{1, at(1s), never}, {0, at(2s), at(3s)}}});
  late.run([&whole](Node& node) { return stream(node, whole, 50); });
  CHECK(once == again);
  CHECK(whole.size() == 50);
  CHECK(whole.back() == "1 got 49 at 0.04901");
  CHECK(late.transport.failures().stopped_nodes.empty());
}

}  // namespace starling::test_simulated_failures
