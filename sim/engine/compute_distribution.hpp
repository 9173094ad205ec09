// The durations of gradients on a node of nominal speed, before delays; see compute_time.hpp for
// the keys.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sim/base/section.hpp"
#include "sim/base/time.hpp"
#include "sim/base/types.hpp"
#include "sim/engine/compute_trace.hpp"

namespace starling {

/// Size of the mini-batch of a node's gradient: Workload::batch_cost.
using BatchCost = std::function<std::int64_t(NodeId node, Step step)>;

struct DistributionSettings {
  std::string name;
  Duration gradient{};
  Duration per_token{};
  double sigma = 0;
  double shape = 1;
  std::string samples;  // path
  TraceSettings trace;
  bool is_per_node = false;
};

/// Reads the keys that say how durations vary; touches no file.
DistributionSettings read_distribution(const Section& section);

class ComputeDistribution {
 public:
  /// Reads files, if any: throws Error if they are wrong, ScenarioError if they cannot be scaled to
  /// `gradient`. `cost` may be empty unless per_token is given.
  ComputeDistribution(const Section& section, const DistributionSettings& settings, NodeId nodes,
                      std::uint64_t seed, const BatchCost& cost);

  double seconds(NodeId node, Step step) const { return seconds_(node, step); }
  /// Mean number of seconds; with per_token over the first few batches.
  double mean() const { return mean_; }

 private:
  void vary(const DistributionSettings& settings, NodeId nodes, std::uint64_t seed,
            const BatchCost& cost);

  std::function<double(NodeId, Step)> seconds_;
  double mean_ = 0;
};

}  // namespace starling
