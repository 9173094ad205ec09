#include "sim/node/host.hpp"

#include <algorithm>

namespace starling {

Host::Host(const HostCosts& costs, NodeId nodes)
    : costs_(costs), copying_until_(static_cast<std::size_t>(nodes)) {}

bool Host::is_staging() const {
  return costs_.staging_latency.count() > 0 || costs_.staging_seconds_per_byte > 0;
}

Time Host::copy(NodeId node, Time now, std::int64_t bytes) {
  if (!is_staging()) return now;
  Time& until = copying_until_[static_cast<std::size_t>(node)];
  const double seconds = static_cast<double>(bytes) * costs_.staging_seconds_per_byte;
  until = after(after(std::max(until, now), costs_.staging_latency), from_seconds(seconds));
  return until;
}

Duration Host::reduction(std::int64_t bytes, int passes) const {
  return from_seconds(passes * static_cast<double>(bytes) * costs_.reduction_seconds_per_byte);
}

}  // namespace starling
