// Who gets which request when: strips in order, each with one thread at a time, and requests that wait for others.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "sim/node/request_queue.hpp"

namespace starling::test_request_queue {
namespace {

using Lane = RequestQueue::Lane;

const auto at_once = [](std::size_t) { return true; };

}  // namespace

TEST_CASE("a thread takes a strip to its end, then the next, and another thread the one behind") {
  RequestQueue queue;
  Lane first, second;
  CHECK_FALSE(queue.take(first, at_once));  // nothing to do as yet
  queue.reset(std::vector<std::size_t>{3, 3, 5, 6});
  CHECK(queue.take(first, at_once) == 0);
  CHECK(queue.take(second, at_once) == 3);
  CHECK(queue.take(first, at_once) == 1);
  CHECK(queue.take(first, at_once) == 2);
  CHECK(queue.take(first, at_once) == 5);
  CHECK(queue.take(second, at_once) == 4);
  CHECK_FALSE(queue.take(first, at_once));
  CHECK_FALSE(queue.take(second, at_once));
}

TEST_CASE("a strip whose next request cannot begin is left to others, and gone back to") {
  RequestQueue queue;
  queue.reset(std::vector<std::size_t>{2, 4});
  std::vector<bool> can_begin = {true, false, true, true};
  const auto begin = [&](std::size_t request) { return can_begin[request]; };
  Lane lane, other;
  CHECK(queue.take(lane, begin) == 0);
  CHECK(queue.take(lane, begin) == 2);
  can_begin[1] = true;
  CHECK(queue.take(other, begin) == 1);
  CHECK(queue.take(lane, begin) == 3);
  CHECK_FALSE(queue.take(lane, begin));
  CHECK_FALSE(queue.take(other, begin));
}

TEST_CASE("who leaves lets another go on with the strip; nothing begins after a stop") {
  RequestQueue queue;
  queue.reset(std::vector<std::size_t>{4});
  Lane lane, other;
  CHECK(queue.take(lane, at_once) == 0);
  queue.leave(lane);
  queue.leave(lane);
  CHECK(queue.take(other, at_once) == 1);
  queue.stop();
  CHECK_FALSE(queue.take(other, at_once));
  CHECK_FALSE(queue.take(lane, at_once));
  queue.reset(std::vector<std::size_t>{1});
  Lane anew;
  CHECK(queue.take(anew, at_once) == 0);
}

TEST_CASE("on many threads every request begins once, behind all that it waits for") {
  // Rounds of a ring in strips of some nodes: who needs both neighbors' last round has its number from (node, round).
  constexpr std::size_t nodes = 60, rounds = 7, width = 10;
  struct Request {
    std::size_t node, round;
  };
  std::vector<Request> requests;
  std::vector<std::size_t> ends;
  std::vector<std::vector<std::size_t>> turn(rounds, std::vector<std::size_t>(nodes));
  for (std::size_t k = 0; k < rounds; ++k) {
    for (std::size_t i = 0; i < nodes; ++i) {
      turn[k][i] = i % width;
      for (const std::size_t j : {i + nodes - 1, i, i + 1}) {
        if (k > 0) turn[k][i] = std::max(turn[k][i], turn[k - 1][j % nodes] + 1);
      }
    }
  }
  for (std::size_t strip = 0; strip < nodes / width; ++strip) {
    for (std::size_t now = 0; now < width + rounds; ++now) {
      for (std::size_t k = 0; k < rounds; ++k) {
        for (std::size_t i = strip * width; i < (strip + 1) * width; ++i) {
          if (turn[k][i] == now) requests.push_back({i, k});
        }
      }
    }
    ends.push_back(requests.size());
  }
  REQUIRE(requests.size() == nodes * rounds);

  for (const std::size_t threads : {1, 2, 5}) {
    RequestQueue queue;
    queue.reset(ends);
    std::vector<std::atomic<std::size_t>> done(nodes);  // rounds of each node
    std::vector<std::atomic<int>> begun(requests.size());
    std::vector<std::thread> team;
    for (std::size_t t = 0; t < threads; ++t) {
      team.emplace_back([&] {
        Lane lane;
        while (const auto request = queue.take(lane, [&](std::size_t r) {
          const auto [i, k] = requests[r];
          return done[i] == k && done[(i + 1) % nodes] >= k && done[(i + nodes - 1) % nodes] >= k;
        })) {
          ++begun[*request];
          if (*request % 3 == 0) std::this_thread::yield();
          if (*request % 50 == 0) queue.leave(lane);
          ++done[requests[*request].node];
        }
      });
    }
    for (std::thread& thread : team) thread.join();
    for (const auto& times : begun) CHECK(times == 1);
    for (const auto& count : done) CHECK(count == rounds);
  }
}

}  // namespace starling::test_request_queue
