#include "kernels/supervised.hpp"

#include "kernels/registry.hpp"
#include "sim/base/number_file.hpp"

namespace starling {

namespace {

SampleSettings finish_samples(const Section& section, SampleSettings settings,
                              Supervised& problem) {
  problem.sampling = settings.partition.sampling;
  problem.wire_parameters = workloads::read_wire_parameters(section);
  section.finish();
  return settings;
}

}  // namespace

SampleSettings read_samples(const Section& section, Supervised& problem) {
  SampleSettings settings;
  settings.dataset = read_dataset_settings(section);
  settings.partition = read_partition_settings(section);
  return finish_samples(section, settings, problem);
}

SampleSettings read_samples_with_targets(const Section& section, Supervised& problem) {
  SampleSettings settings;
  settings.dataset = read_target_settings(section);
  settings.partition = read_target_partition_settings(section);
  return finish_samples(section, settings, problem);
}

SplitDataset load_samples(const Section& section, const SampleSettings& settings,
                          std::uint64_t seed) {
  return read_named_files(section, "dataset", [&] { return load_dataset(settings.dataset, seed); });
}

void deal_samples(const Section& section, const PartitionSettings& settings, NodeId nodes,
                  Supervised& problem) {
  problem.data.description += ", partition " + settings.kind;
  problem.parts = partition(section, settings, problem.data.train, nodes, problem.seed);
}

void set_samples(WorkloadFacts& facts, const Supervised& problem, const BatchSampler& sampler) {
  facts.has_accuracy = !problem.data.test.y.empty();
  facts.batch_size = static_cast<double>(problem.batch_size);
  if (!problem.data.train.length.empty()) facts.cost_unit = "token";
  facts.samples = sampler.samples();
  facts.data_bytes = problem.data.bytes();
}

}  // namespace starling
