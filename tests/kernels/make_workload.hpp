// Workloads as scenarios ask for them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/registry.hpp"
#include "tests/support/section_of_keys.hpp"

namespace starling::test {

/// Of this kind, with these keys in line 7 of test.ini.
inline std::unique_ptr<Workload> make_workload(const std::string& kind, Keys keys = {},
                                               NodeId nodes = 1, std::uint64_t seed = 1) {
  keys.emplace(keys.begin(), "kind", kind);
  const Section section = section_of_keys("workload", keys);
  return workloads::find(section).make(section, nodes, seed);
}

}  // namespace starling::test
