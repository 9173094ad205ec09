// Simulation: one program per node on the simulated transport, over a network of constant latency
// unless told otherwise; gradients take 1 ms.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "kernels/cpu_backend.hpp"
#include "network_models/registry.hpp"
#include "sim/engine/simulated_transport.hpp"
#include "sim/node/node.hpp"
#include "tests/sim/node/toy_workload.hpp"

namespace starling::test {

inline constexpr Duration latency = std::chrono::microseconds(10);

struct Simulation {
  explicit Simulation(NodeId nodes, bool closed_form = false, FailureSettings failing = {},
                      Replay* replay = nullptr,
                      std::unique_ptr<NetworkModel> other_network = nullptr,
                      std::int64_t eager_limit = Rendezvous::no_limit, Host* host = nullptr)
      : workload(nodes),
        graph(backend, workload, {}, ComputeGraph::Execution::overlapped),
        recorder(nodes, RowSchedule(1, 100), RowSchedule(100, 100), Time(std::chrono::seconds(1))),
        observer(graph, recorder, workload.facts()),
        topology(nodes, {{}}, {std::vector<double>(static_cast<std::size_t>(nodes), 1.0)}),
        network(other_network ? std::move(other_network) : make_network(nodes)),
        failures(std::move(failing), nodes, 1),
        transport({.nodes = nodes,
                   .closed_form_collectives = closed_form,
                   .eager_limit = eager_limit,
                   .host = host,
                   .pulse = {},
                   .failures = &failures,
                   .on_stop = [this](NodeId node) { observer.lose(node, transport.now()); },
                   .replay = replay},
                  *network, graph,
                  [](NodeId, Step, BatchName) { return Duration(std::chrono::milliseconds(1)); }),
        world{transport, graph, observer, topology, 100, 1} {
    for (NodeId i = 0; i < nodes; ++i) this->nodes.emplace_back(world, i);
  }

  static std::unique_ptr<NetworkModel> make_network(NodeId nodes,
                                                    const std::string& latency = "10 us",
                                                    const std::string& bandwidth = "infinite") {
    const Section section("network", "test",
                          {{"kind", "constant", "test"},
                           {"latency", latency, "test"},
                           {"bandwidth", bandwidth, "test"}});
    return network_models::find(section).make(section, nodes, 1);
  }

  void run(const Program& program) {
    for (Node& node : nodes) node.spawn(program(node));
    transport.run();
  }

  CpuBackend backend;
  ToyWorkload workload;
  ComputeGraph graph;
  Recorder recorder;
  Observer observer;
  Topology topology;
  std::unique_ptr<NetworkModel> network;
  Failures failures;
  SimulatedTransport transport;
  World world;
  std::deque<Node> nodes;
};

}  // namespace starling::test
