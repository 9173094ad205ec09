// The simulated place of programs: messages, waiting, errors and collectives, at times worked out by hand.
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/sim/engine/simulation.hpp"
#include "tests/support/fault.hpp"
#include "tests/support/message_of.hpp"

namespace starling::test_simulated_transport {
using namespace std::chrono_literals;

namespace {

using test::latency;
using test::Simulation;
using Log = std::vector<std::string>;

Task<> ping_pong(Node& node, Log& log) {
  const NodeId peer = 1 - node.id();
  if (node.id() == 0) {
    node.send(peer, 1, {}, 41);
    const Message m = co_await node.receive(peer, 2);
    log.push_back(std::to_string(m.number) + " at " + std::to_string(to_seconds(node.now())));
  } else {
    co_await node.sleep(5ms);
    const Message m = co_await node.receive(peer);
    node.send(peer, 2, {}, m.number + 1);
  }
}

Task<> wait_with_deadline(Node& node, Log& log) {
  if (node.id() == 1) {
    co_await node.sleep(3ms);
    node.send(0, 5);
    co_return;
  }
  const Pattern patterns[] = {{any_source, 4}, {1, 5}};
  const Time early = node.now() + Duration(std::chrono::milliseconds(2));
  const Node::Select::Result late = co_await node.select(patterns, early);
  log.push_back("first " + std::to_string(late.index) + " at " +
                std::to_string(to_seconds(node.now())));
  const Time enough = node.now() + Duration(std::chrono::milliseconds(2));
  const Node::Select::Result got = co_await node.select(patterns, enough);
  log.push_back("then " + std::to_string(got.index) + " at " +
                std::to_string(to_seconds(node.now())));
}

Task<> serve(Node& node, Log& log) {
  const Message m = co_await node.receive(any_source, 1);
  log.push_back("served at " + std::to_string(to_seconds(node.now())));
  node.send(m.source, 2);
}

Task<> compute_and_serve(Node& node, Log& log) {
  if (node.id() == 0) {
    node.spawn(serve(node, log));
    const Vector x = node.initial_model();
    const Gradient g = co_await node.gradient(x);
    log.push_back("computed at " + std::to_string(to_seconds(node.now())));
  } else {
    node.send(0, 1);
    co_await node.receive(0, 2);
  }
}

/// Node 1 sends at 0, 0.4 and 2.6 ms.
Task<> abandon(Node& node, Log& log) {
  if (node.id() == 1) {
    node.send(0, 7, {}, 1);
    co_await node.sleep(400us);
    node.send(0, 7, {}, 2);
    co_await node.sleep(2200us);
    node.send(0, 7, {}, 3);
    co_return;
  }
  co_await node.sleep(100us);  // the first message is there
  const Vector x = node.initial_model();
  for (Step k = 0; k < 4; ++k) {
    const auto got = co_await node.gradient_unless(1, 7, 0, k, x);
    log.push_back((got.gradient ? "gradient" : "message " + std::to_string(got.message.number)) +
                  " at " + std::to_string(to_seconds(node.now())));
  }
  const Message last = co_await node.receive(1, 7);
  log.push_back("message " + std::to_string(last.number));
}

Task<> wait_for_each_other(Node& node) { co_await node.receive(1 - node.id(), 3); }

Task<> fail_later(Node& node) {
  co_await node.sleep(2ms);
  if (node.id() == 2) throw Error("out of luck");
  co_await node.receive(any_source);
}

/// A message goes from node to node; one of them computes before it takes it.
Task<> pass_along(Node& node, NodeId computing) {
  const Vector x = node.initial_model();
  if (node.id() == computing) co_await node.gradient(x);
  if (node.id() > 0) co_await node.receive(node.id() - 1, 1);
  if (node.id() + 1 < node.nodes()) node.send(node.id() + 1, 1, {});
}

Task<> pass_on(Node& node, Signal& came) {
  const Message m = co_await node.receive(0, 1);
  came.notify();
}

struct Shared {
  explicit Shared(Node& node) : changed(node) {}
  Signal changed;
  int turn = 0;
};

Task<> second_fibre(Node& node, Shared& shared, Log& log) {
  co_await node.sleep(1ms);
  shared.turn = 1;
  shared.changed.notify();
  while (shared.turn < 2) co_await shared.changed.wait();
  log.push_back("second");
  shared.turn = 3;
  shared.changed.notify();
}

Task<> first_fibre(Node& node, Log& log) {
  Shared shared(node);
  node.spawn(second_fibre(node, shared, log));
  while (shared.turn < 1) co_await shared.changed.wait();
  log.push_back("first");
  shared.turn = 2;
  shared.changed.notify();
  while (shared.turn < 3) co_await shared.changed.wait();
}

Task<> meet_all(Node& node, const std::vector<NodeId>& members, std::vector<double>& times) {
  co_await node.sleep(Duration(std::chrono::milliseconds(node.id())));
  const std::shared_ptr<Met> met =
      co_await node.meet(9, members, CollectiveKind::recursive_doubling, node.initial_model());
  times.push_back(met ? to_seconds(node.now()) : -1.0);
}

/// Brings a code of 50, 100, 20 or 10 bytes; nodes come in their order.
Task<> meet_with_codes(Node& node, CollectiveKind kind) {
  const std::int64_t bytes[] = {50, 100, 20, 10};
  const Code code{node.initial_model(), bytes[node.id()]};
  co_await node.sleep(Duration(std::chrono::milliseconds(node.id())));
  co_await node.meet(9, node.everybody(), kind, code);
}

/// Even nodes bring the list that all share, odd ones a copy.
Task<> meet_by_any_list(Node& node, std::vector<double>& times) {
  const std::span<const NodeId> everybody = node.everybody();
  const std::vector<NodeId> copy(everybody.begin(), everybody.end());
  const std::span<const NodeId> members = node.id() % 2 == 0 ? everybody : copy;
  co_await node.sleep(Duration(std::chrono::milliseconds(node.id())));
  const std::shared_ptr<Met> met =
      co_await node.meet(9, members, CollectiveKind::recursive_doubling, node.initial_model());
  times.push_back(met ? to_seconds(node.now()) : -1.0);
}

Task<> announce_from_two(Node& node, Log& log) {
  if (node.id() == 0) {
    node.announce(7, 1);
    co_return;
  }
  if (node.id() == 3) node.announce(7, 1);  // already announced
  const Message m = co_await node.receive(0, 7);
  log.push_back(std::to_string(node.id()) + " at " + std::to_string(to_seconds(node.now())));
}

/// Its timers have the largest cookie, or one more.
class Cookies final : public NetworkModel {
 public:
  explicit Cookies(bool is_too_large)
      : cookie_((std::uint64_t{1} << 61) - (is_too_large ? 0 : 1)) {}
  void start(const Transfer& transfer, NetworkClock& clock) override {
    id_ = transfer.id;
    clock.set_timer(clock.now() + latency, cookie_);
  }
  void on_timer(std::uint64_t cookie, NetworkClock& clock) override {
    ensure(cookie == cookie_, "another cookie");
    clock.deliver(clock.now(), id_);
  }
  LinkCost link_cost() const override { return {latency, 0}; }

 private:
  std::uint64_t cookie_;
  std::uint32_t id_ = 0;
};

/// Announces a delivery, takes it back, and settles it for the same time after all, at that very time.
class Wavers final : public NetworkModel {
 public:
  void start(const Transfer& transfer, NetworkClock& clock) override {
    id_ = transfer.id;
    clock.deliver(clock.now() + latency, id_);
    clock.set_timer(clock.now() + latency / 2, 0);
    clock.set_timer(clock.now() + latency, 1);
  }
  void on_timer(std::uint64_t cookie, NetworkClock& clock) override {
    if (cookie == 0) return clock.put_off(id_);
    clock.deliver(clock.now(), id_);
  }
  LinkCost link_cost() const override { return {latency, 0}; }

 private:
  std::uint32_t id_ = 0;
};

Task<> tell_once(Node& node) {
  if (node.id() == 0) {
    node.send(1, 1);
  } else {
    co_await node.receive(0, 1);
  }
}

}  // namespace

TEST_CASE("messages take the network's time and wait for their receiver") {
  Simulation simulation(2);
  Log log;
  simulation.run([&log](Node& node) { return ping_pong(node, log); });
  CHECK(log == Log{"42.000000 at 0.005010"});  // node 1 slept 5 ms, then one latency back
}

TEST_CASE("a select ends at its deadline or with the first message that matches") {
  Simulation simulation(2);
  Log log;
  simulation.run([&log](Node& node) { return wait_with_deadline(node, log); });
  CHECK(log == Log{"first 2 at 0.002000", "then 1 at 0.003010"});
}

TEST_CASE("a node serves messages while it computes") {
  Simulation simulation(2);
  Log log;
  simulation.run([&log](Node& node) { return compute_and_serve(node, log); });
  CHECK(log == Log{"served at 0.000010", "computed at 0.001000"});
  CHECK(simulation.recorder.nodes[0].compute == Duration(std::chrono::milliseconds(1)));
}

TEST_CASE("a gradient is abandoned when the message comes, and does not begin if it was there") {
  Simulation simulation(2);
  Log log;
  simulation.run([&log](Node& node) { return abandon(node, log); });
  CHECK(log == Log{"message 1.000000 at 0.000100", "message 2.000000 at 0.000410",
                   "gradient at 0.001410", "gradient at 0.002410", "message 3.000000"});
  CHECK(simulation.recorder.nodes[0].compute == Duration(2310us));
}

TEST_CASE(
    "a blocked receive is waiting until the message was sent and communicating from then on") {
  Simulation simulation(2);
  Log log;
  simulation.run([&log](Node& node) { return ping_pong(node, log); });
  CHECK(simulation.recorder.nodes[0].wait == Duration(std::chrono::milliseconds(5)));
  CHECK(simulation.recorder.nodes[0].communicate == latency);
  // Node 1 slept; the message was there when it asked.
  CHECK(simulation.recorder.nodes[1].wait == Duration(std::chrono::milliseconds(5)));
  CHECK(simulation.recorder.nodes[1].communicate == Duration(0));
}

TEST_CASE(
    "who waits for nodes that the network holds up communicates, not who waits for their "
    "gradient") {
  // Node 0 computes for 1 ms, and each of the others passes its message on: only that holds them up.
  Simulation chain(4);
  chain.run([](Node& node) { return pass_along(node, 0); });
  for (const std::size_t node : {1U, 2U, 3U}) {
    CHECK(chain.recorder.nodes[node].wait == Duration(1ms));
    CHECK(chain.recorder.nodes[node].communicate == static_cast<int>(node) * latency);
  }

  // Node 1 takes the message only after a gradient of its own.
  Simulation late(3);
  late.run([](Node& node) { return pass_along(node, 1); });
  CHECK(late.recorder.nodes[1].communicate == Duration(0));
  CHECK(late.recorder.nodes[2].wait == Duration(1ms));
  CHECK(late.recorder.nodes[2].communicate == latency);

  // The same by fibres: what node 1 passes on, its program waits for, and so does node 2.
  Simulation fibres(3);
  fibres.run([](Node& node) -> Task<> {
    if (node.id() == 0) {
      co_await node.sleep(1ms);
      node.send(1, 1, {});
    } else if (node.id() == 1) {
      Signal came(node);
      node.spawn(pass_on(node, came));
      co_await came.wait();
      node.send(2, 1, {});
    } else {
      const Message m = co_await node.receive(1, 1);
    }
  });
  CHECK(fibres.recorder.nodes[1].wait == Duration(1ms));
  CHECK(fibres.recorder.nodes[1].communicate == latency);
  CHECK(fibres.recorder.nodes[2].wait == Duration(1ms));
  CHECK(fibres.recorder.nodes[2].communicate == 2 * latency);
}

TEST_CASE("a deadlock is reported with who waits for whom") {
  Simulation simulation(2);
  CHECK(test::message_of([&] { simulation.run(wait_for_each_other); }) ==
        "deadlock at 0 s of virtual time: node 0 waits for node 1 (tag 3) since 0 s; node 1 waits "
        "for node 0 (tag 3) since 0 s");
}

TEST_CASE("an error in a program names node and time") {
  Simulation simulation(4);
  CHECK(test::message_of([&] { simulation.run(fail_later); }) == "node 2 at 0.002 s: out of luck");
}

TEST_CASE("fibres of one node wake each other by signals") {
  Simulation simulation(1);
  Log log;
  simulation.run([&log](Node& node) { return first_fibre(node, log); });
  CHECK(log == Log{"first", "second"});
}

TEST_CASE("a closed-form collective ends for all members at its formula after the last has come") {
  // 4 members, the last at 3 ms; recursive doubling of empty-bandwidth messages costs log2(4) * 10 us.
  Simulation simulation(4, true);
  const std::vector<NodeId> members{0, 1, 2, 3};
  std::vector<double> times;
  simulation.run([&](Node& node) { return meet_all(node, members, times); });
  CHECK(times.size() == 4);
  for (const double time : times) CHECK(time == doctest::Approx(0.003020));
  CHECK(simulation.recorder.nodes[0].wait == Duration(std::chrono::milliseconds(3)));
  CHECK(simulation.recorder.nodes[0].communicate == 2 * latency);
}

TEST_CASE("codes of different sizes meet as if all were as large as the largest") {
  // 10 us and 1 us per byte, from 3 ms on. Recursive doubling: twice 10 + 100 us, and 2 messages of 100 bytes each. Ring: six times
  // 10 + 25 us, and 6 of 25. Allgather: three times 10 + 100 us; node 0 sends on all codes but its right neighbor's of 100.
  const auto meet = [](CollectiveKind kind) {
    Simulation simulation(4, true, {}, nullptr, Simulation::make_network(4, "10 us", "1 MB/s"));
    simulation.run([kind](Node& node) { return meet_with_codes(node, kind); });
    return std::tuple(simulation.transport.now() - Time{3ms},
                      simulation.recorder.nodes[0].messages_sent,
                      simulation.recorder.nodes[0].bytes_sent);
  };
  CHECK(meet(CollectiveKind::recursive_doubling) == std::tuple(Duration{220us}, 2, 200));
  CHECK(meet(CollectiveKind::ring) == std::tuple(Duration{210us}, 6, 150));
  CHECK(meet(CollectiveKind::allgather) == std::tuple(Duration{330us}, 3, 80));
}

TEST_CASE("all nodes have one list of all nodes, and meet by it or by an equal one") {
  Simulation simulation(4, true);
  std::vector<double> times;
  simulation.run([&times](Node& node) { return meet_by_any_list(node, times); });
  CHECK(times.size() == 4);
  for (const double time : times) CHECK(time == doctest::Approx(0.003020));  // as by any other list
  const std::span<const NodeId> everybody = simulation.nodes[0].everybody();
  CHECK(std::ranges::equal(everybody, std::vector<NodeId>{0, 1, 2, 3}));
  CHECK(simulation.nodes[3].everybody().data() == everybody.data());
}

TEST_CASE("without closed forms a meeting sends everybody back to messages") {
  Simulation simulation(2, false);
  const std::vector<NodeId> members{0, 1};
  std::vector<double> times;
  simulation.run([&](Node& node) { return meet_all(node, members, times); });
  CHECK(times == std::vector<double>{-1, -1});
}

TEST_CASE("an announcement reaches a node after as many hops as bits differ, and is made once") {
  Simulation simulation(4, true);
  Log log;
  simulation.run([&log](Node& node) { return announce_from_two(node, log); });
  CHECK(log == Log{"1 at 0.000010", "2 at 0.000010", "3 at 0.000020"});
}

TEST_CASE("an announcement past the end of the clock is an error, not an early arrival") {
  Simulation simulation(8, true, {}, nullptr,
                        Simulation::make_network(8, "1000 h"));  // node 7 is three hops away
  Log log;
  CHECK_THROWS_WITH_AS(simulation.run([&log](Node& node) { return announce_from_two(node, log); }),
                       doctest::Contains("virtual time passes the end of the clock"), Error);
}

TEST_CASE("a delivery that was put off and comes at its time after all is not lost") {
  Simulation simulation(2, false, {}, nullptr, std::make_unique<Wavers>());
  simulation.run(tell_once);  // else it would wait for ever
  CHECK(simulation.transport.now() == Time{latency});
}

TEST_CASE("a cookie of a network model that an event has no room for is a fault") {
  const auto run = [](bool is_too_large) {
    return test::fault_of([&] {
      Simulation simulation(2, false, {}, nullptr, std::make_unique<Cookies>(is_too_large));
      simulation.run(tell_once);
    });
  };
  CHECK(run(false) == "");
  CHECK(run(true).find("an event has room for the cookie of a network model") != std::string::npos);
}

}  // namespace starling::test_simulated_transport
