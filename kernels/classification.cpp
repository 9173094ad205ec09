#include "kernels/classification.hpp"

#include "kernels/registry.hpp"
#include "sim/base/number_file.hpp"

namespace starling {

SampleSettings read_samples(const Section& section, Classification& problem) {
  SampleSettings settings;
  settings.dataset = read_dataset_settings(section);
  settings.partition = read_partition_settings(section);
  problem.sampling = settings.partition.sampling;
  problem.wire_parameters = workloads::read_wire_parameters(section);
  section.finish();
  return settings;
}

SplitDataset load_samples(const Section& section, const SampleSettings& settings,
                          std::uint64_t seed) {
  return read_named_files(section, "dataset", [&] { return load_dataset(settings.dataset, seed); });
}

void deal_samples(const Section& section, const PartitionSettings& settings, NodeId nodes,
                  Classification& problem) {
  problem.data.description += ", partition " + settings.kind;
  problem.parts = partition(section, settings, problem.data.train, nodes, problem.seed);
}

void set_samples(WorkloadFacts& facts, const Classification& problem, const BatchSampler& sampler) {
  facts.has_accuracy = problem.data.test.samples > 0;
  facts.batch_size = static_cast<double>(problem.batch_size);
  if (!problem.data.train.length.empty()) facts.cost_unit = "token";
  facts.samples = sampler.samples();
  facts.data_bytes = problem.data.bytes();
}

}  // namespace starling
