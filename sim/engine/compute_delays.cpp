#include "sim/engine/compute_delays.hpp"

#include <algorithm>

#include "sim/base/random.hpp"

namespace starling {

DelaySettings read_delays(const Section& section, NodeId nodes) {
  const auto delay = section.optional<Duration>("delay", Duration{0}, "added to delayed gradients");
  const auto probability = section.optional<double>(
      "delay_probability", 0, "each node at each step is delayed with this probability");
  const auto delayed = section.optional<std::int64_t>(
      "delayed_nodes", 0, "exactly so many nodes, drawn anew at every step, are delayed");
  section.expect(probability >= 0 && probability <= 1, "delay_probability",
                 "must be between 0 and 1, got {}", probability);
  section.expect(delayed >= 0 && delayed <= nodes, "delayed_nodes",
                 "must be between 0 and the number of nodes, {}, got {}", nodes, delayed);
  section.expect(probability == 0 || delayed == 0, "delayed_nodes",
                 "must be 0 where delay_probability is given, got {}", delayed);
  const bool is_anybody_delayed = probability > 0 || delayed > 0;
  section.expect(delay.count() == 0 || is_anybody_delayed, "delay",
                 "needs delay_probability or delayed_nodes to say whom to delay");
  // A sweep may go through 0 s, so that is told from a delay forgotten.
  section.expect(section.has("delay") || !is_anybody_delayed, "delay",
                 "must say how long a delayed gradient waits");
  return {
      .delay = delay, .probability = probability, .delayed_nodes = static_cast<NodeId>(delayed)};
}

ComputeDelays::ComputeDelays(DelaySettings settings, NodeId nodes, std::uint64_t seed)
    : settings_(settings), nodes_(nodes), seed_(seed) {}

Duration ComputeDelays::delay(NodeId node, Step step) const {
  bool is_delayed = false;
  if (settings_.delayed_nodes > 0) {
    const std::vector<NodeId>& nodes = chosen(step);
    is_delayed = std::binary_search(nodes.begin(), nodes.end(), node);
  } else if (settings_.probability > 0) {
    is_delayed = Random(seed_, "delay", node, step).uniform() < settings_.probability;
  }
  return is_delayed ? settings_.delay : Duration{0};
}

// Floyd's algorithm (Bentley and Floyd, "A sample of brilliance", CACM 30(9), 1987): as many draws
// as nodes chosen.
const std::vector<NodeId>& ComputeDelays::chosen(Step step) const {
  Choice& choice = choices_[static_cast<std::size_t>(step) % choices_.size()];
  if (choice.step == step) return choice.nodes;
  choice.step = step;
  choice.nodes.clear();
  Random random(seed_, "delay", shared_stream, step);
  for (NodeId last = nodes_ - settings_.delayed_nodes; last < nodes_; ++last) {
    const auto drawn = static_cast<NodeId>(random.below(static_cast<std::uint64_t>(last) + 1));
    const auto place = std::lower_bound(choice.nodes.begin(), choice.nodes.end(), drawn);
    if (place != choice.nodes.end() && *place == drawn) {
      choice.nodes.push_back(last);  // larger than all drawn so far
    } else {
      choice.nodes.insert(place, drawn);
    }
  }
  return choice.nodes;
}

}  // namespace starling
