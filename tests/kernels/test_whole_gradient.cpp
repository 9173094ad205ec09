// Workloads that fold sums into their gradients: on a ring, folded or not, on any threads, models have the same bits.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "kernels/cpu_backend.hpp"
#include "sim/node/compute_graph.hpp"
#include "tests/kernels/make_workload.hpp"

namespace starling::test_whole_gradient {
namespace {

constexpr std::size_t nodes = 6;

std::unique_ptr<Workload> make(const std::string& kind, const test::Keys& keys) {
  return test::make_workload(kind, keys, nodes);
}

/// Models and losses of all nodes after four rounds: momentum, and the mean of three neighbors.
std::vector<float> train(const Workload& workload, bool folds, GraphStatistics* statistics) {
  CpuBackend backend;
  ComputeGraph graph(backend, workload, {.folds_sums = folds}, ComputeGraph::Execution::inline_);
  std::vector<Vector> x(nodes, graph.initial_model()), m(nodes, graph.zeros(graph.parameters()));
  std::vector<Scalar> losses;
  for (Step k = 0; k < 4; ++k) {
    const std::vector<Vector> old = x;
    for (std::size_t i = 0; i < nodes; ++i) {
      const Gradient g = graph.gradient(static_cast<NodeId>(i), k, old[i]);
      m[i].scale(0.9);
      m[i].add(g.values);
      x[i] = mean(std::vector{old[i], old[(i + nodes - 1) % nodes], old[(i + 1) % nodes]});
      x[i].add_scaled(-0.05, m[i]);
      losses.push_back(g.loss);
    }
  }
  graph.flush();
  std::vector<float> numbers;
  for (const Vector& v : x) {
    const auto values = graph.read(v);
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  for (const Scalar& loss : losses) numbers.push_back(static_cast<float>(graph.read(loss)));
  *statistics = graph.statistics();
  return numbers;
}

}  // namespace

TEST_CASE("sums that are computed with a whole gradient have the bits of those that follow it") {
  const std::unique_ptr<Workload> workloads[] = {
      make("mlp", {{"dataset", "digits"}, {"hidden", "9"}}),
      make("cnn", {{"dataset", "digits"},
                   {"layers", "conv 4 3x3 same, batchnorm, relu, pool 2"},
                   {"batch_size", "5"}}),
      make("transformer", {{"dataset", "sequences"},
                           {"layers", "1"},
                           {"heads", "2"},
                           {"width", "8"},
                           {"batch_size", "3"}})};
  const int all_threads = omp_get_max_threads();
  for (const auto& workload : workloads) {
    CAPTURE(workload->facts().description);
    GraphStatistics statistics;
    const std::vector<float> expected = train(*workload, false, &statistics);
    CHECK(statistics.folded == 0);
    for (const int threads : {1, 3}) {
      omp_set_num_threads(threads);
      CHECK(train(*workload, true, &statistics) == expected);
      CHECK(statistics.folded == 2 * 4 * nodes);
    }
    omp_set_num_threads(all_threads);
  }
}

TEST_CASE("large gradients of few nodes, which threads share, have the bits of one thread's") {
  const std::unique_ptr<Workload> workloads[] = {
      make("mlp", {{"dataset", "digits"}, {"hidden", "600, 400"}}),
      make("cnn",
           {{"dataset", "digits"},
            {"layers",
             "conv 16 3x3 same, batchnorm, relu, residual 32 4, dropout 0.2, residual 32 4 /2, "
             "conv 24 3x3 same, relu, pool 2, dense 90, relu"}}),
      make("transformer", {{"dataset", "sequences"},
                           {"layers", "2"},
                           {"heads", "4"},
                           {"width", "64"},
                           {"batch_size", "16"}})};
  const int all_threads = omp_get_max_threads();
  for (const auto& workload : workloads) {
    CAPTURE(workload->facts().description);
    GraphStatistics statistics;
    omp_set_num_threads(1);
    const std::vector<float> expected = train(*workload, true, &statistics);
    for (const int threads : {2, 4, 8, 15}) {
      omp_set_num_threads(threads);
      CHECK(train(*workload, true, &statistics) == expected);
    }
    omp_set_num_threads(all_threads);
  }
}

}  // namespace starling::test_whole_gradient
