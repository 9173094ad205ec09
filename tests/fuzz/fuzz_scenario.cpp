// Any text as a scenario: read, its [run] and [network] switches taken, its algorithm made on a ring of four
// nodes, and what was read written down again.

#include "algorithms/registry.hpp"
#include "scenarios/assemble.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "topology/mixing.hpp"

using namespace starling;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  test::allow_refusal([&] {
    const Scenario scenario = Scenario::parse(text, "fuzz.ini");
    scenario.reject_unknown_sections(section_names);
    std::vector<DescribedSection> described;
    const Section run = scenario.section("run");
    read_run(run, scenario.name());
    described.push_back({run.name(), run.uses()});
    const std::string once = Scenario::to_text(described);
    Scenario::parse(once, "again.ini").section("run");
  });
  test::allow_refusal([&] {
    const Section network = Scenario::parse(text, "fuzz.ini").section("network");
    read_closed_form_collectives(network);
    read_eager_limit(network);
  });
  test::allow_refusal([&] {
    static const Topology ring = topologies::mix(
        4, {{0, 1, 0}, {1, 2, 0}, {2, 3, 0}, {3, 0, 0}, {1, 0, 0}, {2, 1, 0}, {3, 2, 0}, {0, 3, 0}},
        {});
    const Section algorithm = Scenario::parse(text, "fuzz.ini").section("algorithm");
    const WorkloadFacts facts;
    algorithms::find(algorithm).make(algorithm, {4, 10, ring, facts});
  });
  return 0;
}
