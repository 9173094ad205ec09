// What the tests of DCD-PSGD, ECD-PSGD and DeepSqueeze share: runs of seven nodes on a ring or a star, one step of gradient
// descent for their slow twins, and what all three must keep to.
#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/quadratic.hpp"
#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test {

inline std::string coded_section(const std::string& kind, const std::string& keys = "") {
  return "kind = " + kind + "\nlearning_rate = 0.1\n" + keys;
}

inline Recorder coded_run(const std::string& algorithm,
                          const std::vector<std::string>& overrides = {}, int steps = 60,
                          const std::string& topology = "ring") {
  return run(quadratic_scenario(7, steps, topology, algorithm), overrides);
}

using Numbers = std::vector<double>;

/// x less 0.1 times the gradient of node i at `at`.
inline Numbers gradient_step(const Assembly& parts, NodeId i, Numbers x, const Numbers& at) {
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  for (std::size_t k = 0; k < x.size(); ++k) {
    x[k] -= 0.1 * static_cast<double>(problem.curvature(i, k)) *
            (at[k] - static_cast<double>(problem.center(i, k)));
  }
  return x;
}

/// Without compression `kind` is D-PSGD of that order, up to rounding.
inline void check_without_compression(const std::string& kind, const std::string& order) {
  for (const std::string topology : {"ring", "star"}) {
    CAPTURE(topology);
    const Recorder plain = coded_run(coded_section("dpsgd", "order = " + order), {}, 60, topology);
    // ECD's estimates multiply differences of z by 2/t and gain t/3 roundings on the way.
    CHECK(largest_difference(coded_run(coded_section(kind), {}, 60, topology), plain) < 2e-5);
  }
}

/// One code goes to each neighbor a step. 7 levels of 5 entries: a norm and 5 fields of 4 bits, 4 + 3 bytes; two
/// neighbors, 60 steps.
inline void check_bytes(const std::string& kind, const std::string& keys = "") {
  const Recorder recorder = coded_run(coded_section(kind, "compression = levels" + keys));
  CHECK(recorder.nodes[2].bytes_sent == 60 * 2 * 7);
}

/// Lattice codes, topologies that change and directed ones are refused.
inline void check_refusals(const std::string& kind) {
  CHECK_THROWS_WITH_AS(coded_run(coded_section(kind, "compression = lattice\ncell = 1\n")),
                       doctest::Contains("compression must be one of none, half,"), ScenarioError);
  CHECK_THROWS_WITH_AS(coded_run(coded_section(kind), {}, 3, "one_peer_exponential"),
                       doctest::Contains("does not change"), ScenarioError);
  CHECK_THROWS_WITH_AS(coded_run(coded_section(kind), {}, 3, "exponential"),
                       doctest::Contains("symmetric"), ScenarioError);
}

}  // namespace starling::test
