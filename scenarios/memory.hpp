// What a run needs of memory, in a sentence that shows the arithmetic.
#pragma once

#include <cstdint>
#include <string>

#include "scenarios/assemble.hpp"

namespace starling {

/// Bytes of one model of every node, in rows as the backend keeps them.
double model_bytes(const RunSettings& settings, const WorkloadFacts& facts);

/// "1000000 nodes * 2416 floats * 4 B = 9.00 GiB of models, .."; the workload has numbers.
std::string describe_memory(const RunSettings& settings, const WorkloadFacts& facts);

/// Most memory that this process has held so far, in bytes.
std::int64_t peak_memory();

}  // namespace starling
