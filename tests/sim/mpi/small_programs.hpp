// What the tests over MPI share: how many nodes they have, and what these do.
#pragma once

#include <numeric>
#include <span>

#include "tests/sim/mpi/small_world.hpp"

namespace starling::test {

/// Nodes per rank differ: some ranks host two, some three.
inline NodeId uneven() { return 2 * session().ranks() + (session().ranks() + 1) / 2; }

inline NodeId right_of(const Node& node) { return (node.id() + 1) % node.nodes(); }
inline NodeId left_of(const Node& node) { return (node.id() + node.nodes() - 1) % node.nodes(); }

/// value, value + 1, ..
inline Vector counting(ComputeGraph& graph, std::size_t size, float value) {
  std::span<float> room;
  Vector v = graph.make(size, room);
  std::iota(room.begin(), room.end(), value);
  return v;
}

inline Task<> fail_on_last(Node& node, ComputeGraph& graph) {
  // Big messages are under way in all directions when the last node fails.
  for (int i = 0; i < 10; ++i) node.send(right_of(node), 1, counting(graph, 200'000, 1));
  if (node.id() == node.nodes() - 1) throw Error("no coffee left");
  co_await node.receive(any_source, 99);
}

inline Task<> train_alone(Node& node) {
  Vector x = node.initial_model();
  for (;;) {
    const Gradient g = co_await node.gradient(x);
    x.add_scaled(-0.1, g.values);
  }
}

/// Of the nodes of `block`, from the beginning to a row.
inline void record_rows(Recorder& recorder, NodeBlock block, std::size_t rows) {
  for (NodeId node = block.begin; node < block.end; ++node) {
    std::vector<Act>& acts = recorder.acts[static_cast<std::size_t>(node)];
    for (std::size_t row = acts.size(); row < rows; ++row) {
      const auto column = static_cast<std::size_t>(node);
      recorder.steps.cell("time", row, column) = static_cast<double>(1000 * node) + row;
      acts.push_back(Act::resume(static_cast<std::int32_t>(row)));
      recorder.timeline.push_back({node, Activity::compute, Time{}, Time{Duration{1}}});
    }
  }
}

}  // namespace starling::test
