// What a run needs of memory, in sentences that show the arithmetic, and what there is.
#pragma once

#include <cstdint>
#include <string>

#include "scenarios/run_settings.hpp"

namespace starling {

/// Bytes of one model of every node, in rows as the backend keeps them.
double model_bytes(const RunSettings& settings, const WorkloadFacts& facts);

/// "1000000 nodes * 2416 floats * 4 B = 9.00 GiB of models, ..", or that no numbers are kept.
std::string describe_memory(const RunSettings& settings, const WorkloadFacts& facts);

/// Says that so many nodes cannot fit, before anything is built for each of them.
void check_memory_of_nodes(const Section& run, std::int64_t nodes);

/// That the table of what each node did may not fit, if so: a run that ends before its last step has fewer rows.
std::string doubt_of_table(const RunSettings& settings);

/// A run holds a model per node at least, each of its `hosts` as many, and what lies between the layers in each thread
/// that computes a gradient; throws Error before it starts if the processor's memory cannot hold them.
void check_memory_of_models(const RunSettings& settings, const WorkloadFacts& facts, int hosts);

/// Memory of this process that is in use now, in bytes; 0 if the system does not tell.
std::int64_t resident_memory();

/// Most memory that this process has held so far, in bytes.
std::int64_t peak_memory();

}  // namespace starling
