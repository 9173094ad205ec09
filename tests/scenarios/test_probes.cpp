// Who else has a key is found by probes, with settings that the kind at hand never checked and that expect() lets pass: no maker
// may divide by one, or take it for a number of things that are there.
#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "algorithms/registry.hpp"
#include "kernels/registry.hpp"
#include "network_models/registry.hpp"
#include "sim/base/random.hpp"
#include "topology/mixing.hpp"
#include "topology/registry.hpp"

namespace starling::test_probes {
namespace {

constexpr NodeId nodes = 4;
constexpr int probes_of_each = 300;

/// What a key of a type may be set to: what is seldom meant, and all words of a choice.
std::vector<std::string> values_of(const std::string& type) {
  if (type == "integer") return {"-1", "0", "1", "3", "9223372036854775807"};
  if (type == "number") return {"-1", "0", "0.5", "1", "1e300"};
  if (type == "numbers") return {"", "0", "-1, 0", "1, 2, 3", "1e300"};
  if (type == "duration") return {"0 s", "1 ps", "9000000 s"};
  if (type == "bytes") return {"0 B", "1 B", "8 EB"};
  if (type == "bandwidth") return {"1 bit/s"};
  if (type == "yes/no") return {"yes", "no"};
  if (type.find('|') == type.npos) return {"", "x", "1: 2", "*"};
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= type.size();) {
    const std::size_t bar = std::min(type.find('|', at), type.size());
    words.push_back(type.substr(at, bar - at));
    at = bar + 1;
  }
  return words;
}

/// Probes each kind with random settings of the keys that it turns out to have.
template <class Entries, class Make>
void probe(const Entries& kinds, Make make) {
  for (const auto& kind : kinds) {
    Random random(1, kind.name);
    std::vector<KeyUse> known;
    std::set<std::string> names;
    for (int p = 0; p < probes_of_each; ++p) {
      std::vector<Setting> settings;
      std::string text;
      for (const KeyUse& use : known) {
        if (random.below(3) != 0) continue;
        const std::vector<std::string> values = values_of(use.type);
        settings.push_back({use.key, values[random.below(values.size())], "test"});
        text += use.key + " = " + settings.back().text + "\n";
      }
      const Section section = Section::probe("section", settings);
      INFO(std::string(kind.name) << "\n" << text);
      CHECK_THROWS_AS(make(kind, section), ProbeFinished);
      for (const KeyUse& use : section.uses()) {
        if (names.insert(use.key).second) known.push_back(use);
      }
    }
  }
}

}  // namespace

TEST_CASE("no maker trips over settings that it would refuse") {
  const auto make = [](const auto& kind, const Section& section) {
    static_cast<void>(kind.make(section, nodes, 1));
  };
  probe(topologies::catalog(), make);
  probe(network_models::catalog(), make);
  probe(workloads::catalog(), make);
  const Topology ring = topologies::mix(
      nodes,
      {{0, 1, 0}, {1, 2, 0}, {2, 3, 0}, {3, 0, 0}, {1, 0, 0}, {2, 1, 0}, {3, 2, 0}, {0, 3, 0}}, {});
  const WorkloadFacts facts;
  probe(algorithms::catalog(), [&](const algorithms::AlgorithmEntry& kind, const Section& section) {
    algorithms::read_exchange(section, kind);
    static_cast<void>(kind.make(section, {nodes, 10, ring, facts}));
  });
}

}  // namespace starling::test_probes
