#include "sim/engine/failures.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/random.hpp"

namespace starling {
namespace {

/// `time` + `mean` * `factor`, at most `never`.
Time later(Time time, Duration mean, double factor) {
  const double span = static_cast<double>(mean.count()) * factor;
  const double room = static_cast<double>((never - time).count());
  return span < room ? time + Duration(static_cast<std::int64_t>(span)) : never;
}

/// First of disjoint, sorted outages that ends after `time`.
std::optional<Outage> first_after(const std::vector<Outage>& outages, Time time) {
  const auto found = std::ranges::upper_bound(outages, time, {}, &Outage::end);
  return found == outages.end() ? std::nullopt : std::optional(*found);
}

/// Appends to sorted outages; one that touches or overlaps the last becomes part of it.
void append(std::vector<Outage>& outages, const Outage& outage) {
  if (outage.begin >= outage.end) return;
  if (!outages.empty() && outage.begin <= outages.back().end) {
    outages.back().end = std::max(outages.back().end, outage.end);
  } else {
    outages.push_back(outage);
  }
}

}  // namespace

Failures::Failures(FailureSettings settings, NodeId nodes, std::uint64_t seed)
    : settings_(std::move(settings)), seed_(seed), agendas_(static_cast<std::size_t>(nodes)) {
  std::ranges::stable_sort(settings_.outages, {}, &Outage::begin);
  for (const Outage& outage : settings_.outages) {
    append(agendas_[static_cast<std::size_t>(outage.node)].scheduled, outage);
  }
}

void Failures::extend(NodeId node, Agenda& agenda, Time time) {
  std::vector<Outage>& outages = agenda.random;
  while (outages.empty() || outages.back().end <= time) {
    const Time up = outages.empty() ? Time{} : outages.back().end;
    Random random(seed_, "failures", node, std::ssize(outages));
    const Time begin = later(up, settings_.mean_time_between_failures, random.exponential());
    const bool is_repaired = settings_.mean_time_to_repair > Duration::zero();
    const Time end =
        is_repaired ? later(begin, settings_.mean_time_to_repair, random.exponential()) : never;
    outages.push_back({node, begin, std::max(end, begin + Duration(begin < never ? 1 : 0))});
  }
}

std::optional<Outage> Failures::next(NodeId node, Time time) {
  Agenda& agenda = agendas_[static_cast<std::size_t>(node)];
  std::optional<Outage> first = first_after(agenda.scheduled, time);
  const bool fails =
      settings_.mean_time_between_failures > Duration::zero() && node >= settings_.reliable_nodes;
  if (!fails || time == never) return first;
  extend(node, agenda, time);
  const std::optional<Outage> random = first_after(agenda.random, time);
  if (random && (!first || random->begin < first->begin)) first = random;
  return first;
}

std::optional<Time> Failures::away_until(NodeId node, Time time) {
  Time end = time;
  for (auto outage = next(node, end); outage && outage->begin <= end; outage = next(node, end))
    end = outage->end;
  return end > time ? std::optional(end) : std::nullopt;
}

std::optional<Time> Failures::stopped(NodeId node, Time time) {
  if (away_until(node, time) != never) return std::nullopt;
  // Some outage that covers `time` has no end, or leads on to one that has none.
  for (Time from{};;) {
    const std::optional<Outage> outage = next(node, from);
    if (!outage) return std::nullopt;  // not reached
    const Time begin = std::max(outage->begin, from);
    const Time end = *away_until(node, begin);
    if (end == never) return begin;
    from = end;
  }
}

Time Failures::finish(NodeId node, Time begin, Duration work) {
  for (Time at = begin;;) {
    const Time up = away_until(node, at).value_or(at);
    if (up == never) return at;
    const std::optional<Outage> outage = next(node, up);
    if (!outage || outage->begin - up >= work) return after(up, work);
    work -= outage->begin - up;
    at = outage->begin;
  }
}

std::pair<Time, Time> Failures::presence(NodeId node, Time begin, Time end) {
  const Time up = away_until(node, begin).value_or(begin);
  if (up >= end) return {end, end};
  const std::optional<Outage> outage = next(node, up);
  return {up, outage ? std::min(outage->begin, end) : end};
}

Duration Failures::absence(NodeId node, Time end) {
  Duration away{};
  for (Time at{}; at < end;) {
    const auto [from, to] = presence(node, at, end);
    away += from - at;
    at = to;
  }
  return away;
}

std::int64_t Failures::scheduled_from(Time time) const {
  return std::ranges::count_if(settings_.outages,
                               [&](const Outage& outage) { return outage.begin >= time; });
}

Failures::Fate Failures::next_message(NodeId source) {
  if (settings_.lose + settings_.duplicate == 0) return Fate::delivered;
  std::uint64_t& messages = agendas_[static_cast<std::size_t>(source)].messages;
  const double u = Random(seed_, "message fate", source, static_cast<Step>(messages++)).uniform();
  if (u < settings_.lose) return Fate::lost;
  return u < settings_.lose + settings_.duplicate ? Fate::duplicated : Fate::delivered;
}

}  // namespace starling
