#include "sim/engine/network_log.hpp"

#include <algorithm>
#include <utility>

namespace starling {

void NetworkLog::describe(std::vector<double> bandwidths,
                          std::function<std::string(std::uint32_t)> name, UnderWay under_way) {
  bandwidths_ = std::move(bandwidths);
  states_.assign(bandwidths_.size(), {});
  name_ = std::move(name);
  under_way_ = std::move(under_way);
}

void NetworkLog::end_stretch(std::uint32_t link, Time now) {
  State& state = states_[link];
  if (now == state.since) return;
  state.busy += now - state.since;
  state.peak_rate = std::max(state.peak_rate, state.rate);
  const Time until = timeline_end_.until();
  if (state.since >= until) return;
  timeline_.push_back({link, state.rate, state.since, std::min(now, until)});
  timeline_end_.count(now);
}

void NetworkLog::report(Recorder& recorder) const {
  for (const auto& [name, value] : statistics) recorder.statistics[name] = value;
  recorder.links.clear();
  recorder.link_timeline.clear();
  std::vector<std::uint32_t> row_of(states_.size(), 0);
  std::vector<std::int64_t> bytes;
  for (const State& state : states_) bytes.push_back(state.bytes);
  if (under_way_) under_way_(latest_, bytes);
  std::vector<LinkSegment> open_stretches;  // of a run that has not ended
  for (std::uint32_t link = 0; link < states_.size(); ++link) {
    const State& state = states_[link];
    const Duration open = state.rate > 0 ? latest_ - state.since : Duration{};
    const double open_rate = open > Duration{} ? state.rate : 0;
    const double peak_rate = std::max(state.peak_rate, open_rate);
    if (bytes[link] == 0 && peak_rate == 0) continue;
    row_of[link] = static_cast<std::uint32_t>(recorder.links.size());
    recorder.links.push_back({.name = name_(link),
                              .bandwidth = bandwidths_[link],
                              .peak_rate = peak_rate,
                              .busy = state.busy + open,
                              .bytes = bytes[link],
                              .most_messages = state.most_messages});
    if (open_rate > 0 && state.since < timeline_end_.until()) {
      open_stretches.push_back(
          {row_of[link], open_rate, state.since, std::min(latest_, timeline_end_.until())});
    }
  }
  for (const LinkSegment& segment : timeline_) {
    recorder.link_timeline.push_back(
        {row_of[segment.link], segment.rate, segment.begin, segment.end});
  }
  recorder.link_timeline.insert(recorder.link_timeline.end(), open_stretches.begin(),
                                open_stretches.end());
}

}  // namespace starling
