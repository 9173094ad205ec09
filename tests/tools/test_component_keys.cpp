// The keys that `starling list` tells of, with their conditions, against what makers read.

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "algorithms/registry.hpp"
#include "kernels/registry.hpp"
#include "network_models/registry.hpp"
#include "tests/support/probes.hpp"
#include "tools/component_keys.hpp"
#include "topology/registry.hpp"

namespace starling::test_component_keys {
namespace {

constexpr NodeId nodes = 4;

bool contains(const std::vector<std::string>& texts, const std::string& text) {
  return std::ranges::find(texts, text) != texts.end();
}

/// Whether this key has one of these values in effect.
bool has_one(const Section& section, const std::string& key,
             const std::vector<std::string>& values) {
  const std::vector<KeyUse> uses = section.uses();
  const auto use = std::ranges::find(uses, key, &KeyUse::key);
  return use != uses.end() && contains(values, use->value);
}

bool holds(const ComponentKey& row, const Section& section) {
  return (row.choice.empty() || has_one(section, row.choice, row.options)) &&
         (row.outer_choice.empty() || has_one(section, row.outer_choice, row.outer_options));
}

/// Whether a key comes with either of several choices, of which its row tells one: what sums models sums moments, too, numbers of
/// half precision, and models of SlowMo whatever its base does.
bool is_told_elsewhere(const KeyUse& use, const Section& section) {
  return use.key == "collective" &&
         (has_one(section, "momentum_policy", {"average"}) ||
          has_one(section, "code_route", {"sums"}) ||
          has_one(section, "base", {"gossip", "sgp", "overlap_sgp", "adpsgd"}));
}

/// Every key that a kind reads has a row whose condition holds.
template <class Entries, class Make>
void check(const std::string& section_name, const Entries& kinds, Make make) {
  const std::vector<Chapter> chapters = all_chapters();
  const auto chapter = std::ranges::find(chapters, section_name, &Chapter::section);
  REQUIRE(chapter != chapters.end());
  const auto compare = [&](const auto& kind, const Section& section) {
    const auto component =
        std::ranges::find(chapter->components, std::string(kind.name), &Component::name);
    REQUIRE(component != chapter->components.end());
    const std::vector<KeyUse> uses = section.uses();
    for (const KeyUse& use : uses) {
      if (is_told_elsewhere(use, section)) continue;
      INFO(use.key << ": " << use.help);
      CHECK(std::ranges::any_of(component->keys, [&](const ComponentKey& row) {
        return row.use.key == use.key && row.use.help == use.help &&
               row.use.required == use.required && holds(row, section);
      }));
    }
  };
  test::probe_at_random(kinds, 60, test::choices, make, compare);
}

}  // namespace

TEST_CASE("every key that a kind reads is listed, with the choices that it comes with") {
  const auto make = [](const auto& kind, const Section& section) {
    static_cast<void>(kind.make(section, nodes, 1));
  };
  check("topology", topologies::catalog(), make);
  check("network", network_models::catalog(), make);
  check("workload", workloads::catalog(), make);
  const Topology none(nodes, {{}}, {std::vector<double>(nodes, 1.0)});
  const WorkloadFacts facts;
  check("algorithm", algorithms::catalog(), [&](const auto& kind, const Section& section) {
    algorithms::read_exchange(section, kind);
    static_cast<void>(kind.make(section, {nodes, 1, none, facts}));
  });
}

}  // namespace starling::test_component_keys
