// The solver: filling of the released flows with a lazy heap of links, and the search for those who
// must be released as well. One file, for every settlement alternates between the two and ends in the heap of finish times.

#include "network_models/max_min.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "sim/base/error.hpp"

namespace starling::network_models {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double picoseconds_per_second = 1e12;
constexpr double end_of_clock = 9.2e18;  // ps
constexpr double rounding = 1e-12;       // of levels and sums of rates
constexpr int patient_rounds = 12;       // after which a settlement takes all that hangs together

/// `remaining` bytes at `rate` from `start` on; Time::max() past the end of the clock.
Time finish_time(Time start, double remaining, double rate) {
  const double picoseconds =
      std::nearbyint(std::max(remaining, 0.0) * picoseconds_per_second / rate);
  const auto begun = start.time_since_epoch().count();
  if (!(picoseconds + static_cast<double>(begun) < end_of_clock)) return Time::max();
  return start + Duration{static_cast<std::int64_t>(picoseconds)};
}

}  // namespace

// ----- FinishHeap

void FinishHeap::put(std::size_t at, const Entry& entry) {
  heap_[at] = entry;
  position_[entry.flow] = static_cast<std::uint32_t>(at);
}

void FinishHeap::rise(std::size_t at, const Entry& entry) {
  while (at > 0) {
    const std::size_t parent = (at - 1) / 4;
    if (heap_[parent] <= entry) break;
    put(at, heap_[parent]);
    at = parent;
  }
  put(at, entry);
}

void FinishHeap::sink(std::size_t at, const Entry& entry) {
  while (4 * at + 1 < heap_.size()) {
    const auto first = heap_.begin() + static_cast<std::ptrdiff_t>(4 * at + 1);
    const auto last = heap_.begin() + static_cast<std::ptrdiff_t>(std::min(4 * at + 5, size()));
    const auto child = std::min_element(first, last);
    if (entry <= *child) break;
    put(at, *child);
    at = static_cast<std::size_t>(child - heap_.begin());
  }
  put(at, entry);
}

void FinishHeap::place(FlowId flow, Time time) {
  if (flow >= position_.size()) position_.resize(flow + 1, absent);
  if (position_[flow] == absent) {
    position_[flow] = static_cast<std::uint32_t>(heap_.size());
    heap_.push_back({time, flow});
  } else {
    heap_[position_[flow]].time = time;
  }
}

void FinishHeap::set(FlowId flow, Time time) {
  place(flow, time);
  const std::size_t at = position_[flow];
  const Entry entry = heap_[at];
  rise(at, entry);
  sink(position_[flow], entry);
}

void FinishHeap::pop() {
  position_[heap_.front().flow] = absent;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (!heap_.empty()) sink(0, last);
}

void FinishHeap::build() {
  for (std::size_t i = heap_.size() / 4 + 1; i-- > 0;) {
    if (i < heap_.size()) sink(i, Entry(heap_[i]));
  }
}

// ----- MaxMin

MaxMin::MaxMin(std::vector<double> capacities, double back_share, double accuracy)
    : shared_links_(capacities.size()),
      back_share_(back_share),
      leeway_(std::max(accuracy, rounding)),
      capacity_(std::move(capacities)),
      members_(shared_links_),
      is_touched_(shared_links_, 0),
      open_(shared_links_) {
  for (const double capacity : capacity_) ensure(capacity > 0, "a link has a capacity");
}

/// Calls visit(link, share of the flow's weight) for every link of a flow.
template <class Visit>
void MaxMin::for_each_link(FlowId flow, Visit visit) const {
  const Flow& record = flow_[flow];
  for (const LinkId link : record.forward) visit(link, 1.0);
  for (const LinkId link : record.back) visit(link, back_share_);
  if (record.is_bounded) visit(own_link(flow), 1.0);
}

void MaxMin::touch(LinkId link) {
  if (is_touched_[link] != 0) return;
  is_touched_[link] = 1;
  touched_.push_back(link);
}

FlowId MaxMin::add(std::span<const LinkId> forward, std::span<const LinkId> back, double weight,
                   double bytes, double bound) {
  ensure(weight > 0 && bytes > 0 && bound > 0, "a flow has a weight and something to carry");
  ensure(!forward.empty() || bound < unbounded, "a flow must be held back by something");
  auto flow = static_cast<FlowId>(flow_.size());
  if (!free_.empty()) {
    flow = free_.back();
    free_.pop_back();
  } else {
    flow_.emplace_back();
    level_.push_back(0);
    weight_.push_back(0);
    bottleneck_.push_back(0);
    is_free_.push_back(0);
    is_released_.push_back(0);
  }
  flow_[flow] = {forward, back_share_ > 0 ? back : std::span<const LinkId>{}, bytes, Time{},
                 bound < unbounded};
  level_[flow] = infinity;
  weight_[flow] = weight;
  if (bound < unbounded && own_link(flow) >= capacity_.size()) {
    const std::size_t links = shared_links_ + flow_.size();
    capacity_.resize(links, 0);
    members_.resize(links);
    is_touched_.resize(links, 0);
    open_.resize(links);
  }
  if (bound < unbounded) capacity_[own_link(flow)] = bound;
  joined_.push_back(flow);
  return flow;
}

void MaxMin::take_finished(Time now, std::vector<FlowId>& done) {
  while (!finishes_.empty() && finishes_.top_time() <= now) {
    done.push_back(finishes_.top());
    left_.push_back(finishes_.top());
    finishes_.pop();
  }
}

void MaxMin::set_capacity(LinkId link, double capacity) {
  ensure(link < shared_links_ && capacity >= 0, "a shared link has a capacity");
  capacity_[link] = capacity;
  if (!members_[link].empty()) touch(link);
}

void MaxMin::settle(Time now) {
  if (is_settled()) return;
  for (const FlowId flow : left_) {
    weight_[flow] = 0;
    for_each_link(flow, [&](LinkId link, double) { touch(link); });
  }
  for (const LinkId link : touched_) {
    std::erase_if(members_[link], [&](const Member& member) { return weight_[member.flow] == 0; });
  }
  open_links_.clear();
  open_flows_.clear();
  old_level_.clear();
  for (const FlowId flow : joined_) {
    for_each_link(flow, [&](LinkId link, double share) {
      members_[link].push_back({share * weight_[flow], flow});
    });
    flow_[flow].updated = now;
    release(flow);
  }
  for (const LinkId link : touched_) open(link);
  for (int round = 0;; ++round) {
    fill();
    if (!release_wronged(round >= patient_rounds)) break;
  }
  note_deviation();
  reschedule(now);

  for (const LinkId link : touched_) is_touched_[link] = 0;
  for (const LinkId link : open_links_) open_[link].is_open = false;
  for (const FlowId flow : open_flows_) is_released_[flow] = 0;
  touched_.clear();
  free_.insert(free_.end(), left_.begin(), left_.end());
  left_.clear();
  joined_.clear();
}

void MaxMin::open(LinkId link) {
  OpenLink& state = open_[link];
  state.is_stale = true;
  if (state.is_open) return;
  state.is_open = true;
  open_links_.push_back(link);
}

void MaxMin::release(FlowId flow) {
  if (is_released_[flow] != 0) return;
  is_released_[flow] = 1;
  open_flows_.push_back(flow);
  old_level_.push_back(level_[flow] == infinity ? 0 : level_[flow]);
  for_each_link(flow, [&](LinkId link, double) { open(link); });
}

// What the held flows leave of a link, and what they would not put up with.
void MaxMin::sum_up_held(LinkId link) {
  OpenLink& state = open_[link];
  state.is_stale = false;
  state.held_rate = 0;
  state.highest_held = 0;
  state.lowest_caught = infinity;
  for (const Member& member : members_[link]) {
    if (is_released_[member.flow] != 0) continue;
    const double level = level_[member.flow];
    state.held_rate += level * member.share;
    state.highest_held = std::max(state.highest_held, level);
    if (bottleneck_[member.flow] == link) {
      state.lowest_caught = std::min(state.lowest_caught, level);
    }
  }
  work_ += static_cast<std::int64_t>(members_[link].size());
}

// Releases the held flows to whom the last filling was unfair; with `all`, whoever shares a link
// with a released one. Whether there were any.
bool MaxMin::release_wronged(bool all) {
  wronged_.clear();
  for (const LinkId link : open_links_) find_wronged(link, all);
  for (const FlowId flow : wronged_) release(flow);
  return !wronged_.empty();
}

void MaxMin::find_wronged(LinkId link, bool all) {
  const OpenLink& state = open_[link];
  const double leeway = leeway_ * capacity_[link];
  const double highest = std::max(state.highest_held, state.highest_released);
  const auto has_lost_bottleneck = [&](double level) {
    return state.remaining > leeway || level * (1 + rounding) < highest;
  };
  const bool has_too_high =
      state.highest_held > state.filled_at * (1 + rounding) || state.remaining < -leeway;
  const bool has_too_low =
      state.lowest_caught < infinity && has_lost_bottleneck(state.lowest_caught);
  if (!has_too_high && !has_too_low && !all) return;
  const double fair = has_too_high ? fair_level(link) : infinity;
  for (const Member& member : members_[link]) {
    if (is_released_[member.flow] != 0) continue;
    const double level = level_[member.flow];
    if (all || level > fair || (bottleneck_[member.flow] == link && has_lost_bottleneck(level))) {
      wronged_.push_back(member.flow);
    }
  }
  work_ += static_cast<std::int64_t>(members_[link].size());
}

// How far off the capacities are by which the flows that were looked at have their rates.
void MaxMin::note_deviation() {
  for (const LinkId link : open_links_) {
    const OpenLink& state = open_[link];
    const bool holds_back = state.lowest_caught < infinity || state.filled_at < infinity;
    if (capacity_[link] == 0 || !(holds_back || state.remaining < 0)) continue;
    deviation_ = std::max(deviation_, std::abs(state.remaining) / capacity_[link]);
  }
}

// The level at which the link is full if those who fill it could take as much as anybody:
//   sum_g min(level_g, s) share_g = capacity,
// their levels being infinite. Newton's method from below on a concave, piecewise linear function:
// every value on the way is a lower bound, and it ends after finitely many steps.
double MaxMin::fair_level(LinkId link) const {
  double level = 0;
  while (true) {
    double fixed = 0;
    double share = 0;
    for (const Member& member : members_[link]) {
      const bool fills = is_released_[member.flow] != 0 && bottleneck_[member.flow] == link;
      if (!fills && level_[member.flow] < level) {
        fixed += level_[member.flow] * member.share;
      } else {
        share += member.share;
      }
    }
    work_ += static_cast<std::int64_t>(members_[link].size());
    if (share == 0) return level;
    const double next = (capacity_[link] - fixed) / share;
    // (rounding may let the last steps tremble; the lower one is a bound as well)
    if (next <= level) return std::min(next, level);
    level = next;
  }
}

// What the free flows may still take of a link, and how they divide it: afresh, without the
// rounding of many small changes.
void MaxMin::sum_up(LinkId link) {
  double remaining = capacity_[link];
  double share = 0;
  for (const Member& member : members_[link]) {
    if (is_free_[member.flow] != 0) {
      share += member.share;
    } else {
      remaining -= level_[member.flow] * member.share;
    }
  }
  work_ += static_cast<std::int64_t>(members_[link].size());
  open_[link].remaining = remaining;
  open_[link].free_share = share;
}

void MaxMin::free_released() {
  for (const LinkId link : open_links_) {
    if (open_[link].is_stale) sum_up_held(link);
    OpenLink& state = open_[link];
    state.remaining = capacity_[link] - state.held_rate;
    state.free_share = 0;
    state.free_members = 0;
    state.filled_at = infinity;
    state.highest_released = 0;
  }
  for (const FlowId flow : open_flows_) {
    is_free_[flow] = 1;
    for_each_link(flow, [&](LinkId link, double share) {
      open_[link].free_share += share * weight_[flow];
      ++open_[link].free_members;
    });
    work_ += static_cast<std::int64_t>(flow_[flow].forward.size() + flow_[flow].back.size());
  }
}

// Links fill in order of level. The levels in the heap only grow while it is worked off, so a
// candidate is judged when it comes to the top, and goes back if it is no longer the first.
void MaxMin::fill() {
  free_released();
  candidates_.clear();
  for (const LinkId link : open_links_) {
    const OpenLink& state = open_[link];
    if (state.free_members > 0) candidates_.push_back({state.remaining / state.free_share, link});
  }
  std::ranges::make_heap(candidates_, std::greater{});
  double reached = 0;
  std::size_t fixed = 0;
  while (fixed < open_flows_.size()) {
    ensure(!candidates_.empty(), "every flow crosses a link that fills");
    std::ranges::pop_heap(candidates_, std::greater{});
    Candidate candidate = candidates_.back();
    candidates_.pop_back();
    const LinkId link = candidate.link;
    OpenLink& state = open_[link];
    if (state.free_members == 0) continue;
    const auto goes_back = [&] {
      candidate.level = std::max(state.remaining / state.free_share, reached);
      if (candidates_.empty() || candidate.level <= candidates_.front().level) return false;
      candidates_.push_back(candidate);
      std::ranges::push_heap(candidates_, std::greater{});
      return true;
    };
    if (candidate.level < state.remaining / state.free_share && goes_back()) continue;
    // The running sums have lost digits to cancellation; what decides is summed up afresh.
    const double roughly = candidate.level;
    sum_up(link);
    candidate.level = std::max(state.remaining / state.free_share, reached);
    if (candidate.level > roughly * (1 + 1e-12) && goes_back()) continue;
    reached = candidate.level;
    state.filled_at = reached;
    // (a flow may be here twice, there and back)
    for (const Member& member : members_[link]) {
      if (is_free_[member.flow] == 0) continue;
      bottleneck_[member.flow] = link;
      fix(member.flow, reached);
      ++fixed;
    }
  }
}

void MaxMin::fix(FlowId flow, double level) {
  is_free_[flow] = 0;
  level_[flow] = level;
  for_each_link(flow, [&](LinkId link, double share) {
    OpenLink& state = open_[link];
    const double weighted = share * weight_[flow];
    state.remaining -= level * weighted;
    state.free_share -= weighted;
    --state.free_members;
    state.highest_released = level;  // levels only grow while filling
  });
  work_ += static_cast<std::int64_t>(flow_[flow].forward.size() + flow_[flow].back.size());
}

// New times of finish for the flows whose rate has changed.
void MaxMin::reschedule(Time now) {
  changed_.clear();
  for (std::size_t f = 0; f < open_flows_.size(); ++f) {
    const FlowId id = open_flows_[f];
    if (level_[id] == old_level_[f]) continue;
    Flow& flow = flow_[id];
    const auto elapsed = static_cast<double>((now - flow.updated).count());
    flow.remaining -= old_level_[f] * weight_[id] * (elapsed / picoseconds_per_second);
    flow.updated = now;
    changed_.push_back(id);
  }
  finishes_.set_all(changed_,
                    [&](FlowId id) { return finish_time(now, flow_[id].remaining, rate(id)); });
}

void MaxMin::check() const {
  constexpr double tolerance = 1e-9;
  const double leeway = leeway_ + tolerance;
  std::vector<char> is_full(members_.size());
  std::vector<double> highest(members_.size(), 0);
  for (std::size_t link = 0; link < members_.size(); ++link) {
    double load = 0;
    for (const Member& member : members_[link]) {
      load += level_[member.flow] * member.share;
      highest[link] = std::max(highest[link], level_[member.flow]);
    }
    ensure(load <= capacity_[link] * (1 + leeway), "no link carries more than its capacity");
    is_full[link] = load >= capacity_[link] * (1 - leeway);
  }
  for (FlowId flow = 0; flow < flow_.size(); ++flow) {
    if (weight_[flow] == 0) continue;
    bool has_bottleneck = false;
    for_each_link(flow, [&](LinkId link, double) {
      has_bottleneck |= is_full[link] != 0 && highest[link] <= level_[flow] * (1 + tolerance);
    });
    ensure(has_bottleneck, "every flow has a full link on which nobody has a higher level");
  }
}

}  // namespace starling::network_models
