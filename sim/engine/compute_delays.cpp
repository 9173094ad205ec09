#include "sim/engine/compute_delays.hpp"

#include <algorithm>

#include "sim/base/number_file.hpp"
#include "sim/base/numbers.hpp"
#include "sim/base/random.hpp"

namespace starling {

DelaySettings read_delays(const Section& section, NodeId nodes) {
  const auto delay = section.optional<Duration>("delay", Duration{0}, "added to delayed gradients");
  const double probability =
      read_between(section, "delay_probability", 0, 0, 1,
                   "each node at each step is delayed with this probability");
  const NodeId delayed = read_nodes(section, "delayed_nodes", nodes,
                                    "exactly so many nodes, drawn anew at every step, are delayed");
  const std::int64_t draws = read_whole(
      section, "delay_draws", 0, 0, 1'000,
      "each node draws up to so many nodes per step from a stream that all seed alike, and is "
      "delayed once it draws itself");
  const std::int64_t restart =
      read_at_least(section, "delay_restart", 0, 0,
                    "with delay_draws: these streams begin anew after so many steps; 0: never");
  const auto trace = section.resolve_path(section.optional<std::string>(
      "delay_trace", "",
      "CSV file of further delays, of each node at each step, as in a trace; starts over behind "
      "its end"));
  section.expect(probability == 0 || delayed == 0, "delayed_nodes",
                 "must be 0 where delay_probability is given, got {}", delayed);
  section.expect(draws == 0 || (probability == 0 && delayed == 0), "delay_draws",
                 "must be 0 where delay_probability or delayed_nodes is given, got {}", draws);
  section.expect(restart == 0 || draws > 0, "delay_restart", "needs delay_draws");
  const bool is_anybody_delayed = probability > 0 || delayed > 0 || draws > 0;
  section.expect(delay.count() == 0 || is_anybody_delayed, "delay",
                 "needs delay_probability, delayed_nodes or delay_draws to say whom to delay");
  // A sweep may go through 0 s, so that is told from a delay forgotten.
  section.expect(section.has("delay") || !is_anybody_delayed, "delay",
                 "must say how long a delayed gradient waits");
  return {.delay = delay,
          .probability = probability,
          .delayed_nodes = delayed,
          .draws = static_cast<int>(draws),
          .restart = restart,
          .trace = trace};
}

ComputeDelays::ComputeDelays(const Section& section, const DelaySettings& settings, NodeId nodes,
                             std::uint64_t seed)
    : settings_(settings),
      nodes_(nodes),
      seed_(seed),
      cursors_(settings.draws > 0 ? static_cast<std::size_t>(nodes) : 0) {
  if (settings.trace.empty()) return;
  trace_ = read_named_file(section, "delay_trace", [&] {
    return DurationTrace({.path = settings.trace, .key = "delay_trace"});
  });
}

Duration ComputeDelays::delay(NodeId node, Step step) const {
  const Duration constant = is_delayed(node, step) ? settings_.delay : Duration{0};
  if (!trace_) return constant;
  return after(Time{constant}, from_seconds(trace_->at(node, step))).time_since_epoch();
}

bool ComputeDelays::is_delayed(NodeId node, Step step) const {
  if (settings_.delayed_nodes > 0) {
    const std::vector<NodeId>& nodes = chosen(step);
    return std::binary_search(nodes.begin(), nodes.end(), node);
  }
  if (settings_.draws > 0) return draws_itself(node, step);
  return settings_.probability > 0 &&
         Random(seed_, "delay", node, step).uniform() < settings_.probability;
}

double ComputeDelays::mean_seconds() const {
  double share = settings_.probability;
  if (settings_.delayed_nodes > 0) share = static_cast<double>(settings_.delayed_nodes) / nodes_;
  if (settings_.draws > 0) {
    double misses = 1;  // that a node misses itself in all its draws
    for (int i = 0; i < settings_.draws; ++i) misses *= 1 - 1.0 / nodes_;
    share = 1 - misses;
  }
  return share * to_seconds(settings_.delay) + (trace_ ? trace_->mean(nodes_) : 0);
}

bool ComputeDelays::draws_itself(NodeId node, Step step) const {
  const Step begin = settings_.restart > 0 ? step - step % settings_.restart : 0;
  Cursor& cursor = cursors_[static_cast<std::size_t>(node)];
  if (cursor.step > step || cursor.step < begin) cursor = {begin, 0};
  for (; cursor.step < step; ++cursor.step) {
    cursor.place += draw(node, begin, cursor.place).count;
  }
  return draw(node, begin, cursor.place).is_self;
}

ComputeDelays::Drawn ComputeDelays::draw(NodeId node, Step begin, std::int64_t place) const {
  // Seeded alike on all nodes: the stream's name has, in place of a node, how often the streams were restarted.
  const Step run = settings_.restart > 0 ? begin / settings_.restart : 0;
  for (int i = 0; i < settings_.draws; ++i) {
    Random random(seed_, "delay draws", static_cast<NodeId>(run), place + i);
    if (static_cast<NodeId>(random.below(static_cast<std::uint64_t>(nodes_))) == node) {
      return {i + 1, true};
    }
  }
  return {settings_.draws, false};
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
