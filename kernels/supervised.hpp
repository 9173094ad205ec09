// What workloads have in common that learn the answers of a dataset, labels or targets, whatever the network: whose samples are
// whose, how mini-batches are drawn, the keys that say so, and the facts that follow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/data/dataset.hpp"
#include "kernels/data/partition.hpp"
#include "sim/base/section.hpp"
#include "sim/base/types.hpp"
#include "sim/node/workload.hpp"

namespace starling {

/// All that defines such a problem but the network.
struct Supervised {
  SplitDataset data;                             // train is not empty
  std::vector<std::vector<std::int32_t>> parts;  // training samples of each node, as of partition()
  std::int64_t batch_size = 16;     // a node with fewer samples draws some of them more than once
  std::string sampling = "epochs";  // as BatchSampler wants it
  std::uint64_t seed = 1;
  std::int64_t wire_parameters = 0;  // 0: as many as the model has
};

/// What is read of a section before its files are.
struct SampleSettings {
  DatasetSettings dataset;
  PartitionSettings partition;
};

/// Reads the keys of the dataset and its partition and `wire_parameters`, the last ones: calls finish(). `problem` gets what
/// they say of it.
SampleSettings read_samples(const Section& section, Supervised& problem);

/// The same for a regression on a file: samples with targets.
SampleSettings read_samples_with_targets(const Section& section, Supervised& problem);

/// The data set that they name. What is wrong with its files is told at the key that names them.
SplitDataset load_samples(const Section& section, const SampleSettings& settings,
                          std::uint64_t seed);

/// Deals the samples of `problem` to its nodes.
void deal_samples(const Section& section, const PartitionSettings& settings, NodeId nodes,
                  Supervised& problem);

/// Sets what the samples say: facts but for the model's.
void set_samples(WorkloadFacts& facts, const Supervised& problem, const BatchSampler& sampler);

}  // namespace starling
