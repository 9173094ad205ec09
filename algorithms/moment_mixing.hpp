// Momentum buffers that are mixed with the neighbors as models are, with the same weights: the key
// `momentum_policy` of gossip.
//
//   keep   m_i <- momentum * m_i + d_i                       each node its own (D-PSGD as published)
//   mix    m_i <- sum_j W_ij m_j beside x_i <- sum_j W_ij x_j   where models are exchanged (DmSGD)
//
// With the step first, models and momenta that are mixed after it; else those that were sent with the
// models before it. The means of models and momenta then follow momentum SGD with the mean gradient,
// whatever the gossip does. Messages are one model's bytes longer, two for optimizers with two moments.
//
// Yu, Jin, Yang, "On the Linear Speedup Analysis of Communication Efficient Momentum SGD for Distributed
// Non-Convex Optimization", ICML 2019, Algorithm 3.
#pragma once

#include <memory>

#include "algorithms/coded_exchange.hpp"
#include "algorithms/momentum_policy.hpp"
#include "algorithms/optimizer.hpp"

namespace starling::algorithms {

/// Reads `momentum_policy` of gossip over the graph; the first that is `offered` is the default. Mixing of
/// moments that must not become negative wants weights that are not, and a codec that loses nothing:
/// second moments are small, and what it loses of a neighbor's is subtracted from one's own.
MomentumPolicy read_gossip_momentum(const Section& section, const Topology& topology,
                                    const Codec& codec, const OptimizerSettings& optimizer,
                                    const std::vector<MomentumPolicy>& offered);

class MomentMixing;

/// Mixing of the moments of `optimizer` where the policy asks for it, else null.
std::unique_ptr<MomentMixing> mixing_of(MomentumPolicy policy, Node& node, const SharedCodec& codec,
                                        Optimizer& optimizer);

/// The moments of one node's optimizer on their way through the neighbors. All nodes mix at the same
/// steps. Both outlive this object.
class MomentMixing {
 public:
  MomentMixing(Node& node, SharedCodec codec, Optimizer& optimizer)
      : optimizer_(optimizer), mixing_(node, std::move(codec), Channel::tracker) {}

  /// Sends the moments to every neighbor of step `k`; nothing before the first update.
  Task<> send(Step k);
  /// Puts the mixed moments in their place.
  Task<> mix(Step k);

 private:
  Optimizer& optimizer_;
  Mixing mixing_;
  Vector sent_;
};

}  // namespace starling::algorithms
