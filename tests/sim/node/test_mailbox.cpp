// Which message goes to which receive.
#include <algorithm>
#include <array>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/random.hpp"
#include "sim/node/mailbox.hpp"
#include "sim/node/transport.hpp"

namespace starling::test_mailbox {
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

TEST_CASE("messages that have arrived may be looked at in order") {
  Mailbox mailbox(2);
  CHECK(mailbox.arrived(0, 0) == nullptr);
  CHECK(mailbox.newest(0) == nullptr);
  for (const double number : {10, 11, 12}) arrive(mailbox, 0, message(1, 7, number));
  CHECK(take(mailbox, {1, 7}) == 10);
  REQUIRE(mailbox.arrived(0, 1) != nullptr);
  CHECK(mailbox.arrived(0, 0)->number == 11);
  CHECK(mailbox.arrived(0, 1)->number == 12);
  CHECK(mailbox.arrived(0, 2) == nullptr);
  CHECK(mailbox.newest(0) == mailbox.arrived(0, 1));
  CHECK(mailbox.arrived(1, 0) == nullptr);
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

TEST_CASE("among many messages the same are found as by looking at one after the other") {
  Mailbox mailbox(2);
  std::vector<Message> arrived;  // the slow twin: in order of arrival
  const auto take_from_twin = [&](Pattern pattern) {
    const auto found =
        std::ranges::find_if(arrived, [&](const Message& m) { return pattern.matches(m); });
    if (found == arrived.end()) return -1.0;
    const double number = found->number;
    arrived.erase(found);
    return number;
  };
  Random random(1, "mailbox");
  const auto draw = [&](std::uint64_t bound) { return random.below(bound); };
  std::size_t most = 0;
  for (int i = 0; i < 20'000; ++i) {
    // Grows to some hundreds, is emptied, and grows again.
    const bool grows = i % 4000 < 2000;
    if (draw(4) < (grows ? 3u : 1u)) {
      const Message m = message(static_cast<NodeId>(draw(30)), draw(4), i);
      CHECK(arrive(mailbox, 0, m) == nullptr);
      arrived.push_back(m);
    } else {
      const Pattern pattern{draw(8) == 0 ? any_source : static_cast<NodeId>(draw(30)),
                            draw(8) == 0 ? any_tag : draw(4)};
      REQUIRE(take(mailbox, pattern) == take_from_twin(pattern));
    }
    most = std::max(most, arrived.size());
    if (i % 4000 == 3999) {
      while (!arrived.empty()) REQUIRE(take(mailbox, {}) == take_from_twin({}));
    }
  }
  CHECK(most > 300);
  CHECK(mailbox.unreceived(0) == 0);
}

TEST_CASE("tags are told by channel, number and part") {
  CHECK(describe_tag(7) == "tag 7");
  CHECK(describe_tag(tag_of(Channel::collective, 2)) == "collective, tag 2");
  CHECK(describe_tag(tag_of_part(tag_of(Channel::chain, 5), 3)) == "chain, tag 5, part 3");
  CHECK(describe_tag(tag_of(static_cast<Channel>(99), 1)) == "channel 99, tag 1");
}

}  // namespace starling::test_mailbox
