// Long messages wait for their receivers (sim/node/rendezvous.hpp). The network takes 10 us, whatever the length.

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/sim/engine/simulation.hpp"
#include "tests/support/fault.hpp"
#include "tests/support/message_of.hpp"

namespace starling::test_rendezvous {
namespace {

using test::latency;

constexpr Duration late = std::chrono::milliseconds(1);

/// Two nodes, all whose vectors are long.
struct Pair : test::Simulation {
  Pair() : Simulation(2, false, {}, nullptr, nullptr, control_bytes) {}
};

Vector numbers(Node& node) { return node.zeros(16); }

}  // namespace

TEST_CASE("a long message sets off when its receiver asks for it, a short one at once") {
  Pair pair;
  std::vector<Time> came;
  pair.run([&](Node& node) -> Task<> {
    if (node.id() == 0) {
      node.send(1, 1, numbers(node));
      node.send(1, 2, {}, 7);
      co_return;
    }
    co_await node.sleep(late);
    const Message shorter = co_await node.receive(0, 2);
    came.push_back(node.now());
    const Message longer = co_await node.receive(0, 1);
    came.push_back(node.now());
  });
  CHECK(came == std::vector<Time>{Time{late}, Time{late + latency}});
}

TEST_CASE("a receive that waits lets a message set off as soon as it is sent") {
  Pair pair;
  Time came{};
  pair.run([&](Node& node) -> Task<> {
    if (node.id() == 0) {
      co_await node.sleep(late);
      node.send(1, 1, numbers(node));
      co_return;
    }
    const Message m = co_await node.receive(any_source);
    came = node.now();
  });
  CHECK(came == Time{late + latency});
}

TEST_CASE("one receive lets one message set off, and messages of a tag keep their order") {
  Pair pair;
  std::vector<Time> came;
  std::vector<double> order;
  pair.run([&](Node& node) -> Task<> {
    if (node.id() == 0) {
      node.send(1, 1, numbers(node), 1);
      node.send(1, 1, {}, 2);  // behind a long one, with which it sets off
      node.send(1, 1, {}, 3);
      node.send(1, 1, numbers(node), 4);
      node.send(1, 1, {}, 5);
      co_return;
    }
    for (int i = 0; i < 5; ++i) {
      const Message m = co_await node.receive(0, 1);
      came.push_back(node.now());
      order.push_back(m.number);
      co_await node.sleep(late);
    }
  });
  CHECK(order == std::vector<double>{1, 2, 3, 4, 5});
  const Duration first = latency, second = first + 3 * late + latency;
  CHECK(came == std::vector<Time>{Time{first}, Time{first + late}, Time{first + 2 * late},
                                  Time{second}, Time{second + late}});
}

TEST_CASE("a sender waits until its messages are through") {
  Pair pair;
  std::vector<Time> went_on;
  pair.run([&](Node& node) -> Task<> {
    if (node.id() == 0) {
      node.send(1, 1, numbers(node));
      node.send(1, 1, numbers(node));
      node.send(1, 2, {}, 7);
      co_await node.sent(2);  // short
      went_on.push_back(node.now());
      co_await node.sent(1);
      went_on.push_back(node.now());
      co_await node.sent(1);  // nothing is under way any more
      went_on.push_back(node.now());
      co_return;
    }
    co_await node.sleep(late);
    const Message first = co_await node.receive(0, 1);
    const Message second = co_await node.receive(0, 1);
  });
  const Time through{late + 2 * latency};
  CHECK(went_on == std::vector<Time>{Time{}, through, through});
  CHECK(pair.recorder.nodes[0].wait == late);
  CHECK(pair.recorder.nodes[0].communicate == 2 * latency);
}

TEST_CASE("posted receives let all messages of a tag set off, until they are closed") {
  Pair pair;
  std::vector<Time> came;
  pair.run([&](Node& node) -> Task<> {
    if (node.id() == 0) {
      node.send(1, 1, numbers(node));  // held until they are posted
      co_await node.sleep(2 * late);
      node.send(1, 1, numbers(node));
      co_await node.sleep(2 * late);
      node.send(1, 1, numbers(node));  // held: they are closed
      co_return;
    }
    co_await node.sleep(late);
    node.post_receives(1);
    co_await node.sleep(2 * late);
    node.close_receives(1);
    for (int i = 0; i < 2; ++i) {  // have come meanwhile
      const Message m = co_await node.receive(0, 1);
      came.push_back(node.now());
    }
    co_await node.sleep(2 * late);
    const Message m = co_await node.receive(0, 1);
    came.push_back(node.now());
  });
  CHECK(came == std::vector<Time>{Time{3 * late}, Time{3 * late}, Time{5 * late + latency}});
}

TEST_CASE("a program that polls asks for the message, and finds it later") {
  Pair pair;
  std::vector<bool> found;
  pair.run([&](Node& node) -> Task<> {
    if (node.id() == 0) {
      node.send(1, 1, numbers(node));
      co_return;
    }
    for (int i = 0; i < 2; ++i) {
      co_await node.sleep(late);
      found.push_back(node.poll(0, 1).has_value());
    }
  });
  CHECK(found == std::vector<bool>{false, true});
}

TEST_CASE("a receive whose deadline has passed lets nothing set off any more") {
  Pair pair;
  std::vector<Time> came;
  pair.run([&](Node& node) -> Task<> {
    if (node.id() == 0) {
      co_await node.sleep(2 * late);
      node.send(1, 1, numbers(node));
      co_return;
    }
    const Pattern patterns[] = {{0, 1}};
    const auto got = co_await node.select(patterns, Time{late});
    CHECK(got.index == 1);
    co_await node.sleep(2 * late);
    const Message m = co_await node.receive(0, 1);
    came.push_back(node.now());
  });
  CHECK(came == std::vector<Time>{Time{3 * late + latency}});
}

TEST_CASE("a stall names the messages that nobody has asked for") {
  Pair pair;
  const std::string failure = test::message_of<Stalled>([&] {
    pair.run([&](Node& node) -> Task<> {
      node.send(1 - node.id(), 5, numbers(node));
      co_await node.sent(5);
    });
  });
  CAPTURE(failure);
  CHECK(failure.find("node 1 has posted no receive for a message of node 0 (tag 5)") !=
        std::string::npos);
  CHECK(failure.find("node 0 has posted no receive for a message of node 1 (tag 5)") !=
        std::string::npos);
}

TEST_CASE("two fibres of a node that wait for what it sent by one tag are a fault of the program") {
  const auto wait = [](Node& node) -> Task<> { co_await node.sent(1); };
  const std::string fault = test::fault_of([&] {
    Pair pair;
    pair.run([&](Node& node) -> Task<> {
      if (node.id() == 1) co_return;
      node.send(1, 1, numbers(node));
      node.spawn(wait(node));
      co_await node.sent(1);
    });
  });
  CHECK(fault.find("two fibres of a node wait") != std::string::npos);
}

}  // namespace starling::test_rendezvous
