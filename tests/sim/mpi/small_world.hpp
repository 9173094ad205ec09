// A small run over MPI for the tests: a quadratic workload, a plain host backend, and everything
// that a program needs around it. The numbers are simple enough to be checked by hand.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu_backend.hpp"
#include "sim/base/error.hpp"
#include "sim/mpi/gather.hpp"
#include "sim/mpi/mpi_session.hpp"
#include "sim/mpi/mpi_transport.hpp"
#include "sim/mpi/reports.hpp"
#include "sim/node/node.hpp"
#include "tests/support/message_of.hpp"

namespace starling::test {

/// The one session of the test program.
MpiSession& session();

/// f_i(x) = 1/2 |x - c_i|^2 + noise: gradient x[p] - (i + p % 7) + (draw % 3) at node i.
class Quadratic final : public Workload {
 public:
  Quadratic(NodeId nodes, std::size_t parameters, std::int64_t wire_parameters = 0,
            bool has_numbers = true) {
    facts_.description = "quadratic";
    facts_.parameters = parameters;
    facts_.wire_parameters =
        wire_parameters > 0 ? wire_parameters : static_cast<std::int64_t>(parameters);
    facts_.has_numbers = has_numbers;
    facts_.samples.assign(static_cast<std::size_t>(nodes), 10);
  }

  const WorkloadFacts& facts() const override { return facts_; }
  void initial_model(std::span<float> x) const override { std::fill(x.begin(), x.end(), 0.5F); }
  std::int64_t batch_cost(NodeId, Step) const override { return 1; }
  void gradients(std::span<GradientRequest> requests) const override {
    for (GradientRequest& request : requests) {
      if (before_gradient) before_gradient(request);
      double loss = 0;
      for (std::size_t p = 0; p < facts_.parameters; ++p) {
        const float g = request.x[p] - static_cast<float>(request.node) -
                        static_cast<float>(p % 7) + static_cast<float>(request.draw % 3);
        request.gradient[p] = g;
        loss += 0.5 * static_cast<double>(g) * static_cast<double>(g);
      }
      request.loss = poisoned_node == request.node ? std::nan("") : loss;
    }
  }
  void evaluate(std::span<EvaluationRequest> requests) const override {
    for (EvaluationRequest& request : requests) {
      request.loss = 0;
      for (std::size_t p = 0; p < facts_.parameters; ++p)
        request.loss += static_cast<double>(request.x[p]) * 0.25;
    }
  }

  std::function<void(const GradientRequest&)> before_gradient;  // runs on the worker thread
  NodeId poisoned_node = -1;                                    // its losses are NaN

 private:
  WorkloadFacts facts_;
};

/// Ring with uniform weights (one node: alone; two: a pair).
inline Topology ring(NodeId nodes) {
  std::vector<Topology::Arc> arcs;
  const int degree = nodes == 1 ? 0 : nodes == 2 ? 1 : 2;
  const double weight = 1.0 / (degree + 1);
  for (NodeId i = 0; i < nodes && degree > 0; ++i) {
    arcs.push_back({i, (i + 1) % nodes, weight});
    if (degree == 2) arcs.push_back({(i + 1) % nodes, i, weight});
  }
  return Topology(nodes, {arcs}, {std::vector<double>(static_cast<std::size_t>(nodes), weight)});
}

/// Has no room any more for blocks of more floats than `most`.
class ScarceBackend final : public CpuBackend {
 public:
  float* allocate(std::size_t count) override {
    if (count > most) throw Error("out of memory: asked for too much");
    return CpuBackend::allocate(count);
  }
  std::size_t most = std::numeric_limits<std::size_t>::max();
};

/// What surrounds the programs of one run, whatever transport they live on.
struct Surroundings {
  Surroundings(NodeId nodes, Quadratic& workload_to_use, Step steps_to_do,
               ComputeGraph::Execution execution)
      : topology(ring(nodes)),
        workload(workload_to_use),
        steps(steps_to_do),
        graph(backend, workload, {}, execution),
        recorder(nodes, {1, steps}, {2, steps}, Time{from_seconds(1000)}),
        observer(graph, recorder, workload.facts()) {}

  Topology topology;
  Quadratic& workload;
  Step steps;
  ScarceBackend backend;
  ComputeGraph graph;
  Recorder recorder;
  Observer observer;
};

/// A run of this rank's share of `nodes` nodes.
class SmallRun {
 public:
  SmallRun(NodeId nodes, Quadratic& workload, Step steps = 1, GradientDuration duration = {},
           std::function<void()> pulse = {})
      : around(nodes, workload, steps, ComputeGraph::Execution::inline_),
        reports(session(), block_of(session().rank(), session().ranks(), nodes), around.recorder),
        transport({.nodes = nodes,
                   .pulse = std::move(pulse),
                   .acts = &noted(around.recorder, nodes),
                   .reports = &reports},
                  session(), around.graph, workload, std::move(duration)),
        world_{transport, around.graph, around.observer, around.topology, steps, 1} {}

  /// Starts `program` on all local nodes and runs; throws what the transport throws.
  void operator()(const Program& program) {
    for (NodeId i = transport.block().begin; i < transport.block().end; ++i) {
      nodes_.emplace_back(world_, i);
      nodes_.back().spawn(program(nodes_.back()));
    }
    transport.run();
  }

  std::string failure(const Program& program) {
    return test::message_of([&] { (*this)(program); });
  }

  Surroundings around;
  Reports reports;
  MpiTransport transport;

 private:
  static std::vector<std::vector<Act>>& noted(Recorder& recorder, NodeId nodes) {
    recorder.acts.resize(static_cast<std::size_t>(nodes));
    return recorder.acts;
  }

  World world_;
  std::list<Node> nodes_;
};

}  // namespace starling::test
