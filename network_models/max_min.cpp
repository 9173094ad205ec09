// The solver: filling of the released flows with a lazy heap of links, and the search for those who
// must be released as well. One file, for every settlement alternates between the two and ends in the heap of finish times.

#include "network_models/max_min.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "network_models/clock_range.hpp"
#include "sim/base/error.hpp"
#include "sim/base/prefetch.hpp"

namespace starling::network_models {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double picoseconds_per_second = 1e12;
constexpr double rounding = 1e-12;  // of levels and sums of rates
constexpr double much = 1e3;        // times what stays of a sum: what leaves takes its digits
constexpr int patient_rounds = 12;  // after which a settlement takes all that hangs together

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

// ----- LinkHeap

void LinkHeap::clear(std::size_t room) {
  size_ = 0;
  if (entries_.size() < room + 3) entries_.resize(room + 3);
}

void LinkHeap::build() {
  for (std::size_t behind = 0; behind < 3; ++behind) entries_[size_ + behind].level = infinity;
  for (std::size_t at = size_ / 4 + 1; at-- > 0;) {
    if (at < size_) sink(at, entries_[at]);
  }
}

void LinkHeap::sink(std::size_t at, Entry entry) {
  while (4 * at + 1 < size_) {
    const Entry* const child = &entries_[4 * at + 1];
    const std::size_t left = child[1].level < child[0].level ? 1 : 0;
    const std::size_t right = child[3].level < child[2].level ? 3 : 2;
    const std::size_t least =
        left + (right - left) * (child[right].level < child[left].level ? 1 : 0);
    if (entry.level <= child[least].level) break;
    entries_[at] = child[least];
    at = 4 * at + 1 + least;
  }
  entries_[at] = entry;
}

void LinkHeap::pop() {
  const Entry last = entries_[--size_];
  entries_[size_].level = infinity;
  if (size_ > 0) sink(0, last);
}

// ----- MaxMin

MaxMin::MaxMin(const std::vector<double>& capacities, double back_share, double accuracy)
    : shared_links_(capacities.size()),
      back_share_(back_share),
      leeway_(std::max(accuracy, rounding)),
      link_(shared_links_) {
  for (std::size_t link = 0; link < shared_links_; ++link) {
    ensure(capacities[link] > 0, "a link has a capacity");
    link_[link].capacity = capacities[link];
  }
}

/// Calls visit(link, is_back) for every link of a flow.
template <class Visit>
void MaxMin::for_each_link(FlowId flow, Visit visit) const {
  const Flow& record = flow_[flow];
  for (std::uint32_t i = 0; i < record.forward_links; ++i) visit(record.forward[i], false);
  for (const LinkId link : back(flow)) visit(link, true);
  if (record.is_bounded) visit(own_link(flow), false);
}

void MaxMin::touch(LinkId link) {
  if (std::exchange(link_[link].is_touched, true)) return;
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
    rest_.emplace_back();
    if (back_share_ > 0) back_.emplace_back();
  }
  flow_[flow] = {.weight = weight,
                 .forward = forward.data(),
                 .forward_links = static_cast<std::uint32_t>(forward.size()),
                 .is_bounded = bound < unbounded};
  rest_[flow] = {.bytes = bytes};
  if (back_share_ > 0) back_[flow] = back;
  if (bound < unbounded) {
    if (own_link(flow) >= link_.size()) link_.resize(shared_links_ + flow_.size());
    link_[own_link(flow)].capacity = bound;
  }
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
  link_[link].capacity = capacity;
  if (!link_[link].members.empty()) touch(link);
}

double MaxMin::remaining(FlowId flow, Time now) const {
  const auto elapsed = static_cast<double>((now - rest_[flow].updated).count());
  return std::max(rest_[flow].bytes - rate(flow) * (elapsed / picoseconds_per_second), 0.0);
}

void MaxMin::settle(Time now) {
  if (is_settled()) return;
  for (const FlowId flow : left_) {
    flow_[flow].weight = 0;
    for_each_link(flow, [&](LinkId link, bool) { touch(link); });
  }
  for (const LinkId link : touched_) {
    std::erase_if(link_[link].members,
                  [&](const Member& member) { return flow_[member.flow].weight == 0; });
  }
  open_links_.clear();
  open_flows_.clear();
  old_level_.clear();
  for (const FlowId flow : joined_) {
    for_each_link(flow, [&](LinkId link, bool is_back) {
      link_[link].members.push_back({flow, is_back});
    });
    rest_[flow].updated = now;
    release(flow);
  }
  for (const LinkId link : touched_) open(link);
  double from = 0;
  for (int round = 0; from < infinity; ++round) {
    fill(from);
    from = release_wronged(round >= patient_rounds);
  }
  note_deviation();
  reschedule(now);

  for (const LinkId link : touched_) link_[link].is_touched = false;
  for (const LinkId link : open_links_) {
    link_[link].is_open = false;
    link_[link].filled_at = infinity;
  }
  touched_.clear();
  free_.insert(free_.end(), left_.begin(), left_.end());
  left_.clear();
  joined_.clear();
}

void MaxMin::open(LinkId link) {
  Link& state = link_[link];
  if (std::exchange(state.is_stale, true)) return;
  stale_links_.push_back(link);
  if (!std::exchange(state.is_open, true)) open_links_.push_back(link);
}

void MaxMin::release(FlowId flow) {
  Flow& record = flow_[flow];
  if (record.is_released) return;
  record.is_released = true;
  open_flows_.push_back(flow);
  old_level_.push_back(record.level);
}

// What the fixed flows leave of a link and how the free ones divide it; and what the held would not put up with. Always
// afresh, without the rounding of many small changes.
void MaxMin::sum_up(LinkId link) {
  Link& state = link_[link];
  double remaining = state.capacity;
  double free_share = 0;
  std::uint32_t free_members = 0;
  double highest_held = 0;
  double lowest_caught = infinity;
  double highest_released = 0;
  for (const Member& member : state.members) {
    const Flow& flow = flow_[member.flow];
    const double share = share_of(member.is_back, flow);
    if (flow.is_free) {
      free_share += share;
      ++free_members;
      continue;
    }
    remaining -= flow.level * share;
    if (flow.is_released) {
      highest_released = std::max(highest_released, flow.level);
    } else {
      highest_held = std::max(highest_held, flow.level);
      if (flow.bottleneck == link) lowest_caught = std::min(lowest_caught, flow.level);
    }
  }
  state.remaining = remaining;
  state.free_share = free_share;
  state.free_members = free_members;
  state.digits = Digits::all;
  state.highest_held = highest_held;
  state.lowest_caught = lowest_caught;
  state.highest_released = highest_released;
  work_ += static_cast<std::int64_t>(state.members.size());
}

// Releases the held flows to whom the last filling was unfair; with `all`, whoever shares a link with a released one.
// Returns the level up to which the next filling will go as the last one did, infinite if nobody was wronged: below it
// every released flow takes less of its links than it was held at, and none of these was full.
double MaxMin::release_wronged(bool all) {
  wronged_.clear();
  double from = infinity;
  for (const LinkId link : all ? open_links_ : stale_links_) {
    from = std::min(from, find_wronged(link, all));
  }
  for (const LinkId link : stale_links_) link_[link].is_stale = false;
  stale_links_.clear();
  for (const FlowId flow : wronged_) {
    from = std::min(from, flow_[flow].level);
    for_each_link(flow, [&](LinkId link, bool) { from = std::min(from, link_[link].filled_at); });
    release(flow);
  }
  if (wronged_.empty()) return infinity;
  return all ? 0 : from;
}

/// Returns the fair level of a link on which the held flows take too much, else infinity.
double MaxMin::find_wronged(LinkId link, bool all) {
  const Link& state = link_[link];
  const double leeway = leeway_ * state.capacity;
  const double highest = std::max(state.highest_held, state.highest_released);
  const auto has_lost_bottleneck = [&](double level) {
    return state.remaining > leeway || level * (1 + rounding) < highest;
  };
  const bool has_too_high =
      state.highest_held > state.filled_at * (1 + rounding) || state.remaining < -leeway;
  const bool has_too_low =
      state.lowest_caught < infinity && has_lost_bottleneck(state.lowest_caught);
  if (!has_too_high && !has_too_low && !all) return infinity;
  const double fair = has_too_high ? fair_level(link) : infinity;
  for (const Member& member : state.members) {
    const Flow& flow = flow_[member.flow];
    if (flow.is_released) continue;
    if (all || flow.level > fair || (flow.bottleneck == link && has_lost_bottleneck(flow.level))) {
      wronged_.push_back(member.flow);
    }
  }
  work_ += static_cast<std::int64_t>(state.members.size());
  return fair;
}

// How far off the capacities are by which the flows that were looked at have their rates.
void MaxMin::note_deviation() {
  for (const LinkId link : open_links_) {
    const Link& state = link_[link];
    const bool holds_back = state.lowest_caught < infinity || state.filled_at < infinity;
    if (state.capacity == 0 || !(holds_back || state.remaining < 0)) continue;
    deviation_ = std::max(deviation_, std::abs(state.remaining) / state.capacity);
  }
}

// The level at which the link is full if those who fill it could take as much as anybody:
//   sum_g min(level_g, s) share_g = capacity,
// their levels being infinite. Newton's method from below on a concave, piecewise linear function:
// every value on the way is a lower bound, and it ends after finitely many steps.
double MaxMin::fair_level(LinkId link) const {
  const Link& state = link_[link];
  double level = 0;
  while (true) {
    double fixed = 0;
    double share = 0;
    for (const Member& member : state.members) {
      const Flow& flow = flow_[member.flow];
      const bool fills = flow.is_released && flow.bottleneck == link;
      if (!fills && flow.level < level) {
        fixed += flow.level * share_of(member.is_back, flow);
      } else {
        share += share_of(member.is_back, flow);
      }
    }
    work_ += static_cast<std::int64_t>(state.members.size());
    if (share == 0) return level;
    const double next = (state.capacity - fixed) / share;
    // (rounding may let the last steps tremble; the lower one is a bound as well)
    if (next <= level) return std::min(next, level);
    level = next;
  }
}

/// Frees the released flows that are not fixed below `from` for the next filling. Returns how many.
std::size_t MaxMin::free_from(double from) {
  std::size_t count = 0;
  for (const FlowId id : open_flows_) {
    Flow& flow = flow_[id];
    if (flow.level < from) continue;
    flow.is_free = true;
    flow.level = 0;
    ++count;
    for_each_link(id, [&](LinkId link, bool) { open(link); });
    work_ += std::int64_t{flow.forward_links} + std::ssize(back(id));
  }
  return count;
}

/// Asks for the memory of the links that are summed up soon after the `at`-th: what lies anywhere is most of the time.
void MaxMin::look_ahead(std::size_t at) const {
  constexpr std::size_t near = 4;
  constexpr std::size_t far = 8;
  if (at + far < stale_links_.size()) {
    prefetch(link_[stale_links_[at + far]].members.data());
  }
  if (at + near >= stale_links_.size()) return;
  for (const Member& member : link_[stale_links_[at + near]].members) {
    prefetch(&flow_[member.flow]);
  }
}

// Links fill in order of level, above `from`. The levels in the heap only grow while it is worked off, so a
// candidate is judged when it comes to the top, and goes back if it is no longer the first.
void MaxMin::fill(double from) {
  std::size_t free = free_from(from);
  candidates_.clear(stale_links_.size());
  for (std::size_t i = 0; i < stale_links_.size(); ++i) {
    look_ahead(i);
    const LinkId link = stale_links_[i];
    sum_up(link);
    Link& state = link_[link];
    state.filled_at = infinity;
    if (state.free_members > 0) {
      candidates_.append(std::max(0.0, state.remaining / state.free_share), link);
    }
  }
  candidates_.build();
  double reached = from;
  while (free > 0) {
    ensure(!candidates_.empty(), "every flow crosses a link that fills");
    const LinkId link = candidates_.top();
    const double roughly = candidates_.top_level();
    Link& state = link_[link];
    if (state.free_members == 0) {
      candidates_.pop();
      continue;
    }
    const auto level = [&] { return std::max(reached, state.remaining / state.free_share); };
    const auto is_first = [&](double at) {
      candidates_.replace_top(at);
      return candidates_.top_level() == at;
    };
    // Running sums lose digits to cancellation. With most of them a candidate finds its place; what decides is summed up afresh.
    if (state.digits == Digits::few) sum_up(link);
    if (level() > roughly && !is_first(level())) continue;
    if (state.digits != Digits::all) sum_up(link);
    if (level() > std::max(reached, roughly) * (1 + rounding) && !is_first(level())) continue;
    reached = level();
    state.filled_at = reached;
    // (a flow may be here twice, there and back)
    for (const Member& member : state.members) {
      if (!flow_[member.flow].is_free) continue;
      flow_[member.flow].bottleneck = link;
      fix(member.flow, reached);
      --free;
    }
  }
}

void MaxMin::fix(FlowId id, double level) {
  Flow& flow = flow_[id];
  flow.is_free = false;
  flow.level = level;
  for_each_link(id, [&](LinkId link, bool is_back) {
    Link& state = link_[link];
    const double share = share_of(is_back, flow);
    state.remaining -= level * share;
    state.free_share -= share;
    --state.free_members;
    state.digits =
        std::max(state.digits, share > much * state.free_share ? Digits::few : Digits::most);
    state.highest_released = level;  // levels only grow while filling
  });
  work_ += std::int64_t{flow.forward_links} + std::ssize(back(id));
}

// New times of finish for the flows whose rate has changed. No flow is released any more.
void MaxMin::reschedule(Time now) {
  std::size_t changed = 0;
  for (std::size_t f = 0; f < open_flows_.size(); ++f) {
    const FlowId id = open_flows_[f];
    Flow& flow = flow_[id];
    flow.is_released = false;
    if (flow.level == old_level_[f]) continue;
    Rest& rest = rest_[id];
    const auto elapsed = static_cast<double>((now - rest.updated).count());
    rest.bytes -= old_level_[f] * flow.weight * (elapsed / picoseconds_per_second);
    rest.updated = now;
    open_flows_[changed++] = id;
  }
  finishes_.set_all(std::span(open_flows_).first(changed),
                    [&](FlowId id) { return finish_time(now, rest_[id].bytes, rate(id)); });
}

void MaxMin::check() const {
  constexpr double tolerance = 1e-9;
  const double leeway = leeway_ + tolerance;
  std::vector<char> is_full(link_.size());
  std::vector<double> highest(link_.size(), 0);
  for (std::size_t link = 0; link < link_.size(); ++link) {
    const double capacity = link_[link].capacity;
    double load = 0;
    for (const Member& member : link_[link].members) {
      const Flow& flow = flow_[member.flow];
      load += flow.level * share_of(member.is_back, flow);
      highest[link] = std::max(highest[link], flow.level);
    }
    ensure(load <= capacity * (1 + leeway), "no link carries more than its capacity");
    is_full[link] = load >= capacity * (1 - leeway);
  }
  for (FlowId flow = 0; flow < flow_.size(); ++flow) {
    if (flow_[flow].weight == 0) continue;
    bool has_bottleneck = false;
    for_each_link(flow, [&](LinkId link, bool) {
      has_bottleneck |= is_full[link] != 0 && highest[link] <= flow_[flow].level * (1 + tolerance);
    });
    ensure(has_bottleneck, "every flow has a full link on which nobody has a higher level");
  }
}

}  // namespace starling::network_models
