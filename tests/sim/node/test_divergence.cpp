// run.on_divergence = mark: a node whose numbers are not finite no longer counts, and is named.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "kernels/cpu_backend.hpp"
#include "sim/base/error.hpp"
#include "sim/node/compute_graph.hpp"
#include "sim/node/observer.hpp"
#include "tests/sim/node/toy_workload.hpp"

namespace starling::test_divergence {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

Vector filled(ComputeGraph& graph, float value) {
  std::span<float> room;
  Vector x = graph.make(37, room);
  for (float& element : room) element = value;
  return x;
}

}  // namespace

TEST_CASE("a loss that is not finite stops the run, or is noted with node and gradient") {
  CpuBackend backend;
  const test::ToyWorkload workload{4};
  for (const bool stops : {true, false}) {
    ComputeGraph graph(backend, workload, {.stops_at_divergence = stops},
                       ComputeGraph::Execution::overlapped);
    const Gradient fine = graph.gradient(1, 6, filled(graph, 2.0F));
    const Gradient first = graph.gradient(3, 7, filled(graph, infinity));
    const Gradient second = graph.gradient(3, 8, filled(graph, std::nanf("")));
    if (stops) {
      CHECK_THROWS_WITH_AS(graph.flush(), doctest::Contains("node 3 became inf at its gradient 7"),
                           Diverged);
    } else {
      CHECK(graph.diverged().by_node() == std::map<NodeId, Step>{{3, 7}});
      CHECK(fine.loss.value() == 37 * 0.5);  // (2 - 1)^2 / 2 for each element
    }
  }
}

TEST_CASE(
    "of gradients of a node that diverged the first counts, in whatever order they are told") {
  DivergedAt diverged;
  for (const Step draw : {8, 7, 9}) diverged.add(3, draw);
  CHECK(diverged.by_node() == std::map<NodeId, Step>{{3, 7}});
  CHECK(diverged.is_before(3, 8));
  CHECK_FALSE(diverged.is_before(3, 7));
  CHECK_FALSE(diverged.is_before(2, 100));
}

TEST_CASE("evaluations leave out what diverged, and say over how many nodes they are") {
  CpuBackend backend;
  const test::ToyWorkload workload{4};
  ComputeGraph graph(backend, workload, {.stops_at_divergence = false},
                     ComputeGraph::Execution::overlapped);
  Recorder recorder(4, RowSchedule(1, 2), RowSchedule(1, 2), Time{});
  Observer observer(graph, recorder, workload.facts());
  observer.leave_out_diverged();

  // Step 0: all are well. The toy's test loss is element 0 of the mean model.
  for (NodeId i = 0; i < 4; ++i) {
    observer.end_step(i, 0, filled(graph, static_cast<float>(i)), Time{});
  }
  // Step 1: the model of node 0 has an infinite element, node 2 had an infinite loss; 1 and 3 count.
  Vector broken = filled(graph, 1.0F);
  const Vector pieces[] = {broken.slice(0, 36), filled(graph, infinity).slice(0, 1)};
  broken = concatenate(pieces);
  graph.gradient(2, 5, filled(graph, -infinity));
  const Gradient lost = graph.gradient(2, 5, filled(graph, infinity));
  observer.note_batch(2, 5);
  observer.end_step(0, 1, broken, Time{});
  observer.end_step(1, 1, filled(graph, 4.0F), Time{});
  observer.end_step(2, 1, filled(graph, 100.0F), Time{});
  observer.end_step(3, 1, filled(graph, 8.0F), Time{});
  observer.finish_evaluations();
  CHECK(recorder.evaluation.value("test_loss", 0) == 1.5);
  CHECK(recorder.evaluation.value("live_nodes", 0) == 4);
  CHECK(recorder.evaluation.value("test_loss", 1) == 6);
  CHECK(recorder.evaluation.value("live_nodes", 1) == 2);
  // Both are 2 away from their mean in each of 37 elements.
  CHECK(recorder.evaluation.value("consensus_distance", 1) == std::sqrt(37 * 4.0));
  CHECK(observer.diverged_nodes() ==
        std::vector<std::string>{"node 2 at its gradient 5", "node 0 within 2 steps"});
}

TEST_CASE("a node counts until it diverges, even if that is known when the others get there") {
  CpuBackend backend;
  const test::ToyWorkload workload{2};
  ComputeGraph graph(backend, workload, {.stops_at_divergence = false},
                     ComputeGraph::Execution::overlapped);
  Recorder recorder(2, RowSchedule(1, 2), RowSchedule(1, 2), Time{});
  Observer observer(graph, recorder, workload.facts());
  observer.leave_out_diverged();

  const auto end_step = [&](NodeId node, Step k, float value) {
    observer.note_batch(node, k);
    observer.end_step(node, k, filled(graph, value), Time{});
  };
  // Node 1 is ahead: one gradient in step 0, the next one, in step 1, has an infinite loss.
  end_step(1, 0, 4.0F);
  const Gradient lost = graph.gradient(1, 1, filled(graph, infinity));
  end_step(1, 1, 5.0F);
  end_step(0, 0, 2.0F);
  // Node 0 diverges at its gradient 2, after step 1, as another rank tells.
  observer.add_diverged(0, 2);
  end_step(0, 1, 3.0F);
  observer.finish_evaluations();
  CHECK(recorder.evaluation.value("test_loss", 0) == 3);
  CHECK(recorder.evaluation.value("live_nodes", 0) == 2);
  CHECK(recorder.evaluation.value("test_loss", 1) == 3);
  CHECK(recorder.evaluation.value("live_nodes", 1) == 1);
  CHECK(observer.diverged_nodes() ==
        std::vector<std::string>{"node 0 at its gradient 2", "node 1 at its gradient 1"});
}

}  // namespace starling::test_divergence
