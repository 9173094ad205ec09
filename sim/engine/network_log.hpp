// NetworkLog: what a network model tells about a run. A model that knows links notes each change of a
// link's rate here; results, traces and pictures are made of the sums.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/base/time.hpp"
#include "sim/record/recorder.hpp"

namespace starling {

class NetworkLog {
 public:
  /// Keeps stretches of time, beside the sums, as far as `timeline` reaches, which outlives the log.
  explicit NetworkLog(TimelineEnd& timeline) : timeline_end_(timeline) {}

  /// Adds to `bytes`, by link, what messages that are not through have brought across by `now`.
  using UnderWay = std::function<void(Time now, std::span<std::int64_t> bytes)>;

  /// The model's links 0 .. bandwidths.size() - 1, in bytes per second; `name` is asked for those that were used.
  void describe(std::vector<double> bandwidths, std::function<std::string(std::uint32_t)> name,
                UnderWay under_way = {});

  /// `bytes` of a message have crossed `link`, all that it had.
  void carry(std::uint32_t link, std::int64_t bytes) { states_[link].bytes += bytes; }
  /// From `now` on so many messages share `link`, which carries so many bytes per second in all. What is set anew at the same
  /// instant was never carried.
  void set_load(std::uint32_t link, double rate, std::size_t messages, Time now) {
    State& state = states_[link];
    latest_ = now;
    state.most_messages = std::max(state.most_messages, static_cast<std::uint32_t>(messages));
    if (rate == state.rate) return;
    if (state.rate > 0) end_stretch(link, now);
    state.since = now;
    state.rate = rate;
  }

  /// The run has come to `now`: so far rates hold.
  void pass_to(Time now) { latest_ = std::max(latest_, now); }

  /// Sets the links of the recorder to those that were used until then, in their order, and adds the statistics.
  void report(Recorder& recorder) const;

  std::map<std::string, double> statistics;  // of the model: "network.deviation"

 private:
  struct State {
    double rate = 0;
    double peak_rate = 0;
    Time since{};
    Duration busy{};
    std::int64_t bytes = 0;
    std::uint32_t most_messages = 0;
  };
  void end_stretch(std::uint32_t link, Time now);

  TimelineEnd& timeline_end_;
  Time latest_{};
  std::vector<State> states_;
  std::vector<double> bandwidths_;
  std::function<std::string(std::uint32_t)> name_;
  UnderWay under_way_;
  std::vector<LinkSegment> timeline_;  // links by the model's numbers
};

}  // namespace starling
