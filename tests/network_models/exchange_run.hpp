// Drives a network model by programs of sends and receives, as message passing does: a node begins
// its next step when all sends and receives of the last are done, and a message sets off when both
// sides have come to it (rendezvous). With the exchange patterns of decentralized SGD.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/network_models/test_clock.hpp"

namespace starling::network_test {

/// One message of a step, as its sender sees it.
struct Post {
  NodeId peer;
  std::int64_t bytes;
};
struct ExchangeStep {
  std::vector<Post> sends;
  std::vector<NodeId> receives;
};
/// What a node does, step by step.
using Script = std::vector<ExchangeStep>;

class ExchangeRun final : public TestClock {
 public:
  /// Node i starts at `start[i]` (all at 0 if empty). Runs to the end.
  ExchangeRun(NetworkModel& network, std::vector<Script> scripts, std::vector<Time> start = {})
      : finish(scripts.size(), Time{}),
        network_(network),
        scripts_(std::move(scripts)),
        step_(scripts_.size(), 0),
        open_(scripts_.size(), 0) {
    for (std::size_t i = 0; i < scripts_.size(); ++i)
      set_start(start.empty() ? Time{} : start[i], i);
    const auto on_start = [this](std::uint64_t node) { begin(static_cast<NodeId>(node)); };
    const auto on_delivery = [this](std::uint32_t id) {
      const auto [source, destination] = ends_[id];
      free_.push_back(id);
      done(source);
      done(destination);
    };
    run(network_, on_start, on_delivery);
  }

  double last_finish() const {
    double last = 0;
    for (const Time time : finish) last = std::max(last, to_seconds(time));
    return last;
  }
  double mean_finish() const {
    double sum = 0;
    for (const Time time : finish) sum += to_seconds(time);
    return sum / static_cast<double>(finish.size());
  }
  std::size_t messages() const { return messages_; }

  std::vector<Time> finish;  // (nodes)

 private:
  struct Meeting {
    std::vector<std::int64_t> sends;  // bytes, in order; those from `started` on wait
    std::size_t receives = 0;
    std::size_t started = 0;
  };

  static std::uint64_t pair(NodeId source, NodeId destination) {
    return static_cast<std::uint64_t>(source) << 32 | static_cast<std::uint32_t>(destination);
  }

  void begin(NodeId node) {
    const auto i = static_cast<std::size_t>(node);
    if (step_[i] == scripts_[i].size()) {
      finish[i] = now();
      return;
    }
    const ExchangeStep& step = scripts_[i][step_[i]++];
    open_[i] = step.sends.size() + step.receives.size();
    if (open_[i] == 0) return set_start(now(), i);
    for (const NodeId peer : step.receives) {
      ++meetings_[pair(peer, node)].receives;
      meet(peer, node);
    }
    for (const Post& send : step.sends) {
      meetings_[pair(node, send.peer)].sends.push_back(send.bytes);
      meet(node, send.peer);
    }
  }

  void meet(NodeId source, NodeId destination) {
    Meeting& meeting = meetings_[pair(source, destination)];
    while (meeting.started < std::min(meeting.sends.size(), meeting.receives)) {
      const std::uint32_t id = take_id();
      ends_[id] = {source, destination};
      ++messages_;
      send(network_, {id, source, destination, meeting.sends[meeting.started++]});
    }
  }

  std::uint32_t take_id() {
    if (free_.empty()) {
      ends_.emplace_back();
      return static_cast<std::uint32_t>(ends_.size() - 1);
    }
    const std::uint32_t id = free_.back();
    free_.pop_back();
    return id;
  }

  void done(NodeId node) {
    if (--open_[static_cast<std::size_t>(node)] == 0) begin(node);
  }

  NetworkModel& network_;
  std::vector<Script> scripts_;
  std::vector<std::size_t> step_;  // (nodes), next
  std::vector<std::size_t> open_;  // (nodes), sends and receives of the present step still to come
  std::unordered_map<std::uint64_t, Meeting> meetings_;  // looked up only, by pair()
  std::vector<std::pair<NodeId, NodeId>> ends_;          // by id
  std::vector<std::uint32_t> free_;                      // ids of messages that have arrived
  std::size_t messages_ = 0;
};

// ----- patterns, `rounds` times over

/// The number that follows, and the state after it (Steele, Lea, Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014).
inline std::uint64_t splitmix64(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// The permutations of the reference: Fisher-Yates from the top, j = splitmix64 mod (i + 1).
inline std::vector<NodeId> reference_permutation(NodeId nodes, std::uint64_t index) {
  std::vector<NodeId> order(static_cast<std::size_t>(nodes));
  std::iota(order.begin(), order.end(), 0);
  std::uint64_t state = 1000 + index;
  for (std::size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i], order[splitmix64(state) % (i + 1)]);
  }
  return order;
}

/// Both directions between two nodes, in the step that both have reached.
inline void swap_with(ExchangeStep& step, NodeId peer, std::int64_t bytes) {
  step.sends.push_back({peer, bytes});
  step.receives.push_back(peer);
}

/// The patterns of the reference by name; without the suffix that only delays the start.
inline std::vector<Script> exchange(const std::string& pattern, NodeId nodes, int rounds,
                                    std::int64_t bytes) {
  std::vector<Script> scripts(static_cast<std::size_t>(nodes));
  int bits = 0;
  while ((NodeId{1} << bits) < nodes) ++bits;
  std::vector<std::vector<NodeId>> permutations;
  for (int t = 0; t < std::max(rounds, 4); ++t) {
    permutations.push_back(reference_permutation(nodes, static_cast<std::uint64_t>(t)));
  }
  const auto ahead = [&](NodeId i, NodeId by) { return (i + by % nodes + nodes) % nodes; };
  for (NodeId i = 0; i < nodes; ++i) {
    Script& script = scripts[static_cast<std::size_t>(i)];
    for (int t = 0; t < rounds; ++t) {
      ExchangeStep step;
      if (pattern == "nbr_ring") {
        swap_with(step, ahead(i, 1), bytes);
        swap_with(step, ahead(i, -1), bytes);
      } else if (pattern == "exp1") {
        const NodeId by = NodeId{1} << (t % bits);
        step.sends.push_back({ahead(i, by), bytes});
        step.receives.push_back(ahead(i, -by));
      } else if (pattern == "match") {
        const auto& order = permutations[static_cast<std::size_t>(t)];
        const auto at = std::find(order.begin(), order.end(), i) - order.begin();
        swap_with(step, order[static_cast<std::size_t>(at ^ 1)], bytes);
      } else if (pattern == "perm4") {
        for (std::size_t p = 0; p < 4; ++p) {
          const auto& order = permutations[p];
          const auto at =
              static_cast<NodeId>(std::find(order.begin(), order.end(), i) - order.begin());
          step.sends.push_back({order[static_cast<std::size_t>(ahead(at, 1))], bytes});
          step.receives.push_back(order[static_cast<std::size_t>(ahead(at, -1))]);
        }
      } else if (pattern == "incast") {
        if (i != 0) {
          step.sends.push_back({0, bytes});
        } else {
          for (NodeId j = 1; j < nodes; ++j) step.receives.push_back(j);
        }
      } else if (pattern == "rd") {
        for (int s = 0; s < bits; ++s) {
          script.emplace_back();
          swap_with(script.back(), i ^ (NodeId{1} << s), bytes);
        }
      } else if (pattern == "rab") {
        for (int s = 0; s < 2 * bits; ++s) {
          const int k = s < bits ? s : 2 * bits - 1 - s;
          script.emplace_back();
          swap_with(script.back(), i ^ (NodeId{1} << k), bytes >> (k + 1));
        }
      } else if (pattern == "wagma16") {
        for (int s = 0; s < 4; ++s) {
          script.emplace_back();
          swap_with(script.back(), i ^ (NodeId{1} << ((4 * t + s) % bits)), bytes);
        }
      } else if (pattern == "ring_ar") {
        for (int s = 0; s < 2 * (nodes - 1); ++s) {
          script.emplace_back();
          script.back().sends.push_back({ahead(i, 1), bytes / nodes});
          script.back().receives.push_back(ahead(i, -1));
        }
      }
      if (!step.sends.empty() || !step.receives.empty()) script.push_back(step);
    }
  }
  return scripts;
}

}  // namespace starling::network_test
