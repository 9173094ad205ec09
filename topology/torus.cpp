// Torus: a grid of any dimension that wraps around in each. Node numbers run fastest along the first
// side, as those of a fabric's hosts do, so "4x8" puts node 4 r + c in row r and column c. A side of length 2 gives one connection,
// not two, and a side of length 1 none; so all nodes have the same degree, and a prime number of
// nodes makes a ring by default.

#include <charconv>
#include <string>
#include <string_view>

#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::topologies {
namespace {

/// Two factors of `nodes`, as equal as can be: "4x8" for 32.
std::string most_square(NodeId nodes) {
  NodeId side = 1;
  for (NodeId i = 1; static_cast<std::int64_t>(i) * i <= nodes; ++i) {
    if (nodes % i == 0) side = i;
  }
  return fmt::format("{}x{}", side, nodes / side);
}

std::vector<NodeId> parse_sides(const Section& section, std::string_view text) {
  std::vector<NodeId> sides;
  const char* next = text.data();
  const char* const end = text.data() + text.size();
  for (;;) {
    NodeId side = 0;
    const auto [rest, error] = std::from_chars(next, end, side);
    section.expect(error == std::errc() && side >= 1 && (rest == end || *rest == 'x'), "sides",
                   "must be positive lengths joined by x, like 4x8, got {}", text);
    sides.push_back(side);
    if (rest == end) return sides;
    next = rest + 1;
  }
}

}  // namespace

Topology torus(const Section& section, NodeId nodes, std::uint64_t seed) {
  const auto text =
      section.optional<std::string>("sides", most_square(nodes),
                                    "lengths, like 4x8 or 4x4x4, the first along nodes that follow "
                                    "each other; by default the most square two");
  const std::vector<NodeId> sides = parse_sides(section, text);
  const Mixing mixing = read_mixing(section, seed);
  section.finish();
  double product = 1;
  for (const NodeId side : sides) product *= side;
  section.expect(product == nodes, "sides", "must multiply to the {} nodes, got {} = {}", nodes,
                 text, product);
  expect_arcs_fit(section, "kind", 2.0 * nodes * static_cast<double>(sides.size()));
  if (!section.has("sides") && sides.front() == 1 && nodes > 3)
    section.warn("kind", "torus is a ring here: {} nodes make no rectangle", nodes);

  std::vector<Connection> connections;
  NodeId stride = 1;  // between neighbors along a side
  for (const NodeId side : sides) {
    for (NodeId i = 0; i < nodes; ++i) {
      const NodeId position = i / stride % side;
      if (position + 1 < side) connections.push_back({i, i + stride});
      if (position == 0 && side > 2) connections.push_back({i, i + (side - 1) * stride});
    }
    stride *= side;
  }
  return mix(nodes, connections, mixing);
}

}  // namespace starling::topologies
