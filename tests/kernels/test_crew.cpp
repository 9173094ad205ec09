// Threads that help each other: every part is done once, in order of beginning, by whoever is free; and products that are
// cut into parts have the bits of whole ones.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/crew.hpp"
#include "kernels/dense/dense.hpp"
#include "kernels/divided_products.hpp"
#include "sim/base/random.hpp"
#include "tests/kernels/floats.hpp"

namespace starling::test_crew {
namespace {

using test::random_floats;

/// The last threads of a crew, which help the others until the end.
class Helpers {
 public:
  Helpers(Crew& crew, std::size_t threads, std::size_t count) : crew_(crew) {
    crew_.join();
    for (std::size_t i = threads - count; i < threads; ++i) {
      threads_.emplace_back([this, i] { crew_.help_while(i, [] { return true; }); });
    }
  }
  ~Helpers() {
    crew_.leave();
    for (std::thread& thread : threads_) thread.join();
  }
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

 private:
  Crew& crew_;
  std::vector<std::thread> threads_;
};

}  // namespace

TEST_CASE("without helpers one thread does all parts, in order") {
  Crew crew(3);
  std::vector<std::size_t> done;
  crew.member(1).split(5, [&](std::size_t i) { done.push_back(i); });
  CHECK(done == std::vector<std::size_t>{0, 1, 2, 3, 4});
  crew.member(1).split(0, [&](std::size_t i) { done.push_back(i); });
  CHECK(done.size() == 5);
  CHECK_FALSE(crew.help(0));
}

TEST_CASE("idle threads do parts of a task, as many at once as there are threads") {
  constexpr std::size_t threads = 4;
  Crew crew(threads);
  const Helpers helpers(crew, threads, threads - 1);
  std::atomic<std::size_t> begun = 0;
  std::mutex mutex;
  std::set<std::thread::id> who;
  crew.member(0).split(threads, [&](std::size_t) {
    {
      const std::lock_guard lock(mutex);
      who.insert(std::this_thread::get_id());
    }
    ++begun;
    while (begun < threads) std::this_thread::yield();  // for ever, if nobody helps
  });
  CHECK(who.size() == threads);
}

TEST_CASE("of many tasks, of several threads, every part is done once and in time") {
  constexpr std::size_t leaders = 3, tasks = 500, parts = 7;
  Crew crew(leaders + 2);
  const Helpers helpers(crew, leaders + 2, 2);
  std::vector<std::thread> threads;
  std::array<int, leaders> wrong{};
  for (std::size_t l = 0; l < leaders; ++l) {
    threads.emplace_back([&, l] {
      for (std::size_t t = 0; t < tasks; ++t) {
        std::array<int, parts> done{};
        crew.member(l).split(parts, [&](std::size_t i) { ++done[i]; });
        wrong[l] += static_cast<int>(parts - static_cast<std::size_t>(std::ranges::count(done, 1)));
      }
      crew.help(l);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::array<int, leaders>{});
}

TEST_CASE("what a part throws is thrown by its task, and later tasks are well") {
  for (const std::size_t helping : {0, 2}) {
    Crew crew(3);
    const Helpers helpers(crew, 3, helping);
    std::atomic<int> done = 0;
    const auto part = [&](std::size_t i) {
      if (i == 17) throw std::bad_alloc();
      ++done;
    };
    CHECK_THROWS_AS(crew.member(0).split(1000, part), std::bad_alloc);
    if (helping == 0) CHECK(done == 17);  // else others may be faster than the exception
    CHECK_FALSE(crew.member(0).has_failed());
    crew.member(0).split(17, part);
    CHECK(done >= 17);
  }
}

TEST_CASE("turns are taken in the order of parts, each thing for itself") {
  constexpr std::size_t parts = 200, things = 3;
  for (const std::size_t helping : {0, 3}) {
    Crew crew(4);
    const Helpers helpers(crew, 4, helping);
    Turns turns(crew.member(0), things);
    std::array<std::vector<std::size_t>, things> order;
    crew.member(0).split(parts, [&](std::size_t part) {
      for (std::size_t thing = 0; thing < things; ++thing) {
        if ((part + thing) % 5 == 0) std::this_thread::yield();
        turns.take(thing, part, [&] { order[thing].push_back(part); });
      }
    });
    for (const auto& parts_of_thing : order) {
      CHECK(parts_of_thing.size() == parts);
      CHECK(std::ranges::is_sorted(parts_of_thing));
    }
  }
}

TEST_CASE("nobody waits for the turn of a part that has failed") {
  for (int round = 0; round < 50; ++round) {
    Crew crew(3);
    const Helpers helpers(crew, 3, 2);
    Turns turns(crew.member(0), 1);
    const auto part = [&](std::size_t i) {
      if (i == 4) throw std::bad_alloc();
      turns.take(0, i, [] {});
    };
    CHECK_THROWS_AS(crew.member(0).split(100, part), std::bad_alloc);
  }
}

TEST_CASE("a range is cut at multiples of its grain, into as many pieces as fit") {
  const auto cut = [](std::size_t count, std::size_t grain, std::size_t most) {
    const Cut ranges(count, grain, most);
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i < ranges.pieces(); ++i) {
      CHECK(ranges[i].begin == (i == 0 ? 0 : ends.back()));
      ends.push_back(ranges[i].end);
    }
    return ends;
  };
  using Ends = std::vector<std::size_t>;
  CHECK(cut(100, 32, 2) == Ends{64, 100});
  CHECK(cut(100, 32, 9) == Ends{32, 64, 96, 100});
  CHECK(cut(10, 32, 9) == Ends{10});
  CHECK(cut(64, 32, 0) == Ends{64});
  CHECK(cut(0, 32, 3) == Ends{0});
}

TEST_CASE("products in parts have the bits of whole ones, for all builds and any shape") {
  const dense::Shape shapes[] = {{64, 784, 100}, {200, 96, 70},   {32, 2000, 40},
                                 {1000, 40, 10}, {33, 300, 1024}, {3, 5, 2}};
  for (const dense::Shape& s : shapes) {
    CAPTURE(s.batch);
    CAPTURE(s.inputs);
    CAPTURE(s.outputs);
    Random random(5, "divided");
    const std::size_t x_stride = dense::row_stride(s.inputs),
                      y_stride = dense::row_stride(s.outputs);
    const std::size_t weights = s.inputs * s.outputs, parameters = weights + s.outputs;
    auto x = random_floats(random, s.batch * x_stride);
    for (float& value : x) value = std::max(value, 0.0f);
    const auto dy = random_floats(random, s.batch * y_stride);
    const auto model = random_floats(random, parameters);
    for (const dense::Kernels* kernels : dense::runnable_kernels()) {
      CAPTURE(kernels->name);
      const auto all = [&](const DividedProducts& products) {
        std::vector<float> results(s.batch * (y_stride + x_stride) + 2 * parameters, 77.0f);
        float* y = results.data();
        float* dx = y + s.batch * y_stride;
        float* gradient = dx + s.batch * x_stride;
        float* step = gradient + parameters;
        products.forward(s, x.data(), x_stride, model.data(), &model[weights], true, y, y_stride);
        products.input_gradient(s, dy.data(), y_stride, model.data(), x.data(), x_stride, dx);
        products.parameter_gradient(s, x.data(), x_stride, dy.data(), y_stride, gradient,
                                    gradient + weights);
        const LinearTerm terms[] = {{model.data(), 1.0f}, {nullptr, -0.1f}};
        const LinearJob sum{step, static_cast<std::uint32_t>(parameters), 0, 2};
        products.parameter_sums(s, x.data(), x_stride, dy.data(), y_stride,
                                {.sums = &sum,
                                 .sum_count = 1,
                                 .terms = terms,
                                 .weights = 0,
                                 .bias = weights,
                                 .is_far = false});
        return results;
      };
      const std::vector<float> expected = all({*kernels, nullptr});
      for (const std::size_t threads : {1, 3, 16}) {
        Crew crew(threads);
        CHECK(all({*kernels, &crew.member(0)}) == expected);
      }
      Crew crew(3);
      const Helpers helpers(crew, 3, 2);
      CHECK(all({*kernels, &crew.member(0)}) == expected);
    }
  }
}

}  // namespace starling::test_crew
