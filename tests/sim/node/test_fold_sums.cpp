// Sums that are computed with their gradients: which ones, and that no bit depends on it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "kernels/cpu_backend.hpp"
#include "kernels/for_all.hpp"
#include "kernels/mlp.hpp"
#include "sim/base/random.hpp"
#include "sim/node/compute_graph.hpp"
#include "tests/sim/node/toy_workload.hpp"

namespace starling::test_fold_sums {
namespace {

/// The toy's gradients, then the sums of each request as LinearJob defines them.
class FoldingToy : public test::ToyWorkload {
 public:
  using ToyWorkload::ToyWorkload;
  bool folds_sums() const override { return true; }
  void gradients(std::span<GradientRequest> requests) const override {
    for (GradientRequest& request : requests) {
      std::vector<float> g(facts().parameters);
      GradientRequest plain{
          .node = request.node, .draw = request.draw, .x = request.x, .gradient = g.data()};
      ToyWorkload::gradients({&plain, 1});
      request.loss = plain.loss;
      if (request.sums.empty()) std::copy(g.begin(), g.end(), request.gradient);
      for (const LinearJob& job : request.sums) {
        for (std::size_t i = 0; i < job.length; ++i) {
          float sum = 0;
          for (std::uint32_t t = 0; t < job.terms; ++t) {
            const LinearTerm& term = request.terms[job.first_term + t];
            const float value = term.values == nullptr ? g[i] : term.values[i];
            sum = t == 0 ? term.factor * value : std::fmaf(term.factor, value, sum);
          }
          job.out[i] = sum;
        }
      }
    }
  }
};

/// Takes requests one by one, on one thread, and notes the model of each and what was said to come next.
class ListingToy final : public FoldingToy {
 public:
  using FoldingToy::FoldingToy;
  bool takes_one_by_one() const override { return true; }
  void gradients_of(RowOwner& owner, std::span<GradientRequest>) const override {
    RequestQueue::Lane lane;
    while (GradientRequest* const request = owner.begin(lane)) {
      models.push_back(request->x);
      next.push_back(request->next_x);
      gradients({request, 1});
      owner.end(*request);
    }
    owner.leave(lane);
  }
  mutable std::vector<const float*> models, next;
};

/// Takes requests one by one, and its time, so that some wait for others; may fail at one.
class FlowingToy final : public FoldingToy {
 public:
  FlowingToy(NodeId nodes, NodeId failing) : FoldingToy(nodes), failing_(failing) {}
  bool takes_one_by_one() const override { return true; }
  void gradients_of(RowOwner& owner, std::span<GradientRequest> requests) const override {
    ++calls;
    struct Nothing {};
    for_all_of<Nothing>(owner, requests.size(), 9e6,
                        [&](GradientRequest& request, Nothing&, Crew::Member*) {
                          if ((request.node * 7 + request.draw) % 5 == 0)
                            std::this_thread::sleep_for(std::chrono::microseconds(100));
                          if (request.node == failing_ && request.draw == 2)
                            throw std::runtime_error("no luck");
                          gradients({&request, 1});
                        });
  }
  mutable int calls = 0;

 private:
  NodeId failing_;
};

/// Some rounds of x_i <- (x_{i-1} + x_i + x_{i+1}) / 3 - g_i / 10 on a ring, all in one window; the models.
std::vector<float> train_ring(ComputeGraph& graph, NodeId nodes, Step rounds) {
  const auto count = static_cast<std::size_t>(nodes);
  std::vector<Vector> x(count, graph.initial_model());
  for (Step k = 0; k < rounds; ++k) {
    const std::vector<Vector> old = x;
    for (std::size_t i = 0; i < count; ++i) {
      const Gradient g = graph.gradient(static_cast<NodeId>(i), k, old[i]);
      x[i] = mean(std::vector{old[i], old[(i + count - 1) % count], old[(i + 1) % count]});
      x[i].add_scaled(-0.1, g.values);
    }
  }
  graph.flush();
  std::vector<float> models;
  for (const Vector& v : x) {
    const auto values = graph.read(v);
    models.insert(models.end(), values.begin(), values.end());
  }
  return models;
}

struct Bench {
  CpuBackend backend;
  FoldingToy workload{4};
  ComputeGraph graph{backend, workload, {}, ComputeGraph::Execution::overlapped};

  Vector gradient(NodeId node, const Vector& x) { return graph.gradient(node, 0, x).values; }
  std::int64_t folded() {
    graph.flush();
    return graph.statistics().folded;
  }
};

}  // namespace

TEST_CASE("a request says where the model of the next one lies, unless that is still being made") {
  constexpr NodeId nodes = 16;
  for (const Step rounds : {1, 3}) {
    CAPTURE(rounds);
    CpuBackend backend;
    const ListingToy workload(nodes);
    ComputeGraph graph{backend, workload, {}, ComputeGraph::Execution::inline_};
    train_ring(graph, nodes, rounds);
    REQUIRE(workload.models.size() == static_cast<std::size_t>(nodes * rounds));
    int known = 0;
    for (std::size_t i = 0; i < workload.next.size(); ++i) {
      if (workload.next[i] == nullptr) continue;
      ++known;
      // Of three rounds it may wait for another term of its sum, and comes later.
      const auto behind = workload.models.begin() + static_cast<std::ptrdiff_t>(i) + 1;
      const auto end = rounds == 1 ? behind + 1 : workload.models.end();
      REQUIRE(behind < workload.models.end());
      CHECK(std::find(behind, end, workload.next[i]) != end);
    }
    CHECK(known >= nodes / 4);
  }
}

TEST_CASE("a step whose gradient nobody keeps is computed with it, in the place of the model") {
  Bench bench;
  Vector x = bench.graph.zeros(37);
  x.scale(1);
  bench.graph.flush();
  const auto before = bench.graph.statistics().peak_bytes;
  for (int k = 0; k < 3; ++k) x.add_scaled(-0.5, bench.gradient(2, x));
  CHECK(bench.folded() == 3);
  // x <- x - (x - 2) / 2: 0, 1, 1.5, 1.75.
  CHECK(bench.graph.read(x)[7] == 1.75F);
  CHECK(bench.graph.statistics().peak_bytes == before);
}

TEST_CASE("a gradient that a handle, a transform or a slice reads is stored") {
  Bench bench;
  const Vector start = bench.graph.initial_model();
  Vector x = start, y = start, z = start;
  const Vector kept = bench.gradient(1, start);
  x.add_scaled(-1, kept);
  Scalar length;
  {
    const Vector g = bench.gradient(2, start);
    y.add_scaled(-1, g);
    length = squared_distance(g, start);
  }
  Vector part = bench.gradient(3, start).slice(4, 1);
  part.scale(2);
  CHECK(bench.folded() == 0);
  CHECK(bench.graph.read(kept)[5] == 4.0F);
  CHECK(bench.graph.read(x)[5] == 1.0F);
  CHECK(length.value() == 37 * 4.0);  // g_i - i = -2
  CHECK(bench.graph.read(part)[0] == 2.0F);
}

TEST_CASE("momentum, and the step that reads it, are computed with the gradient") {
  Bench bench;
  const Vector start = bench.graph.initial_model();
  Vector x = start;
  Vector m = start;
  for (int k = 0; k < 2; ++k) {
    const Weighted terms[] = {{0.5, m}, {1, bench.gradient(1, x)}};
    m = weighted_sum(terms);
    x.add_scaled(-0.25, m);
  }
  CHECK(bench.folded() == 4);
  // At index 9: x = 9, m = 9; g = 8, m = 12.5, x = 5.875; g = 4.875, m = 11.125, x = 3.09375.
  CHECK(bench.graph.read(m)[9] == 11.125F);
  CHECK(bench.graph.read(x)[9] == 3.09375F);
}

TEST_CASE("a gradient waits for the other terms of its sum, but not for another gradient") {
  Bench bench;
  const Vector start = bench.graph.initial_model();
  Vector late = start;
  late.add_scaled(-1, bench.gradient(1, start));  // stage 1: the constant 1
  Vector x = start;
  {
    const Vector g = bench.gradient(2, start);  // could run in stage 0
    x.add(late);
    x.add_scaled(-1, g);
  }
  CHECK(bench.folded() == 2);
  CHECK(bench.graph.read(x)[6] == 6.0F + 1.0F - 4.0F);

  Vector both = bench.gradient(1, start);
  both.add(bench.gradient(2, start));
  CHECK(bench.folded() == 2);
  CHECK(bench.graph.statistics().gradient_batches == 3);  // those of `both` are one
  CHECK(bench.graph.read(both)[6] == 5.0F + 4.0F);
}

TEST_CASE("a gradient that is only held when a window is full waits for its sum in the next") {
  CpuBackend backend;
  const FoldingToy workload{4};
  ComputeGraph graph(backend, workload, {.window_gradients = 2},
                     ComputeGraph::Execution::overlapped);
  std::vector<Vector> x(3, graph.initial_model());
  std::vector<Gradient> gradients;
  for (NodeId i = 0; i < 3; ++i) gradients.push_back(graph.gradient(i, 0, x[0]));
  for (std::size_t i = 0; i < 3; ++i) x[i].add_scaled(-1, gradients[i].values);
  const Scalar loss = gradients[1].loss;
  gradients.clear();
  graph.flush();
  CHECK(graph.statistics().folded == 3);
  CHECK(graph.statistics().gradient_batches == 1);
  for (std::size_t i = 0; i < 3; ++i) {  // x - (x - i)
    CHECK(graph.read(x[i])[20] == static_cast<float>(i));
  }
  // (k - 1)^2 / 2 for k = 0 .. 36: (1 + 0 + 1 + .. + 35^2) / 2 = (1 + 35 * 36 * 71 / 6) / 2
  CHECK(loss.value() == 7455.5);
}

TEST_CASE("a gradient that is asked for is computed, however full the window is") {
  CpuBackend backend;
  const FoldingToy workload{4};
  ComputeGraph graph(backend, workload, {.window_operations = 3},
                     ComputeGraph::Execution::overlapped);
  const Vector x = graph.initial_model();
  const Gradient held = graph.gradient(1, 0, x);
  std::vector<ModelQuality> qualities;  // fill the window without closing it
  for (int i = 0; i < 4; ++i) qualities.push_back(graph.evaluate(x));
  CHECK(graph.read(held.values)[20] == 19.0F);  // x - node
}

namespace {

constexpr std::size_t nodes = 5;

Mlp::Problem problem_of(std::size_t count) {
  Mlp::Problem problem;
  problem.hidden = {33, 40};
  problem.data.train = {.samples = 50, .features = 70, .classes = 3};
  Random noise(1, "data");
  for (int i = 0; i < 50 * 70; ++i) {
    problem.data.train.x.push_back(static_cast<float>(noise.normal()));
  }
  for (int s = 0; s < 50; ++s) problem.data.train.y.push_back(s % 3);
  problem.parts.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (int s = 0; s < 10; ++s) problem.parts[i].push_back(static_cast<int>(i + 5 * s) % 50);
  }
  problem.batch_size = 9;
  return problem;
}

/// Weights of all nodes after random steps of many kinds.
std::vector<float> train(const dense::Kernels& kernels, ComputeGraph::Limits limits,
                         std::int64_t* folded) {
  const Mlp mlp(problem_of(nodes), kernels);
  CpuBackend backend(kernels);
  // Inline: on this thread, for which the number of threads is set.
  ComputeGraph graph(backend, mlp, limits, ComputeGraph::Execution::inline_);

  std::vector<Vector> x(nodes, graph.initial_model()), m(nodes, graph.initial_model());
  for (Vector& v : m) v.scale(0);
  std::vector<Gradient> kept(nodes);
  Random random(2, "program");
  for (Step k = 0; k < 60; ++k) {
    const std::size_t i = random.below(nodes), left = (i + 1) % nodes, right = (i + 2) % nodes;
    const Gradient g = graph.gradient(static_cast<NodeId>(i), k, x[i]);
    switch (random.below(6)) {
      case 0:  // plain
        x[i].add_scaled(-0.1, g.values);
        break;
      case 1: {  // with two neighbors, the gradient in the midst
        const Weighted terms[] = {{0.5, x[i]}, {-0.1, g.values}, {0.25, x[left]}, {0.25, x[right]}};
        x[i] = weighted_sum(terms);
        break;
      }
      case 2: {  // Nesterov momentum: two readers
        const Weighted terms[] = {{0.9, m[i]}, {1, g.values}};
        m[i] = weighted_sum(terms);
        Vector step = g.values;
        step.add_scaled(0.9, m[i]);
        x[i].add_scaled(-0.05, step);
        break;
      }
      case 3:  // the gradient first, and kept for later
        kept[i] = g;
        x[i].add_scaled(-0.1, kept[left].values ? kept[left].values : g.values);
        break;
      case 4: {  // late: the model has moved on
        x[i].scale(0.99);
        x[i].add_scaled(0.01, x[left]);
        x[i].add_scaled(-0.1, g.values);
        break;
      }
      default: {  // another model takes the step
        const Weighted terms[] = {{-0.05, g.values}, {1, x[left]}};
        x[left] = weighted_sum(terms);
        break;
      }
    }
  }
  std::vector<float> weights;
  for (const Vector& v : x) {
    const auto values = graph.read(v);
    weights.insert(weights.end(), values.begin(), values.end());
  }
  *folded = graph.statistics().folded;
  return weights;
}

}  // namespace

TEST_CASE("no bit depends on folding, windows, threads or instruction set") {
  std::int64_t folded = 0;
  const auto expected = train(dense::kernels_v1(), {.folds_sums = false}, &folded);
  CHECK(folded == 0);
  for (const float weight : expected) REQUIRE(std::isfinite(weight));
  const int all_threads = omp_get_max_threads();
  for (const dense::Kernels* kernels : dense::runnable_kernels()) {
    for (const std::int64_t window : {1, 7, 1000}) {
      for (const int threads : {1, 3}) {
        CAPTURE(kernels->name);
        CAPTURE(window);
        omp_set_num_threads(threads);
        CHECK(train(*kernels, {.window_gradients = window}, &folded) == expected);
        if (window == 1000) CHECK(folded > 30);
      }
    }
    CHECK(train(*kernels, {.folds_sums = false}, &folded) == expected);
  }
  omp_set_num_threads(all_threads);
}

TEST_CASE(
    "gradients of many rounds are one batch: each waits for what it reads, not for the round") {
  constexpr NodeId ring = 60;
  constexpr Step rounds = 6;
  std::vector<float> expected;
  {
    CpuBackend backend;
    const FoldingToy workload(ring);
    ComputeGraph graph(backend, workload, {}, ComputeGraph::Execution::inline_);
    expected = train_ring(graph, ring, rounds);
  }
  const int all_threads = omp_get_max_threads();
  for (const int threads : {1, 2, 7}) {
    CAPTURE(threads);
    omp_set_num_threads(threads);
    CpuBackend backend;
    const FlowingToy workload(ring, -1);
    ComputeGraph graph(backend, workload, {}, ComputeGraph::Execution::inline_);
    CHECK(train_ring(graph, ring, rounds) == expected);
    CHECK(workload.calls == 1);
    CHECK(graph.statistics().gradient_batches == rounds);
    CHECK(graph.statistics().folded == ring * rounds);
  }
  omp_set_num_threads(all_threads);
}

TEST_CASE("nobody waits for a gradient that failed, and what is told is its failure") {
  const int all_threads = omp_get_max_threads();
  for (const int threads : {1, 2, 7}) {
    for (const NodeId failing : {0, 31, 59}) {
      CAPTURE(threads);
      omp_set_num_threads(threads);
      CpuBackend backend;
      const FlowingToy workload(60, failing);
      ComputeGraph graph(backend, workload, {}, ComputeGraph::Execution::inline_);
      CHECK_THROWS_WITH_AS(train_ring(graph, 60, 6), "no luck", std::runtime_error);
    }
  }
  omp_set_num_threads(all_threads);
}

TEST_CASE("models that are used up make room for results of the same batch") {
  constexpr std::size_t ring = 600;
  const Mlp mlp(problem_of(ring));
  const int all_threads = omp_get_max_threads();
  std::vector<float> expected;
  std::int64_t expected_peak = 0;
  for (const int threads : {1, 4}) {
    omp_set_num_threads(threads);
    CpuBackend backend;
    ComputeGraph graph(backend, mlp, {}, ComputeGraph::Execution::inline_);
    std::set<const float*> places;
    std::vector<Vector> x(ring, graph.initial_model());
    for (Step k = 0; k < 3; ++k) {
      std::vector<Vector> mixed;
      for (std::size_t i = 0; i < ring; ++i) {
        const Gradient g = graph.gradient(static_cast<NodeId>(i), k, x[i]);
        const Weighted terms[] = {{0.5, x[i]},
                                  {0.25, x[(i + ring - 1) % ring]},
                                  {0.25, x[(i + 1) % ring]},
                                  {-0.1, g.values}};
        mixed.push_back(weighted_sum(terms));
      }
      x = std::move(mixed);
      graph.flush();
      for (const Vector& v : x) places.insert(graph.read(v).data());
    }
    CHECK(graph.statistics().folded == 3 * ring);
    if (threads == 1) CHECK(places.size() < ring + 10);
    std::vector<float> weights;
    for (const Vector& v : x) {
      const auto values = graph.read(v);
      weights.insert(weights.end(), values.begin(), values.end());
    }
    if (threads == 1) expected = weights;
    if (threads == 1) expected_peak = graph.statistics().peak_bytes;
    CHECK(weights == expected);
    CHECK(graph.statistics().peak_bytes == expected_peak);
  }
  omp_set_num_threads(all_threads);
}

}  // namespace starling::test_fold_sums
