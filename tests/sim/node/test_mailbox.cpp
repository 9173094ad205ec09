#include <array>

#include <doctest/doctest.h>

#include "sim/node/mailbox.hpp"

using namespace starling;

namespace {

Message message(NodeId source, Tag tag, double number) {
  Message m;
  m.source = source;
  m.tag = tag;
  m.number = number;
  return m;
}

ReceiveWait* arrive(Mailbox& mailbox, NodeId node, Message m) { return mailbox.arrive(node, m); }

double take(Mailbox& mailbox, Pattern pattern) {
  const std::array<Pattern, 1> patterns{pattern};
  std::uint32_t matched = 0;
  const Message* m = mailbox.take(0, patterns, matched);
  return m == nullptr ? -1 : m->number;
}

}  // namespace

TEST_CASE("messages of one source and tag are received in order, others may be picked out") {
  Mailbox mailbox(2);
  CHECK(arrive(mailbox, 0, message(1, 7, 10)) == nullptr);
  CHECK(arrive(mailbox, 0, message(2, 7, 11)) == nullptr);
  CHECK(arrive(mailbox, 0, message(1, 8, 12)) == nullptr);
  CHECK(arrive(mailbox, 0, message(1, 7, 13)) == nullptr);
  CHECK(mailbox.unreceived(0) == 4);
  CHECK(mailbox.unreceived(1) == 0);
  CHECK(take(mailbox, {1, 8}) == 12);
  CHECK(take(mailbox, {1, 7}) == 10);
  CHECK(take(mailbox, {any_source, 7}) == 11);
  CHECK(take(mailbox, {3, any_tag}) == -1);
  CHECK(take(mailbox, {any_source, any_tag}) == 13);
  CHECK(mailbox.unreceived(0) == 0);
}

TEST_CASE("a message goes to the receive that has waited longest among those that accept it") {
  Mailbox mailbox(1);
  const std::array<Pattern, 1> fives{Pattern{any_source, 5}};
  const std::array<Pattern, 2> all{Pattern{9, 9}, Pattern{any_source, any_tag}};
  ReceiveWait first;
  ReceiveWait second;
  ReceiveWait third;
  first.patterns = fives;
  second.patterns = all;
  third.patterns = fives;
  mailbox.enqueue(0, first);
  mailbox.enqueue(0, second);
  mailbox.enqueue(0, third);
  Message six = message(1, 6, 1);
  CHECK(mailbox.arrive(0, six) == &second);
  CHECK(second.matched == 1);
  CHECK(second.message == &six);
  mailbox.withdraw(0, first);
  CHECK(arrive(mailbox, 0, message(1, 5, 2)) == &third);
  CHECK(arrive(mailbox, 0, message(1, 5, 3)) == nullptr);
  CHECK(mailbox.waiting(0) == nullptr);
}
