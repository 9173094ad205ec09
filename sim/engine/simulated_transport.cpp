#include "sim/engine/simulated_transport.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/engine/collective_cost.hpp"

namespace starling {
namespace {

std::uint64_t stream_of(Tag tag) { return 1 + std::uint64_t{tag}; }
Tag tag_of(std::uint64_t stream) { return static_cast<Tag>(stream - 1); }

/// What the network is told of a message, but for its place.
Transfer transfer_of(const Message& message, NodeId destination) {
  return {.id = 0,
          .source = message.source,
          .destination = destination,
          .bytes = message.bytes,
          .stream = message.is_on_host ? stream_of(message.tag) : 0,
          .is_in_turn = message.is_in_turn};
}

template <class T>
std::uint32_t take_slot(std::vector<T>& items, std::vector<std::uint32_t>& free) {
  if (free.empty()) {
    items.emplace_back();
    return static_cast<std::uint32_t>(items.size() - 1);
  }
  const std::uint32_t slot = free.back();
  free.pop_back();
  return slot;
}

}  // namespace

SimulatedTransport::SimulatedTransport(Settings settings, NetworkModel& network,
                                       ComputeGraph& graph, GradientDuration duration)
    : Transport(settings.nodes, false),
      settings_(std::move(settings)),
      network_(network),
      graph_(graph),
      duration_(std::move(duration)) {
  host_ = settings_.host;
  if (settings_.eager_limit != Rendezvous::no_limit) {
    rendezvous_ = std::make_unique<Rendezvous>(settings_.nodes, settings_.eager_limit);
  }
  network_records_ = network_.node_records();
  ensure(settings_.nodes <= most_nodes, "an event has room for the number of a node");
}

void SimulatedTransport::set_timer(Time time, std::uint64_t cookie) {
  ensure(cookie >> (64 - kind_bits) == 0, "an event has room for the cookie of a network model");
  schedule(time, Kind::network_timer, cookie);
}

void SimulatedTransport::deliver(Time time, std::uint32_t id) {
  InFlight& flight = in_flight_[id];
  const bool is_first = flight.due == Time::min();
  const bool has_event = flight.due == opposite(time);
  flight.due = time;
  if (has_event) return;  // put off, then settled for the same time after all
  // What is sent at once often arrives at once: nothing can come in between, and one event will do. But only of what one node
  // sends where the loop looks far ahead, which is worth more.
  if (is_first && newest_ != no_message && in_flight_[newest_].due == time &&
      (!looks_far_ || in_flight_[newest_].message.source == flight.message.source)) {
    in_flight_[newest_].next = id;
  } else {
    schedule(time, delivery_of(flight.destination, id));
  }
  newest_ = is_first ? id : no_message;
}

void SimulatedTransport::put_off(std::uint32_t id) {
  in_flight_[id].due = opposite(in_flight_[id].due);
}

std::uint32_t SimulatedTransport::take_off(NodeId to, Message&& message) {
  const std::uint32_t id = take_slot(in_flight_, free_in_flight_);
  InFlight& flight = in_flight_[id];
  flight.message = std::move(message);
  flight.due = Time::min();
  flight.destination = to;
  flight.next = no_message;
  flight.fate = Failures::Fate::delivered;
  flight.leg = Leg::network;
  flight.is_in_lane = false;
  return id;
}

void SimulatedTransport::send(NodeId to, Message&& message) {
  const NodeId source = message.source;
  Transfer transfer = transfer_of(message, to);  // while the message is at hand
  const std::uint32_t id = take_off(to, std::move(message));
  if (source == to) return deliver(now_, id);
  if (settings_.failures != nullptr) in_flight_[id].fate = settings_.failures->next_message(source);
  if (rendezvous_ != nullptr) [[unlikely]]
    rendezvous_->begin(id, in_flight_[id].message);
  if (host_ != nullptr && host_->is_staging() && enter_lane(id)) return;
  if (rendezvous_ != nullptr) [[unlikely]]
    return set_off(id);
  transfer.id = id;
  network_.start(transfer, *this);
}

void SimulatedTransport::set_off(std::uint32_t id) {
  if (rendezvous_ == nullptr) return enter_network(id);
  const InFlight& flight = in_flight_[id];
  const NodeId to = flight.destination;
  if (rendezvous_->may_start(id, to, flight.message, mailbox_.waiting(to)))
    leave(id, flight.message.network_since);
}

void SimulatedTransport::leave(std::uint32_t id, Time network_since) {
  rendezvous_->note_start(in_flight_[id].message, network_since);
  if (rendezvous_->add_startable(id)) schedule(now_, Kind::leave, 0);
}

void SimulatedTransport::let_leave() {
  for (const std::uint32_t id : rendezvous_->take_startable()) enter_network(id);
}

void SimulatedTransport::enter_network(std::uint32_t id) {
  const InFlight& flight = in_flight_[id];
  Transfer transfer = transfer_of(flight.message, flight.destination);
  transfer.id = id;
  network_.start(transfer, *this);
}

bool SimulatedTransport::is_sending(NodeId node, Tag tag) const {
  if (rendezvous_ != nullptr) return rendezvous_->is_sending(node, tag);
  return settings_.replay == nullptr && network_.is_sending(node, stream_of(tag));
}

void SimulatedTransport::finish_sends(TimedWait& wait, Tag tag) {
  const NodeId node = wait.fibre->node;
  if (rendezvous_ != nullptr) return rendezvous_->wait(node, tag, wait);
  const bool is_alone = turn_waits_.emplace(StreamName(node, tag), &wait).second;
  ensure(is_alone, "two fibres of a node wait until what it sent by one tag is through");
}

void SimulatedTransport::end_turns(NodeId source, std::uint64_t stream) {
  const auto wait = turn_waits_.find({source, tag_of(stream)});
  if (wait == turn_waits_.end()) return;
  wake(*wait->second->fibre, now_);
  turn_waits_.erase(wait);
}

void SimulatedTransport::post(NodeId node, Tag tag) {
  for (const std::uint32_t id : rendezvous_->post(node, tag)) leave(id, current()->network_since);
}

void SimulatedTransport::ask(NodeId node, const Pattern& pattern) {
  for (const std::uint32_t id : rendezvous_->on_poll(pattern, node))
    leave(id, current()->network_since);
}

SimulatedTransport::LaneName SimulatedTransport::lane_of(const InFlight& flight) {
  return {flight.message.source, flight.destination, flight.message.tag};
}

bool SimulatedTransport::enter_lane(std::uint32_t id) {
  InFlight& flight = in_flight_[id];
  const Message& message = flight.message;
  if (message.is_on_host) return false;
  const bool is_staged = static_cast<bool>(message.values);
  if (!is_staged && !lanes_.contains(lane_of(flight))) return false;
  Lane& lane = lanes_[lane_of(flight)];
  ++lane.messages;
  flight.is_in_lane = true;
  if (is_staged) lane.out = host_->copy_out(message.source, now_, message.bytes);
  if (lane.out < now_) return false;
  flight.leg = Leg::out;
  deliver(lane.out, id);
  return true;
}

void SimulatedTransport::leave_lane(const InFlight& flight) {
  if (!flight.is_in_lane) return;
  const auto lane = lanes_.find(lane_of(flight));
  if (--lane->second.messages == 0) lanes_.erase(lane);
}

void SimulatedTransport::pass_on(std::uint32_t id) {
  InFlight& flight = in_flight_[id];
  if (flight.leg == Leg::out) {
    flight.leg = Leg::network;
    return set_off(id);
  }
  if (rendezvous_ != nullptr && flight.leg == Leg::network &&
      flight.message.source != flight.destination) [[unlikely]] {
    if (TimedWait* wait = rendezvous_->end(flight.message)) wake(*wait->fibre, now_);
  }
  if (flight.fate == Failures::Fate::lost) return lose(id);  // on the network
  if (flight.leg == Leg::network && flight.is_in_lane) {
    Lane& lane = lanes_.at(lane_of(flight));
    if (flight.message.values)
      lane.in = host_->copy_in(flight.destination, now_, flight.message.bytes);
    if (lane.in >= now_) {
      flight.leg = Leg::in;
      return deliver(lane.in, id);
    }
  }
  arrive(id);
}

void SimulatedTransport::arrive(std::uint32_t id) {
  InFlight& flight = in_flight_[id];
  leave_lane(flight);
  // Its place may be used again as soon as the receiver has moved the message out; till then nobody sends.
  free_in_flight_.push_back(id);
  const NodeId to = flight.destination;
  if (flight.fate == Failures::Fate::delivered) return hand_over(to, flight.message);
  ++failed_.duplicated_messages;
  Message first = std::move(flight.message);
  Message twin = first;
  hand_over(to, first);
  hand_over(to, twin);
}

void SimulatedTransport::hand_over(NodeId to, Message& message) {
  ReceiveWait* wait = mailbox_.arrive(to, message);
  if (wait == nullptr) return;
  if (rendezvous_ != nullptr) [[unlikely]]
    rendezvous_->forget(*wait);
  if (wait->has_deadline()) {
    timers_[wait->timer] = nullptr;
    if (settings_.replay != nullptr) withdraw_deadline(*wait);
  }
  resume(*wait->fibre);
}

void SimulatedTransport::receive(ReceiveWait& wait) {
  const NodeId node = wait.fibre->node;
  mailbox_.enqueue(node, wait);
  if (rendezvous_ != nullptr) [[unlikely]] {
    for (const std::uint32_t id : rendezvous_->on_receive(wait, node))
      leave(id, wait.fibre->network_since);
  }
  if (!wait.has_deadline()) return;
  wait.timer = take_slot(timers_, free_timers_);
  timers_[wait.timer] = &wait;
  if (has_missed(wait)) return;
  schedule(std::max(wait.deadline, now_), Kind::deadline, wait.timer);
}

void SimulatedTransport::pass(std::uint32_t timer) {
  ReceiveWait* wait = timers_[timer];
  free_timers_.push_back(timer);
  if (wait == nullptr) return;
  mailbox_.withdraw(wait->fibre->node, *wait);
  if (rendezvous_ != nullptr) rendezvous_->forget(*wait);
  wait->matched = static_cast<std::uint32_t>(wait->patterns.size());
  wait->network_since = now_;
  resume(*wait->fibre);
}

void SimulatedTransport::compute(GradientWait& wait) {
  time(wait);
  wake(*wait.fibre, wait.backward_begin);
}

void SimulatedTransport::compute(GradientWait& wait, ReceiveWait& unless) {
  time(wait);
  unless.deadline = wait.backward_end;
  receive(unless);
}

void SimulatedTransport::time(GradientWait& wait) {
  const NodeId node = wait.fibre->node;
  const BatchName batch{wait.owner, wait.draw};
  Duration duration = duration_(node, wait.count, batch);
  if (settings_.per_episode) {
    wait.result = graph_.gradient(wait.owner, wait.draw, std::exchange(wait.x, {}));
    const Duration each = settings_.per_episode(node, wait.count, batch);
    const double seconds = to_seconds(each) * wait.result.episodes.value();
    duration = after(Time{duration}, from_seconds(seconds)).time_since_epoch();
  }
  wait.backward = Duration{0};
  if (wait.is_in_pieces && settings_.backward) {
    wait.backward = std::min(settings_.backward(node, wait.count, batch), duration);
  }
  wait.backward_begin = finish(node, now_, duration - wait.backward);
  wait.backward_end = finish(node, now_, duration);
}

Time SimulatedTransport::finish(NodeId node, Time begin, Duration work) {
  return settings_.failures == nullptr ? after(begin, work)
                                       : settings_.failures->finish(node, begin, work);
}

bool SimulatedTransport::meet(MeetWait& wait) {
  if (!settings_.closed_form_collectives) return false;
  has_used_closed_forms_ = true;
  // Groups that use one tag are told apart by their members, most by the first.
  const StreamName name{wait.members.front(), wait.tag};
  std::vector<Meeting>& rooms = meetings_[name];
  auto room = std::find_if(rooms.begin(), rooms.end(), [&](const Meeting& meeting) {
    const bool is_one_list = meeting.members.data() == wait.members.data() &&
                             meeting.members.size() == wait.members.size();
    return is_one_list || std::ranges::equal(meeting.members, wait.members);
  });
  if (room == rooms.end()) {
    rooms.push_back(
        {.waits = std::vector<MeetWait*>(wait.members.size()), .members = wait.members});
    room = rooms.end() - 1;
  }
  const auto place = std::lower_bound(wait.members.begin(), wait.members.end(), wait.fibre->node);
  const auto index = static_cast<std::size_t>(place - wait.members.begin());
  ensure(index < room->waits.size() && room->waits[index] == nullptr,
         "a node joins a collective twice, or is no member of it");
  room->waits[index] = &wait;
  if (++room->arrived < room->waits.size()) return true;
  end_meeting(wait.kind, *room, wait.fibre->network_since);
  rooms.erase(room);
  if (rooms.empty()) meetings_.erase(name);
  return true;
}

void SimulatedTransport::end_meeting(CollectiveKind kind, const Meeting& meeting,
                                     Time network_since) {
  const std::vector<MeetWait*>& waits = meeting.waits;
  std::int64_t bytes = 0;  // of the largest, where they may differ
  std::int64_t total = 0;
  for (const MeetWait* member : waits) {
    bytes = std::max(bytes, member->bytes_brought);
    total += member->bytes_brought;
  }
  auto met = std::make_shared<Met>();
  met->values.reserve(waits.size());
  for (MeetWait* member : waits) met->values.push_back(std::move(member->value));
  const double reduction = host_ == nullptr ? 0 : host_->reduction_seconds_per_byte();
  const Duration cost =
      collective_cost(kind, std::ssize(waits), bytes, network_.link_cost(), reduction);
  const Time end = after(now_, cost);
  for (std::size_t i = 0; i < waits.size(); ++i) {
    MeetWait* member = waits[i];
    const Traffic traffic =
        collective_traffic(kind, std::ssize(waits), static_cast<std::int64_t>(i), bytes);
    member->messages = traffic.messages;
    member->bytes = traffic.bytes;
    if (kind == CollectiveKind::allgather) {  // everything but what its right neighbor brought
      member->bytes = total - waits[(i + 1) % waits.size()]->bytes_brought;
    }
    member->met = met;
    member->network_since = network_since;
    wake(*member->fibre, end);
  }
}

bool SimulatedTransport::announce(NodeId source, Tag tag, double number) {
  if (!settings_.closed_form_collectives) return false;
  has_used_closed_forms_ = true;
  const auto [newest, is_first] = announced_.try_emplace(tag, number);
  if (!is_first && number <= newest->second) return true;
  newest->second = number;
  const Duration hop = network_.link_cost().latency;
  for (NodeId node = 0; node < settings_.nodes; ++node) {
    if (node == source) continue;
    Time arrival = now_;
    for (int hops = std::popcount(static_cast<std::uint32_t>(node ^ source)); hops > 0; --hops)
      arrival = after(arrival, hop);
    Message notice;
    notice.source = source;
    notice.tag = tag;
    notice.number = number;
    notice.network_since = current()->network_since;
    deliver(arrival, take_off(node, std::move(notice)));
  }
  return true;
}

}  // namespace starling
