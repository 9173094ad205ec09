#include "algorithms/moment_mixing.hpp"

#include <utility>

namespace starling::algorithms {

MomentumPolicy read_gossip_momentum(const Section& section, const Topology& topology,
                                    const Codec& codec, const OptimizerSettings& optimizer,
                                    const std::vector<MomentumPolicy>& offered) {
  section.note_other("topology");
  const MomentumPolicy policy =
      choose_momentum_policy(section, optimizer, offered, offered.front(),
                             "what happens to momentum and moments when models are mixed");
  const bool mixes_squares =
      policy == MomentumPolicy::mix && optimizer.rule != OptimizerSettings::Rule::sgd;
  section.expect(!mixes_squares || least_weight(topology) >= 0, "momentum_policy",
                 "= mix of second moments needs mixing weights that are not negative");
  section.expect(!mixes_squares || codec.is_exact(), "momentum_policy",
                 "= mix of second moments needs compression = none, which keeps them positive");
  return policy;
}

std::unique_ptr<MomentMixing> mixing_of(MomentumPolicy policy, Node& node, const SharedCodec& codec,
                                        Optimizer& optimizer) {
  if (policy != MomentumPolicy::mix) return nullptr;
  return std::make_unique<MomentMixing>(node, codec, optimizer);
}

Task<> MomentMixing::send(Step k) {
  sent_ = optimizer_.moments();
  if (sent_) co_await mixing_.send(k, sent_);
}

Task<> MomentMixing::mix(Step k) {
  if (!sent_) co_return;
  const Vector own = std::exchange(sent_, {});
  const Vector mixed = co_await mixing_.mix(k, own);
  optimizer_.set_moments(mixed);
}

}  // namespace starling::algorithms
