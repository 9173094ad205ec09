// A recording that several processes share: the bits of one process, what crosses between them, and how they fail.
#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/cpu_backend.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/node/compute_graph.hpp"
#include "sim/node/sharding.hpp"
#include "tests/sim/node/thread_peers.hpp"
#include "tests/sim/node/toy_workload.hpp"
#include "tests/support/message_of.hpp"
#include "tests/topology/make_topology.hpp"

namespace starling::test_sharding {
namespace {

constexpr std::size_t size = 37;
constexpr NodeId nodes = 12;

/// What a recording ends with: models on process 0, numbers everywhere.
struct Outcome {
  std::vector<std::vector<float>> models;
  std::vector<double> numbers;
  std::vector<std::int64_t> counts;  // of operations and batched calls
};
/// Records something; may set whose program records.
using Recording = std::function<void(ComputeGraph& graph, NodeId& recorder,
                                     std::vector<Vector>& models, std::vector<Scalar>& numbers)>;

Outcome run(const Recording& record, const Workload& workload, ComputeGraph::Limits limits,
            Sharing sharing) {
  CpuBackend backend;
  ComputeGraph graph(backend, workload, limits, ComputeGraph::Execution::overlapped,
                     std::move(sharing));
  NodeId recorder = 0;
  graph.follow(recorder);
  std::vector<Vector> models;
  std::vector<Scalar> scalars;
  Outcome outcome;
  record(graph, recorder, models, scalars);
  for (const Scalar& scalar : scalars) outcome.numbers.push_back(scalar.value());
  for (const Vector& model : models) {
    const auto values = graph.read(model);
    outcome.models.emplace_back(values.begin(), values.end());
  }
  graph.close();
  const GraphStatistics all = graph.statistics();
  outcome.counts = {all.sums,      all.sum_batches,      all.transforms,  all.transform_batches,
                    all.distances, all.distance_batches, all.evaluations, all.evaluation_batches,
                    all.gradients, all.gradient_batches, all.folded};
  return outcome;
}

/// The same on `processes` threads with graphs of their own. `failures` gets what each ends with.
Outcome share(const Recording& record, const Workload& workload, ComputeGraph::Limits limits,
              test::Hub& hub, std::vector<std::string>* failures = nullptr) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(hub.count_));
  std::vector<std::string> errors(outcomes.size());
  std::vector<std::thread> threads;
  for (int p = 0; p < hub.count_; ++p) {
    threads.emplace_back([&, p] {
      const auto own = static_cast<std::size_t>(p);
      test::ThreadPeers peers(hub, p);
      try {
        outcomes[own] =
            run(record, workload, limits, {&peers, contiguous_blocks(nodes, hub.count_)});
      } catch (const std::exception& error) {
        errors[own] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& outcome : outcomes) CHECK(outcome.numbers == outcomes[0].numbers);
  if (failures != nullptr) {
    *failures = errors;
  } else {
    for (const std::string& error : errors) CHECK(error.empty());
  }
  return outcomes[0];
}

/// A recording of everything a graph knows, drawn by `seed`: mixtures of neighbors and strangers, slices, transforms,
/// means over all, numbers that are demanded half way.
Recording everything(std::uint64_t seed) {
  return [seed](ComputeGraph& graph, NodeId& recorder, std::vector<Vector>& models,
                std::vector<Scalar>& numbers) {
    Random random(seed, "test", 0, 0);
    const auto draw = [&](std::size_t below) {
      return static_cast<std::size_t>(random.below(below));
    };
    models.assign(nodes, graph.initial_model());
    for (Step k = 0; k < 6; ++k) {
      for (std::size_t i = 0; i < nodes; ++i) {
        recorder = static_cast<NodeId>(i);
        const Gradient g = graph.gradient(recorder, k, models[i]);
        numbers.push_back(g.loss);
        Vector& x = models[i];
        x.scale(0.5);
        x.add_scaled(0.5, models[draw(nodes)]);
        x.add_scaled(-0.125, g.values);
        switch (draw(6)) {
          case 0: {  // exchange halves with somebody
            const Vector halves[] = {x.slice(0, 20), models[draw(nodes)].slice(20, size - 20)};
            x = concatenate(halves);
            break;
          }
          case 1:
            numbers.push_back(squared_distance(x, models[draw(nodes)]));
            break;
          case 2:
            numbers.push_back(graph.evaluate(x).loss);
            break;
          case 3:
            x.add_scaled(1.0, graph.zeros(size));
            numbers.push_back(measured(transforms::CountNonzero{}, {x}));
            break;
          case 4:
            x = transformed(transforms::Scatter{size},
                            {transformed(transforms::KeepLargest{9}, {x})});
            break;
          default:
            break;
        }
      }
      if (draw(2) == 0) {
        recorder = static_cast<NodeId>(draw(nodes));
        const Vector center = mean(models);
        for (const Vector& x : models) numbers.push_back(squared_distance(x, center));
        numbers.push_back(graph.evaluate(center).loss);
        models[draw(nodes)] = center;
      }
      if (draw(3) == 0) models[0].scale(1 + numbers[draw(numbers.size())].value() / 1e6);
    }
  };
}

}  // namespace

TEST_CASE("a shared recording has the bits of one process") {
  const test::ToyWorkload workload{nodes, size};
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const std::int64_t gradients : {5, 1000}) {
      const ComputeGraph::Limits limits{.window_gradients = gradients};
      const Outcome alone = run(everything(seed), workload, limits, {});
      for (const int processes : {1, 2, 3, 5}) {
        CAPTURE(seed);
        CAPTURE(gradients);
        CAPTURE(processes);
        test::Hub hub(processes);
        const Outcome shared = share(everything(seed), workload, limits, hub);
        CHECK(shared.models == alone.models);
        CHECK(shared.numbers == alone.numbers);
        CHECK(shared.counts == alone.counts);
      }
    }
  }
}

TEST_CASE("what crosses is what the recording says, no more") {
  const test::ToyWorkload workload{nodes, size};
  const auto ring = [](ComputeGraph& graph, NodeId& recorder, std::vector<Vector>& models,
                       std::vector<Scalar>&) {
    models.assign(nodes, graph.initial_model());
    for (recorder = 0; recorder < nodes; ++recorder) {
      models[static_cast<std::size_t>(recorder)].scale(2.0 + static_cast<double>(recorder));
    }
    for (int k = 0; k < 3; ++k) {
      std::vector<Vector> next;
      for (std::size_t i = 0; i < nodes; ++i) {
        recorder = static_cast<NodeId>(i);
        const Weighted terms[] = {{0.5, models[i]},
                                  {0.25, models[(i + nodes - 1) % nodes]},
                                  {0.25, models[(i + 1) % nodes]}};
        next.push_back(weighted_sum(terms));
      }
      models = next;
    }
  };
  // Three blocks of a ring have three borders, and over each a model goes both ways in each of the 3 steps, in a message of
  // its own. In the end process 0 reads the 8 models of the others.
  test::Hub hub(3);
  share(ring, workload, {}, hub);
  CHECK(hub.floats_sent_ == (3 * 3 * 2 + 8) * size);
  CHECK(hub.messages_sent_ == 3 * 3 * 2 + 8);
}

TEST_CASE("only the part that is read crosses") {
  const test::ToyWorkload workload{nodes, size};
  test::Hub hub(2);
  share(
      [](ComputeGraph& graph, NodeId& recorder, std::vector<Vector>&,
         std::vector<Scalar>& numbers) {
        Vector x = graph.initial_model();
        x.scale(2);
        recorder = nodes - 1;
        Vector part = x.slice(3, 4);
        part.scale(3);
        numbers.push_back(squared_distance(part, part.slice(0, 4)));
      },
      workload, {}, hub);
  CHECK(hub.floats_sent_ == 4);
}

TEST_CASE("a mean over all nodes passes from process to process") {
  const test::ToyWorkload workload{nodes, size};
  test::Hub hub(4);
  share(
      [](ComputeGraph& graph, NodeId& recorder, std::vector<Vector>& models,
         std::vector<Scalar>& numbers) {
        const Vector start = graph.initial_model();
        for (recorder = 0; recorder < nodes; ++recorder) {
          models.push_back(graph.gradient(recorder, 0, start).values);
        }
        recorder = 0;
        numbers.push_back(graph.evaluate(mean(models)).loss);
        models.clear();
      },
      workload, {}, hub);
  // Blocks of 3 nodes: 3 passes of a partial sum, where process 0 would have fetched 9 gradients.
  CHECK(hub.floats_sent_ == 3 * size);
}

TEST_CASE("processes hold only what is theirs") {
  const test::ToyWorkload workload{nodes, size};
  const auto record = [](ComputeGraph& graph, NodeId& recorder, std::vector<Vector>& models,
                         std::vector<Scalar>&) {
    models.assign(nodes, graph.initial_model());
    for (int k = 0; k < 40; ++k) {
      for (recorder = 0; recorder < nodes; ++recorder) {
        Vector& x = models[static_cast<std::size_t>(recorder)];
        x.add_scaled(-0.5, graph.gradient(recorder, k, x).values);
      }
    }
    graph.flush();
    // 12 models and 12 gradients of 48 floats (37 in whole cache lines), a third of them here, and the start.
    if (nodes * 2 * 48 * 4 / 3 + 48 * 4 < graph.statistics().peak_bytes) throw Error("holds more");
  };
  test::Hub hub(3);
  share(record, workload, {.window_gradients = 24}, hub);
}

TEST_CASE("all end with the failure that comes first") {
  class Failing final : public Workload {
   public:
    const WorkloadFacts& facts() const override { return toy_.facts(); }
    void initial_model(std::span<float> x) const override { toy_.initial_model(x); }
    std::int64_t batch_cost(NodeId, Step) const override { return 1; }
    void gradients(std::span<GradientRequest> requests) const override {
      toy_.gradients(requests);
      for (GradientRequest& request : requests) {
        if (request.draw == 2 && (request.node == 5 || request.node == 9))
          request.loss = std::numeric_limits<double>::quiet_NaN();
      }
    }
    void evaluate(std::span<EvaluationRequest> requests) const override { toy_.evaluate(requests); }

   private:
    test::ToyWorkload toy_{nodes, size};
  };
  const Failing workload;
  const auto expected = test::message_of<Diverged>([&] { run(everything(7), workload, {}, {}); });
  CHECK(expected.find(" became nan at its gradient 2") != std::string::npos);
  for (const int processes : {2, 3, 4}) {
    test::Hub hub(processes);
    std::vector<std::string> failures;
    share(everything(7), workload, {}, hub, &failures);
    for (const std::string& failure : failures) CHECK(failure == expected);
  }
}

TEST_CASE("all tell of the same loss that is not finite, in whatever order") {
  const test::ToyWorkload workload{nodes, size};
  const Recording backwards = [](ComputeGraph& graph, NodeId& recorder, std::vector<Vector>&,
                                 std::vector<Scalar>& numbers) {
    Vector x = graph.initial_model();
    x.scale(std::numeric_limits<double>::infinity());
    for (recorder = nodes - 1; recorder > 0; --recorder) {
      numbers.push_back(graph.gradient(recorder, 1, x).loss);
    }
  };
  const std::string sentence = "the loss of node 1 became";
  CHECK_THROWS_WITH_AS(run(backwards, workload, {}, {}), doctest::Contains(sentence.c_str()),
                       Diverged);
  for (const int processes : {2, 3, 4}) {
    test::Hub hub(processes);
    std::vector<std::string> failures;
    share(backwards, workload, {}, hub, &failures);
    for (const std::string& failure : failures) CHECK(failure.find(sentence) != std::string::npos);
  }
}

TEST_CASE("blocks: contiguous, or searched where that cuts far less") {
  CHECK(contiguous_blocks(5, 2) == Blocks{0, 0, 0, 1, 1});
  const Topology ring = topologies::test::make("ring", 16);
  CHECK(choose_blocks(ring, 4) == contiguous_blocks(16, 4));
  CHECK(cut_arcs(ring, contiguous_blocks(16, 4)) == 8);  // 4 borders, both ways
  // The same ring with its nodes numbered in strides of 5: neighbors in number are far apart.
  std::vector<Topology::Arc> arcs;
  for (NodeId i = 0; i < 16; ++i) {
    arcs.push_back({i * 5 % 16, (i + 1) * 5 % 16, 0.25});
    arcs.push_back({(i + 1) * 5 % 16, i * 5 % 16, 0.25});
  }
  const Topology shuffled(16, {arcs}, {std::vector<double>(16, 0.5)});
  const Blocks blocks = choose_blocks(shuffled, 2);
  CHECK(blocks != contiguous_blocks(16, 2));
  // A search from one node goes both ways, so each half is one arc of the ring: 2 borders, both ways.
  CHECK(cut_arcs(shuffled, blocks) == 4);
  CHECK(std::count(blocks.begin(), blocks.end(), 0) == 8);
}

}  // namespace starling::test_sharding
