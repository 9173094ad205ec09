#include "tests/support/difference_of.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <set>
#include <type_traits>

#include <fmt/core.h>

namespace starling::test {
namespace {

template <class Float>
bool is_same(Float a, Float b) {
  using Bits = std::conditional_t<sizeof(Float) == 8, std::uint64_t, std::uint32_t>;
  return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b) || (std::isnan(a) && std::isnan(b));
}

/// Compares two recorders part by part; the first difference found stays.
class Comparison {
 public:
  bool is_equal() const { return difference_.empty(); }
  const std::string& difference() const { return difference_; }

  void tables(std::string_view name, const Table& a, const Table& b) {
    value(fmt::format("{}, period of rows", name), a.schedule().every(), b.schedule().every());
    value(fmt::format("{}, steps", name), a.schedule().steps(), b.schedule().steps());
    value(fmt::format("{}, cells per row", name), a.width(), b.width());
    std::set<std::string> metrics;
    for (const std::string& metric : a.metrics()) metrics.insert(metric);
    for (const std::string& metric : b.metrics()) metrics.insert(metric);
    for (const std::string& metric : metrics) {
      value(fmt::format("{}/{}, rows", name, metric), a.rows(metric), b.rows(metric));
      for (std::size_t row = 0; is_equal() && row < a.rows(metric); ++row) {
        const std::span<const double> x = a.cells(metric, row);
        const std::span<const double> y = b.cells(metric, row);
        const auto [differs, other] = std::ranges::mismatch(x, y, is_same<double>);
        if (differs == x.end()) continue;
        const auto column = differs - x.begin();
        note(fmt::format("{}/{}, row {}, column {}", name, metric, row, column), *differs, *other);
      }
    }
  }

  template <class T>
  void value(const std::string& name, const T& a, const T& b) {
    if (a != b) note(name, a, b);
  }

  void facts(const Recorder& a, const Recorder& b) {
    for (const auto& [key, text] : a.facts) {
      const auto other = b.facts.find(key);
      if (other == b.facts.end()) return note("facts/" + key, text, "nothing");
      value("facts/" + key, text, other->second);
    }
    for (const auto& [key, text] : b.facts) {
      if (!a.facts.contains(key)) return note("facts/" + key, "nothing", text);
    }
  }

  void nodes(const std::vector<NodeTotals>& a, const std::vector<NodeTotals>& b) {
    value("number of nodes", a.size(), b.size());
    for (std::size_t i = 0; is_equal() && i < a.size(); ++i) {
      if (a[i] == b[i]) continue;
      const auto time = [i](const char* name) {
        return fmt::format("{} of node {} in ps", name, i);
      };
      value(time("compute"), a[i].compute.count(), b[i].compute.count());
      value(time("wait"), a[i].wait.count(), b[i].wait.count());
      value(time("communicate"), a[i].communicate.count(), b[i].communicate.count());
      value(time("finished"), a[i].finished.time_since_epoch().count(),
            b[i].finished.time_since_epoch().count());
      value(fmt::format("steps of node {}", i), a[i].steps, b[i].steps);
      value(fmt::format("messages_sent of node {}", i), a[i].messages_sent, b[i].messages_sent);
      value(fmt::format("bytes_sent of node {}", i), a[i].bytes_sent, b[i].bytes_sent);
    }
  }

  void timelines(const Recorder& a, const Recorder& b) {
    value("end of the timeline in ps", a.timeline_until().time_since_epoch().count(),
          b.timeline_until().time_since_epoch().count());
    value("segments in the timeline", a.timeline.size(), b.timeline.size());
    for (std::size_t i = 0; is_equal() && i < a.timeline.size(); ++i) {
      if (a.timeline[i] == b.timeline[i]) continue;
      note(fmt::format("timeline, segment {}", i), describe(a.timeline[i]),
           describe(b.timeline[i]));
    }
  }

  void links(const Recorder& a, const Recorder& b) {
    value("links used", a.links.size(), b.links.size());
    for (std::size_t i = 0; is_equal() && i < a.links.size(); ++i) {
      if (a.links[i] != b.links[i]) {
        note(fmt::format("links, row {}", i), describe(a.links[i]), describe(b.links[i]));
      }
    }
    value("segments in the timeline of links", a.link_timeline.size(), b.link_timeline.size());
    for (std::size_t i = 0; is_equal() && i < a.link_timeline.size(); ++i) {
      if (a.link_timeline[i] == b.link_timeline[i]) continue;
      note(fmt::format("timeline of links, segment {}", i), describe(a.link_timeline[i]),
           describe(b.link_timeline[i]));
    }
  }

  void acts(const std::vector<std::vector<Act>>& a, const std::vector<std::vector<Act>>& b) {
    value("nodes with acts", a.size(), b.size());
    for (std::size_t i = 0; is_equal() && i < a.size(); ++i) {
      value(fmt::format("acts of node {}", i), a[i].size(), b[i].size());
      if (!is_equal()) return;
      const auto [differs, other] = std::ranges::mismatch(a[i], b[i]);
      if (differs == a[i].end()) continue;
      note(fmt::format("act {} of node {}", differs - a[i].begin(), i), describe(*differs),
           describe(*other));
    }
  }

  void models(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
    value("number of models", a.size(), b.size());
    for (std::size_t i = 0; is_equal() && i < a.size(); ++i) {
      value(fmt::format("parameters of model {}", i), a[i].size(), b[i].size());
      if (!is_equal()) return;
      const auto [differs, other] = std::ranges::mismatch(a[i], b[i], is_same<float>);
      if (differs == a[i].end()) continue;
      note(fmt::format("model {}, parameter {}", i, differs - a[i].begin()), *differs, *other);
    }
  }

 private:
  template <class A, class B>
  void note(const std::string& name, const A& a, const B& b) {
    if (is_equal()) difference_ = fmt::format("{}: {} and {}", name, a, b);
  }

  static std::string describe(const Segment& segment) {
    return fmt::format("node {} {} from {} to {} ps", segment.node, to_text(segment.activity),
                       segment.begin.time_since_epoch().count(),
                       segment.end.time_since_epoch().count());
  }

  static std::string describe(const Act& act) {
    return fmt::format("({}, {}, {})", static_cast<int>(act.kind), act.who, act.what);
  }
  static std::string describe(const LinkTotals& link) {
    return fmt::format("{} of {} B/s, {} B in {} ps, at most {} B/s, {} messages", link.name,
                       link.bandwidth, link.bytes, link.busy.count(), link.peak_rate,
                       link.most_messages);
  }
  static std::string describe(const LinkSegment& segment) {
    return fmt::format("link {} with {} B/s from {} to {} ps", segment.link, segment.rate,
                       segment.begin.time_since_epoch().count(),
                       segment.end.time_since_epoch().count());
  }

  std::string difference_;
};

}  // namespace

std::string difference_of(const Recorder& a, const Recorder& b) {
  Comparison comparison;
  comparison.facts(a, b);
  comparison.nodes(a.nodes, b.nodes);
  comparison.tables("steps", a.steps, b.steps);
  comparison.tables("evaluation", a.evaluation, b.evaluation);
  comparison.tables("evaluation_by_time", a.evaluation_by_time, b.evaluation_by_time);
  comparison.timelines(a, b);
  comparison.links(a, b);
  comparison.acts(a.acts, b.acts);
  comparison.models(a.models, b.models);
  return comparison.difference();
}

}  // namespace starling::test
