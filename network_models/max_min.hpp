// MaxMin: who gets how much of links that many flows share, and when is each flow done? Exact
// max-min fair rates, solved again only where something changed.
//
//   progressive filling: all flows grow together, rate = level * weight. The first link to fill
//   fixes its flows at that level; the others go on growing. Repeat.
//
// Local repair. A change releases the flows that join, nobody else; the rest are held at their
// levels. The released are filled into what the held leave of their links. Then every link that was
// looked at is asked whether that was fair to the held flows on it:
//
//   too high   a released flow filled the link below a held one's level, or it is overcommitted:
//              the held ones above the link's fair level are released;
//   too low    the link that held a flow back (its bottleneck) has room now, or somebody higher:
//              that flow is released;
//
// and they are filled again, with the earlier released ones that had come to the lowest level at which this makes a
// difference (the others stay: level restart), until nobody is wronged. Then everyone has a bottleneck,
// which only the max-min fair rates give to all: the result is exact, however few were looked at.
// All changes of one instant are solved together.
//
// With an accuracy > 0, a link is also full if it carries that share of its capacity less or more; so small changes
// of load do not spread. Levels stay exact. So do the rates, of slightly other links: if every bottleneck had the
// load it carries for its capacity, at most that share off, all flows would still have a bottleneck, and there is
// one allocation where they have. The load is always compared with the true capacity, so that what was let pass does
// not add up; deviation() tells the most that was. Nothing follows for rates by the true capacities: a small change of
// many low rates on a link can be a large one of its highest.
//
// Invariants after settle(), checked by check() (to 1e-9, loads to the accuracy):
//   1. no link carries more than its capacity;
//   2. every flow has a full link on which nobody has a higher level (its bottleneck).
// What remains of a flow is kept as a real number of bytes, at its last change of rate. Only the
// times of events are rounded, to picoseconds; rates never are.
//
// Bertsekas and Gallager, "Data Networks", 2nd edition, 1992, section 6.5.2 (max-min, filling).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/base/time.hpp"

namespace starling::network_models {

using LinkId = std::uint32_t;
using FlowId = std::uint32_t;

/// The flows in order of finish: an indexed 4-ary heap. Equal times stand in order of flow.
class FinishHeap {
 public:
  static constexpr std::uint32_t absent = std::numeric_limits<std::uint32_t>::max();

  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  Time top_time() const { return heap_.front().time; }
  FlowId top() const { return heap_.front().flow; }

  /// Inserts `flow` or moves it to its new time. The heap is in order after each call: several keys
  /// must never be changed first and sifted later.
  void set(FlowId flow, Time time);
  void pop();
  /// set() of many at once, when sifting each would cost more than building the heap anew.
  /// `time_of(flow)` tells the times.
  template <class TimeOf>
  void set_all(std::span<const FlowId> flows, TimeOf time_of) {
    if (8 * flows.size() <= size()) {
      for (const FlowId flow : flows) set(flow, time_of(flow));
      return;
    }
    for (const FlowId flow : flows) place(flow, time_of(flow));
    build();
  }

 private:
  struct Entry {
    Time time;
    FlowId flow;
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  void place(FlowId flow, Time time);
  void put(std::size_t at, const Entry& entry);
  void rise(std::size_t at, const Entry& entry);
  void sink(std::size_t at, const Entry& entry);
  void build();

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> position_;  // (flows), in the heap
};

/// Links by level, the lowest first: a 4-ary heap. Which child is the least is found without branches, which nobody could
/// foresee.
class LinkHeap {
 public:
  bool empty() const { return size_ == 0; }
  /// Empties it, with room for so many.
  void clear(std::size_t room);
  /// Appends; build() puts all in order.
  void append(double level, LinkId link) { entries_[size_++] = {level, link}; }
  void build();
  double top_level() const { return entries_[0].level; }
  LinkId top() const { return entries_[0].link; }
  /// The top gets another level.
  void replace_top(double level) { sink(0, {level, top()}); }
  void pop();

 private:
  struct Entry {
    double level;
    LinkId link;
  };
  void sink(std::size_t at, Entry entry);

  std::vector<Entry> entries_;  // behind the last one three that stand above all
  std::size_t size_ = 0;
};

class MaxMin {
 public:
  static constexpr double unbounded = std::numeric_limits<double>::infinity();

  /// Links 0.. with their capacities, in bytes per second, positive at first. A flow also loads the links of
  /// its way back with `back_share` of its rate (acknowledgements). `accuracy`: see the top.
  explicit MaxMin(const std::vector<double>& capacities, double back_share = 0,
                  double accuracy = 0);

  /// A flow joins; takes effect with settle(). `forward` and `back` (empty without back_share) must
  /// stay where they are until it is done, and not both be empty unless the rate is bounded.
  /// `weight` and `bytes` are positive, `bound` is the most it can use, in bytes per second.
  FlowId add(std::span<const LinkId> forward, std::span<const LinkId> back, double weight,
             double bytes, double bound = unbounded);

  /// A shared link gets another capacity, 0 or more; takes effect with settle(). Flows over a link
  /// without capacity stand still: their time of finish is Time::max().
  void set_capacity(LinkId link, double capacity);

  /// Solves for all that has changed since the last call, at `now`.
  void settle(Time now);
  bool is_settled() const { return joined_.empty() && left_.empty() && touched_.empty(); }

  /// Calls visit(link, bytes per second on it, flows over it there and back) for the shared links that the last settle() looked
  /// at; the others carry what they did before.
  template <class Visit>
  void for_each_changed_link(Visit visit) const {
    for (const LinkId link : open_links_) {
      if (link >= shared_links_) continue;
      visit(link, link_[link].capacity - link_[link].remaining, link_[link].members.size());
    }
  }

  /// Time at which the next flow is done, as of the last settle(); Time::max() if no flow is known
  /// to end within the clock.
  Time next_finish() const { return finishes_.empty() ? Time::max() : finishes_.top_time(); }

  /// Takes the flows that are done by `now` out, in order of finish, then of FlowId, and appends
  /// them to `done`. Their ids are used again after the next settle().
  void take_finished(Time now, std::vector<FlowId>& done);

  /// In bytes per second, as of the last settle().
  double rate(FlowId flow) const { return flow_[flow].level * flow_[flow].weight; }
  /// Bytes that a flow has still to carry at `now`, no earlier than the last settle().
  double remaining(FlowId flow, Time now) const;
  /// Those that have joined and are not done, also if they stand still.
  std::size_t flows() const { return flow_.size() - free_.size() - left_.size(); }
  /// The largest difference so far between a capacity and the load by which its link held flows back, or which
  /// exceeded it, as a share of the capacity: at most the accuracy, or the rounding of sums.
  double deviation() const { return deviation_; }
  /// Flow-link pairs looked at so far: the work done, whatever the machine.
  std::int64_t work() const { return work_; }

  /// Aborts if an invariant does not hold (see the top); for tests. Looks at every link.
  void check() const;

 private:
  // Half a cache line: whoever looks at the members of a link needs all of it, and nothing else.
  struct alignas(32) Flow {
    double level = 0;   // 0 while it is free, and until it is first solved for
    double weight = 0;  // 0: no such flow
    const LinkId* forward = nullptr;
    LinkId bottleneck = 0;  // the link that filled at its level
    std::uint32_t forward_links : 29 = 0;
    std::uint32_t is_bounded : 1 = 0;
    // While solving.
    std::uint32_t is_released : 1 = 0;  // filled again; the others are held
    std::uint32_t is_free : 1 = 0;      // released and not fixed yet
  };
  static_assert(sizeof(Flow) == 32);
  /// What a flow has still to carry.
  struct Rest {
    double bytes = 0;  // at `updated`
    Time updated{};
  };
  /// A flow on a link, there or back. Four bytes, as messages cross many links.
  struct Member {
    std::uint32_t flow : 31;
    std::uint32_t is_back : 1;
  };
  /// What a link's running sums still have: they are summed up afresh; changed a little; most of them went away at once.
  enum class Digits : std::uint8_t { all, most, few };
  struct Link {
    double capacity = 0;
    std::vector<Member> members;  // in order of joining
    bool is_touched = false;      // somebody left, or it got another capacity; until settled
    // While solving, of a link that is looked at.
    bool is_open = false;
    bool is_stale = false;  // and summed up anew in this round
    Digits digits = Digits::all;
    std::uint32_t free_members = 0;
    double remaining = 0;          // capacity that free flows may still take in all
    double free_share = 0;         // sum of their shares
    double filled_at = unbounded;  // level; infinite if it did not fill
    double highest_held = 0;       // level of the held flows; the lowest of those whose bottleneck
    double lowest_caught = 0;      // this link is
    double highest_released = 0;   // level
  };
  template <class Visit>
  void for_each_link(FlowId flow, Visit visit) const;
  /// A flow carries share * level on a link.
  double share_of(bool is_back, const Flow& flow) const {
    return is_back ? back_share_ * flow.weight : flow.weight;
  }
  std::span<const LinkId> back(FlowId flow) const {
    return back_.empty() ? std::span<const LinkId>() : back_[flow];
  }
  LinkId own_link(FlowId flow) const { return static_cast<LinkId>(shared_links_ + flow); }
  void touch(LinkId link);
  void open(LinkId link);
  void release(FlowId flow);
  double release_wronged(bool all);
  double find_wronged(LinkId link, bool all);
  double fair_level(LinkId link) const;
  void note_deviation();
  void sum_up(LinkId link);
  std::size_t free_from(double level);
  void look_ahead(std::size_t at) const;
  void fill(double from);
  void fix(FlowId flow, double level);
  void reschedule(Time now);

  std::size_t shared_links_;
  double back_share_;
  double leeway_;  // share of its capacity by which the load of a full link may differ from it
  double deviation_ = 0;

  std::vector<Link>
      link_;  // after the shared ones one per flow id, that holds a bounded flow to its bound
  std::vector<Flow> flow_;
  std::vector<Rest> rest_;                     // (flows)
  std::vector<std::span<const LinkId>> back_;  // (flows), with back_share
  std::vector<LinkId> touched_;
  std::vector<FlowId> free_;
  std::vector<FlowId> joined_;
  std::vector<FlowId> left_;
  FinishHeap finishes_;

  // While solving.
  std::vector<LinkId> open_links_;
  std::vector<LinkId> stale_links_;  // of these, in this round
  std::vector<FlowId> open_flows_;
  std::vector<double> old_level_;  // (open flows)
  std::vector<FlowId> wronged_;
  LinkHeap candidates_;
  mutable std::int64_t work_ = 0;
};

}  // namespace starling::network_models
