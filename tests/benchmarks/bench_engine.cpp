// The engine as algorithms use it: fibres of nodes that sleep; messages with awaited receives, mailboxes with matching and
// totals per node, over LogGP, beside the same network model driven bare, without nodes. And what a node costs that does
// nothing: memory while all nodes sleep, in its parts. bench_calendar measures the calendar alone.
//
//   bench_engine [repetitions [events]]     default 3 and 4,000,000; the best is printed, for the machine is shared
//
// Timers: every node sleeps for random times, again and again. Goals, one thread: 25 M/s with 1,000 nodes, 8 M/s with
// 100,000, 2.5 M/s with a million.
//
// Messages: pairs send one to and fro. Equal: all of 8 bytes, so that all pairs go in step. Unequal: each pair has a size of
// its own, and every event its own time. Goals, one thread: 15 M/s among 1,000 nodes, 10 M/s among 100,000, matching
// included. Less than 300 B per idle node beside its model.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <malloc.h>

#include "kernels/cpu_backend.hpp"
#include "scenarios/assemble.hpp"
#include "scenarios/memory.hpp"
#include "sim/base/processor_time.hpp"
#include "sim/engine/simulated_transport.hpp"
#include "tests/network_models/exchange_run.hpp"

namespace {

using namespace starling;

std::string scenario(NodeId nodes) {
  return fmt::format(
      "[run]\nnodes = {}\nsteps = 1\noutput = /tmp/starling_bench.h5\n[topology]\nkind = star\n"
      "[network]\nkind = loggp\npreset = aries\n[compute]\ngradient = 1 ms\n"
      "[workload]\nkind = timing\nparameters = 1000000\n[algorithm]\nkind = dpsgd\nlearning_rate = "
      "0.1\n",
      nodes);
}

/// Bytes of the heap in use, by what was made since the one before.
class Heap {
 public:
  void note(std::string_view what) {
    const struct mallinfo2 info = mallinfo2();
    const double now = static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
    parts_.emplace_back(what, now - last_);
    last_ = now;
  }
  const std::vector<std::pair<std::string_view, double>>& parts() const { return parts_; }

 private:
  std::vector<std::pair<std::string_view, double>> parts_;
  double last_ = 0;
};

/// All that a run consists of, but for the program.
struct Place {
  explicit Place(NodeId count)
      : parts(assemble(Scenario::parse(scenario(count), "bench.ini"))),
        before(static_cast<double>(resident_memory())),
        recorder(count, RowSchedule(1, 1), RowSchedule(1, 1), Time{}),
        graph(backend, *parts.workload, {}, ComputeGraph::Execution::overlapped),
        observer(graph, recorder, parts.workload->facts()),
        transport({.nodes = count, .pulse = {}}, *parts.network, graph,
                  [](NodeId, Step, BatchName) { return Duration{}; }),
        world{transport, graph, observer, *parts.topology, 1, 1},
        nodes(world, count) {
    transport.add_records({nodes.records(), {recorder.nodes.data(), sizeof(NodeTotals)}});
  }

  void run(const Program& program) {
    for (Node& node : nodes) node.spawn(program(node));
    transport.run();
  }
  /// The same, telling what each part takes; the program notes the events.
  void run(const Program& program, Heap& heap) {
    std::vector<Task<>> tasks;
    tasks.reserve(static_cast<std::size_t>(parts.settings.nodes));
    heap.note("all that is shared");
    for (Node& node : nodes) tasks.push_back(program(node));
    heap.note("coroutine frame");
    for (Node& node : nodes) {
      node.spawn(std::move(tasks[static_cast<std::size_t>(node.id())]));
    }
    heap.note("fibre");
    std::vector<Task<>>().swap(tasks);
    malloc_trim(0);  // that list was the measurement's own
    heap.note("");
    transport.run();
  }

  Assembly parts;
  double before;
  CpuBackend backend;
  Recorder recorder;
  ComputeGraph graph;
  Observer observer;
  SimulatedTransport transport;
  World world;
  Nodes nodes;
};

std::size_t floats_of(NodeId pair, bool is_unequal) {
  return is_unequal ? 2 + static_cast<std::size_t>(pair) * 7919 % 250'000 : 2;
}

Task<> ping_pong(Node& node, Step rounds, bool is_unequal) {
  const NodeId peer = node.id() ^ 1;
  const Vector model = node.initial_model();
  const Vector x = model.slice(0, floats_of(node.id() / 2, is_unequal));
  for (Step k = 0; k < rounds; ++k) {
    const auto tag = static_cast<Tag>(k);
    if (node.id() < peer) node.send(peer, tag, x);
    const Message m = co_await node.receive(peer, tag);
    if (node.id() > peer) node.send(peer, tag, m.values);
  }
}

/// Sleeps for times between 0 and 2^20 ps, about 1 us.
Task<> sleep_again(Node& node, Step count) {
  auto state = static_cast<std::uint64_t>(node.id());
  for (Step k = 0; k < count; ++k) {
    const std::uint64_t drawn = network_test::splitmix64(state);
    co_await node.sleep(Duration{static_cast<std::int64_t>(drawn >> 44)});
  }
}

double timers_per_second(NodeId nodes, Step count) {
  Place place(nodes);
  const double begin = thread_time();
  place.run([=](Node& node) { return sleep_again(node, count); });
  return static_cast<double>(nodes) * static_cast<double>(count) / (thread_time() - begin);
}

struct Idle {
  Heap heap;
  double resident = 0;
};

constexpr Duration nap = std::chrono::seconds(1);

Task<> idle(Node& node, Idle& told) {
  co_await node.sleep(nap);
  if (node.id() > 0) co_return;
  told.heap.note("event");
  told.resident = static_cast<double>(resident_memory());
}

void measure_idle(NodeId nodes) {
  Place place(nodes);
  Idle told;
  place.run([&told](Node& node) { return idle(node, told); }, told.heap);
  const auto ports = static_cast<double>(place.parts.network->node_records().bytes);
  const double resident = (told.resident - place.before) / nodes + ports;
  fmt::print("{:>9} nodes that sleep: {:.0f} B each\n", nodes, resident);
  double known = ports + sizeof(Node) + sizeof(NodeTotals) + Mailbox::bytes_per_node;
  fmt::print("{:>14} {:.0f} B, {} {} B, {} {} B, {} {} B", "ports", ports, "node", sizeof(Node),
             "account", sizeof(NodeTotals), "mailbox", Mailbox::bytes_per_node);
  for (const auto& [what, bytes] : told.heap.parts()) {
    if (what != "coroutine frame" && what != "fibre" && what != "event") continue;
    fmt::print(", {} {:.0f} B", what, bytes / nodes);
    known += bytes / nodes;
  }
  fmt::print(", the rest {:.0f} B\n", resident - known);
}

double messages_per_second(NodeId nodes, Step rounds, bool is_unequal) {
  Place place(nodes);
  const double begin = thread_time();
  place.run([=](Node& node) { return ping_pong(node, rounds, is_unequal); });
  return static_cast<double>(nodes) * static_cast<double>(rounds) / (thread_time() - begin);
}

/// The network model alone, by a driver without nodes: what its events and the calendar cost.
double bare_messages_per_second(NodeId nodes, Step rounds, bool is_unequal) {
  const Assembly parts = assemble(Scenario::parse(scenario(nodes), "bench.ini"));
  struct Bare final : NetworkClock {
    Time now() const override { return time; }
    void set_timer(Time when, std::uint64_t cookie) override { calendar.push(when, 2 * cookie); }
    void deliver(Time when, std::uint32_t id) override {
      calendar.push(when, 2 * std::uint64_t{id} + 1);
    }
    void put_off(std::uint32_t) override { std::abort(); }  // pairs never send while they wait
    Calendar calendar;
    Time time{};
  } clock;
  NetworkModel& network = *parts.network;
  std::vector<Step> left(static_cast<std::size_t>(nodes / 2), 2 * rounds);
  const auto start = [&](std::uint32_t pair) {
    const bool is_back = left[pair]-- % 2 != 0;
    const auto a = static_cast<NodeId>(2 * pair);
    const auto bytes =
        static_cast<std::int64_t>(4 * floats_of(static_cast<NodeId>(pair), is_unequal));
    network.start({pair, a + (is_back ? 1 : 0), a + (is_back ? 0 : 1), bytes}, clock);
  };
  const double begin = thread_time();
  for (std::uint32_t pair = 0; pair < left.size(); ++pair) start(pair);
  while (!clock.calendar.empty()) {
    const Event event = clock.calendar.pop();
    clock.time = event.time;
    const std::uint64_t what = event.payload / 2;
    if (event.payload % 2 == 0) {
      network.on_timer(what, clock);
    } else if (left[what] > 0) {
      start(static_cast<std::uint32_t>(what));
    }
  }
  return static_cast<double>(nodes) * static_cast<double>(rounds) / (thread_time() - begin);
}

void measure_timers(NodeId nodes, int repetitions, Step events) {
  double best = 0;
  for (int r = 0; r < repetitions; ++r) {
    best = std::max(best, timers_per_second(nodes, std::max<Step>(1, events / nodes)));
  }
  fmt::print("{:>9} nodes that sleep for random times {:>6.2f} M timers/s\n", nodes, best / 1e6);
  std::fflush(stdout);
}

void measure(NodeId nodes, bool is_unequal, int repetitions, Step messages) {
  const Step rounds = messages / nodes;
  double used = 0;
  double bare = 0;
  for (int r = 0; r < repetitions; ++r) {
    used = std::max(used, messages_per_second(nodes, rounds, is_unequal));
    bare = std::max(bare, bare_messages_per_second(nodes, rounds, is_unequal));
  }
  fmt::print("{:>9} nodes, {:<13}{:>8.2f} M messages/s as used{:>10.2f} M/s bare\n", nodes,
             is_unequal ? "unequal sizes" : "equal sizes", used / 1e6, bare / 1e6);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  const int repetitions = count > 1 ? std::max(1, std::atoi(words[1])) : 3;
  const Step events = count > 2 ? std::max(1, std::atoi(words[2])) : 4'000'000;
  // First, while the memory is new.
  measure_idle(1'000'000);
  for (const NodeId nodes : {1'000, 100'000, 1'000'000}) measure_timers(nodes, repetitions, events);
  for (const NodeId nodes : {1'000, 100'000}) {
    for (const bool is_unequal : {false, true}) measure(nodes, is_unequal, repetitions, events);
  }
}
