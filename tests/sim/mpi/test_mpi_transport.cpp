// What a program may rely on over MPI, on however many ranks mpirun starts (run_mpi_tests.py starts
// several numbers). Every rank runs every test; checks are made where the node lives. A REQUIRE
// that stops one rank alone would leave the others waiting, so there are only CHECKs.
//
// With an argument (fail-alone, fail-quietly, fail-together, lose-one, leave-early, train-until-signal) the program
// instead does as a whole what must never hang.

#define DOCTEST_CONFIG_IMPLEMENT
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <omp.h>
#include <unistd.h>

#include "sim/base/error.hpp"
#include "sim/engine/network_model.hpp"
#include "sim/engine/simulated_transport.hpp"
#include "sim/mpi/gradient_worker.hpp"
#include "sim/mpi/message_header.hpp"
#include "sim/mpi/records.hpp"
#include "sim/node/row_store.hpp"
#include "tests/sim/mpi/scarce_memory.hpp"
#include "tests/sim/mpi/small_world.hpp"

namespace starling::test {
namespace {

MpiSession* the_session = nullptr;

/// value, value + 1, ..
Vector counting(ComputeGraph& graph, std::size_t size, float value) {
  std::span<float> room;
  Vector v = graph.make(size, room);
  std::iota(room.begin(), room.end(), value);
  return v;
}

bool is_counting(ComputeGraph& graph, const Vector& v, std::size_t size, float value) {
  const auto numbers = graph.read(v);
  if (numbers.size() != size) return false;
  for (std::size_t i = 0; i < size; ++i) {
    if (numbers[i] != value + static_cast<float>(i)) return false;
  }
  return true;
}

NodeId right_of(const Node& node) { return (node.id() + 1) % node.nodes(); }
NodeId left_of(const Node& node) { return (node.id() + node.nodes() - 1) % node.nodes(); }

/// Nodes per rank differ: some ranks host two, some three.
NodeId uneven() { return 2 * session().ranks() + (session().ranks() + 1) / 2; }

// --- The session ---------------------------------------------------------------------------------

TEST_CASE("a rank counts from 0 among those of its machine, whose GPUs they take in turn") {
  char machine[256] = "";
  gethostname(machine, sizeof machine - 1);
  const std::vector<std::string> machines = session().gather(machine);
  const std::string own = fmt::format("{} of {}", session().rank_here(), session().ranks_here());
  const std::vector<std::string> found = session().gather(own);
  std::map<std::string, int> next;
  for (std::size_t r = 0; r < found.size(); ++r) {  // on rank 0 only
    const auto here = std::ranges::count(machines, machines[r]);
    CHECK(found[r] == fmt::format("{} of {}", next[machines[r]]++, here));
  }
}

// --- Headers -------------------------------------------------------------------------------------

TEST_CASE("a header that no rank of this run can have sent is told, with what was expected") {
  const MessageHeader good{.tag = 7,
                           .number = 0,
                           .sent = 0,
                           .size = 3,
                           .marks = 0,
                           .filler = 0,
                           .source = 0,
                           .destination = 4};
  const auto read = [](const MessageHeader& header) {
    return read_message_header(std::as_bytes(std::span(&header, 1)), 5);
  };
  CHECK(read(good).destination == 4);
  const auto refused = [&](auto change, const char* sentence) {
    MessageHeader header = good;
    change(header);
    CHECK_THROWS_WITH_AS(read(header),
                         (std::string("a message from another rank: expected ") + sentence).c_str(),
                         Error);
  };
  refused([](MessageHeader& h) { h.destination = 5; }, "nodes from 0 to 4, found 5");
  refused([](MessageHeader& h) { h.source = -1; }, "nodes from 0 to 4, found -1");
  refused([](MessageHeader& h) { h.size = 1U << 31; },
          "at most 2147483647 numbers, found 2147483648");
  refused([](MessageHeader& h) { h.filler = (1ULL << 42) + 1; },
          "at most 4398046511104 bytes of filler, found 4398046511105");
  CHECK_THROWS_WITH_AS(read_message_header(std::as_bytes(std::span(&good, 1)).first(47), 5),
                       "a message from another rank: expected a header of 48 bytes, found 47",
                       Error);
}

// --- Blocks --------------------------------------------------------------------------------------

TEST_CASE("every node lives in the block of its rank, and blocks differ by one node at most") {
  for (NodeId nodes = 1; nodes <= 40; ++nodes) {
    for (int ranks = 1; ranks <= nodes; ++ranks) {
      NodeId next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const NodeBlock block = block_of(rank, ranks, nodes);
        CHECK(block.begin == next);
        CHECK(block.end - block.begin >= nodes / ranks);
        CHECK(block.end - block.begin <= nodes / ranks + 1);
        for (NodeId node = block.begin; node < block.end; ++node)
          CHECK(rank_of(node, ranks, nodes) == rank);
        next = block.end;
      }
      CHECK(next == nodes);
    }
  }
}

// --- Messages ------------------------------------------------------------------------------------

Task<> pass_vectors(Node& node, ComputeGraph& graph) {
  // Sizes on both sides of what MPI sends at once and what it sends on demand; a slice; nothing at
  // all.
  const auto start = static_cast<float>(node.id());
  const Vector big = counting(graph, 300'000, start);
  node.send(right_of(node), 1, counting(graph, 3, start), 0.1 * node.id());
  node.send(right_of(node), 2, big);
  node.send(right_of(node), 3, big.slice(17, 5));
  node.send(right_of(node), make_tag(65535, 9), {}, -1e300);
  Vector doubled = counting(graph, 10, 0);
  doubled.scale(2);  // not computed yet when it is sent
  node.send(right_of(node), 4, doubled);

  const NodeId left = left_of(node);
  const auto from = static_cast<float>(left);
  const Message last = co_await node.receive(left, make_tag(65535, 9));
  CHECK(!last.values);
  CHECK(last.number == -1e300);
  CHECK(last.source == left);
  CHECK(last.tag == make_tag(65535, 9));
  const Message first = co_await node.receive(left, 1);
  CHECK(is_counting(graph, first.values, 3, from));
  CHECK(first.number == 0.1 * left);
  const Message second = co_await node.receive(left, 2);
  CHECK(is_counting(graph, second.values, 300'000, from));
  const Message third = co_await node.receive(left, 3);
  CHECK(is_counting(graph, third.values, 5, from + 17));
  const Message fourth = co_await node.receive(left, 4);
  CHECK(graph.read(fourth.values)[9] == 18);
}

TEST_CASE("a vector arrives with the bits, the number and the tag it was sent with") {
  for (const NodeId nodes : {static_cast<NodeId>(session().ranks()), uneven()}) {
    Quadratic workload(nodes, 4);
    SmallRun run(nodes, workload);
    run([&](Node& node) { return pass_vectors(node, run.around.graph); });
    CHECK(run.transport.active() == 0);
  }
}

constexpr int burst = 60;

Task<> burst_to_right(Node& node, ComputeGraph& graph) {
  // Big and small ones take different ways through MPI, and must not overtake each other.
  for (int i = 0; i < burst; ++i) {
    const std::size_t size = i % 3 == 0 ? 50'000 : i % 3 == 1 ? 2 : 0;
    node.send(right_of(node), static_cast<Tag>(i % 2),
              size > 0 ? counting(graph, size, static_cast<float>(i)) : Vector{}, i);
  }
  for (int i = 1; i < burst; i += 2) {
    const Message message = co_await node.receive(left_of(node), 1);
    CHECK(message.number == i);
    if (message.values) CHECK(graph.read(message.values)[0] == static_cast<float>(i));
  }
  for (int i = 0; i < burst; i += 2) {
    const Message message = co_await node.receive(any_source, 0);
    CHECK(message.number == i);
    if (message.values) CHECK(graph.read(message.values)[0] == static_cast<float>(i));
  }
}

TEST_CASE("messages of one source and tag are received in the order they were sent") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  SmallRun run(nodes, workload);
  run([&](Node& node) { return burst_to_right(node, run.around.graph); });
  // Every message was delivered, in the order sent: tags alternate.
  for (NodeId node = run.transport.block().begin; node < run.transport.block().end; ++node) {
    std::uint64_t delivered = 0;
    for (const Act& act : run.around.recorder.acts[static_cast<std::size_t>(node)]) {
      if (act.kind == Act::Kind::delivery) CHECK(act.what == delivered++ % 2);
    }
    CHECK(delivered == burst);
  }
}

Task<> all_to_first(Node& node) {
  if (node.id() != 0) {
    node.send(0, 5, {}, node.id());
    co_return;
  }
  double sum = 0;
  for (NodeId i = 1; i < node.nodes(); ++i) {
    const Message message = co_await node.receive(any_source, 5);
    CHECK(message.number == message.source);
    sum += message.number;
  }
  CHECK(sum == 0.5 * node.nodes() * (node.nodes() - 1));
}

TEST_CASE("a receive from anybody takes every sender's message once") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  SmallRun run(nodes, workload);
  run(all_to_first);
}

Task<> wander(Node& node, ComputeGraph& graph, std::int64_t& received) {
  // 50 tokens per node make 20 hops each to nodes drawn at random; whoever holds one passes it on.
  // A node ends when it hears that all tokens have come to rest, which node 0 counts.
  constexpr int tokens = 50;
  constexpr int hops = 20;
  const auto next = [&](Step k) {
    return static_cast<NodeId>(
        node.random("hop", k).below(static_cast<std::uint64_t>(node.nodes())));
  };
  Step draw = 0;
  for (int i = 0; i < tokens; ++i)
    node.send(next(draw++), 1, counting(graph, 1 + 3000 * (i % 2), 7), hops - 1);
  std::int64_t at_rest = 0;
  for (;;) {
    const Message message = co_await node.receive(any_source);
    if (message.tag == 3) break;
    if (message.tag == 1) {
      ++received;
      CHECK(graph.read(message.values)[0] == 7);
      if (message.number > 0) {
        node.send(next(draw++), 1, message.values, message.number - 1);
      } else {
        node.send(0, 2);
      }
    } else if (++at_rest == tokens * node.nodes()) {
      for (NodeId i = 0; i < node.nodes(); ++i) node.send(i, 3);
    }
  }
}

TEST_CASE("messages that cross in all directions arrive once each") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  SmallRun run(nodes, workload);
  std::int64_t received = 0;
  run([&](Node& node) { return wander(node, run.around.graph, received); });
  // 50 tokens per node, 20 hops each.
  std::int64_t all = 0;
  for (const std::string& text : session().gather(std::to_string(received)))
    all += std::stoll(text);
  CHECK(all == (session().rank() == 0 ? nodes * 50 * 20 : 0));
}

TEST_CASE("messages within a rank bypass MPI") {
  const NodeId nodes = 3 * session().ranks();
  Quadratic workload(nodes, 4);
  SmallRun run(nodes, workload);
  run([&](Node& node) { return pass_vectors(node, run.around.graph); });
  // A ring, five messages per node: of three nodes in a row, two send within the rank (all, if it
  // is alone).
  const auto statistics = run.transport.statistics();
  const bool is_alone = session().ranks() == 1;
  CHECK(statistics.messages_within == (is_alone ? 15 : 10));
  CHECK(statistics.messages_sent == (is_alone ? 0 : 5));
  CHECK(statistics.messages_received == statistics.messages_sent);
}

// --- Time ----------------------------------------------------------------------------------------

Task<> wait_for_time(Node& node) {
  const Time begin = node.now();
  co_await node.sleep(from_seconds(0.003));
  CHECK(node.now() - begin >= from_seconds(0.003));

  const std::vector<Pattern> unused{{any_source, 77}, {left_of(node), 79}};
  const Time deadline = after(node.now(), from_seconds(0.002));
  const auto nothing = co_await node.select(unused, deadline);
  CHECK(nothing.index == 2);
  CHECK(node.now() >= deadline);
  CHECK(!nothing.message.values);

  // The message comes before the deadline, which then must not disturb anybody.
  const std::vector<Pattern> patterns{{any_source, 77}, {left_of(node), 78}};
  node.send(right_of(node), 78, {}, 5);
  const Time far = after(node.now(), from_seconds(60));
  const auto something = co_await node.select(patterns, far);
  CHECK(something.index == 1);
  CHECK(something.message.number == 5);
  CHECK(node.now() < far);
  // A deadline in the past: at once, but only if nothing is there.
  const auto again = co_await node.select(patterns, begin);
  CHECK(again.index == 2);
}

TEST_CASE("a sleep lasts its time, a select ends at its deadline or with the message") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  SmallRun run(nodes, workload);
  run(wait_for_time);
}

Task<> note_order(Node& node, std::vector<int>& order, int number) {
  co_await node.sleep(from_seconds(number == 0 ? 0.002 : 0));
  order.push_back(number);
}

Task<> spawn_several(Node& node, std::vector<int>& order) {
  for (int i = 0; i < 4; ++i) node.spawn(note_order(node, order, i));
  co_return;
}

TEST_CASE("fibres that are due go on in the order of their calls") {
  const NodeId nodes = session().ranks();
  Quadratic workload(nodes, 4);
  SmallRun run(nodes, workload);
  std::vector<int> order;
  run([&](Node& node) { return spawn_several(node, order); });
  CHECK(order == std::vector<int>{1, 2, 3, 0});
}

TEST_CASE("the clock of a rank is off rank 0's by no more than the measurement says") {
  // All ranks of this test share a host and thus a clock, so the offset is the error.
  const auto measured = session().measure_clock_offset(10);
  CHECK(std::abs(measured.nanoseconds) <= measured.error);
  CHECK(session().clock_offset().error >= 0);
}

// --- Gradients -----------------------------------------------------------------------------------

Task<> serve(Node& node, std::atomic<bool>& has_served) {
  const Message request = co_await node.receive(any_source, 1);
  node.send(request.source, 2, {}, 42);
  has_served = true;
}

Task<> compute_while_asked(Node& node, ComputeGraph& graph, std::atomic<bool>& has_served,
                           bool& could_serve) {
  if (node.id() == 0) {
    const NodeId last = node.nodes() - 1;
    const Vector x = node.initial_model();
    node.spawn(serve(node, has_served));
    const Gradient g = co_await node.gradient(x);
    // The gradient's kernel waits until the request has been answered, so it could be.
    could_serve = has_served;
    CHECK(graph.read(g.values)[0] == 0.5F);
    node.send(last, 3);
  } else if (node.id() == node.nodes() - 1) {
    node.send(0, 1);
    const Message reply = co_await node.receive(0, 2);
    CHECK(reply.number == 42);
    co_await node.receive(0, 3);
  }
}

TEST_CASE("a node answers while it computes") {
  const NodeId nodes = std::max(2, session().ranks());
  Quadratic workload(nodes, 4);
  std::atomic<bool> has_served = false;
  bool could_serve = false;
  workload.before_gradient = [&](const GradientRequest&) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!has_served && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  SmallRun run(nodes, workload);
  run([&](Node& node) {
    return compute_while_asked(node, run.around.graph, has_served, could_serve);
  });
  if (session().rank() == 0) CHECK(could_serve);
}

Task<> change_during_gradient(Node& node, ComputeGraph& graph, std::shared_ptr<Vector> x) {
  const Gradient g = co_await node.gradient(*x);
  CHECK(graph.read(g.values)[0] == 0.5F - static_cast<float>(node.id()));
  CHECK(graph.read(*x)[0] == 5.0F);
}

Task<> scale_shared(std::shared_ptr<Vector> x) {
  x->scale(10);
  co_return;
}

Task<> gradient_and_change(Node& node, ComputeGraph& graph) {
  auto x = std::make_shared<Vector>(node.initial_model());
  node.spawn(change_during_gradient(node, graph, x));
  node.spawn(scale_shared(x));
  co_return;
}

TEST_CASE(
    "a gradient is taken at the model it was given, whatever becomes of the model meanwhile") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  SmallRun run(nodes, workload);
  run([&](Node& node) { return gradient_and_change(node, run.around.graph); });
}

Task<> one_gradient(Node& node) {
  const Time begin = node.now();
  const Gradient g = co_await node.gradient(node.initial_model());
  CHECK(node.now() - begin >= from_seconds(0.005));
  CHECK(g.values.size() == node.parameters());
}

TEST_CASE("a gradient takes at least its modelled time, with numbers or without") {
  const NodeId nodes = uneven();
  for (const bool has_numbers : {true, false}) {
    Quadratic workload(nodes, 4, 0, has_numbers);
    SmallRun run(nodes, workload, 1, [](NodeId, Step, BatchName) { return from_seconds(0.005); });
    run(one_gradient);
  }
}

Task<> plain_gradient(Node& node) { co_await node.gradient(node.initial_model()); }

TEST_CASE("gradients have as many threads as the rank was given") {
  const NodeId nodes = uneven();
  const int before = omp_get_max_threads();
  for (const int threads : {1, 3}) {
    omp_set_num_threads(threads);
    Quadratic workload(nodes, 4);
    std::atomic<int> found = 0;
    workload.before_gradient = [&](const GradientRequest&) { found = omp_get_max_threads(); };
    SmallRun run(nodes, workload);
    run(plain_gradient);
    CHECK(found == threads);
  }
  omp_set_num_threads(before);
}

// --- Workloads that the network sees bigger than they are ----------------------------------------

Task<> pass_models(Node& node) {
  for (Step k = 0; k < 5; ++k) {
    node.send(right_of(node), static_cast<Tag>(k), node.initial_model(), static_cast<double>(k));
    node.send(right_of(node), static_cast<Tag>(k), {}, 0.5);
    const Message message = co_await node.receive(left_of(node), static_cast<Tag>(k));
    CHECK(message.values.size() == node.parameters());
    CHECK(message.number == static_cast<double>(k));
    const Message notice = co_await node.receive(left_of(node), static_cast<Tag>(k));
    CHECK(notice.number == 0.5);
  }
}

TEST_CASE(
    "a workload without numbers, or with a big one's bytes, sends what the network shall see") {
  const NodeId nodes = uneven();
  for (const bool has_numbers : {true, false}) {
    Quadratic workload(nodes, 1000, 250'000, has_numbers);
    SmallRun run(nodes, workload, 1, [](NodeId, Step, BatchName) { return Duration{0}; });
    run(pass_models);
    // Five models of 1 MB and five notices of 16 bytes per node.
    for (NodeId i = run.transport.block().begin; i < run.transport.block().end; ++i) {
      const NodeTotals& totals = run.around.recorder.nodes[static_cast<std::size_t>(i)];
      CHECK(totals.bytes_sent == (nodes > 1 ? 5 * (1'000'000 + 16) : 0));
    }
  }
}

/// Sends `vector` around; every node must find it as long on the wire as it left the first.
Task<> pass_on(Node& node, Vector vector) {
  const std::int64_t bytes = vector.wire_bytes();
  for (NodeId hop = 0; hop < node.nodes(); ++hop) {
    node.send(right_of(node), static_cast<Tag>(hop), vector);
    const Message message = co_await node.receive(left_of(node), static_cast<Tag>(hop));
    vector = concatenate(std::array{message.values});
    CHECK(vector.wire_bytes() == bytes);
  }
}

TEST_CASE("what another rank passes on is as long on the wire as it came") {
  const NodeId nodes = uneven();
  const auto around = [nodes](Quadratic& workload, auto part) {
    SmallRun run(nodes, workload, 1, [](NodeId, Step, BatchName) { return Duration{0}; });
    run([part](Node& node) { return pass_on(node, part(node.initial_model())); });
  };
  const auto third = [](const Vector& model) { return model.share(1, 3); };
  const auto numbers = [](const Vector& model) { return model.slice(0, 14).as_numbers(); };
  for (const std::int64_t wire_parameters : {1000, 31, 250'000}) {
    Quadratic whole(nodes, 1000, wire_parameters);
    Quadratic hollow(nodes, 1000, wire_parameters, false);
    around(hollow, third);
    around(hollow, numbers);
    around(whole, third);
    around(whole, numbers);
  }
}

TEST_CASE("a workload without numbers needs modelled compute time") {
  const NodeId nodes = session().ranks();
  Quadratic workload(nodes, 4, 0, false);
  CHECK_THROWS_WITH_AS(SmallRun(nodes, workload), doctest::Contains("needs the modelled one"),
                       Error);
}

// --- Ends ----------------------------------------------------------------------------------------

Task<> leave_mail(Node& node, ComputeGraph& graph) {
  for (int i = 0; i < 20; ++i) node.send(right_of(node), 9, counting(graph, 100'000, 1));
  co_return;
}

Task<> expect_no_mail(Node& node) {
  co_await node.sleep(from_seconds(0.005));
  const auto mail = node.poll(any_source, any_tag);
  CHECK(!mail.has_value());
}

TEST_CASE("a run ends with messages that nobody received, and the next one does not see them") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  {
    SmallRun run(nodes, workload);
    run([&](Node& node) { return leave_mail(node, run.around.graph); });
    for (NodeId i = run.transport.block().begin; i < run.transport.block().end; ++i) {
      CHECK(run.transport.mailbox().unreceived(i) == 20);
    }
  }
  SmallRun next(nodes, workload);
  next(expect_no_mail);
}

TEST_CASE("more ranks than nodes is an error on every rank") {
  if (session().ranks() == 1) return;
  const NodeId nodes = session().ranks() - 1;
  Quadratic workload(nodes, 4);
  CHECK_THROWS_WITH_AS(SmallRun(nodes, workload), doctest::Contains("every rank must host a node"),
                       Error);
}

Task<> wait_for_left(Node& node) {
  if (node.id() == 0) co_return;
  co_await node.receive(left_of(node), 12);
}

TEST_CASE("a deadlock is reported on all ranks: who waits for whom") {
  const NodeId nodes = std::max(2, session().ranks());
  Quadratic workload(nodes, 4);
  SmallRun run(nodes, workload);
  const std::string text = run.failure(wait_for_left);
  CHECK(text.find("deadlock at") != text.npos);
  CHECK(text.find("node 1 waits for node 0 (tag 12)") != text.npos);
  CHECK(text.find("node 0 waits") == text.npos);
  SmallRun again(nodes, workload);
  CHECK_THROWS_AS(again(wait_for_left), Stalled);  // so its numbers are whole, and are kept
}

Task<> wait_or_sleep(Node& node) {
  // Nothing happens anywhere for ten counts of the census, but node 0 will wake up.
  if (node.id() == 0) {
    co_await node.sleep(from_seconds(0.2));
    for (NodeId i = 1; i < node.nodes(); ++i) node.send(i, 12);
    co_return;
  }
  co_await node.receive(0, 12);
}

TEST_CASE("a long silence is no deadlock while somebody sleeps") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  SmallRun run(nodes, workload);
  CHECK(run.failure(wait_or_sleep) == "");
}

Task<> wait_or_compute(Node& node) {
  if (node.id() == 0) {
    const Gradient g = co_await node.gradient(node.initial_model());
    for (NodeId i = 1; i < node.nodes(); ++i) node.send(i, 12, g.values);
    co_return;
  }
  co_await node.receive(0, 12);
}

TEST_CASE("a long silence is no deadlock while somebody computes") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  workload.before_gradient = [](const GradientRequest&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  };
  SmallRun run(nodes, workload);
  CHECK(run.failure(wait_or_compute) == "");
}

Task<> fail_on_last(Node& node, ComputeGraph& graph) {
  // Big messages are under way in all directions when the last node fails.
  for (int i = 0; i < 10; ++i) node.send(right_of(node), 1, counting(graph, 200'000, 1));
  if (node.id() == node.nodes() - 1) throw Error("no coffee left");
  co_await node.receive(any_source, 99);
}

TEST_CASE("an error of one node ends the run on all ranks with the same words") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  SmallRun run(nodes, workload);
  const std::string text =
      run.failure([&](Node& node) { return fail_on_last(node, run.around.graph); });
  CHECK(text.find("no coffee left") != text.npos);
  CHECK(text.find("node " + std::to_string(nodes - 1) + " at") != text.npos);
  CHECK(session().broadcast(text) == text);
}

Task<> flood_last_rank(Node& node, ComputeGraph& graph, NodeId last) {
  if (node.id() != last) {
    for (int i = 0; i < 10; ++i) node.send(last, 1, counting(graph, 200'000 + 1000 * i, 1));
    node.send(last, 2, counting(graph, 3, 1));
  }
  co_await node.receive(any_source, 99);
}

TEST_CASE("a rank without room for a message ends the run on all ranks and is named") {
  if (session().ranks() == 1) return;
  const NodeId nodes = session().ranks();
  const std::string expected =
      fmt::format("rank {} of {} has no room for a message: out of memory: asked for too much",
                  nodes - 1, nodes);
  for (const bool stands_in : {false, true}) {
    Quadratic workload(nodes, 100'000, stands_in ? 150'000 : 0);
    SmallRun run(nodes, workload);
    if (session().rank() == nodes - 1) run.around.backend.most = 150'000;
    CHECK(run.failure([&](Node& node) {
      return flood_last_rank(node, run.around.graph, nodes - 1);
    }) == expected);
  }
  // All that was sent has been received: the next run does not see it.
  Quadratic workload(nodes, 4);
  SmallRun next(nodes, workload);
  next(expect_no_mail);
}

Task<> train_alone(Node& node) {
  Vector x = node.initial_model();
  for (;;) {
    const Gradient g = co_await node.gradient(x);
    x.add_scaled(-0.1, g.values);
  }
}

TEST_CASE("a gradient is handed over where no memory is left") {
  Quadratic workload(1, 4);
  workload.before_gradient = [](const GradientRequest&) { largest_block = 0; };
  Surroundings around(1, workload, 1, ComputeGraph::Execution::inline_);
  GradientWorker worker(workload);
  worker.submit(
      {nullptr, around.graph.begin_gradient(0, 0, around.graph.initial_model()), Time{}, nullptr});
  while (largest_block != 0) worker.nap(std::chrono::milliseconds(1));
  worker.nap(std::chrono::hours(1));
  largest_block = any_block;
  std::list<GradientWorker::Work> finished = worker.take_finished();
  CHECK(finished.size() == 1);
  for (GradientWorker::Work& work : finished) {
    CHECK(!work.failure);
    around.graph.finish_gradient(work.job);
    CHECK(work.job.result.loss.value() > 0);
  }
}

/// Counts the blocks that are not released.
class CountingBackend final : public CpuBackend {
 public:
  float* allocate(std::size_t count) override {
    ++blocks;
    return CpuBackend::allocate(count);
  }
  void release(float* values, std::size_t count) noexcept override {
    --blocks;
    CpuBackend::release(values, count);
  }
  int blocks = 0;
};

TEST_CASE("rows for which there is no room leave no memory behind, those in use come back to it") {
  constexpr RowStore::ValueId count = 100;
  CountingBackend backend;
  {
    RowStore rows(backend);
    rows.fit(count + 1);
    for (RowStore::ValueId value = 0; value <= count; ++value) rows.expect(value, 60, 1, true);
    for (RowStore::ValueId value = 0; value < 8; ++value) rows.make(value);  // all of a slab
    bool is_refused = false;
    largest_block = 0;
    try {
      rows.make(8);
    } catch (const std::bad_alloc&) {
      is_refused = true;
    }
    largest_block = any_block;
    CHECK(is_refused);
    CHECK(backend.blocks == 1);
    for (RowStore::ValueId value = 8; value < count; ++value) rows.make(value);
    largest_block = 0;
    for (RowStore::ValueId value = 0; value < count; ++value) rows.drop(value);
    largest_block = any_block;
    CHECK(backend.blocks > 1);
  }
  CHECK(backend.blocks == 0);
}

TEST_CASE("a loss that is no number ends the run on all ranks and names the node") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  workload.poisoned_node = nodes - 1;
  SmallRun run(nodes, workload);
  const std::string text = run.failure(train_alone);
  CHECK(text.find("loss of node " + std::to_string(nodes - 1)) != text.npos);
}

TEST_CASE("an error inside a gradient's kernel ends the run on all ranks and names the node") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  workload.before_gradient = [](const GradientRequest& request) {
    if (request.node == 0 && request.draw == 3) throw Error("device lost");
  };
  SmallRun run(nodes, workload);
  CHECK(run.failure(train_alone) == "gradient 3 of node 0: device lost");
}

TEST_CASE("an interrupt on one rank interrupts all, and the results so far can be gathered") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  int pulses = 0;
  SmallRun run(nodes, workload, 1, {}, [&] {
    if (++pulses == 2 && session().rank() == session().ranks() - 1) throw Interrupted(15);
  });
  int signal = 0;
  try {
    run(train_alone);
  } catch (const Interrupted& interrupted) {
    signal = interrupted.signal();
  }
  CHECK(signal == 15);
  KnownRanks known;
  gather_results(session(), run.transport.block(), run.around.graph, run.around.observer,
                 run.around.recorder, true, known);
  CHECK(known.size() == (session().rank() == 0 ? session().ranks() - 1 : 0));
  if (session().rank() == 0) {
    for (const NodeTotals& totals : run.around.recorder.nodes) CHECK(totals.compute > Duration{0});
  }
}

// --- Results -------------------------------------------------------------------------------------

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

/// Of the nodes of `block`, from the beginning to a row.
void record_rows(Recorder& recorder, NodeBlock block, std::size_t rows) {
  for (NodeId node = block.begin; node < block.end; ++node) {
    std::vector<Act>& acts = recorder.acts[static_cast<std::size_t>(node)];
    for (std::size_t row = acts.size(); row < rows; ++row) {
      const auto column = static_cast<std::size_t>(node);
      recorder.steps.cell("time", row, column) = static_cast<double>(1000 * node) + row;
      acts.push_back(Act::resume(static_cast<std::int32_t>(row)));
      recorder.timeline.push_back({node, Activity::compute, Time{}, Time{Duration{1}}});
    }
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
  std::string failure;
  try {
    report(60, true);
  } catch (const Error& error) {
    failure = error.what();
  }
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
  std::string failure;
  KnownRanks known;
  if (session().rank() == last) largest_block = 500;
  try {
    gather_results(session(), block, around.graph, around.observer, around.recorder, true, known);
  } catch (const Error& error) {
    failure = error.what();
  }
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
    run.around.observer.settle();
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
    around.observer.settle();
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

// --- Whole programs that end badly ---------------------------------------------------------------

/// What every program does about an error: catch it inside the session's life, print it if the
/// session says so, tell the session.
template <class Body>
int guarded(MpiSession& mpi, Body body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    if (mpi.speaks()) std::fprintf(stderr, "error: %s\n", error.what());
    mpi.fail();
    return 1;
  }
}

int fail_alone(MpiSession& mpi, bool is_quiet) {
  return guarded(mpi, [&] {
    if (mpi.rank() == mpi.ranks() - 1) throw Error("this rank found no data");
    if (!is_quiet) mpi.barrier();  // for which the failing rank will never come
  });
}

int fail_together(MpiSession& mpi) {
  return guarded(mpi, [&] {
    Quadratic workload(mpi.ranks(), 4);
    SmallRun run(mpi.ranks(), workload);
    run([&](Node& node) { return fail_on_last(node, run.around.graph); });
  });
}

volatile std::sig_atomic_t caught_signal = 0;

int train_until_signal(MpiSession& mpi) {
  for (const int number : {SIGINT, SIGTERM})
    std::signal(number, [](int caught) { caught_signal = caught; });
  Quadratic workload(mpi.ranks(), 4);
  SmallRun run(
      mpi.ranks(), workload, 1, [](NodeId, Step, BatchName) { return from_seconds(0.01); },
      [] {
        if (caught_signal != 0) throw Interrupted(caught_signal);
      });
  mpi.barrier();
  if (mpi.rank() == 0) {
    std::puts("training");
    std::fflush(stdout);
  }
  try {
    run(train_alone);
  } catch (const Interrupted& interrupted) {
    KnownRanks known;
    gather_results(mpi, run.transport.block(), run.around.graph, run.around.observer,
                   run.around.recorder, true, known);
    std::ptrdiff_t results = 0;
    for (const NodeTotals& totals : run.around.recorder.nodes)
      results += totals.compute > Duration{0} ? 1 : 0;
    if (mpi.rank() == 0) std::printf("interrupted, results of %td nodes\n", results);
    // mpirun, interrupted itself, does not wait for what is written to a pipe at the end.
    std::fflush(stdout);
    return 128 + interrupted.signal();
  }
  return 0;
}

/// While results are gathered one rank has ended, when rank 0 has got those of some of the others. On rank 0: whose it has in
/// the end; everything once.
int lose_one(MpiSession& mpi) {
  constexpr std::size_t rows = 20;
  const int ended = mpi.ranks() - 2;
  const NodeId nodes = mpi.ranks();
  const NodeBlock block = block_of(mpi.rank(), mpi.ranks(), nodes);
  Quadratic workload(nodes, 4);
  Surroundings around(nodes, workload, rows, ComputeGraph::Execution::inline_);
  Recorder& recorder = around.recorder;
  recorder.acts.resize(static_cast<std::size_t>(nodes));
  record_rows(recorder, block, rows);
  recorder.statistics["ranks"] = 1;
  mpi.barrier();  // a busy machine may start ranks one after the other
  mpi.limit_waits(std::chrono::seconds(3), nullptr);
  if (mpi.rank() == ended) std::this_thread::sleep_for(std::chrono::hours(1));
  return guarded(mpi, [&] {
    KnownRanks known;
    try {
      gather_results(mpi, block, around.graph, around.observer, recorder, true, known);
    } catch (const Lost&) {
      gather_what_is_left(mpi, block, recorder, known, nullptr);
      if (mpi.rank() == 0) {
        std::string told;
        for (const std::vector<Act>& acts : recorder.acts) told += fmt::format(" {}", acts.size());
        std::printf("acts%s, %zu segments, %g ranks\n", told.c_str(), recorder.timeline.size(),
                    recorder.statistics["ranks"]);
        std::fflush(stdout);
      }
      throw;
    }
  });
}

/// Rank 0 waits in vain for the last one, while those between have come to their end.
int leave_early(MpiSession& mpi) {
  mpi.barrier();
  mpi.limit_waits(std::chrono::seconds(3), nullptr);
  const int hanging = mpi.ranks() - 1;
  if (mpi.rank() == hanging) std::this_thread::sleep_for(std::chrono::hours(1));
  if (mpi.rank() > 0) return 0;
  return guarded(mpi, [&] { mpi.receive_text(hanging); });
}

}  // namespace

MpiSession& session() { return *the_session; }

int run_mode(std::string_view mode) {
  if (mode == "train-until-signal") return train_until_signal(session());
  if (mode == "fail-together") return fail_together(session());
  if (mode == "lose-one") return lose_one(session());
  if (mode == "leave-early") return leave_early(session());
  return fail_alone(session(), mode == "fail-quietly");
}

}  // namespace starling::test

int main(int count, char** arguments) {
  starling::MpiSession session;
  starling::test::the_session = &session;
  if (count > 1 && arguments[1][0] != '-') return starling::test::run_mode(arguments[1]);
  doctest::Context context(count, arguments);
  context.setOption("no-colors", true);
  context.setOption("minimal", session.rank() != 0);
  return context.run();
}
