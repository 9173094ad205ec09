// Who holds which samples, and which of them a node draws for its k-th mini-batch. Dealing happens
// once, before the run; drawing happens for every gradient and is random access: any node, draw and
// thread, no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/data/dataset.hpp"
#include "sim/base/random.hpp"
#include "sim/base/section.hpp"
#include "sim/base/types.hpp"

namespace starling {

/// What a scenario says of dealing and drawing.
struct PartitionSettings {
  std::string kind;  // "iid", "contiguous", "by_label", "dirichlet", "by_length", "by_target"
  std::int64_t shards_per_node = 1;  // by_label, by_length, by_target
  double alpha = 1;                  // dirichlet
  std::string sampling = "epochs";   // "epochs", "uniform"
};

/// Reads the key `sampling`.
std::string read_sampling(const Section& section);

/// Reads and checks the keys `partition`, `sampling` (if batches are drawn from all samples of a node) and those of the
/// chosen partition. Call it before Section::finish().
PartitionSettings read_partition_settings(const Section& section, bool has_sampling = true);

/// The same for samples with targets in place of labels.
PartitionSettings read_target_partition_settings(const Section& section);

/// Deals every training sample to one node: result[i] are the samples of node i, at least one.
///   iid        shuffled and cut into equal parts
///   contiguous consecutive samples, as the dataset has them: pages of a text
///   by_label   sorted by label, cut into nodes * shards_per_node equal shards, dealt at random [1]
///   by_length  the same, sorted by length
///   by_target  the same, sorted by target
///   dirichlet  samples of each label divided in proportions drawn from Dirichlet(alpha) [2]
/// Equal means: sizes differ by one at most. Throws ScenarioError, located by `section`, if there
/// are fewer samples than parts, or if by_length meets samples without lengths.
/// [1] McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
/// AISTATS 2017, section 3. [2] Yurochkin et al., "Bayesian Nonparametric Federated Learning of
/// Neural Networks", ICML 2019, section 4.
std::vector<std::vector<std::int32_t>> partition(const Section& section,
                                                 const PartitionSettings& settings,
                                                 const Dataset& train, NodeId nodes,
                                                 std::uint64_t seed);

/// The samples of every mini-batch of every node; a pure function of (seed, node, draw). `epochs`
/// goes through a node's samples in a new random order in every epoch, each sample once, and a
/// batch may straddle two epochs; `uniform` draws each sample independently, with replacement.
class BatchSampler {
 public:
  /// `parts` as from partition(); no part is empty, `batch_size` is positive.
  BatchSampler(const std::vector<std::vector<std::int32_t>>& parts, std::int64_t batch_size,
               const std::string& sampling, std::uint64_t seed);

  /// Writes the samples of the node's draw-th mini-batch; `indices` has batch_size() entries.
  void batch(NodeId node, Step draw, std::span<std::int32_t> indices) const;

  /// Cost of that mini-batch in the unit of Workload::batch_cost: the sum of its samples' lengths,
  /// or batch_size() if `train` has no lengths.
  std::int64_t cost(NodeId node, Step draw, const Dataset& train) const;

  std::int64_t batch_size() const { return batch_size_; }
  NodeId nodes() const { return static_cast<NodeId>(begin_.size() - 1); }
  /// Number of samples of each node, as WorkloadFacts::samples wants them.
  std::vector<std::int64_t> samples() const;
  /// How many different labels of `train` the samples of each node have, as Workload::labels() wants them; empty if
  /// they have none.
  std::vector<std::int32_t> labels(const Dataset& train) const;

  /// All there is to a sampler, for a device that draws by itself.
  struct State {
    std::span<const std::size_t> begin;     // (nodes + 1), where each node's samples start
    std::span<const std::int32_t> samples;  // all parts, one after the other
    bool with_replacement;
    Random random;  // of node and draw by Random::at
  };
  State state() const;

 private:
  std::span<const std::int32_t> part(NodeId node) const;

  std::vector<std::size_t> begin_;     // (nodes + 1), where each node's samples start
  std::vector<std::int32_t> samples_;  // all parts, one after the other
  std::int64_t batch_size_;
  bool with_replacement_;
  std::uint64_t seed_;
};

}  // namespace starling
