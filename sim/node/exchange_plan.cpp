#include "sim/node/exchange_plan.hpp"

#include "sim/base/error.hpp"

namespace starling {

ExchangePlan plan_exchange(const ExchangeSettings& settings, const WorkloadFacts& facts) {
  ExchangePlan plan{settings, {}};
  if (settings.granularity == Granularity::whole || facts.tensors.empty()) return plan;

  const double bytes_per_float =
      4.0 * static_cast<double>(facts.wire_parameters) / static_cast<double>(facts.parameters);
  const auto tensors = static_cast<double>(facts.tensors.size());
  std::size_t end = facts.parameters;
  for (std::size_t t = facts.tensors.size(); t-- > 0;) {
    const std::size_t size = facts.tensors[t];
    ensure(size > 0 && size <= end, "tensors that are not as large as the model");
    end -= size;
    const double ready = (tensors - static_cast<double>(t)) / tensors;
    const bool joins = settings.granularity == Granularity::buckets && !plan.pieces.empty() &&
                       static_cast<double>(plan.pieces.back().size + size) * bytes_per_float <=
                           static_cast<double>(settings.bucket_bytes);
    if (!joins) {
      plan.pieces.push_back({end, size, ready});
    } else {
      plan.pieces.back() = {end, plan.pieces.back().size + size, ready, true};
    }
  }
  ensure(end == 0, "tensors that are not as large as the model");
  return plan;
}

}  // namespace starling
