// What evaluations tell of nodes' own models, beside their mean.
#include <cmath>

#include <doctest/doctest.h>

#include "kernels/cpu_backend.hpp"
#include "sim/node/compute_graph.hpp"
#include "sim/node/observer.hpp"
#include "tests/sim/node/toy_workload.hpp"

namespace starling::test_observer {

TEST_CASE("evaluations tell what nodes' own models are worth, in the mean and at worst") {
  CpuBackend backend;
  const test::ToyWorkload workload{4};
  WorkloadFacts facts = workload.facts();
  facts.has_accuracy = true;  // the toy's is the square of its loss, which is element 0
  ComputeGraph graph(backend, workload, {}, ComputeGraph::Execution::overlapped);
  for (const bool evaluates_nodes : {true, false}) {
    Recorder recorder(4, RowSchedule(1, 2), RowSchedule(1, 2), Time{});
    Observer observer(graph, recorder, facts);
    if (evaluates_nodes) observer.evaluate_nodes();
    const auto end_step = [&](Step k, float first) {
      for (NodeId i = 0; i < 4; ++i) {
        std::span<float> room;
        Vector x = graph.make(facts.parameters, room);
        for (float& element : room) element = first + static_cast<float>(i);
        observer.end_step(i, k, std::move(x), Time{});
      }
    };
    end_step(0, 1);  // 1, 2, 3, 4
    end_step(1, 5);
    observer.finish_evaluations();
    const Table& table = recorder.evaluation;
    CHECK(table.value("test_accuracy", 0) == 2.5 * 2.5);
    CHECK(table.value("consensus_distance", 0) ==
          std::sqrt(static_cast<double>(facts.parameters) * (1.5 * 1.5 + 0.5 * 0.5) / 2));
    if (!evaluates_nodes) {
      CHECK(std::isnan(table.value("own_test_loss", 0)));
      continue;
    }
    CHECK(table.value("own_test_loss", 0) == 2.5);
    CHECK(table.value("own_test_accuracy", 0) == (1 + 4 + 9 + 16) / 4.0);
    CHECK(table.value("worst_test_accuracy", 0) == 1);
    CHECK(table.value("own_test_accuracy", 1) == (25 + 36 + 49 + 64) / 4.0);
    CHECK(table.value("worst_test_accuracy", 1) == 25);
  }
}

}  // namespace starling::test_observer
