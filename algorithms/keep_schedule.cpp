#include "algorithms/keep_schedule.hpp"

#include "algorithms/sparse_codecs.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

/// Sends the `share` of the entries that was read as `key`.
SharedCodec codec_of_share(const Section& section, std::string_view key, double share,
                           const std::vector<std::size_t>& tensors) {
  section.expect(share > 0 && share <= 1, key, "must be in (0, 1], got {}", share);
  return top_k_codec(share, false, tensors);
}

}  // namespace

KeepSchedule read_keep_schedule(const Section& section, const Context& context,
                                const std::vector<std::size_t>& tensors) {
  KeepSchedule schedule;
  const std::vector<double> warmup = section.numbers(
      "warmup_keep", {}, "shares of the entries sent in the first periods, before `keep`");
  for (const double share : warmup)
    schedule.codecs.push_back(codec_of_share(section, "warmup_keep", share, tensors));
  constexpr Step usual_period = 100;
  schedule.warmup_period =
      read_at_least(section, "warmup_period", usual_period, 1, "steps of a stretch of the warm-up");
  section.expect(schedule.warmup_period == usual_period || !warmup.empty(), "warmup_period",
                 "needs warmup_keep, which says what is sent in the warm-up");
  const Step periods = std::ssize(warmup);
  if (periods > 0 && schedule.warmup_period > (context.steps - 1) / periods) {
    section.warn("warmup_keep",
                 "has {} periods of {} steps, and run.steps is {}: keep is not reached", periods,
                 schedule.warmup_period, context.steps);
  }
  const auto keep = section.optional<double>("keep", 0.001, "share of the entries that is sent");
  schedule.codecs.push_back(codec_of_share(section, "keep", keep, tensors));
  return schedule;
}

}  // namespace starling::algorithms
