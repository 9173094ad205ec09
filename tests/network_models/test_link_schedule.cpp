// Links of the fluid network that slow down, go away and come back, by a schedule or at random.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "network_models/link_schedule.hpp"
#include "sim/base/error.hpp"
#include "tests/network_models/scripted_run.hpp"
#include "tests/network_models/simple_network.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_link_schedule {
namespace {

using network_test::in_ns;
using network_test::Keys;
using network_test::simple;
using network_test::Times;
using network_test::with;

Keys scheduled(const test::TemporaryDirectory& directory, const std::string& rows) {
  return with(simple, {{"link_schedule", directory.write("s.csv", "time, link, factor\n" + rows)}});
}

std::string refusal(const std::string& rows) {
  const test::TemporaryDirectory directory;
  return test::behind("test.ini:7: network.link_schedule " + directory.path("s.csv"),
                      test::message_of<ScenarioError>(
                          [&] { network_test::network(scheduled(directory, rows), 4); }));
}

}  // namespace

TEST_CASE("fluid: while a link is away its messages stand still, and then they go on") {
  // A from 0 to 2, 4000 B, joins at 2000 ns. At 3000 its link up goes away, with 3000 B left; at
  // 10,000 it is back with half of its bandwidth, at 12,000 with all: 2000 B left then, so 14,000.
  // B from 1 to 2, 3000 B, joins at 2000 and shares the link down until 3000: 500 B of each are
  // through. Then it has that link alone.
  const test::TemporaryDirectory directory;
  const auto keys =
      scheduled(directory, "3 us, host 0 up, 0\n10 us, host 0 *, 0.5\n12 us, host 0 up, 1\n");
  const auto alone = network_test::network(keys, 4);
  CHECK(in_ns(network_test::ScriptedRun(*alone, {{0, 0, 2, 4'000}}).arrivals) == Times{14'000});
  // A has 3500 B left at 10,000, and 2500 at 12,000; B 2500 B at 3000, so it is gone by 5500.
  const auto both = network_test::network(keys, 4);
  CHECK(in_ns(network_test::ScriptedRun(*both, {{0, 0, 2, 4'000}, {0, 1, 2, 3'000}}).arrivals) ==
        Times{14'500, 5'500});
  // Who joins while the link is away waits like the others: 1000 B at 0.5 GB/s from 10,000 on.
  const auto late = network_test::network(keys, 4);
  CHECK(in_ns(network_test::ScriptedRun(*late, {{4'000'000, 0, 2, 1'000}}).arrivals) ==
        Times{12'000});
  // Nothing under way until 20,000: what happened meanwhile holds then. The down link is at 0.5.
  const auto later = network_test::network(keys, 4);
  CHECK(in_ns(network_test::ScriptedRun(*later, {{20'000'000, 1, 0, 1'000}}).arrivals) ==
        Times{24'000});
}

TEST_CASE("fluid: a schedule can make links faster, too") {
  // 4000 B from 2000 ns on; at 3000 all links are twice as fast: 3000 B at 2 GB/s.
  const test::TemporaryDirectory directory;
  const auto model = network_test::network(scheduled(directory, "3 us, *, 2\n"), 4);
  CHECK(in_ns(network_test::ScriptedRun(*model, {{0, 0, 2, 4'000}}).arrivals) == Times{4'500});
  // But not than the window allows: 6000 B over a round trip of 4 us are 1.5 GB/s.
  auto keys = with(scheduled(directory, "3 us, *, 2\n"),
                   {{"latency_factor", "1"}, {"bandwidth_factor", "1"}, {"window", "6000 B"}});
  keys[0].second = "tcp";
  const auto windowed = network_test::network(keys, 4);
  CHECK(in_ns(network_test::ScriptedRun(*windowed, {{0, 0, 2, 4'000}}).arrivals) == Times{5'000});
}

TEST_CASE(
    "fluid: a link that is slower than the clock lasts is waited for if its schedule has more") {
  // 3000 B are left at 3000 ns; at 1e-15 of 1 GB/s they would take 3e9 s. At 10,000 the link is back.
  const test::TemporaryDirectory directory;
  const std::string slow = "3 us, host 0 up, 1e-15\n";
  const auto back = network_test::network(scheduled(directory, slow + "10 us, host 0 up, 1\n"), 4);
  CHECK(in_ns(network_test::ScriptedRun(*back, {{0, 0, 2, 4'000}}).arrivals) == Times{13'000});
  const auto for_good = network_test::network(scheduled(directory, slow), 4);
  CHECK_THROWS_WITH_AS(network_test::ScriptedRun(*for_good, {{0, 0, 2, 4'000}}),
                       "a transfer takes longer than the clock holds (106 days)", Error);
}

TEST_CASE("fluid: messages that can never go on are reported with the link that is away") {
  const test::TemporaryDirectory directory;
  const auto model = network_test::network(scheduled(directory, "3 us, host 2 down, 0\n"), 4);
  CHECK(model->standstill().empty());
  const network_test::ScriptedRun run(*model, {{0, 0, 2, 4'000}, {0, 1, 3, 500}});
  CHECK(run.deliveries == std::vector<int>{0, 1});
  CHECK(model->standstill() ==
        "1 message waits for links that are away: host 2 down (since 3e-06 s)");
  // The link is away here, too, but holds nobody up.
  const auto idle = network_test::network(scheduled(directory, "3 us, host 2 down, 0\n"), 4);
  CHECK(network_test::ScriptedRun(*idle, {{0, 1, 3, 4'000}}).deliveries == std::vector<int>{1});
  CHECK(idle->standstill().empty());
}

TEST_CASE("fluid: of links that are away four are named, and the others counted") {
  const auto told = [](const std::string& rows) {
    const test::TemporaryDirectory directory;
    const auto model = network_test::network(scheduled(directory, rows), 4);
    network_test::ScriptedRun(*model, {{0, 0, 2, 4'000}});
    return model->standstill();
  };
  const std::string four = "3 us, host 0 *, 0\n3 us, host 1 *, 0\n";
  const std::string since = " (since 3e-06 s)";
  const std::string words = "1 message waits for links that are away: host 0 up" + since +
                            ", host 0 down" + since + ", host 1 up" + since + ", host 1 down" +
                            since;
  CHECK(told(four) == words);
  CHECK(told(four + "3 us, host 3 up, 0\n") == words + " and 1 more");
}

TEST_CASE("fluid: a link that is away for good ends a run though others fail at random") {
  // Without more to come they would go on failing until the end of the clock.
  const test::TemporaryDirectory directory;
  auto keys = with(
      scheduled(directory, "3 us, host 2 down, 0\n5 us, host 2 down, 0\n9 us, host 0 up, 0.5\n"),
      {{"failure_interval", "4 us"}, {"repair_time", "1 us"}});
  for (const char* kind : {"fluid", "tcp"}) {
    CAPTURE(kind);
    keys[0].second = kind;
    const auto model = network_test::network(keys, 4);
    const network_test::ScriptedRun run(
        *model, {{0, 1, 2, 9'000}, {0, 1, 2, 9'000}, {0, 0, 3, 90'000}, {50'000'000, 3, 2, 5}});
    CHECK(run.deliveries == std::vector<int>{0, 0, 1, 0});
    CHECK(model->standstill().find("host 2 down (since 3e-06 s)") != std::string::npos);
  }
}

TEST_CASE("fluid: links that fail while all messages are stuck do not hold up the next one") {
  // The first message is stuck from 2000 ns on, and nobody follows the turns of its other link any more. The second one sets
  // off at 11,000 and joins at 13,000, some turns later.
  const test::TemporaryDirectory directory;
  const auto keys =
      with(scheduled(directory, "2 us, host 2 down, 0\n"),
           {{"failure_interval", "1 us"}, {"repair_time", "1 us"}, {"failing_links", "host 0 up"}});
  const auto model = network_test::network(keys, 4);
  const network_test::ScriptedRun run(*model, {{0, 0, 2, 4'000}, {11'000'000, 1, 3, 1'000}});
  CHECK(run.arrivals == Times{-1, 14'000'000});
}

TEST_CASE(
    "fluid: a message that is through as its link goes away for good is no longer in the way") {
  // The first one is through at 3000 ns. What the second one's link does at random after that depends on nothing else.
  const auto last_arrival = [](const std::string& gone_at) {
    const test::TemporaryDirectory directory;
    const auto keys = with(
        scheduled(directory, gone_at + ", host 2 down, 0\n"),
        {{"failure_interval", "4 us"}, {"failing_links", "host 1 up"}, {"repair_time", "1 us"}});
    const auto model = network_test::network(keys, 4);
    return network_test::ScriptedRun(*model, {{0, 0, 2, 1'000}, {20'000'000, 1, 3, 90'000}})
        .arrivals[1];
  };
  CHECK(last_arrival("3 us") == last_arrival("3001 ns"));
}

TEST_CASE("fluid: links fail at random by their own streams, and every message gets through") {
  const auto arrivals = [](const Keys& more, std::uint64_t seed) {
    const Section keys = network_test::section(with(simple, more));
    const auto model = network_models::find(keys).make(keys, 8, seed);
    std::vector<network_test::Start> starts;
    for (NodeId i = 0; i < 8; ++i) starts.push_back({0, i, (i + 3) % 8, 100'000});
    return network_test::ScriptedRun(*model, starts).arrivals;
  };
  const Keys failing = {{"failure_interval", "50 us"}, {"repair_time", "20 us"}};
  const auto usual = arrivals({}, 1);
  const auto once = arrivals(failing, 1);
  CHECK(once == arrivals(failing, 1));
  CHECK(once != arrivals(failing, 2));
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(once[i] >= usual[i]);
  // Of 100 us on two links, each away for 20 of 70 us: about (70 / 50)^2 * 100 us in the mean.
  const double mean = std::accumulate(once.begin(), once.end(), 0.0) / 8e6;
  CHECK(mean > 120);
  CHECK(mean < 320);
  // Only links that are named fail.
  auto some = failing;
  some.emplace_back("failing_links", "host 7 up");
  const auto one = arrivals(some, 1);
  CHECK(std::equal(usual.begin(), usual.begin() + 7, one.begin()));
  CHECK(one[7] > usual[7]);
}

TEST_CASE("tcp: links of the way back fail at random, too, and then the message stands still") {
  // 100 MB take 100 ms and a little. Away after 1 ms, on the mean, for 1 ms, the acknowledgements' link is so about 100 times, which
  // doubles the time; with two exponential draws each its deviation is sqrt(200) ms.
  const auto arrival = [](const Keys& more) {
    const Keys keys = {
        {"kind", "tcp"}, {"latency", "1 us"}, {"bandwidth", "1 GB/s"}, {"check", "yes"}};
    const auto model = network_test::network(with(keys, more), 2);
    return network_test::ScriptedRun(*model, {{0, 0, 1, 100'000'000}}).arrivals[0] / 1e9;
  };
  const double usual = arrival({});
  const double failing = arrival(
      {{"failure_interval", "1 ms"}, {"repair_time", "1 ms"}, {"failing_links", "host 1 up"}});
  CHECK(std::abs(failing - 2 * usual) < 4 * std::sqrt(200));
}

TEST_CASE("fluid: what a link did while nobody used it is made up for, in no memory") {
  using namespace network_models;
  using namespace std::chrono_literals;
  const auto make = [] {
    const RandomFailures failures{.interval = 1us, .repair = 1us, .links = {0, 2}, .seed = 1};
    return LinkSchedule({{Time{1ms}, 2, 0.5}, {Time{7ms}, 1, 0}, {Time{8ms}, 1, 0}}, failures, 3);
  };
  constexpr Time end{100ms};
  std::vector<LinkChange> changes;
  const auto use_all = [&](LinkSchedule& schedule, Time now) {
    for (const LinkId link : {0u, 1u, 2u}) schedule.use(link, now, changes);
  };
  std::vector<double> factors(3);
  const auto told = [&] {
    for (const auto& [time, link, factor] : changes) factors[link] = factor;
    const auto count = std::ssize(changes);
    changes.clear();
    return count;
  };
  LinkSchedule followed = make();
  use_all(followed, Time{});
  CHECK(told() == 2);  // the failing ones
  std::int64_t turns = 0;
  while (followed.next() <= end) {
    followed.take(followed.next(), changes);
    turns += told();
  }
  CHECK(turns > 180'000);
  const std::vector<double> at_end = factors;
  // Nobody used them.
  LinkSchedule used_late = make();
  CHECK(used_late.next() == Time{1ms});
  used_late.take(end, changes);
  CHECK(told() == 2);  // those of the file
  use_all(used_late, end);
  CHECK(told() == 2);
  CHECK(factors == at_end);
  // They were used from the start, and nobody asked.
  LinkSchedule asked_late = make();
  use_all(asked_late, Time{});
  told();
  asked_late.take(end, changes);
  CHECK(std::ranges::is_sorted(changes, {}, &LinkChange::time));
  CHECK(told() == 3);
  CHECK(factors == at_end);
  for (const LinkId link : {0u, 1u, 2u}) {
    CHECK(used_late.since(link) == followed.since(link));
    CHECK(asked_late.since(link) == followed.since(link));
  }
  CHECK(followed.since(1) == Time{7ms});
  CHECK(used_late.next() == followed.next());
  CHECK(asked_late.next() == followed.next());
}

TEST_CASE("fluid: a key that changes nothing without another one is refused") {
  for (const auto& [key, value, needed] :
       {std::array{"repair_time", "5 ms", "failure_interval"},
        std::array{"failing_links", "host 1 up", "failure_interval"},
        std::array{"slow_bandwidth", "1 MB/s", "slow_hosts"},
        std::array{"local_bandwidth", "9 GB/s", "nodes_per_host"},
        std::array{"local_latency", "1 us", "nodes_per_host"}}) {
    const Section keys = network_test::section(with(simple, {{key, value}}));
    const std::string words = fmt::format("network.{} needs {}, which says", key, needed);
    CHECK_THROWS_WITH_AS(network_models::find(keys).make(keys, 8, 1),
                         doctest::Contains(words.c_str()), ScenarioError);
  }
}

TEST_CASE("fluid: links that are away most of the time are warned of") {
  const auto warnings = [](const Keys& more) {
    const Section keys = network_test::section(with(simple, more));
    network_models::find(keys).make(keys, 8, 1);
    return keys.warnings();
  };
  CHECK(warnings({{"failure_interval", "1 s"}}).empty());
  const auto told = warnings({{"failure_interval", "250 ms"}});
  REQUIRE(told.size() == 1);
  CHECK(
      told[0].ends_with("network.failure_interval is 250 ms, less than repair_time, 1 s: links "
                        "are away 80 % of the time"));
}

TEST_CASE("fluid: a schedule that is wrong is refused by file, line and rule") {
  CHECK(refusal("1 us, host 0 up, -1\n") ==
        ":2: expected a factor of the bandwidth from 0 on, found \"-1\"");
  CHECK(refusal("1 us, host 0 up\n") == ":2: expected time, link, factor, found 2 cells");
  CHECK(refusal("1, host 0 up, 1\n").starts_with(":2: the time must "));
  CHECK(refusal("2 us, host 0 up, 0\n1 us, host 0 up, 1\n") ==
        ":3: expected rows in order of time, found 1 us after a later one");
  CHECK(refusal("2 us, host 9 up, 0\n") ==
        ":2: must name links of the fabric, from \"host 0 up\" to \"host 3 down\", got \"host 9 "
        "up\"");
}

}  // namespace starling::test_link_schedule
