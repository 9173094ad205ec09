// What the tests of fabrics share: a scenario's keys, the fabric that they ask for, the ways in it and the refusal of wrong ones.
#pragma once

#include <string>
#include <vector>

#include "network_models/fabrics.hpp"
#include "sim/base/error.hpp"
#include "tests/network_models/scripted_run.hpp"
#include "tests/support/message_of.hpp"

namespace starling::fabric_test {

using namespace network_models;
using test::Keys;
using Names = std::vector<std::string>;

/// Keys of a fluid network on this fabric.
inline Keys with(const std::string& fabric, const Keys& more) {
  return network_test::with(
      {{"kind", "fluid"}, {"fabric", fabric}, {"latency", "1 us"}, {"bandwidth", "1 GB/s"}}, more);
}

inline Fabric build(const Keys& keys, NodeId nodes) {
  const Section section = network_test::section(
      {keys.begin() + 1, keys.end()});  // without kind, which the registry reads
  const auto make = read_fabric(section, nodes, 1);
  section.finish();
  return make();
}

inline Names way(const Fabric& fabric, NodeId source, NodeId destination) {
  std::vector<LinkId> links;
  fabric.route(source, destination, links);
  Names names;
  for (const LinkId link : links) names.push_back(fabric.name(link));
  return names;
}

inline std::string refusal(const Keys& keys, NodeId nodes) {
  return test::message_of<ScenarioError>([&] { network_test::network(keys, nodes); });
}

}  // namespace starling::fabric_test
