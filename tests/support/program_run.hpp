// A program written for one test, run inside a scenario in place of its algorithm.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/support/simulated.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test {

inline Recorder run_program(const std::string& text, Program program,
                            const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all{"run.save_models=yes"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  Assembly parts = assemble(Scenario::parse(text, "test.ini", all));
  parts.program = std::move(program);
  return simulated(std::move(parts))->recorder();
}

}  // namespace starling::test
