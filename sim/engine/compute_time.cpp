#include "sim/engine/compute_time.hpp"

#include <algorithm>
#include <stdexcept>

#include "sim/base/error.hpp"

namespace starling {

ComputeTime::Settings ComputeTime::read(const Section& section, NodeId nodes) {
  Settings settings;
  settings.distribution = read_distribution(section, nodes);
  settings.speed = read_speed(section, nodes);
  settings.delays = read_delays(section, nodes);
  section.finish();
  return settings;
}

ComputeTime::ComputeTime(const Section& section, NodeId nodes, std::uint64_t seed,
                         const BatchCost& cost)
    : ComputeTime(section, read(section, nodes), nodes, seed, cost) {}

ComputeTime::ComputeTime(const Section& section, const Settings& settings, NodeId nodes,
                         std::uint64_t seed, const BatchCost& cost)
    : distribution_(section, settings.distribution, nodes, seed, cost),
      speed_(settings.speed, seed),
      delays_(section, settings.delays, nodes, seed) {}

Duration ComputeTime::duration(NodeId node, Step step, BatchName batch) const {
  const double seconds = speed_.seconds(node, step, distribution_.seconds(node, step, batch));
  try {
    return after(Time{from_seconds(seconds)}, delay(node, step)).time_since_epoch();
  } catch (const std::invalid_argument&) {
    throw Error(fmt::format(
        "the gradient of node {} at step {} takes {} s, more than the clock holds (106 days)", node,
        step, seconds));
  }
}

std::vector<NodeRecords> ComputeTime::node_records() const {
  std::vector<NodeRecords> records = distribution_.node_records();
  records.push_back(speed_.node_records());
  return records;
}

Duration ComputeTime::mean() const {
  constexpr double longest = 9.19e6;  // seconds; the clock holds little more
  const double mean = distribution_.mean() * speed_.mean_factor() + delays_.mean_seconds();
  return from_seconds(std::min(mean, longest));
}

}  // namespace starling
