// The solver: restart level, search of what must be filled again, filling with a lazy heap of
// links.

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

MaxMin::MaxMin(std::vector<double> capacities, double back_share)
    : shared_links_(capacities.size()),
      back_share_(back_share),
      capacity_(std::move(capacities)),
      members_(shared_links_),
      is_touched_(shared_links_, 0),
      is_open_(shared_links_, 0),
      remaining_(shared_links_, 0),
      free_share_(shared_links_, 0),
      free_members_(shared_links_, 0) {
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

void MaxMin::touch(LinkId link, bool has_joined) {
  if (is_touched_[link] == 0) touched_.push_back(link);
  is_touched_[link] |= has_joined ? 2 : 1;
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
    is_free_.push_back(0);
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
    is_open_.resize(links, 0);
    remaining_.resize(links, 0);
    free_share_.resize(links, 0);
    free_members_.resize(links, 0);
  }
  if (bound < unbounded) capacity_[own_link(flow)] = bound;
  joined_.push_back(flow);
  return flow;
}

double MaxMin::fair_rate(std::span<const LinkId> links) const {
  double rate = unbounded;
  for (const LinkId link : links) {
    rate = std::min(rate, capacity_[link] / static_cast<double>(members_[link].size() + 1));
  }
  return rate;
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
  resized_.push_back(link);
  touch(link, true);
}

void MaxMin::settle(Time now) {
  if (is_settled()) return;
  double restart = infinity;
  // More capacity changes nothing below the level at which the link was full, the highest on it;
  // less, nothing below the level at which it fills now (fill_level below).
  for (const LinkId link : resized_) {
    double highest = 0;
    for (const Member& member : members_[link]) highest = std::max(highest, level_[member.flow]);
    if (!members_[link].empty()) restart = std::min(restart, highest);
  }
  for (const FlowId flow : left_) {
    restart = std::min(restart, level_[flow]);
    weight_[flow] = 0;
    for_each_link(flow, [&](LinkId link, double) { touch(link, false); });
  }
  for (const LinkId link : touched_) {
    std::erase_if(members_[link], [&](const Member& member) { return weight_[member.flow] == 0; });
  }
  for (const FlowId flow : joined_) {
    for_each_link(flow, [&](LinkId link, double share) {
      members_[link].push_back({share * weight_[flow], flow});
      touch(link, true);
    });
    flow_[flow].updated = now;
  }
  for (const LinkId link : touched_) {
    if ((is_touched_[link] & 2) != 0 && !members_[link].empty()) restart = fill_level(link, restart);
  }
  collect(restart);
  fill();
  reschedule(now);

  for (const LinkId link : touched_) is_touched_[link] = 0;
  touched_.clear();
  resized_.clear();
  free_.insert(free_.end(), left_.begin(), left_.end());
  left_.clear();
  joined_.clear();
}

// Level s at which the link fills if nobody but the new flows (level infinite) can pass his own:
//   sum_g min(level_g, s) share_g = capacity,
// or `enough` if that is less. Newton's method from below on a concave, piecewise linear function:
// every value on the way is a lower bound, and it ends after finitely many steps.
double MaxMin::fill_level(LinkId link, double enough) const {
  double level = 0;
  while (true) {
    double fixed = 0;
    double share = 0;
    for (const Member& member : members_[link]) {
      if (level_[member.flow] < level) {
        fixed += level_[member.flow] * member.share;
      } else {
        share += member.share;
      }
    }
    work_ += static_cast<std::int64_t>(members_[link].size());
    // (all below the level: a link that changed its capacity and can take them all)
    if (share == 0) return capacity_[link] > fixed ? enough : level;
    const double next = (capacity_[link] - fixed) / share;
    if (next >= enough) return enough;
    // (rounding may let the last steps tremble; the lower one is a bound as well)
    if (next <= level) return next;
    level = next;
  }
}

// Opens every link and flow that can change: those of level >= restart that hang together with a
// touched link.
void MaxMin::collect(double restart) {
  open_links_.clear();
  open_flows_.clear();
  for (const LinkId link : touched_) open(link, restart);
  for (std::size_t f = 0; f < open_flows_.size(); ++f) {
    for_each_link(open_flows_[f], [&](LinkId link, double) { open(link, restart); });
  }
  for (const LinkId link : open_links_) sum_up(link);
}

void MaxMin::open(LinkId link, double restart) {
  if (is_open_[link] != 0) return;
  is_open_[link] = 1;
  open_links_.push_back(link);
  work_ += static_cast<std::int64_t>(members_[link].size());
  for (const Member& member : members_[link]) {
    if (is_free_[member.flow] != 0 || level_[member.flow] < restart) continue;
    is_free_[member.flow] = 1;
    open_flows_.push_back(member.flow);
  }
}

// What the free flows may still take of a link, and how they divide it.
void MaxMin::sum_up(LinkId link) {
  double remaining = capacity_[link];
  double share = 0;
  std::uint32_t count = 0;
  for (const Member& member : members_[link]) {
    if (is_free_[member.flow] != 0) {
      share += member.share;
      ++count;
    } else {
      remaining -= level_[member.flow] * member.share;
    }
  }
  work_ += static_cast<std::int64_t>(members_[link].size());
  remaining_[link] = remaining;
  free_share_[link] = share;
  free_members_[link] = count;
}

// Links fill in order of level. The levels in the heap only grow while it is worked off, so a
// candidate is judged when it comes to the top, and goes back if it is no longer the first.
void MaxMin::fill() {
  old_level_.clear();
  for (const FlowId flow : open_flows_) {
    old_level_.push_back(level_[flow] == infinity ? 0 : level_[flow]);
  }
  candidates_.clear();
  for (const LinkId link : open_links_) {
    is_open_[link] = 0;
    if (free_members_[link] > 0) {
      candidates_.push_back({remaining_[link] / free_share_[link], link});
    }
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
    if (free_members_[link] == 0) continue;
    const auto goes_back = [&] {
      candidate.level = std::max(remaining_[link] / free_share_[link], reached);
      if (candidates_.empty() || candidate.level <= candidates_.front().level) return false;
      candidates_.push_back(candidate);
      std::ranges::push_heap(candidates_, std::greater{});
      return true;
    };
    if (candidate.level < remaining_[link] / free_share_[link] && goes_back()) continue;
    // The running sums have lost digits to cancellation; what decides is summed up afresh.
    const double roughly = candidate.level;
    sum_up(link);
    candidate.level = std::max(remaining_[link] / free_share_[link], reached);
    if (candidate.level > roughly * (1 + 1e-12) && goes_back()) continue;
    reached = candidate.level;
    // (a flow may be here twice, there and back)
    for (const Member& member : members_[link]) {
      if (is_free_[member.flow] == 0) continue;
      fix(member.flow, reached);
      ++fixed;
    }
  }
}

void MaxMin::fix(FlowId flow, double level) {
  is_free_[flow] = 0;
  level_[flow] = level;
  for_each_link(flow, [&](LinkId link, double share) {
    const double weighted = share * weight_[flow];
    remaining_[link] -= level * weighted;
    free_share_[link] -= weighted;
    --free_members_[link];
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
  std::vector<char> is_full(members_.size());
  std::vector<double> highest(members_.size(), 0);
  for (std::size_t link = 0; link < members_.size(); ++link) {
    double load = 0;
    for (const Member& member : members_[link]) {
      load += level_[member.flow] * member.share;
      highest[link] = std::max(highest[link], level_[member.flow]);
    }
    ensure(load <= capacity_[link] * (1 + tolerance), "no link carries more than its capacity");
    is_full[link] = load >= capacity_[link] * (1 - tolerance);
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
