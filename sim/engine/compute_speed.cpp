#include "sim/engine/compute_speed.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "sim/base/elementary.hpp"
#include "sim/base/numbers.hpp"
#include "sim/base/random.hpp"

namespace starling {

SpeedSettings read_speed(const Section& section, NodeId nodes) {
  SpeedSettings read;
  const auto count = static_cast<std::size_t>(nodes);
  read.speeds = section.numbers("speeds", {}, "one factor per node, 0.5 takes twice as long");
  section.expect(read.speeds.empty() || read.speeds.size() == count, "speeds",
                 "must have one factor for each of the {} nodes, got {}", nodes,
                 read.speeds.size());
  for (const double speed : read.speeds) {
    section.expect(speed > 0, "speeds", "must be positive, got {}", speed);
  }
  const NodeId slow_nodes =
      read_nodes(section, "slow_nodes", nodes, "so many nodes, from node 0 on, are slow");
  const double slowdown =
      read_positive(section, "slowdown", 1, "slow nodes take so many times as long");
  if (read.speeds.empty()) read.speeds.assign(count, 1.0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(slow_nodes); ++i) read.speeds[i] /= slowdown;

  read.slow_factor =
      read_positive(section, "slow_factor", 1,
                    "steps in the slow state take so many times as long; 1: no such state");
  read.slow_steps =
      section.optional<double>("slow_steps", 10, "mean steps until a slow node recovers");
  read.nominal_steps =
      section.optional<double>("nominal_steps", 90, "mean steps until a node turns slow");
  section.expect(read.slow_steps > 1 && read.slow_steps <= 1e9, "slow_steps",
                 "must be more than 1 and at most 1e9, got {}", read.slow_steps);
  section.expect(read.nominal_steps > 1 && read.nominal_steps <= 1e9, "nominal_steps",
                 "must be more than 1 and at most 1e9, got {}", read.nominal_steps);
  section.expect(1 / read.slow_steps + 1 / read.nominal_steps <= 1 + 1e-12, "nominal_steps",
                 "must be at least slow_steps / (slow_steps - 1) = {:.6g}, so that steps in a row "
                 "are alike, got {}",
                 read.slow_steps / (read.slow_steps - 1), read.nominal_steps);
  // One without the other would change nothing.
  section.expect(slow_nodes == 0 || section.has("slowdown"), "slow_nodes",
                 "needs slowdown, which says how many times as long they take");
  section.expect(slowdown == 1 || section.has("slow_nodes"), "slowdown",
                 "needs slow_nodes, which says how many nodes are slow");
  for (const char* key : {"slow_steps", "nominal_steps"}) {
    section.expect(!section.has(key) || section.has("slow_factor"), key,
                   "needs slow_factor, which says how slow the slow state is");
  }
  return read;
}

ComputeSpeed::ComputeSpeed(SpeedSettings settings, std::uint64_t seed)
    : settings_(std::move(settings)),
      seed_(seed),
      renewal_(std::min(1.0, 1 / settings_.slow_steps + 1 / settings_.nominal_steps)),
      block_(static_cast<Step>(std::ceil(1 / renewal_))) {}

double ComputeSpeed::slow_share() const {
  return settings_.slow_steps / (settings_.slow_steps + settings_.nominal_steps);
}

double ComputeSpeed::mean_factor() const {
  double steady = 0;
  for (const double speed : settings_.speeds) steady += 1 / speed;
  steady /= static_cast<double>(settings_.speeds.size());
  return steady * (1 + slow_share() * (settings_.slow_factor - 1));
}

bool ComputeSpeed::is_slow(NodeId node, Step step) const {
  if (settings_.slow_factor == 1) return false;
  // Steps from one renewal to the next are geometric: 1 + floor(E / -log(1 - r)), E exponential.
  const double scale = renewal_ < 1 ? -1 / exact_log(1 - renewal_) : 0;
  for (Step block = step / block_; block >= 0; --block) {
    Random random(seed_, "slow state", node, block);
    const Step begin = block * block_;
    const Step last = std::min(step, begin + block_ - 1);
    std::optional<bool> state;
    if (block == 0) state = random.uniform() < slow_share();  // step 0
    for (Step at = block == 0 ? 0 : begin - 1;;) {
      at += 1 + static_cast<Step>(std::min(random.exponential() * scale, 0x1p40));
      if (at > last) break;
      state = random.uniform() < slow_share();
    }
    if (state) return *state;
  }
  return false;  // not reached: step 0 is a renewal
}

}  // namespace starling
