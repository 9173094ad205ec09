// Who is away when: schedules, chances, and what a wrong [failures] section is told.

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/engine/failures.hpp"
#include "tests/support/section_of_keys.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_failures {
namespace {

using test::Keys;
using test::TemporaryFile;

constexpr NodeId nodes = 8;

Failures failures(const Keys& keys, std::uint64_t seed = 1) {
  return Failures(read_failures(test::section_of_keys("failures", keys), nodes), nodes, seed);
}

constexpr Time at(double seconds) {
  return Time(Duration(static_cast<std::int64_t>(seconds * 1e12)));
}

constexpr Duration second = Duration(1'000'000'000'000);

}  // namespace

TEST_CASE("stop, pause and join say who is away from when to when") {
  Failures f = failures({{"stop", "3 @ 2 s, 5 @ 500 ms"},
                         {"pause", "1 @ 1 s for 500 ms, 1 @ 4 s for 1 s"},
                         {"join", "4 @ 3 s"}});
  CHECK(!f.away_until(3, at(1.999)));
  CHECK(f.away_until(3, at(2)) == never);
  CHECK(f.away_until(5, at(0.5)) == never);
  CHECK(f.stopped(3, at(7)) == at(2));
  CHECK(!f.stopped(3, at(1)));
  CHECK(!f.away_until(1, at(0.999)));
  CHECK(f.away_until(1, at(1)) == at(1.5));
  CHECK(!f.away_until(1, at(1.5)));  // back at the end itself
  CHECK(f.away_until(1, at(4.5)) == at(5));
  CHECK(!f.stopped(1, at(4.5)));
  CHECK(f.away_until(4, at(0)) == at(3));
  CHECK(!f.away_until(0, at(100)));
  CHECK(f.absence(0, at(9)) == 0 * second);
  CHECK(f.absence(1, at(4.25)) == 3 * second / 4);
  CHECK(f.absence(1, at(9)) == 3 * second / 2);
  CHECK(f.absence(3, at(9)) == 7 * second);
  CHECK(f.absence(4, at(2)) == 2 * second);
}

TEST_CASE("outages that touch or overlap are one") {
  Failures f = failures({{"pause", "1 @ 1 s for 1 s, 1 @ 2 s for 1 s, 1 @ 2500 ms for 2 s"},
                         {"stop", "1 @ 4 s, 2 @ 5 s"},
                         {"join", "2 @ 5 s"}});
  CHECK(f.away_until(1, at(1)) == never);
  CHECK(f.stopped(1, at(3)) == at(1));
  CHECK(f.away_until(2, at(0)) == never);  // begins when it stops
}

TEST_CASE("work rests during outages") {
  // Node 1 is away from 1 to 1.5 s and from 4 to 5 s, and stops at 9 s.
  Failures f = failures({{"pause", "1 @ 1 s for 500 ms, 1 @ 4 s for 1 s"}, {"stop", "1 @ 9 s"}});
  CHECK(f.finish(1, at(0), second) == at(1));  // done at the very instant of leaving
  CHECK(f.finish(1, at(0.5), second) == at(2));
  CHECK(f.finish(1, at(0.5), 4 * second) == at(6));
  CHECK(f.finish(1, at(5), 4 * second) == at(9));
  CHECK(f.finish(1, at(5.5), 4 * second) == at(9));  // stops before
  CHECK(f.finish(1, at(3.5), 5 * second) == at(9));  // the same after a pause
  CHECK(f.finish(1, at(9.5), second) == at(9.5));
  CHECK(f.finish(0, at(5.5), 4 * second) == at(9.5));
}

TEST_CASE("random outages have the means asked for, in whatever order one asks") {
  // Up 30 s, down 10 s on the mean: away a quarter of the time. 8 nodes, 40,000 s, 1,000 cycles of
  // each; the share of a cycle varies by sqrt(3) / 8 = 0.22 (delta method), so over 8,000 cycles by
  // 0.0024.
  const Keys keys = {{"mean_time_between_failures", "30 s"}, {"mean_time_to_repair", "10 s"}};
  Failures f = failures(keys);
  Failures backward = failures(keys);
  int away = 0;
  for (NodeId i = 0; i < nodes; ++i) {
    for (int t = 0; t < 40'000; ++t) away += f.away_until(i, at(t)).has_value();
    for (int t = 39'999; t > 39'000; --t)
      CHECK(backward.away_until(i, at(t)) == f.away_until(i, at(t)));
  }
  CHECK(std::abs(away / 320'000.0 - 0.25) < 4 * 0.0024);
  CHECK(failures(keys, 2).away_until(3, at(1'234)) != f.away_until(3, at(1'234)));
}

TEST_CASE("without repair a random failure is for ever, and reliable nodes have none") {
  // P(up at 10 s) = exp(-1) = 0.37 with a mean of 10 s; 300 seeds of 6 nodes, deviation 0.0114.
  int up = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Failures f = failures({{"mean_time_between_failures", "10 s"}, {"reliable_nodes", "2"}}, seed);
    for (NodeId i = 0; i < nodes; ++i) {
      const std::optional<Time> end = f.away_until(i, at(10));
      if (i < 2) CHECK(!end);
      if (end) CHECK(*end == never);
      if (i >= 2) up += !end;
    }
  }
  CHECK(std::abs(up / 1'800.0 - std::exp(-1.0)) < 4 * 0.0114);
}

TEST_CASE("messages are lost and doubled with their chances") {
  Failures f = failures({{"lose", "0.1"}, {"duplicate", "0.05"}});
  int lost = 0, doubled = 0;
  for (int m = 0; m < 40'000; ++m) {
    const Failures::Fate fate = f.next_message(m % nodes);
    lost += fate == Failures::Fate::lost;
    doubled += fate == Failures::Fate::duplicated;
  }
  CHECK(std::abs(lost / 40'000.0 - 0.1) < 4 * 0.0015);
  CHECK(std::abs(doubled / 40'000.0 - 0.05) < 4 * 0.0011);
}

TEST_CASE("a file of outages has a line for each") {
  const TemporaryFile file("node,begin,end\n2, 1, 1.5\n3,0,2\n2,7,inf\n");
  Failures f = failures({{"outages", file.path()}});
  CHECK(f.away_until(2, at(1.2)) == at(1.5));
  CHECK(f.away_until(3, at(0)) == at(2));
  CHECK(f.stopped(2, at(8)) == at(7));
  const auto expect = [](const std::string& text, const std::string& message) {
    const TemporaryFile wrong(text);
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(
        failures({{"outages", wrong.path()}}),
        doctest::Contains((": failures.outages " + wrong.path() + message).c_str()), ScenarioError);
  };
  expect("1,2\n", ":1: expected node,begin,end in seconds");
  // As node,begin,end this would be node 1, away from 2 s to 5 s.
  expect("begin,node,end\n1,2,5\n", ":1: expected the header node,begin,end, got");
  const TemporaryFile remark("# of last week\n1,2,5\n");
  CHECK(failures({{"outages", remark.path()}}).away_until(1, at(3)) == at(5));
  expect("8,1,2\n", ":1: expected a node from 0 to 7");
  expect("1,3,2\n", ":1: expected a begin that is not negative and before its end");
  expect("1,-3,2\n", ":1: expected a begin");
  expect("1,2,1e9\n", ":1: expected times before the end of the clock");
}

TEST_CASE("a file without outages is told") {
  const TemporaryFile file("node,begin,end\n");
  const Section section = test::section_of_keys("failures", {{"outages", file.path()}});
  CHECK(read_failures(section, nodes).outages.empty());
  CHECK(section.warnings() == std::vector<std::string>{"test.ini:7: failures.outages names " +
                                                       file.path() + ", which has no outages"});
}

TEST_CASE("a node past the end is told with the range, however large the number") {
  for (const char* node : {"12", "4294967297", "99999999999"}) {
    CAPTURE(node);
    CHECK_THROWS_WITH_AS(failures({{"stop", std::string(node) + " @ 2 s"}}),
                         doctest::Contains("must name nodes from 0 to 7, got "), ScenarioError);
  }
}

TEST_CASE("wrong failures are refused by name and place") {
  const auto expect = [](const Keys& keys, const std::string& message) {
    CAPTURE(message);
    CHECK_THROWS_WITH_AS(failures(keys), doctest::Contains(("test.ini:7: " + message).c_str()),
                         ScenarioError);
  };
  expect({{"stop", "8 @ 1 s"}}, "failures.stop must name nodes from 0 to 7, got 8");
  expect({{"stop", "3 @ 1"}},
         "failures.stop must be a list like \"3 @ 2 s, 5 @ 3 s\", got \"3 @ 1\"");
  expect({{"stop", "3 @ 1 s for 2 s"}}, "failures.stop must be a list like");
  expect({{"stop", "@ 1 s"}}, "failures.stop must be a list like");
  expect({{"stop", "-1 @ 1 s"}}, "failures.stop must be a list like");
  expect({{"pause", "3 @ 1 s"}}, "failures.pause must be a list like \"3 @ 2 s for 500 ms\"");
  expect({{"join", "x @ 1 s"}}, "failures.join must be a list like");
  expect({{"join", "4 @ 1e9 s"}},
         "failures.join must be a list like \"4 @ 1 s\", got \"4 @ 1e9 s\", whose time must be a "
         "duration");
  expect(
      {{"pause", "3 @ 2000 h for 2000 h"}},
      "failures.pause must be a list like \"3 @ 2 s for 500 ms\", got \"3 @ 2000 h for 2000 h\", "
      "which ends past the end of the clock (106 days)");
  expect({{"mean_time_between_failures", "1 ps"}},
         "failures.mean_time_between_failures must be 0 s or at least 1 us, got 1 ps");
  expect({{"mean_time_to_repair", "1 s"}},
         "failures.mean_time_to_repair needs mean_time_between_failures");
  expect({{"reliable_nodes", "9"}},
         "failures.reliable_nodes must be from 0 to the number of nodes, 8, got 9");
  expect({{"lose", "1.5"}}, "failures.lose must be from 0 to 1, got 1.5");
  expect({{"lose", "0.6"}, {"duplicate", "0.6"}},
         "failures.duplicate and lose together must be at most 1");
  expect({{"crash", "3 @ 1 s"}}, "failures.crash is not a key here");
}

}  // namespace starling::test_failures
