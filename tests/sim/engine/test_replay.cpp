// A replay: events come in the recorded order, whatever virtual time says, and a run that cannot follow says why. The
// network takes 10 us.
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/engine/replay.hpp"
#include "tests/sim/engine/simulation.hpp"
#include "tests/support/message_of.hpp"

namespace starling::test_replay {
using namespace std::chrono_literals;

namespace {

using test::Simulation;
using Log = std::vector<std::string>;
using Acts = std::vector<std::vector<Act>>;

Time at(Duration duration) { return Time{duration}; }

/// What happened, by the clock of the simulation.
void note(Log& log, const Simulation& simulation, const std::string& what) {
  log.push_back(what + " at " + std::to_string(to_seconds(simulation.transport.now())));
}

/// Node i > 0 sends after i ms; node 0 takes what comes.
Task<> gather(Node& node, Simulation& simulation, Log& log) {
  if (node.id() > 0) {
    co_await node.sleep(node.id() * Duration(1ms));
    node.send(0, 7);
    co_return;
  }
  for (NodeId i = 1; i < node.nodes(); ++i) {
    const Message m = co_await node.receive(any_source, 7);
    note(log, simulation, std::to_string(m.source));
  }
}

std::string failure(Replay& replay, Log& log) {
  Simulation simulation(3, false, {}, &replay);
  return test::message_of<Stalled>(
      [&] { simulation.run([&](Node& node) { return gather(node, simulation, log); }); });
}

/// Of a node that sleeps.
const std::vector<Act> sleeper{Act::resume(0), Act::resume(0)};

Task<> wait_twice(Node& node, Simulation& simulation, Log& log) {
  if (node.id() == 1) {
    co_await node.sleep(3ms);
    node.send(0, 5);
    co_return;
  }
  const Pattern patterns[] = {{1, 5}};
  for (int i = 0; i < 2; ++i) {
    const Time until = after(node.now(), 1ms);
    const Node::Select::Result got = co_await node.select(patterns, until);
    note(log, simulation, got.index == 0 ? "message" : "deadline");
  }
  note(log, simulation, node.now() > at(1s) ? "late" : "early");
}

Log run_waiting(const Acts& acts) {
  Log log;
  Replay replay(acts);
  Simulation simulation(2, false, {}, &replay);
  simulation.run([&](Node& node) { return wait_twice(node, simulation, log); });
  CHECK(replay.describe_mismatch() == "");
  return log;
}

Task<> add(Node& node, Simulation& simulation, Log& log, int number) {
  co_await node.sleep(number * Duration(1ms));
  note(log, simulation, std::to_string(number));
}

Task<> spawn_three(Node& node, Simulation& simulation, Log& log) {
  for (int i = 1; i <= 3; ++i) node.spawn(add(node, simulation, log, i));
  co_return;
}

}  // namespace

TEST_CASE("an act is done when its turn comes, and what is held until then is released in order") {
  const Acts acts{{Act::resume(0), Act::delivery(1, 7), Act::delivery(1, 8), Act::clock(at(9ms))}};
  Replay replay(acts);
  CHECK_FALSE(replay.is_next(0, Act::delivery(1, 7)));
  replay.hold(0, Act::delivery(1, 8), 18);
  replay.hold(0, Act::delivery(1, 7), 17);
  replay.hold(0, Act::deadline(0), 19);
  CHECK_FALSE(replay.release(0).has_value());
  CHECK(replay.is_next(0, Act::resume(0)));
  CHECK(replay.release(0) == 17);
  CHECK(replay.release(0) == 18);
  CHECK_FALSE(replay.release(0).has_value());
  CHECK(replay.read_clock(0) == at(9ms));
  CHECK(replay.describe_mismatch() ==
        "in the recorded run node 0, after 4 acts, is at its end, but here it sees a deadline of "
        "its fibre 0 pass");
  CHECK(replay.withdraw(0, Act::deadline(0)) == 19);
  CHECK_FALSE(replay.withdraw(0, Act::deadline(0)).has_value());
  CHECK(replay.describe_mismatch() == "");
  CHECK_THROWS_WITH_AS(replay.read_clock(0),
                       "in the recorded run node 0, after 4 acts, is at its end, but here it asks "
                       "for the time",
                       Error);
}

TEST_CASE("whatever was recorded next is named when something else happens") {
  const Acts resume{{Act::resume(2)}};
  Replay resumes(resume);
  CHECK_THROWS_WITH_AS(
      resumes.read_clock(0),
      "in the recorded run node 0, after 0 acts, goes on with its fibre 2, but here "
      "it asks for the time",
      Error);
  const Acts clock{{Act::clock(at(9ms))}};
  Replay reads(clock);
  reads.hold(0, Act::deadline(1), 5);
  CHECK(
      reads.describe_mismatch() ==
      "in the recorded run node 0, after 0 acts, asks for the time, but here it sees a deadline of "
      "its fibre 1 pass");
}

TEST_CASE("messages come in the recorded order, each as early as that lets it") {
  Log log;
  const Acts acts{{Act::resume(0), Act::delivery(2, 7), Act::delivery(1, 7)}, sleeper, sleeper};
  Replay replay(acts);
  CHECK(failure(replay, log) == "no error");
  // That of node 1 is there after 1.01 ms and waits for that of node 2.
  CHECK(log == Log{"2 at 0.002010", "1 at 0.002010"});
  CHECK(replay.describe_mismatch() == "");
}

TEST_CASE("a message may come before its receiver has begun") {
  Log log;
  const Acts acts{{Act::delivery(1, 7), Act::resume(0), Act::delivery(2, 7)}, sleeper, sleeper};
  Replay replay(acts);
  CHECK(failure(replay, log) == "no error");
  CHECK(log == Log{"1 at 0.001010", "2 at 0.002010"});
}

TEST_CASE("a deadline that passed in the real run passes, though the message is there") {
  // By virtual time the deadlines are at 1 and 2 ms and the message at 3.01 ms; clock readings say 5 s and 7 s, so
  // deadlines are at 5.001 s and 7.001 s. The message is held from 3.01 ms on, until both have passed.
  const Acts acts{{Act::resume(0), Act::clock(at(5s)), Act::deadline(0), Act::clock(at(7s)),
                   Act::deadline(0), Act::clock(at(8s)), Act::delivery(1, 5)},
                  sleeper};
  CHECK(run_waiting(acts) ==
        Log{"deadline at 5.001000", "deadline at 7.001000", "late at 7.001000"});
}

TEST_CASE("a deadline that did not pass does not, and cannot be taken for the next one") {
  // The first deadline is due at 1 ms and held; the message at 3.01 ms makes an end of it. The next, of the same
  // fibre, is due at 4 ms, and must be what passes: the acts alone do not tell them apart.
  const Acts acts{{Act::resume(0), Act::clock(at(0ms)), Act::delivery(1, 5), Act::clock(at(3ms)),
                   Act::deadline(0), Act::clock(at(4ms))},
                  sleeper};
  CHECK(run_waiting(acts) ==
        Log{"message at 0.003010", "deadline at 0.004000", "early at 0.004000"});
}

TEST_CASE("fibres of a node go on in the recorded order") {
  // Fibre 0 is the program; 1, 2 and 3 sleep as many ms. All are ready after 3 ms.
  const Acts acts{{Act::resume(0), Act::resume(2), Act::resume(1), Act::resume(3), Act::resume(3),
                   Act::resume(1), Act::resume(2)}};
  Log log;
  Replay replay(acts);
  Simulation simulation(1, false, {}, &replay);
  simulation.run([&](Node& node) { return spawn_three(node, simulation, log); });
  CHECK(log == Log{"3 at 0.003000", "1 at 0.003000", "2 at 0.003000"});
}

TEST_CASE("a run that does not follow ends with what was recorded and what happens instead") {
  Log log;
  const Acts nothing(3);  // cut before anything happened
  Replay idle(nothing, true);
  Log untouched;
  CHECK(failure(idle, untouched) == "no error");
  CHECK(untouched.empty());
  const Acts other{{Act::resume(0), Act::delivery(2, 9)}, sleeper, sleeper};
  Replay stuck(other);
  CHECK(failure(stuck, log) ==
        "the run does not follow the recorded one at 0.00201 s: in the recorded run node 0, after "
        "1 acts, gets a message of node 2 (tag 9), but here it gets a message of node 1 (tag 7)");
  CHECK(log.empty());
  const Acts shorter{{Act::resume(0), Act::delivery(1, 7)}, sleeper, sleeper};
  Replay ended(shorter);
  CHECK(failure(ended, log).find("is at its end, but here it gets a message of node 2") !=
        std::string::npos);
  const Acts longer{{Act::resume(0), Act::delivery(1, 7), Act::delivery(2, 7), Act::delivery(2, 7)},
                    sleeper,
                    sleeper};
  Replay waiting(longer);
  CHECK(failure(waiting, log)
            .find("node 0, after 3 acts, gets a message of node 2 (tag 7), but "
                  "here nothing happens to it") != std::string::npos);
}

TEST_CASE("where the real run was cut, the replay is cut") {
  // The message of node 2 came too late there, and its deadline of 1 s, if it had one, had not passed.
  const Acts acts{{Act::resume(0), Act::delivery(1, 7)}, sleeper, sleeper};
  Log log;
  Replay replay(acts, true);
  CHECK(failure(replay, log) == "no error");
  CHECK(log == Log{"1 at 0.001010"});
  CHECK(replay.is_at_cut());
  const Acts nothing(3);  // cut before anything happened
  Replay idle(nothing, true);
  Log untouched;
  CHECK(failure(idle, untouched) == "no error");
  CHECK(untouched.empty());
  const Acts other{{Act::resume(0), Act::delivery(2, 9)}, sleeper, sleeper};
  Replay stuck(other, true);
  CHECK(failure(stuck, log).find("node 0, after 1 acts, gets a message of node 2 (tag 9)") !=
        std::string::npos);
}

}  // namespace starling::test_replay
