// A whole simulation within a test: its results stay in memory.
#pragma once

#include <memory>
#include <utility>

#include "scenarios/assemble.hpp"
#include "scenarios/run.hpp"

namespace starling::test {

/// These parts, simulated to the end; nothing is saved.
inline std::unique_ptr<Run> simulated(Assembly parts) {
  Run::Hooks hooks;
  hooks.saves = false;
  auto run = std::make_unique<Run>(std::move(parts), std::move(hooks));
  run->simulate();
  return run;
}

}  // namespace starling::test
