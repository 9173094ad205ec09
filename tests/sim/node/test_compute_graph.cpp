// Verbs that are recorded now and computed later have the numbers of a plain interpreter, and none are computed in vain.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "kernels/cpu_backend.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/node/compute_graph.hpp"
#include "tests/sim/node/toy_workload.hpp"
#include "tests/support/message_of.hpp"

namespace starling::test_compute_graph {
namespace {

constexpr std::size_t size = 37;

struct Bench {
  explicit Bench(ComputeGraph::Limits limits = {},
                 ComputeGraph::Execution execution = ComputeGraph::Execution::overlapped)
      : graph(backend, workload, limits, execution) {}

  CpuBackend backend;
  test::ToyWorkload workload{4};
  ComputeGraph graph;
};

/// Notes how many threads a team would have where gradients are computed.
class NotingThreads final : public test::ToyWorkload {
 public:
  NotingThreads() : ToyWorkload(1) {}
  void gradients(std::span<GradientRequest> requests) const override {
    threads = omp_get_max_threads();
    ToyWorkload::gradients(requests);
  }
  mutable int threads = 0;
};

/// Counts what is asked for, and fails where a test says so.
class Failing final : public test::ToyWorkload {
 public:
  Failing() : ToyWorkload(1) {}
  void gradients(std::span<GradientRequest> requests) const override {
    asked += std::ssize(requests);
    if (fails) throw Error("it fails");
    ToyWorkload::gradients(requests);
  }
  bool fails = false;
  mutable std::int64_t asked = 0;
};

/// Computes no second gradient of a node before a test lets it.
class Waiting final : public test::ToyWorkload {
 public:
  Waiting() : ToyWorkload(2) {}
  void gradients(std::span<GradientRequest> requests) const override {
    if (requests.front().draw == 1) may_begin.wait(false);
    ToyWorkload::gradients(requests);
  }
  std::atomic<bool> may_begin = false;
};

std::vector<float> numbers(ComputeGraph& graph, const Vector& x) {
  const std::span<const float> values = graph.read(x);
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("verbs are one fused multiply-add per element, in order") {
  Bench bench;
  Vector x = bench.graph.initial_model();
  const Vector g = bench.graph.gradient(2, 0, x).values;
  x.scale(0.3);
  x.add_scaled(-0.7, g);
  x.add(g);
  const std::vector<float> values = numbers(bench.graph, x);
  for (std::size_t k = 0; k < size; ++k) {
    const float start = static_cast<float>(k);
    const float gradient = start - 2.0F;
    float expected = 0.3F * start;
    expected = std::fmaf(-0.7F, gradient, expected);
    expected = std::fmaf(1.0F, gradient, expected);
    CHECK(values[k] == expected);
  }
  CHECK(bench.graph.statistics().joined == 2);
  CHECK(bench.graph.statistics().sums == 1);
}

TEST_CASE("the thread that computes has teams as large as asked for on the one that records") {
  const int before = omp_get_max_threads();
  for (const int threads : {1, 3}) {
    omp_set_num_threads(threads);
    CpuBackend backend;
    const NotingThreads workload;
    ComputeGraph graph(backend, workload, {}, ComputeGraph::Execution::overlapped);
    numbers(graph, graph.gradient(0, 0, graph.initial_model()).values);
    CHECK(workload.threads == threads);
  }
  omp_set_num_threads(before);
}

TEST_CASE("a snapshot keeps its numbers while the vector moves on") {
  Bench bench;
  Vector x = bench.graph.initial_model();
  x.scale(2);
  const Vector snapshot = x;
  x.add(snapshot);
  x.scale(3);
  CHECK(numbers(bench.graph, snapshot)[5] == 10.0F);
  CHECK(numbers(bench.graph, x)[5] == 60.0F);
  CHECK(numbers(bench.graph, bench.graph.initial_model())[5] == 5.0F);
}

TEST_CASE("the same sum recorded twice is computed once and shared") {
  Bench bench;
  const Vector a = bench.graph.gradient(0, 0, bench.graph.initial_model()).values;
  const Vector b = bench.graph.gradient(1, 0, bench.graph.initial_model()).values;
  Vector first = a;
  first.add(b);
  Vector second = a;
  second.add(b);
  Vector other = b;
  other.add(a);  // another order of operands is another sum
  CHECK(numbers(bench.graph, first) == numbers(bench.graph, second));
  CHECK(bench.graph.read(first).data() == bench.graph.read(second).data());
  CHECK(bench.graph.read(first).data() != bench.graph.read(other).data());
  CHECK(bench.graph.statistics().shared == 1);
}

TEST_CASE("zeros of different sizes are not taken for each other") {
  Bench bench;
  const Vector few = bench.graph.zeros(3);
  Vector many = bench.graph.zeros(size);
  CHECK(bench.graph.statistics().shared == 0);
  const Vector again = bench.graph.zeros(size);
  CHECK(bench.graph.statistics().shared == 1);
  many.add(bench.graph.initial_model());  // 0, 1, 2, ..
  CHECK(numbers(bench.graph, few) == std::vector<float>(3));
  CHECK(numbers(bench.graph, again) == std::vector<float>(size));
  CHECK(numbers(bench.graph, many)[size - 1] == static_cast<float>(size - 1));
}

TEST_CASE("a shared sum is not changed by who goes on with it") {
  Bench bench;
  Vector first = bench.graph.initial_model();
  first.scale(0.5);
  Vector second = bench.graph.initial_model();
  second.scale(0.5);
  first.add(bench.graph.initial_model());
  CHECK(numbers(bench.graph, second)[4] == 2.0F);
  CHECK(numbers(bench.graph, first)[4] == 6.0F);
}

TEST_CASE("results nobody reads are not computed") {
  Bench bench;
  {
    Vector x = bench.graph.initial_model();
    for (int i = 0; i < 5; ++i) {
      x.scale(0.5);
      const Vector keeps_it_from_joining = x;
      x.add(keeps_it_from_joining);
    }
  }
  bench.graph.flush();
  CHECK(bench.graph.statistics().sums == 0);
  CHECK(bench.graph.statistics().dropped > 0);
}

TEST_CASE("a window closes at so many operations, gradients or not") {
  Bench bench({.window_operations = 100});
  const Vector x = bench.graph.initial_model();
  std::vector<Vector> results;
  for (int i = 0; i < 350; ++i) {
    results.push_back(x);
    results.back().scale(1.0 + i);
  }
  bench.graph.flush();
  CHECK(bench.graph.statistics().windows == 4);
  CHECK(bench.graph.statistics().sums == 350);
  CHECK(numbers(bench.graph, results[349])[4] == 350 * numbers(bench.graph, x)[4]);
}

TEST_CASE("slices are views and concatenation puts them together again") {
  Bench bench;
  Vector x = bench.graph.initial_model();
  x.scale(2);
  const Vector pieces[] = {x.slice(30, 7), x.slice(0, 30)};
  Vector turned = concatenate(pieces);
  Vector part = x.slice(3, 4);
  part.add(x.slice(4, 4));
  CHECK(turned.size() == size);
  const std::vector<float> values = numbers(bench.graph, turned);
  CHECK(values[0] == 60.0F);
  CHECK(values[7] == 0.0F);
  CHECK(numbers(bench.graph, part) == std::vector<float>{14, 18, 22, 26});
  CHECK(numbers(bench.graph, x)[3] == 6.0F);
}

TEST_CASE("shares are whole floats of nearly equal size, or equal and without numbers") {
  Bench bench;
  const Vector x = bench.graph.initial_model();
  CHECK(x.share(0, 4).size() == 9);
  CHECK(x.share(3, 4).size() == 10);
  CHECK(numbers(bench.graph, x.share(3, 4))[0] == 27);

  class SizesOnly final : public test::ToyWorkload {
   public:
    SizesOnly() : ToyWorkload(4), facts_(ToyWorkload::facts()) { facts_.has_numbers = false; }
    const WorkloadFacts& facts() const override { return facts_; }

   private:
    WorkloadFacts facts_;
  };
  CpuBackend backend;
  const SizesOnly workload;
  ComputeGraph graph(backend, workload, {}, ComputeGraph::Execution::overlapped);
  const Vector y = graph.initial_model();  // 37 floats, 148 bytes
  for (const std::size_t i : {0, 1, 3}) CHECK(y.share(i, 4).wire_bytes() == 37);
  CHECK(y.share(2, 3).wire_bytes() == 49);  // 49.33
  CHECK(y.share(0, 8).wire_bytes() == 19);  // 18.5
  // Halves of halves keep their fractions, and are whole again together.
  const Vector half = y.share(0, 2);
  const Vector quarters[] = {half.share(0, 2), half.share(1, 2)};
  const Vector halves[] = {concatenate(quarters), half};
  CHECK(halves[0].wire_bytes() == 74);
  CHECK(concatenate(halves).size() == 37);
  CHECK(half.slice(3, 5).wire_bytes() == 20);
  CHECK(half.as_numbers().wire_bytes() == 74);
  const Vector thirds[] = {y.share(0, 3), y.share(1, 3)};
  CHECK(thirds[0].wire_bytes() == 49);
  CHECK(mean(thirds).wire_bytes() == 49);  // not 12 * 4
}

TEST_CASE("sums of numbers beside a model are numbers, what a transform makes of them is not") {
  class StandIn final : public test::ToyWorkload {
   public:
    StandIn() : ToyWorkload(4), facts_(ToyWorkload::facts()) { facts_.wire_parameters = 37'000; }
    const WorkloadFacts& facts() const override { return facts_; }

   private:
    WorkloadFacts facts_;
  };
  CpuBackend backend;
  const StandIn workload;
  ComputeGraph graph(backend, workload, {}, ComputeGraph::Execution::overlapped);
  const Vector model[] = {graph.initial_model(), graph.initial_model()};
  const Vector numbers[] = {model[0].as_numbers(), model[1].as_numbers()};
  CHECK(mean(model).wire_bytes() == 148'000);
  CHECK(mean(numbers).wire_bytes() == 148);
  CHECK(transformed(transforms::KeepLargest{37}, {numbers[0]}).wire_bytes() == 296'000);
}

TEST_CASE("normal numbers are those of their stream") {
  Bench bench;
  Random random(3, "normals");
  const Vector v = bench.graph.normals(5, random);
  for (const float number : numbers(bench.graph, v))
    CHECK(number == static_cast<float>(random.normal()));
}

TEST_CASE("means, weighted sums, zeros and distances") {
  Bench bench;
  const Vector start = bench.graph.initial_model();
  std::vector<Vector> gradients;
  for (NodeId i = 0; i < 4; ++i) gradients.push_back(bench.graph.gradient(i, 0, start).values);
  // gradient_i = start - i, so their mean is start - 1.5 and the distance of g_0 and g_3 is 3 everywhere.
  CHECK(numbers(bench.graph, mean(gradients))[10] == doctest::Approx(8.5));
  const Weighted terms[] = {{2.0, gradients[0]}, {-1.0, gradients[1]}};
  CHECK(numbers(bench.graph, weighted_sum(terms))[10] == 11.0F);  // 2 * 10 - 9
  CHECK(numbers(bench.graph, bench.graph.zeros(3)) == std::vector<float>{0, 0, 0});
  CHECK(squared_distance(gradients[0], gradients[3]).value() == 9.0 * size);
}

TEST_CASE("numbers are delivered when they are known, and scalars can be asked") {
  Bench bench;
  double delivered = std::nan("");
  double again = std::nan("");
  const Gradient g = bench.graph.gradient(3, 0, bench.graph.zeros(size));
  bench.graph.deliver(g.loss, &delivered);
  CHECK(std::isnan(delivered));
  bench.graph.flush();
  CHECK(delivered == 0.5 * 9 * size);
  CHECK(g.loss.value() == 0.5 * 9 * size);
  bench.graph.deliver(g.loss, &again);
  CHECK(again == delivered);
}

TEST_CASE("gradients of nodes that never act together run as one batch") {
  // Node i takes i + 1 sums before its gradient: all gradients are at stage 0, so there is one batch of four, and
  // the second gradients of all nodes are another.
  Bench bench;
  std::vector<Vector> models;
  for (NodeId i = 0; i < 4; ++i) {
    Vector x = bench.graph.initial_model();
    for (NodeId j = 0; j <= i; ++j) x.scale(0.5);
    for (int step = 0; step < 2; ++step)
      x.add_scaled(-0.1, bench.graph.gradient(i, step, x).values);
    models.push_back(x);
  }
  bench.graph.flush();
  CHECK(bench.graph.statistics().gradients == 8);
  CHECK(bench.graph.statistics().gradient_batches == 2);
}

TEST_CASE("batched calls are counted for every kind") {
  Bench bench;
  const Vector x = bench.graph.initial_model();
  std::vector<Scalar> scalars;
  for (const std::size_t count : {3, 4, 5}) {
    const Vector code =
        transformed(transforms::KeepLargest{static_cast<std::uint32_t>(count)}, {x});
    const Vector kept =
        transformed(transforms::Scatter{size}, {code});  // a batch after that of the codes
    scalars.push_back(squared_distance(x, kept));
    scalars.push_back(measured(transforms::CountNonzero{}, {kept}));
    scalars.push_back(bench.graph.evaluate(kept).loss);
  }
  bench.graph.flush();
  const GraphStatistics statistics = bench.graph.statistics();
  CHECK(statistics.transforms == 6);
  CHECK(statistics.transform_batches == 2);
  CHECK(statistics.distances == 6);
  CHECK(statistics.distance_batches == 2);  // one of distances, one of other measures
  CHECK(statistics.evaluations == 3);
  CHECK(statistics.evaluation_batches == 1);
}

TEST_CASE(
    "random programs give the bits of a plain interpreter, whatever the window, in both modes") {
  // The interpreter keeps every vector as plain floats and runs each verb at once.
  const auto run = [](ComputeGraph::Limits limits, ComputeGraph::Execution execution) {
    Bench bench(limits, execution);
    Random random(7, "random program");
    constexpr std::size_t places = 12;
    std::vector<Vector> vectors(places, bench.graph.initial_model());
    std::vector<std::vector<float>> plain(places,
                                          numbers(bench.graph, bench.graph.initial_model()));
    Step draw = 0;
    for (int i = 0; i < 3000; ++i) {
      const auto a = random.below(places);
      const auto b = random.below(places);
      const float factor = static_cast<float>(random.uniform() - 0.5);
      switch (random.below(6)) {
        case 0:
          vectors[a].scale(static_cast<double>(factor));
          for (float& v : plain[a]) v = factor * v;
          break;
        case 1:
        case 2: {
          vectors[a].add_scaled(static_cast<double>(factor), vectors[b]);
          const std::vector<float> y = plain[b];
          for (std::size_t k = 0; k < size; ++k) plain[a][k] = std::fmaf(factor, y[k], plain[a][k]);
          break;
        }
        case 3:
          vectors[a] = vectors[b];
          plain[a] = plain[b];
          break;
        case 4: {
          const auto node = static_cast<NodeId>(random.below(4));
          vectors[a] = bench.graph.gradient(node, draw++, vectors[b]).values;
          const std::vector<float> y = plain[b];
          for (std::size_t k = 0; k < size; ++k) plain[a][k] = y[k] - static_cast<float>(node);
          break;
        }
        case 5: {
          const std::size_t cut = random.below(size - 1) + 1;
          const Vector pieces[] = {vectors[b].slice(cut, size - cut), vectors[a].slice(0, cut)};
          vectors[a] = concatenate(pieces);
          std::vector<float> joined(plain[b].begin() + static_cast<std::ptrdiff_t>(cut),
                                    plain[b].end());
          joined.insert(joined.end(), plain[a].begin(),
                        plain[a].begin() + static_cast<std::ptrdiff_t>(cut));
          plain[a] = joined;
          break;
        }
      }
      if (i % 997 == 0) CHECK(numbers(bench.graph, vectors[a]) == plain[a]);
      // Values double at most every other verb; keep them finite.
      if (i % 50 == 0) {
        vectors[b] = bench.graph.initial_model();
        plain[b] = numbers(bench.graph, bench.graph.initial_model());
      }
    }
    for (std::size_t p = 0; p < places; ++p) CHECK(numbers(bench.graph, vectors[p]) == plain[p]);
  };
  run({}, ComputeGraph::Execution::overlapped);
  run({.window_bytes = 1}, ComputeGraph::Execution::overlapped);
  run({.window_bytes = 4000}, ComputeGraph::Execution::overlapped);
  run({.window_gradients = 3}, ComputeGraph::Execution::overlapped);
  run({}, ComputeGraph::Execution::inline_);
}

TEST_CASE("rows are recycled: memory does not grow with the number of steps") {
  Bench bench({.window_gradients = 8});
  std::vector<Vector> models(4, bench.graph.initial_model());
  std::int64_t early = 0;
  for (Step step = 0; step < 400; ++step) {
    for (NodeId i = 0; i < 4; ++i) {
      Vector& x = models[static_cast<std::size_t>(i)];
      x.add_scaled(-0.1, bench.graph.gradient(i, step, x).values);
    }
    if (step == 20) {
      bench.graph.flush();
      early = bench.graph.statistics().peak_bytes;
    }
  }
  bench.graph.flush();
  CHECK(bench.graph.statistics().peak_bytes == early);
  // At most the shared start, four models and four gradients of 48 (37 rounded up) floats at once.
  CHECK(early <= 9 * 48 * 4);
}

TEST_CASE("a gradient computed outside the graph joins it") {
  Bench bench({}, ComputeGraph::Execution::inline_);
  Vector x = bench.graph.initial_model();
  x.scale(2);
  ComputeGraph::Job job = bench.graph.begin_gradient(1, 0, x);
  bench.workload.gradients({&job.request, 1});
  bench.graph.finish_gradient(job);
  CHECK(numbers(bench.graph, job.result.values)[9] == 17.0F);
  CHECK(job.result.loss.value() > 0);
}

TEST_CASE("a loss that is no number ends the run with node and step") {
  Bench bench;
  Vector x = bench.graph.initial_model();
  x.scale(std::numeric_limits<double>::infinity());
  const Gradient g = bench.graph.gradient(3, 17, x);
  const std::string failure = test::message_of([&] { bench.graph.flush(); });
  CHECK(failure.find("the loss of node 3 became") != std::string::npos);
  CHECK(failure.find("gradient 17") != std::string::npos);
}

TEST_CASE("a transform recorded twice is computed once, one that nobody reads never") {
  Bench bench;
  const Vector x = bench.graph.initial_model();
  const Vector code = transformed(transforms::KeepLargest{3}, {x});
  const Vector a = transformed(transforms::Scatter{size}, {code});
  const Vector b = transformed(transforms::Scatter{size}, {code});
  const Vector other = transformed(transforms::KeepLargest{4}, {x});
  { const Vector dropped = transformed(transforms::KeepLargest{5}, {x}); }
  CHECK(code.size() == 6);
  CHECK(other.size() == 8);
  // The model is 0, 1, .. 36: its three largest are the last.
  const std::vector<float> values = numbers(bench.graph, a);
  for (std::size_t k = 0; k < size; ++k)
    CHECK(values[k] == (k >= size - 3 ? static_cast<float>(k) : 0.0F));
  CHECK(numbers(bench.graph, b) == values);
  CHECK(bench.graph.statistics().transforms == 3);
  CHECK(bench.graph.statistics().shared == 1);
  CHECK(bench.graph.statistics().dropped == 1);
}

TEST_CASE("measures and transforms of gradients run after them, slices and all") {
  Bench bench;
  const Vector x = bench.graph.initial_model();
  const Vector g = bench.graph.gradient(2, 0, x).values;  // k - 2
  const Vector part = g.slice(1, 3);                      // -1, 0, 1
  const Scalar count = measured(transforms::CountNonzero{}, {part});
  const Scalar apart = measured(transforms::LargestDifference{}, {x, g});
  Vector clipped = transformed(transforms::ClipNorm{1}, {part});
  clipped.scale(2);
  CHECK(count.value() == 2);
  CHECK(apart.value() == 2);
  const std::vector<float> values = numbers(bench.graph, clipped);
  CHECK(values[0] == doctest::Approx(-std::sqrt(2.0)));
  CHECK(values[2] == doctest::Approx(std::sqrt(2.0)));
}

TEST_CASE("no window is run again after one has failed where it was flushed") {
  CpuBackend backend;
  Failing workload;
  ComputeGraph graph(backend, workload, {}, ComputeGraph::Execution::inline_);
  const Gradient first = graph.gradient(0, 0, graph.initial_model());
  graph.flush();
  workload.fails = true;
  const Gradient second = graph.gradient(0, 1, graph.initial_model());
  CHECK_THROWS_WITH_AS(graph.flush(), "it fails", Error);
  CHECK_NOTHROW(graph.flush());
  CHECK(workload.asked == 2);
}

TEST_CASE("a number that nobody asks for does not get into the place of a later one") {
  CpuBackend backend;
  Waiting workload;
  ComputeGraph graph(backend, workload, {.window_gradients = 2, .folds_sums = false},
                     ComputeGraph::Execution::overlapped);
  const Vector x = graph.initial_model();
  for (const Step draw : {0, 1}) {  // a window each
    graph.gradient(0, draw, x);     // its loss is dropped before it is computed
    graph.gradient(1, draw, x);
  }
  double later = -1;
  graph.deliver(graph.gradient(0, 2, x).loss, &later);
  workload.may_begin = true;
  workload.may_begin.notify_all();
  graph.deliver_known();  // the second window has run, the third has not
  CHECK(later == -1);
}

}  // namespace starling::test_compute_graph
