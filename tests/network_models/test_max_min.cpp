// The max-min solver by hand, and against its slow, obvious twin: progressive filling from nothing
// at every event, over all links and all flows.

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "network_models/max_min.hpp"
#include "sim/base/random.hpp"

namespace starling::test_max_min {
namespace {

using network_models::FinishHeap;
using network_models::FlowId;
using network_models::LinkId;
using network_models::MaxMin;

Time at(std::int64_t picoseconds) { return Time{Duration{picoseconds}}; }

struct Arrival {
  std::int64_t time;  // ps
  std::vector<LinkId> forward;
  std::vector<LinkId> back;
  double weight;
  double bytes;
  double bound;
};

struct Problem {
  std::vector<double> capacities;  // bytes per second
  double back_share;
  std::vector<Arrival> arrivals;  // in order of time
};

// ----- the twin

struct TwinFlow {
  std::size_t arrival;
  double remaining;
  double rate;
};

void fill_from_nothing(const Problem& problem, std::vector<TwinFlow>& flows) {
  std::vector<double> room = problem.capacities;
  std::vector<bool> is_fixed(flows.size(), false);
  const auto load = [&](std::size_t f, std::size_t link) {  // per unit of level
    const Arrival& arrival = problem.arrivals[flows[f].arrival];
    double sum = 0;
    for (const LinkId l : arrival.forward) sum += l == link ? arrival.weight : 0;
    for (const LinkId l : arrival.back) sum += l == link ? problem.back_share * arrival.weight : 0;
    return sum;
  };
  const auto fix = [&](std::size_t f, double level) {
    flows[f].rate = level * problem.arrivals[flows[f].arrival].weight;
    is_fixed[f] = true;
    for (std::size_t link = 0; link < room.size(); ++link) room[link] -= level * load(f, link);
  };
  while (std::ranges::find(is_fixed, false) != is_fixed.end()) {
    double lowest = 1e300;
    std::size_t lowest_link = 0;
    std::size_t lowest_bound = flows.size();
    for (std::size_t link = 0; link < room.size(); ++link) {
      double share = 0;
      for (std::size_t f = 0; f < flows.size(); ++f) share += is_fixed[f] ? 0 : load(f, link);
      if (share > 0 && room[link] / share < lowest) {
        lowest = room[link] / share;
        lowest_link = link;
      }
    }
    for (std::size_t f = 0; f < flows.size(); ++f) {
      const Arrival& arrival = problem.arrivals[flows[f].arrival];
      if (is_fixed[f] || arrival.bound / arrival.weight >= lowest) continue;
      lowest = arrival.bound / arrival.weight;
      lowest_bound = f;
    }
    if (lowest_bound < flows.size()) {
      fix(lowest_bound, lowest);
      continue;
    }
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (!is_fixed[f] && load(f, lowest_link) > 0) fix(f, lowest);
    }
  }
}

/// Times of finish of the arrivals, ps.
std::vector<std::int64_t> twin(const Problem& problem) {
  std::vector<std::int64_t> done(problem.arrivals.size(), -1);
  std::vector<TwinFlow> flows;
  std::int64_t now = 0;
  std::size_t next = 0;
  while (next < problem.arrivals.size() || !flows.empty()) {
    std::int64_t until = next < problem.arrivals.size() ? problem.arrivals[next].time
                                                        : std::numeric_limits<std::int64_t>::max();
    for (const TwinFlow& flow : flows) {
      const double rest = std::nearbyint(1e12 * flow.remaining / flow.rate);
      until = std::min(until, now + static_cast<std::int64_t>(rest));
    }
    for (TwinFlow& flow : flows) {
      // What is left may be what rounding to picoseconds has kept from it.
      const double left = flow.remaining - flow.rate * 1e-12 * static_cast<double>(until - now);
      if (left <= 0.51e-12 * flow.rate) done[flow.arrival] = until;
      flow.remaining = left;
    }
    std::erase_if(flows, [&](const TwinFlow& flow) { return done[flow.arrival] >= 0; });
    now = until;
    for (; next < problem.arrivals.size() && problem.arrivals[next].time == now; ++next) {
      flows.push_back({next, problem.arrivals[next].bytes, 0});
    }
    fill_from_nothing(problem, flows);
  }
  return done;
}

// ----- ours, on the same problem

/// Plays the arrivals on `sharing`: finish(arrival, now) for whoever is done, change(flows) after every event, with the
/// arrivals whose flows are under way.
template <class Finish, class Change>
void play(const Problem& problem, MaxMin& sharing, const Finish& finish, const Change& change) {
  std::map<FlowId, std::size_t> arrival_of;
  std::vector<FlowId> finished;
  std::size_t next = 0;
  while (next < problem.arrivals.size() || sharing.flows() > 0) {
    Time now = sharing.next_finish();
    if (next < problem.arrivals.size()) now = std::min(now, at(problem.arrivals[next].time));
    finished.clear();
    sharing.take_finished(now, finished);
    for (const FlowId flow : finished) {
      finish(arrival_of.at(flow), now);
      arrival_of.erase(flow);
    }
    for (; next < problem.arrivals.size() && at(problem.arrivals[next].time) == now; ++next) {
      const Arrival& a = problem.arrivals[next];
      arrival_of[sharing.add(a.forward, a.back, a.weight, a.bytes, a.bound)] = next;
    }
    sharing.settle(now);
    change(arrival_of);
  }
}

std::vector<std::int64_t> solve(const Problem& problem, bool is_checked = true) {
  MaxMin sharing(problem.capacities, problem.back_share);
  std::vector<std::int64_t> done(problem.arrivals.size(), -1);
  play(
      problem, sharing,
      [&](std::size_t arrival, Time now) { done[arrival] = now.time_since_epoch().count(); },
      [&](const auto&) {
        if (is_checked) sharing.check();
      });
  return done;
}

Problem random_problem(int trial) {
  Random random(4, "max-min", trial);
  const auto below = [&](std::uint64_t bound) {
    return static_cast<std::size_t>(random.below(bound));
  };
  // A third of the problems each: everything equal (all is ties), whole numbers, anything.
  const int taste = trial % 3;
  const bool has_weights = trial % 2 == 1;
  const bool has_bounds = trial % 5 == 2;
  Problem problem{.capacities = {}, .back_share = trial % 4 == 3 ? 0.05 : 0.0, .arrivals = {}};
  const std::size_t links = 1 + below(12);
  for (std::size_t l = 0; l < links; ++l) {
    problem.capacities.push_back(taste == 0   ? 1e9
                                 : taste == 1 ? 1e9 * static_cast<double>(1 + below(4))
                                              : 1e8 * (1 + 99 * random.uniform()));
  }
  const auto route = [&] {
    std::vector<LinkId> result(links);
    for (std::size_t l = 0; l < links; ++l) result[l] = static_cast<LinkId>(l);
    random.shuffle(result);
    result.resize(1 + below(std::min<std::size_t>(links, 4)));
    return result;
  };
  const std::size_t flows = 1 + below(60);
  for (std::size_t f = 0; f < flows; ++f) {
    const double scale = taste == 2 ? 1 + random.uniform() : 1;
    problem.arrivals.push_back(
        {.time = static_cast<std::int64_t>(taste == 2 ? below(20'000'000'000)
                                                      : 1'000'000'000 * below(8)),
         .forward = route(),
         .back = problem.back_share > 0 ? route() : std::vector<LinkId>{},
         .weight = has_weights ? std::ldexp(scale, static_cast<int>(below(12))) : 1,
         .bytes = 1e6 * scale * static_cast<double>(1 + (taste == 0 ? 0 : below(8))),
         .bound = has_bounds && below(2) == 0 ? 2e8 * scale : MaxMin::unbounded});
  }
  std::ranges::stable_sort(problem.arrivals, {}, &Arrival::time);
  return problem;
}

}  // namespace

TEST_CASE("max-min: a long flow yields to two short ones, and each gets what the other leaves") {
  // Links of 10 and 4 B/s; A over both, B over the first, C over the second. The second fills
  // first, at 2; B takes the other 8 of the first.
  MaxMin sharing({10, 4});
  const std::vector<LinkId> both = {0, 1};
  const std::vector<LinkId> first = {0};
  const std::vector<LinkId> second = {1};
  const FlowId a = sharing.add(both, {}, 1, 10, MaxMin::unbounded);
  const FlowId b = sharing.add(first, {}, 1, 80, MaxMin::unbounded);
  const FlowId c = sharing.add(second, {}, 1, 2, MaxMin::unbounded);
  sharing.settle(at(0));
  sharing.check();
  CHECK(sharing.rate(a) == 2);
  CHECK(sharing.rate(b) == 8);
  CHECK(sharing.rate(c) == 2);
  // C is done after 1 s. Then A has the second link alone, so 4, and B 6 of the first.
  CHECK(sharing.next_finish() == at(1'000'000'000'000));
  std::vector<FlowId> done;
  sharing.take_finished(sharing.next_finish(), done);
  CHECK(done == std::vector<FlowId>{c});
  sharing.settle(at(1'000'000'000'000));
  sharing.check();
  CHECK(sharing.rate(a) == 4);
  CHECK(sharing.rate(b) == 6);
  // A has 8 B left: 2 s more. B, 72 B left, then goes on with 10.
  CHECK(sharing.next_finish() == at(3'000'000'000'000));
}

TEST_CASE("max-min: weights divide a link, bounds hold a flow back, the way back is charged") {
  // Weights 1 and 3 of 12 B/s: 3 and 9. Bounded to 1 B/s, the second leaves 11 to the first.
  const std::vector<LinkId> forward = {0};
  const std::vector<LinkId> back = {1};
  MaxMin weighted({12, 12});
  const FlowId light = weighted.add(forward, {}, 1, 100);
  const FlowId heavy = weighted.add(forward, {}, 3, 100);
  weighted.settle(at(0));
  CHECK(weighted.rate(light) == 3);
  CHECK(weighted.rate(heavy) == 9);

  MaxMin bounded({12, 12});
  const FlowId open = bounded.add(forward, {}, 1, 100);
  const FlowId held = bounded.add(forward, {}, 3, 100, 1);
  bounded.settle(at(0));
  bounded.check();
  CHECK(bounded.rate(open) == 11);
  CHECK(bounded.rate(held) == 1);

  // One flow each way, a quarter of each rate comes back: 1.25 r = 12.
  MaxMin charged({12, 12}, 0.25);
  const FlowId there = charged.add(forward, back, 1, 100);
  const FlowId here = charged.add(back, forward, 1, 100);
  charged.settle(at(0));
  charged.check();
  CHECK(charged.rate(there) == doctest::Approx(9.6));
  CHECK(charged.rate(here) == doctest::Approx(9.6));
}

TEST_CASE("max-min: who weighs little shares exactly with who weighs a lot") {
  // The heavy one is held to 2 B/s by link 0, the light one gets what that leaves of link 1, not all that link 2 has. Once the
  // heavy one is fixed, the sum of weights on link 1, 1e6 + 0.0003, has few digits for the rest: 0.00029999995.
  const std::vector<LinkId> heavy_way = {0, 1};
  const std::vector<LinkId> light_way = {1, 2};
  MaxMin sharing({2, 1e9, 1e9});
  const FlowId heavy = sharing.add(heavy_way, {}, 1e6, 1e3);
  const FlowId light = sharing.add(light_way, {}, 0.0003, 1e12);
  sharing.settle(at(0));
  sharing.check();
  CHECK(sharing.rate(heavy) == doctest::Approx(2));
  CHECK(sharing.rate(light) == doctest::Approx(1e9 - 2).epsilon(1e-12));
}

TEST_CASE("max-min: times of finish are those of filling from nothing at every event") {
  double worst = 0;
  for (int trial = 0; trial < 300; ++trial) {
    CAPTURE(trial);
    const Problem problem = random_problem(trial);
    const auto found = solve(problem);
    const auto expected = twin(problem);
    for (std::size_t f = 0; f < found.size(); ++f) {
      REQUIRE(expected[f] >= 0);
      const double difference = std::abs(static_cast<double>(found[f] - expected[f]));
      // Both round events to picoseconds, each a rate's change, of which a flow sees up to 120.
      CHECK(difference <= 120 + 1e-9 * static_cast<double>(expected[f]));
      worst = std::max(worst, difference / static_cast<double>(expected[f]));
    }
  }
  MESSAGE("largest relative deviation ", worst);
}

TEST_CASE("max-min: with an accuracy rates are exact for capacities that are at most so much off") {
  // After every change: the capacity of a link by which somebody may be held back, since it is full to the accuracy,
  // or which carries too much, is set to its load; filling from nothing then gives the same rates.
  constexpr double accuracy = 0.02;
  double largest = 0;
  for (int trial = 0; trial < 300; ++trial) {
    CAPTURE(trial);
    const Problem problem = random_problem(trial);
    MaxMin sharing(problem.capacities, problem.back_share, accuracy);
    const auto check = [&](const std::map<FlowId, std::size_t>& arrival_of) {
      sharing.check();

      Problem moved = problem;
      std::vector<double> load(moved.capacities.size());
      std::vector<TwinFlow> flows;
      for (const auto& [flow, arrival] : arrival_of) {
        const double rate = sharing.rate(flow);
        flows.push_back({arrival, 0, 0});
        for (const LinkId link : problem.arrivals[arrival].forward) load[link] += rate;
        for (const LinkId link : problem.arrivals[arrival].back) {
          load[link] += problem.back_share * rate;
        }
        // Its own bound is a link, too.
        double& bound = moved.arrivals[arrival].bound;
        if (rate >= bound * (1 - accuracy)) bound = rate;
      }
      for (std::size_t link = 0; link < load.size(); ++link) {
        double& capacity = moved.capacities[link];
        REQUIRE(load[link] <= capacity * (1 + accuracy + 1e-9));
        if (load[link] < capacity * (1 - accuracy)) continue;
        capacity = load[link];
        largest = std::max(largest, std::abs(capacity / problem.capacities[link] - 1));
      }
      fill_from_nothing(moved, flows);
      std::size_t f = 0;
      for (const auto& [flow, arrival] : arrival_of) {
        CHECK(sharing.rate(flow) == doctest::Approx(flows[f++].rate).epsilon(1e-9));
      }
    };
    play(
        problem, sharing, [](std::size_t, Time) {}, check);
    CHECK(sharing.deviation() <= accuracy);
  }
  CHECK(largest > accuracy / 2);  // (it is used)
}

TEST_CASE("max-min: with an accuracy what exceeds a capacity is told like what is left free") {
  const std::array<LinkId, 1> link{0};
  for (const double capacity : {99.0, 101.0}) {
    CAPTURE(capacity);
    MaxMin sharing({100.0}, 0, 0.02);
    const FlowId flow = sharing.add(link, {}, 1, 1e6, MaxMin::unbounded);
    sharing.settle(Time{});
    CHECK(sharing.deviation() == 0);
    sharing.set_capacity(0, capacity);
    sharing.settle(Time{});
    CHECK(sharing.rate(flow) == 100);
    CHECK(sharing.deviation() == doctest::Approx(1 / capacity));
  }
}

TEST_CASE("max-min: a change does no work where nothing hangs together with it") {
  // 1000 links with one flow each: the arrival of one more flow looks at its link alone.
  MaxMin sharing(std::vector<double>(1'001, 1e9));
  std::deque<LinkId> links;
  for (LinkId l = 0; l < 1'001; ++l) links.push_back(l);
  const auto route = [&](LinkId l) { return std::span<const LinkId>(&links[l], 1); };
  for (LinkId l = 0; l < 1'000; ++l) sharing.add(route(l), {}, 1, 1e6);
  sharing.settle(at(0));
  const std::int64_t before = sharing.work();
  sharing.add(route(1'000), {}, 1, 1e6);
  sharing.settle(at(1));
  CHECK(sharing.work() - before < 10);
}

TEST_CASE("max-min: flows that a change cannot reach are left alone") {
  // 1000 flows at 1 kB/s, each over a slow link of its own and all over link 0, which is far from
  // full with them. Of the flows on link 0 alone, which take the rest, one more changes only these.
  std::vector<double> capacities(1'001, 1e3);
  capacities[0] = 1e9;
  MaxMin sharing(capacities);
  std::deque<std::array<LinkId, 2>> routes;
  for (LinkId l = 1; l <= 1'000; ++l) {
    sharing.add(routes.emplace_back(std::array<LinkId, 2>{l, 0}), {}, 1, 1e6);
  }
  const std::vector<LinkId> fast = {0};
  const FlowId first = sharing.add(fast, {}, 1, 1e9);
  sharing.settle(at(0));
  CHECK(sharing.rate(first) == doctest::Approx(1e9 - 1e6));
  const std::int64_t before = sharing.work();
  const FlowId second = sharing.add(fast, {}, 1, 1e9);
  sharing.settle(at(1));
  sharing.check();
  CHECK(sharing.rate(first) == doctest::Approx((1e9 - 1e6) / 2));
  CHECK(sharing.rate(second) == sharing.rate(first));
  // Link 0 is read a few times, 1002 flows each; the slow links and their flows not at all: filling
  // first the new flow alone, which finds link 0 full, then both that go without another bound.
  CHECK(sharing.work() - before < 10 * 1'002);
}

TEST_CASE("max-min: flows that finish at one instant leave together, in order of their numbers") {
  MaxMin sharing({8});
  const std::vector<LinkId> route = {0};
  for (int f = 0; f < 8; ++f) sharing.add(route, {}, 1, 3);
  sharing.settle(at(0));
  CHECK(sharing.next_finish() == at(3'000'000'000'000));
  std::vector<FlowId> done;
  sharing.take_finished(sharing.next_finish(), done);
  CHECK(done == std::vector<FlowId>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(sharing.flows() == 0);
  sharing.settle(at(3'000'000'000'000));
  CHECK(sharing.next_finish() == Time::max());
}

TEST_CASE("max-min: after any changes of capacity the rates are those of a fresh solver") {
  // 12 links, 40 flows over 1 to 3 of them; again and again some links get another capacity, a few
  // none at all, and some flows join.
  Random random(5, "capacities");
  std::vector<double> capacities(12, 1e9);
  MaxMin sharing(capacities);
  std::deque<std::vector<LinkId>> routes;
  std::vector<FlowId> flows;
  for (int round = 0; round < 200; ++round) {
    for (std::uint64_t changes = random.below(4); changes > 0; --changes) {
      const auto link = static_cast<LinkId>(random.below(12));
      capacities[link] =
          random.below(5) == 0 ? 0.0 : 1e8 * static_cast<double>(1 + random.below(20));
      sharing.set_capacity(link, capacities[link]);
    }
    if (flows.size() < 40) {
      std::vector<LinkId> route;
      for (std::uint64_t hops = 1 + random.below(3); hops > 0; --hops) {
        const auto link = static_cast<LinkId>(random.below(12));
        if (std::ranges::find(route, link) == route.end()) route.push_back(link);
      }
      routes.push_back(route);
      flows.push_back(sharing.add(routes.back(), {}, 1, 1e15));
    }
    sharing.settle(at(round));
    sharing.check();
    std::vector<double> positive(12, 1e9);
    MaxMin fresh(positive);
    for (LinkId link = 0; link < 12; ++link) fresh.set_capacity(link, capacities[link]);
    for (const auto& route : routes) fresh.add(route, {}, 1, 1e15);
    fresh.settle(at(round));
    for (std::size_t f = 0; f < flows.size(); ++f) {
      CHECK(sharing.rate(flows[f]) ==
            doctest::Approx(fresh.rate(static_cast<FlowId>(f))).epsilon(1e-9));
    }
  }
}

TEST_CASE("max-min: a flow that would end past the clock has no time of finish") {
  MaxMin sharing({1e-9});
  const std::vector<LinkId> route = {0};
  sharing.add(route, {}, 1, 1);
  sharing.settle(at(0));
  CHECK(sharing.next_finish() == Time::max());
}

TEST_CASE("the heap of finishes stays in order when one, few or most of its keys change") {
  // Against a sorted map, through many changes, with plenty of ties.
  Random random(8, "heap");
  FinishHeap heap;
  std::map<FlowId, std::int64_t> times;
  const auto check_top = [&] {
    const auto first = std::ranges::min_element(times, [](const auto& a, const auto& b) {
      return std::pair(a.second, a.first) < std::pair(b.second, b.first);
    });
    REQUIRE(heap.size() == times.size());
    REQUIRE(heap.top() == first->first);
    REQUIRE(heap.top_time() == at(first->second));
  };
  for (int turn = 0; turn < 3'000; ++turn) {
    const std::uint64_t changes = turn % 3 == 0 ? 1 : turn % 3 == 1 ? 5 : 80;
    std::vector<FlowId> changed;
    for (std::uint64_t c = 0; c < changes; ++c) {
      const auto flow = static_cast<FlowId>(random.below(100));
      if (std::ranges::find(changed, flow) != changed.end()) continue;
      changed.push_back(flow);
      times[flow] = static_cast<std::int64_t>(random.below(40));
    }
    heap.set_all(changed, [&](FlowId flow) { return at(times[flow]); });
    check_top();
    for (std::uint64_t pops = random.below(times.size()); pops > 0; --pops) {
      times.erase(heap.top());
      heap.pop();
      check_top();
    }
  }
}

}  // namespace starling::test_max_min
