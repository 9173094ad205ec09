// OpenMP threads that wait should sleep, not spin: the thread that records the simulation, and other processes
// (ranks of an MPI job), want the cores meanwhile. With spinning, small batches ran 15 times slower on two cores.
// The OpenMP runtime reads its policy from the environment before main() begins, hence the second start.
#pragma once

#include <cstdlib>

#include <unistd.h>

#include "sim/base/shipped_file.hpp"

namespace starling {

/// Starts the program once more, by its name, with OMP_WAIT_POLICY=passive unless the user has chosen a policy. First
/// thing in main(); does nothing where a process cannot find its own file.
inline void wait_passively(char** words) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execv(program_path().c_str(), words);
}

}  // namespace starling
