// Any bytes as a graph file: the first says GraphML or DOT, and whether the graph is a topology or a network.

#include "network_models/fabrics.hpp"
#include "sim/base/graph_file.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "topology/registry.hpp"

using namespace starling;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const test::TemporaryDirectory directory;
  const bool is_graphml = (data[0] & 1) != 0;
  const bool is_topology = (data[0] & 2) != 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string path = directory.write(is_graphml ? "graph.graphml" : "graph.dot", text);
  const auto section = [](const std::string& name, std::vector<Setting> settings) {
    return Section(name, "fuzz.ini:1", std::move(settings));
  };
  const auto nodes = static_cast<NodeId>(1 + data[0] / 4 % 8);
  if (is_topology) {
    test::allow_refusal([&] {
      const Section topology = section("topology", {{"kind", "file", "1"}, {"path", path, "2"}});
      topologies::find(topology).make(topology, nodes, 1);
    });
    return 0;
  }
  test::allow_refusal([&] {
    const Section network = section("network", {{"fabric", "file", "1"},
                                                {"file", path, "2"},
                                                {"latency", "1 us", "3"},
                                                {"bandwidth", "1 GB/s", "4"}});
    const auto build = network_models::read_fabric(network, nodes, 1);
    const network_models::Fabric fabric = build();
    std::vector<network_models::LinkId> way;
    for (NodeId s = 0; s < nodes; ++s) {
      for (NodeId d = 0; d < nodes; ++d) {
        if (s == d) continue;
        way.clear();
        fabric.route(s, d, way);
        ensure(!way.empty(), "a route crosses a link");
        for (const auto link : way) ensure(!fabric.name(link).empty(), "a link has a name");
      }
    }
  });
  return 0;
}
