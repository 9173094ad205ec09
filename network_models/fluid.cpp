// The events of a fluid network, and its maker.
//
//   start --latency--> join --+                          +--> deliver, in order of each pair
//                             +--> settle --> finish ----+
//                                    ^          |
//                                    +----------+
//
// All that joins or finishes at one instant is settled together, by a timer at that same instant
// which comes after the events already there. Only one finish is armed at a time, and only an
// earlier one is armed anew; a timer that comes too early just arms the next.

#include "network_models/fluid.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "network_models/clock_range.hpp"
#include "network_models/fabrics.hpp"
#include "network_models/presets.hpp"
#include "network_models/registry.hpp"
#include "sim/base/error.hpp"

namespace starling::network_models {
namespace {

std::vector<double> capacities(std::span<const Link> links, double factor) {
  std::vector<double> result;
  for (const Link& link : links) result.push_back(factor * link.bytes_per_second);
  return result;
}

}  // namespace

Fluid::Fluid(Fabric fabric, NodeId nodes, const FlowRules& rules, FluidSettings settings)
    : rules_(rules),
      settings_(std::move(settings)),
      routes_(std::move(fabric)),
      sharing_(capacities(routes_.links(), rules.bandwidth_factor.common), rules.back_share,
               settings_.accuracy),
      has_terms_(rules.back_share > 0 || rules.window > 0 || rules.is_weighted),
      terms_(1) {
  if (!has_terms_) terms_[0].weight = 1;
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  const NodeId samples = std::min<NodeId>(nodes - 1, 16);
  double latency = 0;
  for (NodeId i = 0; i < samples; ++i) {
    const auto other = static_cast<NodeId>(1 + std::int64_t{i} * (nodes - 1) / samples);
    const std::uint32_t number = find_pair(0, other);
    latency += static_cast<double>(latency_of(number, largest).count()) / samples;
    // A collective waits for the slowest.
    cost_.seconds_per_byte = std::max(
        cost_.seconds_per_byte, 1 / (rules.bandwidth_factor.of(largest) * rate_alone(number)));
  }
  cost_.latency = Duration{std::llround(latency)};
}

/// Of a flow that is alone, whose acknowledgements load links, too.
double Fluid::rate_alone(std::uint32_t route) const {
  const Terms& terms = terms_of(route);
  const double factor = rules_.bandwidth_factor.common;
  double rate = std::min(terms.bound, factor * routes_.bytes_per_second(route));
  if (terms.back.empty()) return rate;
  std::map<LinkId, double> load;  // of one byte per second
  for (const LinkId link : links_of(route)) load[link] += 1;
  for (const LinkId link : terms.back) load[link] += rules_.back_share;
  for (const auto& [link, each] : load) {
    rate = std::min(rate, factor * routes_.links()[link].bytes_per_second / each);
  }
  return rate;
}

std::uint32_t Fluid::find_pair(NodeId source, NodeId destination) {
  const std::uint32_t number = routes_.find(source, destination);
  if (number >= pairs_.size()) [[unlikely]]
    pairs_.resize(number + 1);
  if (has_terms_) agree_terms(source, destination, number);
  return number;
}

// The first time. Routes of the way back have numbers, too.
void Fluid::agree_terms(NodeId source, NodeId destination, std::uint32_t number) {
  if (number < terms_.size() && terms_[number].weight > 0) [[likely]]
    return;
  Terms terms;
  if (rules_.back_share > 0) terms.back = links_of(routes_.find(destination, source));
  const double latency = to_seconds(routes_.latency(number));
  if (rules_.window > 0 && latency > 0) {
    const double bound = rules_.window / (2 * latency);
    const double fastest = settings_.schedule.largest_factor() * routes_.bytes_per_second(number);
    if (bound < fastest) terms.bound = rules_.bandwidth_factor.common * bound;
  }
  terms.weight = 1;
  if (rules_.is_weighted) {
    double cost = latency;
    for (const LinkId link : links_of(number)) {
      cost += rules_.weight_bytes / routes_.links()[link].bytes_per_second;
    }
    // SimGrid gives all flows without latency weight 1, far less than those with the least of it; here they keep it only if
    // weight_bytes cost nothing either.
    if (cost > 0) terms.weight = 1 / cost;
  }
  if (number >= terms_.size()) terms_.resize(number + 1);
  terms_[number] = terms;
}

Duration Fluid::latency_of(std::uint32_t route, std::int64_t bytes) const {
  const SizeFactor& factor = rules_.latency_factor;
  Duration latency = routes_.latency(route);
  if (factor.common != 1) latency = scaled(latency, factor.common);
  if (!factor.steps.empty()) latency = scaled(latency, factor.of(bytes));
  return sum(rules_.message_latency, latency);
}

void Fluid::watch(NetworkLog& log) {
  log_ = &log;
  std::vector<double> bandwidths;
  for (const Link& link : routes_.links()) bandwidths.push_back(link.bytes_per_second);
  log.describe(
      std::move(bandwidths), [this](LinkId link) { return routes_.name(link); },
      [this](Time now, std::span<std::int64_t> bytes) { add_under_way(now, bytes); });
  if (settings_.accuracy == 0) return;
  log.statistics["network.accuracy"] = settings_.accuracy;
  deviation_ = &log.statistics["network.deviation"];
}

void Fluid::add_under_way(Time now, std::span<std::int64_t> bytes) const {
  for (FlowId flow = 0; flow < message_of_.size(); ++flow) {
    if (message_of_[flow] == none) continue;
    const Message& message = messages_[message_of_[flow]];
    const double rest = sharing_.remaining(flow, now) * rules_.bandwidth_factor.of(message.bytes);
    const std::int64_t carried = message.bytes - std::llround(rest);
    for (const LinkId link : links_of(message.route)) bytes[link] += carried;
  }
}

void Fluid::start(const Transfer& transfer, NetworkClock& clock) {
  ++under_way_;
  keep_schedule(clock);
  const std::uint32_t number = find_pair(transfer.source, transfer.destination);
  const std::uint32_t index = transfer.id;
  if (index >= messages_.size()) messages_.resize(index + 1);
  messages_[index] = {.bytes = transfer.bytes,
                      .stream = transfer.stream,
                      .sequence = next_sequence_++,
                      .is_in_turn = transfer.is_in_turn,
                      .is_ready = false,
                      .is_through = false,
                      .route = number,
                      .next = none,
                      .follower = none};
  Pair& pair = pairs_[number];
  const std::uint32_t before = transfer.is_in_turn ? none : last_of(pair, transfer.stream);
  (pair.first == none ? pair.first : messages_[pair.last].next) = index;
  pair.last = index;
  if (before != none) {
    messages_[before].follower = index;
  } else if (is_turn_of(index)) {
    set_off(index, clock);
  }
}

/// The last message of a pair's stream that is not delivered yet, or none. Others may have come in between.
std::uint32_t Fluid::last_of(const Pair& pair, std::uint64_t stream) const {
  if (stream == 0 || pair.first == none) return none;
  const auto is_of_it = [&](std::uint32_t index) {
    return messages_[index].stream == stream && !messages_[index].is_in_turn;
  };
  if (is_of_it(pair.last)) return pair.last;
  std::uint32_t last = none;
  for (std::uint32_t index = pair.first; index != pair.last; index = messages_[index].next) {
    if (is_of_it(index)) last = index;
  }
  return last;
}

/// Whether a message may set off as far as its source's stream goes; else it follows the last one of that.
bool Fluid::is_turn_of(std::uint32_t index) {
  const Message& message = messages_[index];
  if (!message.is_in_turn) return true;
  const auto source = static_cast<std::size_t>(routes_.source(message.route));
  if (in_turn_.size() <= source) in_turn_.resize(source + 1);
  const auto stream = std::ranges::find(in_turn_[source], message.stream, &Stream::name);
  if (stream == in_turn_[source].end()) {
    in_turn_[source].push_back({message.stream, index});
    return true;
  }
  messages_[std::exchange(stream->last, index)].follower = index;
  return false;
}

/// A message has arrived: the next one of its stream sets off.
void Fluid::pass_turn(const Message& message, NetworkClock& clock) {
  if (message.follower != none) return set_off(message.follower, clock);
  if (!message.is_in_turn) return;
  auto& streams = in_turn_[static_cast<std::size_t>(routes_.source(message.route))];
  streams.erase(std::ranges::find(streams, message.stream, &Stream::name));
  if (settings_.collectives_block) clock.end_turns(routes_.source(message.route), message.stream);
}

bool Fluid::is_sending(NodeId source, std::uint64_t stream) const {
  const auto node = static_cast<std::size_t>(source);
  return settings_.collectives_block && node < in_turn_.size() &&
         std::ranges::find(in_turn_[node], stream, &Stream::name) != in_turn_[node].end();
}

void Fluid::set_off(std::uint32_t index, NetworkClock& clock) {
  const Duration latency = latency_of(messages_[index].route, messages_[index].bytes);
  if (latency == Duration{0}) {
    join(index, clock);
  } else {
    clock.set_timer(after(clock.now(), latency), 4 * std::uint64_t{index} + join_timer);
  }
}

void Fluid::on_timer(std::uint64_t cookie, NetworkClock& clock) {
  switch (cookie % 4) {
    case join_timer:
      join(static_cast<std::uint32_t>(cookie / 4), clock);
      break;
    case settle_timer:
      settle(clock);
      break;
    case schedule_timer:
      if (clock.now() == schedule_at_) schedule_at_ = Time::max();
      keep_schedule(clock);
      break;
    default:
      if (clock.now() == armed_) armed_ = Time::max();
      finish(clock);
  }
}

void Fluid::join(std::uint32_t index, NetworkClock& clock) {
  Message& message = messages_[index];
  if (!settings_.is_concurrent && pairs_[message.route].first != index) {
    message.is_ready = true;  // arrive() of the one before it lets it in
  } else if (message.bytes == 0) {
    arrive(index, clock);
  } else {
    open_flow(index, clock);
  }
}

void Fluid::open_flow(std::uint32_t index, NetworkClock& clock) {
  // While all flows were stuck nobody looked at the links that fail at random.
  if (settings_.schedule.is_random() && settings_.schedule.next() < clock.now())
    keep_schedule(clock);
  const Message& message = messages_[index];
  const Terms& terms = terms_of(message.route);
  // What a factor by size takes away is carried, too.
  const double bytes =
      static_cast<double>(message.bytes) / rules_.bandwidth_factor.of(message.bytes);
  const FlowId flow =
      sharing_.add(links_of(message.route), terms.back, terms.weight, bytes, terms.bound);
  if (flow >= message_of_.size()) message_of_.resize(flow + 1, none);
  message_of_[flow] = index;
  if (settings_.schedule.is_random()) use_links(message.route, clock);
  settle_at_end_of_instant(clock);
}

void Fluid::finish(NetworkClock& clock) {
  done_.clear();
  sharing_.take_finished(clock.now(), done_);
  if (done_.empty()) {
    // A timer of a finish that was put off since. What changes now will be armed when settled.
    if (sharing_.is_settled()) arm(clock);
    return;
  }
  for (std::uint32_t& each : done_) {
    each = std::exchange(message_of_[each], none);
    const Message& message = messages_[each];
    if (settings_.schedule.is_random()) leave_links(message.route);
    if (log_ == nullptr) continue;
    for (const LinkId link : links_of(message.route)) log_->carry(link, message.bytes);
  }
  std::ranges::sort(done_, {}, [&](std::uint32_t i) { return messages_[i].sequence; });
  for (const std::uint32_t index : done_) arrive(index, clock);
  settle_at_end_of_instant(clock);
}

// A message does not overtake an earlier one of its pair: it arrives with it, right behind. The
// next one may have waited for this.
void Fluid::arrive(std::uint32_t index, NetworkClock& clock) {
  messages_[index].is_through = true;
  const std::uint32_t route = messages_[index].route;
  while (pairs_[route].first != none) {
    const std::uint32_t first = pairs_[route].first;
    Message& message = messages_[first];
    if (message.is_ready && message.bytes == 0) message.is_through = true;
    if (!message.is_through) {
      const bool is_its_turn = message.is_ready != 0;
      message.is_ready = false;
      if (is_its_turn) open_flow(first, clock);
      return;
    }
    pairs_[route].first = message.next;
    clock.deliver(clock.now(), first);
    pass_turn(message, clock);
    --under_way_;
  }
}

void Fluid::settle_at_end_of_instant(NetworkClock& clock) {
  if (will_settle_) return;
  will_settle_ = true;
  clock.set_timer(clock.now(), settle_timer);
}

void Fluid::settle(NetworkClock& clock) {
  const Time now = clock.now();
  will_settle_ = false;
  sharing_.settle(now);
  if (settings_.is_checked) sharing_.check();
  if (log_ != nullptr) {
    sharing_.for_each_changed_link([&](LinkId link, double rate, std::size_t flows) {
      log_->set_load(link, rate, flows, now);
    });
  }
  if (deviation_ != nullptr) *deviation_ = sharing_.deviation();
  arm(clock);
}

// What happened to the links of a new flow while nobody used them.
void Fluid::use_links(std::uint32_t route, NetworkClock& clock) {
  changes_.clear();
  for (const std::span<const LinkId> links : {links_of(route), terms_of(route).back}) {
    for (const LinkId link : links) settings_.schedule.use(link, clock.now(), changes_);
  }
  apply_changes();
  stuck_ += is_stuck(route) ? 1 : 0;
  wake_for_schedule(clock);
}

/// Whether what a pair sends can never arrive.
bool Fluid::is_stuck(std::uint32_t route) const {
  const auto is_gone = [&](LinkId link) { return settings_.schedule.is_gone(link); };
  return std::ranges::any_of(links_of(route), is_gone) ||
         std::ranges::any_of(terms_of(route).back, is_gone);
}

void Fluid::leave_links(std::uint32_t route) {
  // (a link may go away for good at the very instant at which a flow over it is through)
  if (settings_.schedule.is_read() && is_stuck(route)) --stuck_;
  for (const std::span<const LinkId> links : {links_of(route), terms_of(route).back}) {
    for (const LinkId link : links) settings_.schedule.leave(link);
  }
}

void Fluid::apply_changes() {
  for (const auto& [first, link, factor] : changes_) {
    const double usual = rules_.bandwidth_factor.common * routes_.links()[link].bytes_per_second;
    sharing_.set_capacity(link, factor * usual);
    if (factor == 0) {
      away_[link] = settings_.schedule.since(link);
    } else {
      away_.erase(link);
    }
  }
}

// Does what the schedule says until now.
void Fluid::keep_schedule(NetworkClock& clock) {
  const Time now = clock.now();
  if (settings_.schedule.next() <= now) {
    const bool was_read = settings_.schedule.is_read();
    changes_.clear();
    settings_.schedule.take(now, changes_);
    apply_changes();
    if (settings_.schedule.is_random() && !was_read) {
      stuck_ =
          static_cast<std::size_t>(std::ranges::count_if(message_of_, [&](std::uint32_t index) {
            return index != none && is_stuck(messages_[index].route);
          }));
    }
    if (!sharing_.is_settled()) settle_at_end_of_instant(clock);
  }
  wake_for_schedule(clock);
}

// Wakes up for the next change of the schedule as long as there is somebody whom it could matter to: nothing else would
// ever end a run. Links that fail at random do not matter to those who wait for one that is away for good.
void Fluid::wake_for_schedule(NetworkClock& clock) {
  const Time next = settings_.schedule.next();
  if (under_way_ == 0 || next >= schedule_at_) return;
  if (stuck_ > 0 && stuck_ == sharing_.flows() && settings_.schedule.is_read()) return;
  schedule_at_ = next;
  clock.set_timer(next, schedule_timer);
}

std::string Fluid::standstill() const {
  if (under_way_ == 0 || away_.empty()) return {};
  constexpr std::size_t most = 4;
  std::string text = fmt::format(
      "{} for links that are away: ",
      under_way_ == 1 ? "1 message waits" : fmt::format("{} messages wait", under_way_));
  std::size_t named = 0;
  for (const auto& [link, since] : away_) {
    if (++named > most) break;
    text += fmt::format("{}{} (since {:.6g} s)", named > 1 ? ", " : "", routes_.name(link),
                        to_seconds(since));
  }
  if (away_.size() > most) text += fmt::format(" and {} more", away_.size() - most);
  return text;
}

void Fluid::arm(NetworkClock& clock) {
  if (sharing_.flows() == 0) return;
  const Time next = sharing_.next_finish();
  if (next == Time::max()) {
    // The schedule may bring back links that are away or next to it: it wakes up for what the file still says.
    if (!away_.empty() || !settings_.schedule.is_read()) return;
    throw Error("a transfer takes longer than the clock holds (106 days)");
  }
  if (next >= armed_) return;
  armed_ = next;
  clock.set_timer(next, finish_timer);
}

std::unique_ptr<NetworkModel> make_fluid(const Section& section, NodeId nodes,
                                         const std::function<Fabric()>& build,
                                         const FlowRules& rules, std::uint64_t seed) {
  const auto read_changes = read_schedule(section, seed);
  FluidSettings settings;
  settings.accuracy =
      section.optional<double>("accuracy", 0,
                               "share of a link's bandwidth by which the messages on it may "
                               "leave it free or exceed it; rates are always exactly fair for "
                               "bandwidths so little off");
  section.expect_range("accuracy", settings.accuracy, 0, 0.1);
  settings.is_concurrent = section.optional<bool>(
      "concurrent", true,
      "whether messages of a pair of nodes share the way at once, as in SimGrid, or follow each "
      "other as in one connection: then the one that is waited for is not slowed by those of "
      "nodes ahead; those of a collective always follow, each sent when the one before has "
      "arrived");
  settings.collectives_block = section.optional<bool>(
      "blocking_collectives", true,
      "whether a node leaves a collective when all it has sent there has arrived, as with MPI and "
      "NCCL, or as soon as it has the result, as Starling's own processes do over MPI");
  settings.is_checked = section.optional<bool>(
      "check", false, "verify at each change that links are shared fairly; slow");
  section.finish();
  Fabric fabric = build();
  settings.schedule = read_changes(fabric);
  return std::make_unique<Fluid>(std::move(fabric), nodes, rules, std::move(settings));
}

std::unique_ptr<NetworkModel> fluid(const Section& section, NodeId nodes, std::uint64_t seed) {
  const auto preset = read_preset(section, preset_names());
  const auto build = read_fabric(section, nodes, seed, preset);
  FlowRules rules;
  rules.message_latency = section.optional<Duration>(
      "message_latency", preset ? preset->beside_links() : Duration{0},
      "of a message, beside its links': what software and network cards take");
  expect_latency(section, "message_latency", rules.message_latency);
  return make_fluid(section, nodes, build, rules, seed);
}

}  // namespace starling::network_models
