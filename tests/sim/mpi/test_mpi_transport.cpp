// What a program may rely on over MPI, on however many ranks mpirun starts (run_mpi_tests.py starts
// several numbers). Every rank runs every test; checks are made where the node lives. A REQUIRE
// that stops one rank alone would leave the others waiting, so there are only CHECKs.

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <omp.h>
#include <unistd.h>

#include "sim/base/error.hpp"
#include "sim/mpi/message_header.hpp"
#include "tests/sim/mpi/small_programs.hpp"

namespace starling::test {
namespace {

bool is_counting(ComputeGraph& graph, const Vector& v, std::size_t size, float value) {
  const auto numbers = graph.read(v);
  if (numbers.size() != size) return false;
  for (std::size_t i = 0; i < size; ++i) {
    if (numbers[i] != value + static_cast<float>(i)) return false;
  }
  return true;
}

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
                           .network_since = 0,
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

constexpr Tag last_tag = tag_of(static_cast<Channel>(65535), 9);

Task<> pass_vectors(Node& node, ComputeGraph& graph) {
  // Sizes on both sides of what MPI sends at once and what it sends on demand; a slice; nothing at
  // all.
  const auto start = static_cast<float>(node.id());
  const Vector big = counting(graph, 300'000, start);
  node.send(right_of(node), 1, counting(graph, 3, start), 0.1 * node.id());
  node.send(right_of(node), 2, big);
  node.send(right_of(node), 3, big.slice(17, 5));
  node.send(right_of(node), last_tag, {}, -1e300);
  Vector doubled = counting(graph, 10, 0);
  doubled.scale(2);  // not computed yet when it is sent
  node.send(right_of(node), 4, doubled);

  const NodeId left = left_of(node);
  const auto from = static_cast<float>(left);
  const Message last = co_await node.receive(left, last_tag);
  CHECK(!last.values);
  CHECK(last.number == -1e300);
  CHECK(last.source == left);
  CHECK(last.tag == last_tag);
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

/// Node 0 gives up its first gradient for a message of the last node.
Task<> give_up(Node& node, ComputeGraph& graph, std::atomic<bool>& has_given_up) {
  const NodeId last = node.nodes() - 1;
  if (node.id() == last) {
    co_await node.receive(0, 1);
    co_await node.sleep(std::chrono::milliseconds(5));
    node.send(0, 2, {}, 17);
    co_await node.receive(0, 3);
    node.send(0, 2, {}, 18);
    co_return;
  }
  if (node.id() != 0) co_return;
  node.send(last, 1);
  const Vector x = node.initial_model();
  const auto first = co_await node.gradient_unless(last, 2, 0, 1, x);
  CHECK(!first.gradient);
  CHECK(first.message.number == 17);
  has_given_up = true;
  const auto second = co_await node.gradient_unless(last, 2, 0, 2, x);
  if (!second.gradient) throw Error("a gradient is given up for nothing");
  if (graph.has_numbers()) CHECK(graph.read(second.gradient->values)[0] == 2.5F);
  node.send(last, 3);
  const Message late = co_await node.receive(last, 2);
  CHECK(late.number == 18);
}

TEST_CASE("a gradient is given up when the message comes, while it is computed or lasts") {
  const NodeId nodes = std::max(2, session().ranks());
  // While the kernel computes; while what is computed lasts; where there are no numbers.
  for (const std::string when : {"computed", "lasting", "without numbers"}) {
    CAPTURE(when);
    Quadratic workload(nodes, 4, 0, when != "without numbers");
    std::atomic<bool> has_given_up = false;
    workload.before_gradient = [&](const GradientRequest& request) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (when == "computed" && request.draw == 1 && !has_given_up &&
             std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    };
    SmallRun run(nodes, workload, 1, [&](NodeId, Step count, BatchName) {
      return from_seconds(count == 0 && when != "computed" ? 3600 : 0.001);
    });
    run([&](Node& node) { return give_up(node, run.around.graph, has_given_up); });
    if (session().rank() == 0) CHECK(has_given_up);
  }
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

}  // namespace
}  // namespace starling::test
