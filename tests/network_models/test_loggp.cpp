// LogGP against cases by hand and against its slow twin: LogGOPSim's rules applied instant by
// instant, by looking at every waiting operation of every node.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/network_models/scripted_run.hpp"
#include "tests/support/relative.hpp"

namespace starling::test_loggp {
namespace {

using network_test::in_ns;
using network_test::Times;

// In ps, and ps per byte; `slow` times o, g, G and O at every third node.
struct Costs {
  std::int64_t L, o, g, G, O;
  std::int64_t slow = 1;
};

// L = 1000 ns, o = 100 ns, g = 50 ns, G = 1 ns/B.
const network_test::Keys simple = {{"kind", "loggp"},
                                   {"latency", "1000 ns"},
                                   {"overhead", "100 ns"},
                                   {"gap", "50 ns"},
                                   {"bandwidth", "1 GB/s"}};

Times twin(const Costs& c, NodeId nodes, const std::vector<network_test::Start>& starts) {
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  struct Operation {
    std::size_t id;
    bool is_send;
  };
  struct Host {
    std::int64_t cpu = 0, tx = 0, rx = 0;
    std::vector<Operation> waiting;  // in order of joining
  };
  struct Flight {
    std::int64_t first_byte;
    std::size_t id;
  };
  std::vector<Host> hosts(static_cast<std::size_t>(nodes));
  std::vector<Flight> flights;
  std::vector<std::int64_t> done(starts.size(), -1);
  std::vector<bool> is_started(starts.size());

  const auto ready = [](const Host& host, const Operation& operation) {
    return std::max(host.cpu, operation.is_send ? host.tx : host.rx);
  };
  const auto serve = [&](Host& host, std::int64_t t) {
    for (std::size_t i = 0; i < host.waiting.size();) {
      const Operation operation = host.waiting[i];
      if (ready(host, operation) > t) {
        ++i;
        continue;
      }
      const std::int64_t rest = std::max<std::int64_t>(starts[operation.id].bytes - 1, 0);
      const std::int64_t slow = (&host - hosts.data()) % 3 == 0 ? c.slow : 1;
      if (operation.is_send) {
        host.cpu = t + slow * (c.o + rest * c.O);
        host.tx = t + slow * (c.g + rest * c.G);
        const bool is_to_slow = starts[operation.id].destination % 3 == 0;
        const std::int64_t late =
            is_to_slow ? 0 : (slow - 1) * rest * c.G;  // behind the sender's last byte
        flights.push_back({t + slow * c.o + c.L + late, operation.id});
      } else {
        host.cpu = t + slow * (c.o + std::max(rest * c.O, rest * c.G));
        host.rx = t + slow * (c.g + rest * c.G);
        done[operation.id] = host.cpu;
      }
      host.waiting.erase(host.waiting.begin() + static_cast<std::ptrdiff_t>(i));
      i = 0;
    }
  };

  while (true) {
    std::int64_t t = never;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      if (!is_started[i]) t = std::min(t, starts[i].time);
    }
    for (const Flight& flight : flights) t = std::min(t, flight.first_byte);
    for (const Host& host : hosts) {
      for (const Operation& operation : host.waiting) t = std::min(t, ready(host, operation));
    }
    if (t == never) return done;

    for (std::size_t i = 0; i < starts.size(); ++i) {
      if (is_started[i] || starts[i].time != t) continue;
      is_started[i] = true;
      Host& host = hosts[static_cast<std::size_t>(starts[i].source)];
      host.waiting.push_back({i, true});
      serve(host, t);
    }
    for (std::size_t f = 0; f < flights.size();) {
      if (flights[f].first_byte != t) {
        ++f;
        continue;
      }
      const std::size_t id = flights[f].id;
      flights.erase(flights.begin() + static_cast<std::ptrdiff_t>(f));
      Host& host = hosts[static_cast<std::size_t>(starts[id].destination)];
      host.waiting.push_back({id, false});
      serve(host, t);
    }
    for (Host& host : hosts) serve(host, t);
  }
}

}  // namespace

TEST_CASE("loggp: a lone message of k bytes takes L + 2 o + (k - 1) G") {
  // 1000 + 200 + (k - 1) ns.
  for (const std::int64_t bytes : {0, 1, 2, 1'000}) {
    const auto model = network_test::network(simple, 2);
    const network_test::ScriptedRun run(*model, {{0, 0, 1, bytes}});
    CHECK(in_ns(run.arrivals) == Times{1'200 + std::max<std::int64_t>(bytes - 1, 0)});
    CHECK(model->link_cost().latency == Duration{1'200'000});
  }
}

TEST_CASE("loggp: two senders share the port of one receiver") {
  // Both first bytes arrive at 100 + 1000 = 1100. The first message keeps cpu until 1100 + 100 +
  // 200 = 1400 and rx until 1100 + 50 + 200 = 1350; the second starts at 1400 and is done at 1400 +
  // 100 + 200 = 1700.
  const auto model = network_test::network(simple, 3);
  const network_test::ScriptedRun run(*model, {{0, 1, 0, 201}, {0, 2, 0, 201}});
  CHECK(in_ns(run.arrivals) == Times{1'400, 1'700});
}

TEST_CASE("loggp: a sender's next message waits for its port") {
  // tx is busy until 50 + 500 = 550, cpu only until 100. First: 0 + 100 + 1000, then 100 + 500:
  // 1700. Second starts at 550: first byte at 1650; the receiver is busy until 1700; done at 1700 +
  // 100 + 500 = 2300. A third, to another node, starts at 1100: 1100 + 1100 + 100 + 500 = 2800.
  const auto model = network_test::network(simple, 3);
  const network_test::ScriptedRun run(*model, {{0, 0, 1, 501}, {0, 0, 1, 501}, {0, 0, 2, 501}});
  CHECK(in_ns(run.arrivals) == Times{1'700, 2'300, 2'800});
}

TEST_CASE("loggp: in a ring exchange all nodes finish together") {
  // Nobody waits: all send at 0, cpu free at 100; first bytes at 1100; done at 1100 + 100 + 999 =
  // 2199.
  const auto model = network_test::network(simple, 5);
  std::vector<network_test::Start> starts;
  for (NodeId i = 0; i < 5; ++i) starts.push_back({0, i, (i + 1) % 5, 1'000});
  CHECK(in_ns(network_test::ScriptedRun(*model, starts).arrivals) == Times(5, 2'199));

  // Both neighbors: the second send starts when tx is free, at 50 + 999 = 1049, and takes cpu until
  // 1149, so the first message, there at 1100, is done at 1149 + 1099 = 2248. The second, there at
  // 1049 + 1100 = 2149, at 2248 + 1099.
  const auto both = network_test::network(simple, 5);
  for (NodeId i = 0; i < 5; ++i) starts.push_back({0, i, (i + 4) % 5, 1'000});
  const network_test::ScriptedRun run(*both, starts);
  Times expected(5, 2'248);
  expected.resize(10, 3'347);
  CHECK(in_ns(run.arrivals) == expected);
}

TEST_CASE(
    "loggp: overhead per byte keeps the processor busy, and sends and arrivals take turns on it") {
  // O = 2 ns/B > G. Node 0 sends 101 B at 0: cpu until 100 + 200 = 300. The message from node 1,
  // first byte at 1100, takes 100 + max(200, 100) = 300: done at 1400. Meanwhile, at 1150, node 0
  // wants to send 1 B to node 2: its cpu is free at 1400 only, so that arrives at 1400 + 1200 =
  // 2600. Node 1's message and node 0's first are symmetric: 1400.
  auto keys = simple;
  keys.emplace_back("overhead_per_byte", "2 ns");
  const auto model = network_test::network(keys, 3);
  const network_test::ScriptedRun run(*model,
                                      {{0, 0, 1, 101}, {0, 1, 0, 101}, {1'150'000, 0, 2, 1}});
  CHECK(in_ns(run.arrivals) == Times{1'400, 1'400, 2'600});
}

TEST_CASE("loggp: a send before an arrival begins delays it, also at its very instant") {
  // Node 1's 201 B reach node 0 at 1100 and would be done at 1100 + 100 + 200 = 1400. A send of node 0 at 900
  // leaves the cpu at 1000, in time. One at 1050 keeps it until 1150: done at 1450. One at 1100 goes first, until
  // 1200: done at 1500. One at 1101 waits for the arrival: 1400, and is there at 1400 + 1200 = 2600.
  const std::vector<std::pair<std::int64_t, Times>> cases = {{900, {1'400, 2'100}},
                                                             {1'050, {1'450, 2'250}},
                                                             {1'100, {1'500, 2'300}},
                                                             {1'101, {1'400, 2'600}}};
  for (const auto& entry : cases) {
    CAPTURE(entry.first);
    const auto& [time, expected] = entry;
    const auto model = network_test::network(simple, 3);
    const network_test::ScriptedRun run(*model, {{0, 1, 0, 201}, {time * 1'000, 0, 2, 1}});
    CHECK(in_ns(run.arrivals) == expected);
    CHECK(run.put_offs == (time == 1'050 || time == 1'100 ? 1 : 0));
  }
}

TEST_CASE(
    "loggp: of two that come at one instant the first that was sent goes first, also where a send "
    "delays both") {
  // Both first bytes come at 1100; the send of node 0 keeps its cpu until 1150.
  const auto model = network_test::network(simple, 3);
  const std::vector<network_test::Start> starts{
      {0, 1, 0, 201}, {0, 2, 0, 401}, {1'050'000, 0, 1, 1}};
  const network_test::ScriptedRun run(*model, starts);
  CHECK(in_ns(run.arrivals) == Times{1'450, 1'950, 2'250});
  CHECK(run.arrivals == twin({1'000'000, 100'000, 50'000, 1'000, 0}, 3, starts));
}

TEST_CASE("loggp: a message that costs nothing arrives though a send went before it") {
  // Without o and g. Node 1's 1001 B keep node 0 busy from 100 to 1100 ns. Node 2's single byte comes at 300 and is to arrive
  // at 1100. The send of node 0 has waited since 250, so it goes first at 1100, in no time; the byte arrives then all the same.
  const auto model = network_test::network(
      {{"kind", "loggp"}, {"latency", "100 ns"}, {"overhead", "0 s"}, {"bandwidth", "1 GB/s"}}, 3);
  const network_test::ScriptedRun run(*model,
                                      {{0, 1, 0, 1'001}, {200'000, 2, 0, 1}, {250'000, 0, 1, 1}});
  CHECK(in_ns(run.arrivals) == Times{1'100, 1'100, 1'200});
  CHECK(run.put_offs == 1);
}

TEST_CASE("loggp: a message from a quick node overtakes one from a slow node") {
  // Node 1 has o = 300 instead of 100, and 3 ns per byte: its message, sent at 0, begins to arrive at 1300 + 200 (3 - 1) = 1700;
  // that of node 2, sent at 50, at 1150, takes the cpu until 1150 + 100 + 200 = 1450, and node 1's from 1700 to 2000.
  auto keys = simple;
  keys.emplace_back("slowdowns", "1: 3");
  const auto model = network_test::network(keys, 3);
  const network_test::ScriptedRun run(*model, {{0, 1, 0, 201}, {50'000, 2, 0, 201}});
  CHECK(in_ns(run.arrivals) == Times{2'000, 1'450});
  CHECK(run.put_offs == 1);
}

TEST_CASE("loggp: a node with a slowdown pays its own overheads and gaps that often") {
  // o 300 ns, g 500 ns, L 2 us, 1 GB/s. From 0 to 1 alone, 101 B: o + L + o + 100 ns = 2700. With
  // node 0 three times slower, 900 + 2000 + 300 + 300: bytes leave it at a third of the pace. From 1 to 0: 300 + 2000 + 900 + 300.
  network_test::Keys keys = {{"kind", "loggp"},
                             {"latency", "2 us"},
                             {"overhead", "300 ns"},
                             {"gap", "500 ns"},
                             {"bandwidth", "1 GB/s"}};
  const auto arrivals = [&](const std::vector<network_test::Start>& starts) {
    return in_ns(network_test::ScriptedRun(*network_test::network(keys, 3), starts).arrivals);
  };
  CHECK(arrivals({{0, 0, 1, 101}}) == Times{2'700});
  keys.emplace_back("slowdowns", "0: 3");
  CHECK(arrivals({{0, 0, 1, 101}}) == Times{3'500});
  CHECK(arrivals({{0, 1, 0, 101}}) == Times{3'500});
  // A second message of node 0 may start after g + k' G, thrice: 3 (500 + 100) = 1800 ns.
  CHECK(arrivals({{0, 0, 1, 101}, {0, 0, 2, 101}}) == Times{3'500, 5'300});
  keys.back().second = "0-1: 3";  // the last of a range, too
  CHECK(arrivals({{0, 1, 2, 101}}) == Times{3'500});
  CHECK_THROWS_WITH_AS(
      network_test::network({{"kind", "loggp"}, {"preset", "edr"}, {"slowdowns", "1: 0"}}, 3),
      doctest::Contains("must be factors above 0"), ScenarioError);
}

TEST_CASE("loggp: the gap alone spaces small messages") {
  // g = 400 > o: a burst of 1-byte messages leaves every 400 ns and arrives 1200 ns later; cpu
  // never waits.
  auto keys = simple;
  keys[3].second = "400 ns";
  const auto model = network_test::network(keys, 2);
  const network_test::ScriptedRun run(*model, {{0, 0, 1, 1}, {0, 0, 1, 1}, {0, 0, 1, 1}});
  CHECK(in_ns(run.arrivals) == Times{1'200, 1'600, 2'000});
}

TEST_CASE("loggp: 1023 nodes send to one, which takes them one after the other") {
  // First bytes at 1100; each keeps cpu for 100 + 99 = 199 ns: the i-th is done at 1100 + 199 (i +
  // 1).
  const auto model = network_test::network(simple, 1'024);
  std::vector<network_test::Start> starts;
  Times expected;
  for (NodeId i = 1; i < 1'024; ++i) {
    starts.push_back({0, i, 0, 100});
    expected.push_back(1'100 + 199 * i);
  }
  CHECK(in_ns(network_test::ScriptedRun(*model, starts).arrivals) == expected);
}

TEST_CASE("loggp: times equal those of the slow twin") {
  // Whole ps per byte, so that integers are exact. Random starts in ps: no ties between nodes,
  // whose order the twin does not know; short enough for long queues everywhere.
  int put_offs = 0;  // the way of messages that a send delays must be taken, too
  for (int trial = 0; trial < 120; ++trial) {
    CAPTURE(trial);
    Random random(9, "twin", trial);
    const auto below = [&](std::uint64_t bound) {
      return static_cast<std::int64_t>(random.below(bound));
    };
    const Costs c{below(2'000'000), 1 + below(500'000),      below(800'000),
                  1 + below(2'000), below(3) * below(2'000), 1 + trial % 4};
    const auto nodes = static_cast<NodeId>(2 + below(6));
    std::vector<network_test::Start> starts;
    const std::uint64_t span = 1'000'000'000ull >> random.below(8);
    for (int i = 0; i < 200; ++i) {
      const auto source = static_cast<NodeId>(below(static_cast<std::uint64_t>(nodes)));
      const auto step = static_cast<NodeId>(1 + below(static_cast<std::uint64_t>(nodes - 1)));
      starts.push_back(
          {below(span), source, (source + step) % nodes, below(1ull << random.below(14))});
    }
    std::ranges::stable_sort(starts, {}, &network_test::Start::time);
    std::string slowdowns;
    for (NodeId i = 0; i < nodes; i += 3)
      slowdowns += fmt::format("{}{}: {}", i > 0 ? ", " : "", i, c.slow);
    const auto model = network_test::network(
        {{"kind", "loggp"},
         {"latency", fmt::format("{} ps", c.L)},
         {"overhead", fmt::format("{} ps", c.o)},
         {"gap", fmt::format("{} ps", c.g)},
         {"bandwidth", fmt::format("{} B/s", 1e12 / static_cast<double>(c.G))},
         {"overhead_per_byte", fmt::format("{} ps", c.O)},
         {"slowdowns", slowdowns}},
        nodes);
    const network_test::ScriptedRun run(*model, starts);
    CHECK(run.arrivals == twin(c, nodes, starts));
    CHECK(run.deliveries == std::vector<int>(starts.size(), 1));
    put_offs += run.put_offs;
  }
  CHECK(put_offs > 500);
}

TEST_CASE("loggp: in lock step, where all is ties, the twin's times are those of the model") {
  // Everybody sends to everybody, equal sizes: which of two equal messages goes first is a matter
  // of taste, so the times of a receiver are compared as a set.
  const Costs c{1'000'000, 100'000, 50'000, 1'000, 0};
  constexpr NodeId nodes = 6;
  std::vector<network_test::Start> starts;
  for (int round = 0; round < 3; ++round) {
    for (NodeId i = 0; i < nodes; ++i) {
      for (NodeId d = 1; d < nodes; ++d)
        starts.push_back({round * 700'000, i, (i + d) % nodes, 300});
    }
  }
  const auto model = network_test::network(simple, nodes);
  const auto times = network_test::ScriptedRun(*model, starts).arrivals;
  const auto expected = twin(c, nodes, starts);
  for (NodeId i = 0; i < nodes; ++i) {
    Times mine;
    Times theirs;
    for (std::size_t s = 0; s < starts.size(); ++s) {
      if (starts[s].destination != i) continue;
      mine.push_back(times[s]);
      theirs.push_back(expected[s]);
    }
    std::ranges::sort(mine);
    std::ranges::sort(theirs);
    CHECK(mine == theirs);
  }
}

TEST_CASE("loggp: a price per byte that is no whole number of picoseconds is not rounded") {
  // 3 GB/s: 1e9 bytes after the first take 1/3 s = 333'333'333'333 ps (333 ps per byte would be 0.1
  // % early).
  const auto model = network_test::network(
      {{"kind", "loggp"}, {"latency", "0 s"}, {"overhead", "0 s"}, {"bandwidth", "3 GB/s"}}, 2);
  const network_test::ScriptedRun run(*model, {{0, 0, 1, 1'000'000'001}});
  CHECK(run.arrivals[0] == 333'333'333'333);
  const auto busy = network_test::network({{"kind", "loggp"},
                                           {"latency", "0 s"},
                                           {"overhead", "0 s"},
                                           {"bandwidth", "1 TB/s"},
                                           {"overhead_per_byte", "2.4 ps"}},
                                          2);
  CHECK(network_test::ScriptedRun(*busy, {{0, 0, 1, 1'001}}).arrivals[0] == 2'400);
}

TEST_CASE(
    "loggp: where the processor is slower than the port, formulas know what a message costs") {
  const auto model = network_test::network({{"kind", "loggp"},
                                            {"latency", "1 us"},
                                            {"overhead", "100 ns"},
                                            {"bandwidth", "1 GB/s"},
                                            {"overhead_per_byte", "3 ns"}},
                                           2);
  const network_test::ScriptedRun run(*model, {{0, 0, 1, 1'001}});
  CHECK(in_ns(run.arrivals) == Times{1'200 + 3'000});
  CHECK(model->link_cost().seconds_per_byte == test::relative(3e-9));
}

TEST_CASE("loggp: a lone message that takes longer than the clock lasts has no cost for formulas") {
  const auto model = network_test::network({{"kind", "loggp"},
                                            {"latency", "5000000 s"},
                                            {"overhead", "3000000 s"},
                                            {"bandwidth", "1 GB/s"}},
                                           2);
  CHECK_THROWS_WITH_AS(model->link_cost(),
                       doctest::Contains("virtual time passes the end of the clock"), Error);
}

TEST_CASE("loggp: without a preset its main keys must be there") {
  CHECK_THROWS_WITH_AS(
      network_test::network({{"kind", "loggp"}, {"latency", "1 us"}, {"bandwidth", "1 GB/s"}}, 2),
      doctest::Contains("network.overhead is missing"), ScenarioError);
  CHECK_THROWS_WITH_AS(network_test::network({{"kind", "loggp"}, {"preset", "aires"}}, 2),
                       "test.ini:7: network.preset must be one of none, aries, edr, hdr, "
                       "slingshot, 10gbe, wan, got aires; did you mean aries?",
                       ScenarioError);
}

}  // namespace starling::test_loggp
