#include "sim/node/host.hpp"

#include <algorithm>

namespace starling {

Host::Host(const HostCosts& costs, NodeId nodes)
    : costs_(costs),
      out_until_(is_staging() ? static_cast<std::size_t>(nodes) : 0),
      in_until_(out_until_.size()) {}

bool Host::is_staging() const {
  return costs_.staging_latency.count() > 0 || costs_.staging_seconds_per_byte > 0;
}

Time Host::copy_out(NodeId node, Time since, std::int64_t bytes) {
  return copy(out_until_, node, since, bytes);
}

Time Host::copy_in(NodeId node, Time since, std::int64_t bytes) {
  return copy(in_until_, node, since, bytes);
}

Time Host::copied_in(NodeId node) const {
  return is_staging() ? in_until_[static_cast<std::size_t>(node)] : Time{};
}

Time Host::copy(std::vector<Time>& queue, NodeId node, Time since, std::int64_t bytes) {
  if (!is_staging()) return since;
  uses_.staging = true;
  Time& until = queue[static_cast<std::size_t>(node)];
  const double seconds = static_cast<double>(bytes) * costs_.staging_seconds_per_byte;
  until = after(after(std::max(until, since), costs_.staging_latency), from_seconds(seconds));
  return until;
}

Duration Host::reduction(std::int64_t bytes) {
  return from_seconds(static_cast<double>(bytes) * reduction_seconds_per_byte());
}

double Host::reduction_seconds_per_byte() {
  uses_.reduction = true;
  return costs_.reduction_seconds_per_byte;
}

Duration Host::copying(std::int64_t bytes) {
  uses_.copying |= bytes > 0;
  return from_seconds(static_cast<double>(bytes) * costs_.copy_seconds_per_byte);
}

Duration Host::operation(std::int64_t bytes, int arrays) {
  uses_.operation |= arrays > 0;
  return from_seconds(arrays * static_cast<double>(bytes) * costs_.operator_seconds_per_byte);
}

Duration Host::encoding(std::int64_t bytes, std::size_t count) {
  uses_.encoding |= count > 0;
  return from_seconds(static_cast<double>(count) * static_cast<double>(bytes) *
                      costs_.encoding_seconds_per_byte);
}

Duration Host::decoding(std::int64_t bytes, std::size_t count) {
  uses_.decoding |= count > 0;
  return from_seconds(static_cast<double>(count) * static_cast<double>(bytes) *
                      costs_.decoding_seconds_per_byte);
}

Duration Host::entry() {
  uses_.entry = true;
  return costs_.entry;
}

}  // namespace starling
