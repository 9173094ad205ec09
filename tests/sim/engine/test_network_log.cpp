// What a network model's log makes of the rates that it is told.

#include <string>

#include <doctest/doctest.h>

#include "sim/engine/network_log.hpp"

namespace starling::test_network_log {

TEST_CASE("the log counts rates that links had for a time, not those between two of an instant") {
  TimelineEnd timeline(Time::max());
  NetworkLog log(timeline);
  log.describe({1e9, 1e9}, [](std::uint32_t link) { return "link " + std::to_string(link); });
  const auto at = [](std::int64_t ps) { return Time{Duration{ps}}; };
  log.set_load(0, 5e8, 1, at(0));
  log.set_load(0, 1e9, 3, at(1'000));
  log.set_load(1, 1e9, 1, at(1'000));
  log.set_load(0, 2e8, 1, at(1'000));
  log.set_load(1, 0, 0, at(1'000));
  log.set_load(0, 7e8, 1, at(3'000));
  Recorder recorder;
  log.report(recorder);
  CHECK(recorder.links == std::vector<LinkTotals>{{"link 0", 1e9, 5e8, Duration{3'000}, 0, 3}});
  CHECK(recorder.link_timeline ==
        std::vector<LinkSegment>{{0, 5e8, at(0), at(1'000)}, {0, 2e8, at(1'000), at(3'000)}});
  // The last stretch is open: it counts as far as it is known.
  log.set_load(1, 1e8, 1, at(4'000));
  log.report(recorder);
  CHECK(recorder.links == std::vector<LinkTotals>{{"link 0", 1e9, 7e8, Duration{4'000}, 0, 3}});
  // A later report of the same run replaces the one before.
  CHECK(recorder.link_timeline == std::vector<LinkSegment>{{0, 5e8, at(0), at(1'000)},
                                                           {0, 2e8, at(1'000), at(3'000)},
                                                           {0, 7e8, at(3'000), at(4'000)}});
}

TEST_CASE("the timeline of a run that was ended early has the stretches that are open") {
  const auto at = [](std::int64_t ps) { return Time{Duration{ps}}; };
  TimelineEnd timeline(at(3'500));
  NetworkLog log(timeline);
  log.describe({1e9, 1e9}, [](std::uint32_t link) { return "link " + std::to_string(link); });
  log.set_load(1, 1e8, 1, at(500));
  log.set_load(0, 5e8, 1, at(1'000));
  log.set_load(0, 7e8, 1, at(3'000));
  Recorder recorder;
  log.report(recorder);  // as results are saved while the run goes on
  CHECK(recorder.link_timeline ==
        std::vector<LinkSegment>{{0, 5e8, at(1'000), at(3'000)}, {1, 1e8, at(500), at(3'000)}});
  log.set_load(0, 8e8, 1, at(4'000));
  log.report(recorder);
  CHECK(recorder.link_timeline == std::vector<LinkSegment>{{0, 5e8, at(1'000), at(3'000)},
                                                           {0, 7e8, at(3'000), at(3'500)},
                                                           {1, 1e8, at(500), at(3'500)}});
}

TEST_CASE(
    "timelines of nodes and links end together when both have as many stretches as are kept") {
  const auto at = [](std::int64_t ps) { return Time{Duration{ps}}; };
  Recorder recorder(2, RowSchedule(1, 1), RowSchedule(1, 1), Time::max());
  recorder.timeline_end() = TimelineEnd(Time::max(), 3);
  NetworkLog log(recorder.timeline_end());
  log.describe({1e9, 1e9}, [](std::uint32_t link) { return "link " + std::to_string(link); });
  recorder.spend(0, Activity::compute, at(0), at(1'000));
  log.set_load(0, 5e8, 1, at(1'000));
  log.set_load(1, 5e8, 1, at(1'000));
  recorder.spend(0, Activity::wait, at(1'000), at(2'000));
  CHECK(!recorder.timeline_end().is_full());
  log.set_load(0, 0, 0, at(4'000));  // the third stretch
  CHECK(recorder.timeline_end().is_full());
  CHECK(recorder.timeline_until() == at(4'000));
  // What goes on then is kept up to there, what begins later is not.
  log.set_load(1, 0, 0, at(5'000));
  log.set_load(1, 1e8, 1, at(6'000));
  recorder.spend(1, Activity::compute, at(0), at(7'000));
  recorder.spend(0, Activity::compute, at(4'000), at(8'000));
  log.set_load(1, 0, 0, at(9'000));
  log.report(recorder);
  CHECK(recorder.link_timeline ==
        std::vector<LinkSegment>{{0, 5e8, at(1'000), at(4'000)}, {1, 5e8, at(1'000), at(4'000)}});
  CHECK(recorder.timeline == std::vector<Segment>{{0, Activity::compute, at(0), at(1'000)},
                                                  {0, Activity::wait, at(1'000), at(2'000)},
                                                  {1, Activity::compute, at(0), at(4'000)}});
  CHECK(recorder.nodes[0].compute == Duration{5'000});
}

}  // namespace starling::test_network_log
