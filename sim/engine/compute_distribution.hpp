// The durations of gradients on a node of nominal speed, before delays; see compute_time.hpp for
// the keys.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/exact_duration.hpp"
#include "sim/base/normal_block.hpp"
#include "sim/base/prefetch.hpp"
#include "sim/base/random.hpp"
#include "sim/base/section.hpp"
#include "sim/base/time.hpp"
#include "sim/base/types.hpp"
#include "sim/engine/compute_trace.hpp"

namespace starling {

/// Size of a mini-batch: Workload::batch_cost.
using BatchCost = std::function<std::int64_t(NodeId owner, Step draw)>;

struct DistributionSettings {
  std::string name;
  Duration gradient{};
  ExactDuration per_token{};
  double sigma = 0;
  double shape = 1;
  std::string samples;  // path
  TraceSettings trace;
  bool is_per_node = false;
};

/// Reads the keys that say how durations of `nodes` nodes vary; touches no file.
DistributionSettings read_distribution(const Section& section, NodeId nodes);

/// Random factors that take one normal draw each, of mean 1 but for the floor of the normal distribution: those of
/// `block_lanes` steps of a node at once, because most of the time of a draw is waiting for the instruction before. Nodes
/// ask for one step after the other.
class FactorsAhead {
 public:
  FactorsAhead(const DistributionSettings& settings, NodeId nodes, const Random& stream);

  double at(NodeId node, Step step) {
    if (is_per_node_) step = 0;
    const Step lane = step % static_cast<Step>(block_lanes);
    const auto index = static_cast<std::size_t>(node);
    if (first_[index] != step - lane) {
      first_[index] = step - lane;
      drawn_[index].factors = draw(node, step - lane);
    }
    return drawn_[index].factors[static_cast<std::size_t>(lane)];
  }
  std::vector<NodeRecords> records() const {
    return {{first_.data(), sizeof(Step)}, {drawn_.data(), sizeof(Drawn)}};
  }

 private:
  struct alignas(cache_line) Drawn {
    Block factors;
  };
  Block draw(NodeId node, Step first) const;

  Random stream_;
  bool is_lognormal_;
  bool is_per_node_;
  double sigma_;
  std::vector<Step> first_;   // (nodes) of the steps drawn last; -1: none
  std::vector<Drawn> drawn_;  // (nodes)
};

class ComputeDistribution {
 public:
  /// Reads files, if any: throws Error if they are wrong, ScenarioError if they cannot be scaled to
  /// `gradient`. `cost` may be empty unless per_token is given.
  ComputeDistribution(const Section& section, const DistributionSettings& settings, NodeId nodes,
                      std::uint64_t seed, const BatchCost& cost);

  double seconds(NodeId node, Step step, BatchName batch) const {
    const double seconds = seconds_(node, step, batch);
    return ahead_ ? seconds * ahead_->at(node, step) : seconds;
  }
  /// What is kept of every node, for prefetching.
  std::vector<NodeRecords> node_records() const {
    return ahead_ ? ahead_->records() : std::vector<NodeRecords>();
  }
  /// Mean number of seconds; with per_token over the first few batches.
  double mean() const { return mean_; }

 private:
  void vary(const DistributionSettings& settings, NodeId nodes, std::uint64_t seed,
            const BatchCost& cost);

  std::function<double(NodeId, Step, BatchName)> seconds_;
  mutable std::optional<FactorsAhead> ahead_;  // by which they vary
  double mean_ = 0;
};

}  // namespace starling
