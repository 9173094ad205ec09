#include "algorithms/momentum_policy.hpp"

#include <cstddef>

namespace starling::algorithms {
namespace {

std::string_view word_of(MomentumPolicy policy) {
  constexpr std::string_view words[] = {"keep", "average", "mix", "reset"};
  return words[static_cast<std::size_t>(policy)];
}

}  // namespace

MomentumPolicy choose_momentum_policy(const Section& section, const OptimizerSettings& optimizer,
                                      const std::vector<MomentumPolicy>& offered,
                                      MomentumPolicy fallback, std::string_view help) {
  std::vector<Option<MomentumPolicy>> options;
  for (const MomentumPolicy policy : offered) options.push_back({word_of(policy), policy});
  const auto policy = section.choice("momentum_policy", options, word_of(fallback), help);
  const bool has_moments = optimizer.rule != OptimizerSettings::Rule::sgd || optimizer.momentum > 0;
  section.expect(policy == fallback || has_moments, "momentum_policy",
                 "needs momentum > 0, or an optimizer with moments");
  return policy;
}

}  // namespace starling::algorithms
