// Messages as algorithms use them: fibres of nodes, awaited receives, mailboxes with matching, totals
// per node, over LogGP; beside the same network model driven bare, without nodes. And what a node costs that
// does nothing: resident memory while all nodes sleep.
//
//   bench_messages [repetitions]        default 3; the best is printed, for the machine is shared
//
// Pairs send a message to and fro. Equal: all of 8 bytes, so that all pairs go in step. Unequal: each pair has a
// size of its own, and every event its own time. Goals, one thread: 15 M messages/s among 1,000 nodes, 10 M/s
// among 100,000, matching included; less than 300 B per idle node beside its model.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "kernels/cpu_backend.hpp"
#include "scenarios/assemble.hpp"
#include "sim/engine/simulated_transport.hpp"
#include "tests/network_models/exchange_run.hpp"

namespace {

using namespace starling;

/// Time that this thread has computed, in seconds: other programs on the machine count less so.
double computed() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  statm >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::string scenario(NodeId nodes) {
  return fmt::format(
      "[run]\nnodes = {}\nsteps = 1\noutput = /tmp/starling_bench.h5\n[topology]\nkind = star\n"
      "[network]\nkind = loggp\npreset = aries\n[compute]\ngradient = 1 ms\n"
      "[workload]\nkind = timing\nparameters = 1000000\n[algorithm]\nkind = dpsgd\nlearning_rate = "
      "0.1\n",
      nodes);
}

/// All that a run consists of, but for the program.
struct Place {
  explicit Place(NodeId count)
      : parts(assemble(Scenario::parse(scenario(count), "bench.ini"))),
        before(resident_bytes()),
        recorder(count, RowSchedule(1, 1), RowSchedule(1, 1), Time{}),
        graph(backend, *parts.workload, {}, ComputeGraph::Execution::overlapped),
        observer(graph, recorder, parts.workload->facts()),
        transport({.nodes = count, .pulse = {}}, *parts.network, graph,
                  [](NodeId, Step) { return Duration{}; }),
        world{transport, graph, observer, *parts.topology, 1, 1} {
    for (NodeId i = 0; i < count; ++i) nodes.emplace_back(world, i);
  }

  void run(const Program& program) {
    for (Node& node : nodes) transport.spawn(node.id(), true, program(node));
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
  std::deque<Node> nodes;
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

Task<> idle(Node& node, double& resident) {
  co_await node.sleep(std::chrono::seconds(1));
  if (node.id() == 0) resident = resident_bytes();
}

double messages_per_second(NodeId nodes, Step rounds, bool is_unequal) {
  Place place(nodes);
  const double begin = computed();
  place.run([=](Node& node) { return ping_pong(node, rounds, is_unequal); });
  return static_cast<double>(nodes) * static_cast<double>(rounds) / (computed() - begin);
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
  const double begin = computed();
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
  return static_cast<double>(nodes) * static_cast<double>(rounds) / (computed() - begin);
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
  const Step messages = count > 2 ? std::max(1, std::atoi(words[2])) : 4'000'000;
  // First, while the memory is new.
  constexpr NodeId many = 1'000'000;
  {
    Place place(many);
    double resident = 0;
    place.run([&resident](Node& node) { return idle(node, resident); });
    fmt::print("{:>9} nodes that sleep: {:.0f} B each\n", many, (resident - place.before) / many);
  }
  for (const NodeId nodes : {1'000, 100'000}) {
    for (const bool is_unequal : {false, true}) measure(nodes, is_unequal, repetitions, messages);
  }
}
