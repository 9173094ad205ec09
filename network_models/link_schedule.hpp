// Links that slow down, go away and come back: on a schedule from a file, or at random.
//
//   time, link, factor
//   2 s, host 3 *, 0          at 2 s both links of host 3 go away
//   5 s, host 3 *, 1          and come back
//   8 s, edge 1 -> *, 0.5     the links up from edge switch 1 carry half of their bandwidth
//
// At random each of the failing links works for a time with mean `failure_interval` and is away for
// one with mean `repair_time`, both exponential, each from its own stream (seed, link, how often). A link
// that is away has factor 0, whatever the schedule says.
#pragma once

#include <functional>
#include <queue>
#include <vector>

#include "network_models/links.hpp"
#include "sim/base/section.hpp"

namespace starling::network_models {

/// From `time` on a link carries `factor` of its bandwidth.
struct LinkChange {
  Time time;
  LinkId link;
  double factor;
};

/// Exponential times of working and of being away.
struct RandomFailures {
  Duration interval{};  // 0: none
  Duration repair{};
  std::vector<LinkId> links;
  std::uint64_t seed = 0;
};

// Only links that somebody uses are followed turn by turn, since few of a large fabric carry something at a time; what another
// one did meanwhile is made up for, draw by draw from its own stream, when it is used again. The timeline is that of
// following all.
class LinkSchedule {
 public:
  /// Nothing happens.
  LinkSchedule() = default;
  /// `changes` in order of time.
  LinkSchedule(std::vector<LinkChange> changes, RandomFailures failures, std::size_t links);

  /// Whether anything happens.
  bool is_there() const { return !changes_.empty() || is_random(); }
  /// No link ever carries more than so many times its bandwidth.
  double largest_factor() const { return largest_factor_; }
  /// Whether links fail at random, so that one must be told which are used.
  bool is_random() const { return failures_.interval > Duration{0}; }
  /// When the next change comes to a link that is used, or by the file; Time::max() if none does.
  Time next() const;
  /// Appends these changes until `now`, a link once even if it changed often, in order of its first change; and forgets them.
  void take(Time now, std::vector<LinkChange>& changes);
  /// Somebody uses the link from `now` on. Appends the factor that it has now if that may be another one than was told.
  void use(LinkId link, Time now, std::vector<LinkChange>& changes);
  /// As many uses end as began.
  void leave(LinkId link) { --links_[link].uses; }
  /// Whether the file has nothing more to say, and whether its last word on a link was that it is away.
  bool is_read() const { return next_change_ == changes_.size(); }
  bool is_gone(LinkId link) const { return links_[link].rows == 0 && links_[link].scheduled == 0; }
  /// When a link got the factor that it has.
  Time since(LinkId link) const { return links_[link].since; }

 private:
  struct Turn {  // of a failing link that is used: it goes away or comes back
    Time time;
    LinkId link;
    friend auto operator<=>(const Turn&, const Turn&) = default;
  };
  struct State {           // of a link
    double scheduled = 1;  // factor of the file
    double factor = 1;     // in effect
    Time since{};
    Step turn = -1;  // the next one: it goes away (0, 2, ..) or comes back
    Time turns_at{};
    std::uint32_t uses = 0;
    bool fails = false;
    bool is_away = false;      // at random
    bool is_followed = false;  // in turns_
    bool is_taken = false;     // while taking
    std::size_t rows = 0;      // of the file that are still to come
  };
  void plan(LinkId link, Step turn, Time from);
  void advance(LinkId link, Time until);
  void change(LinkId link, Time time);
  void note(LinkId link, Time time, std::vector<LinkChange>& changes);

  std::vector<LinkChange> changes_;
  double largest_factor_ = 1;
  std::size_t next_change_ = 0;
  RandomFailures failures_;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns_;
  std::vector<State> links_;
};

/// Reads link_schedule, failure_interval, repair_time and failing_links. What it returns makes the
/// schedule of a fabric, after section.finish().
std::function<LinkSchedule(const Fabric&)> read_schedule(const Section& section,
                                                         std::uint64_t seed);

}  // namespace starling::network_models
