// The loop of the simulated transport: takes events from the calendar and lets them happen. While one happens, the
// memory of those that follow is on its way: an event names what it will touch, those places name others.

#include <algorithm>
#include <utility>

#include "sim/base/frame_pool.hpp"
#include "sim/engine/simulated_transport.hpp"

namespace starling {
namespace {

constexpr std::int64_t events_per_pulse = 256;

// How many events ahead each step towards what an event uses is taken: a miss takes about as long as two events.
constexpr std::size_t stride = 3;
// What fewer nodes use stays in the second-level cache, from which two events ahead are enough: nodes that compute, and those
// of which only the times are asked.
constexpr NodeId fewest_to_look_far = 1000;
constexpr NodeId fewest_of_times = 3000;
// Of a coroutine's frame, whose size nobody tells; D-PSGD's takes 672 bytes.
constexpr std::size_t most_frame_bytes = 11 * cache_line;

void fetch_frame(const Fibre& fibre) {
  prefetch_early(fibre.handle.address(), std::min(most_frame_bytes, FramePool::largest_taken()));
}

}  // namespace

void SimulatedTransport::run() {
  is_running_ = true;
  looks_far_ =
      settings_.nodes >= (graph_.facts().has_numbers ? fewest_to_look_far : fewest_of_times);
  const std::size_t first = fibres_.size();  // these begin now; those that they spawn have events
  for (std::size_t i = 0; i < first; ++i) dispatch(going_on(fibres_[i]));
  if (settings_.replay != nullptr) is_cut_ = settings_.replay->is_at_cut();  // before any act
  while (!calendar_.empty() && !is_cut_) {
    const Event event = calendar_.pop();
    if (event.time > settings_.until) [[unlikely]] {
      if (cut()) break;
    }
    if (looks_far_) {
      look_far();
    } else {
      look_near();
    }
    now_ = event.time;
    newest_ = no_message;
    if (kind_of(event.payload) == Kind::delivery) {
      dispatch_deliveries(event.payload);
    } else {
      dispatch(event.payload);
    }
  }
  is_running_ = false;
  if (is_cut_) return;
  if (settings_.replay != nullptr) check_followed();
  if (active() > 0) end_run();
}

/// `until` has come. Whether that ends the run.
bool SimulatedTransport::cut() {
  now_ = std::exchange(settings_.until, Time::max());
  note_stops();
  is_cut_ = !settings_.is_done || !settings_.is_done();
  return is_cut_;
}

inline void SimulatedTransport::look_near() const {
  const Event* event = calendar_.ahead(2);
  if (event == nullptr) return;
  if (kind_of(event->payload) == Kind::resume) {
    prefetch(&fibre_of(event->payload));
  } else if (kind_of(event->payload) == Kind::delivery) {
    prefetch(mailbox_.waiting(destination_of(event->payload)));
  }
  --event;
  if (kind_of(event->payload) == Kind::resume) {
    prefetch(fibre_of(event->payload).handle.address());
  }
}

void SimulatedTransport::fetch_records(NodeId node) const {
  if (!in_flight_.empty()) network_records_.prefetch_early(node);
  for (const NodeRecords& records : records_) records.prefetch_early(node);
}

// A block for each step towards what an event uses, from the farthest event to the nearest: what one block fetches, a later one
// reads, so they stay together. A delivery that nobody waits for is only put into the mailbox.
void SimulatedTransport::look_far() const {
  // Where none was ever sent, nobody uses mailboxes and ports.
  const bool has_messages = !in_flight_.empty();
  if (const Event* event = calendar_.ahead(4 * stride)) {
    const std::uint64_t payload = event->payload;
    if (kind_of(payload) == Kind::delivery) {
      prefetch_early(&in_flight_[place_of(payload)], sizeof(InFlight));
      // What is sent next takes its place.
      prefetch_early(network_.transfer_record(place_of(payload)));
      prefetch_early(mailbox_.place(destination_of(payload)));
    } else if (kind_of(payload) == Kind::resume) {
      prefetch_early(&fibre_of(payload));
    }
  }
  if (const Event* event = calendar_.ahead(3 * stride)) {
    const std::uint64_t payload = event->payload;
    if (kind_of(payload) == Kind::delivery) {
      const InFlight& flight = in_flight_[place_of(payload)];
      if (flight.next != no_message) prefetch_early(&in_flight_[flight.next], sizeof(InFlight));
      const ReceiveWait* wait = mailbox_.waiting(destination_of(payload));
      if (wait != nullptr) {
        prefetch_early(wait, sizeof(ReceiveWait));
        fetch_records(destination_of(payload));
        // Many messages are answered.
        network_records_.prefetch_early(flight.message.source);
      } else {
        prefetch_early(mailbox_.newest(destination_of(payload)));
      }
    } else if (kind_of(payload) == Kind::resume) {
      const NodeId node = fibre_of(payload).node;
      if (has_messages) prefetch_early(mailbox_.place(node));
      fetch_records(node);
    }
  }
  if (const Event* event = calendar_.ahead(2 * stride)) {
    const std::uint64_t payload = event->payload;
    if (kind_of(payload) == Kind::delivery) {
      const InFlight& flight = in_flight_[place_of(payload)];
      const ReceiveWait* wait = mailbox_.waiting(destination_of(payload));
      if (wait != nullptr) {
        prefetch_early(wait->fibre);
        if (flight.message.values) graph_.fetch_ahead(flight.message.values);
      }
      if (flight.next != no_message)
        prefetch_early(mailbox_.place(in_flight_[flight.next].destination));
    } else if (kind_of(payload) == Kind::resume) {
      const Fibre& fibre = fibre_of(payload);
      const Message* message = has_messages ? mailbox_.arrived(fibre.node, 0) : nullptr;
      if (message != nullptr) prefetch_early(message, Mailbox::bytes_per_message);
      fetch_frame(fibre);
      if (!models_.empty()) graph_.fetch_ahead(models_[static_cast<std::size_t>(fibre.node)]);
    }
  }
  if (!has_messages) return;
  if (const Event* event = calendar_.ahead(stride)) {
    const std::uint64_t payload = event->payload;
    if (kind_of(payload) == Kind::delivery) {
      const ReceiveWait* wait = mailbox_.waiting(destination_of(payload));
      if (wait != nullptr) fetch_frame(*wait->fibre);
    } else if (kind_of(payload) == Kind::resume) {
      const NodeId node = fibre_of(payload).node;
      if (const Message* message = mailbox_.arrived(node, 0)) graph_.fetch_ahead(message->values);
      if (const Message* message = mailbox_.arrived(node, 1))
        prefetch_early(message, Mailbox::bytes_per_message);
    }
  }
  if (const Event* event = calendar_.ahead(1)) {
    const std::uint64_t payload = event->payload;
    if (kind_of(payload) == Kind::resume) {
      const Message* message = mailbox_.arrived(fibre_of(payload).node, 1);
      if (message != nullptr) graph_.fetch_ahead(message->values);
    }
  }
}

void SimulatedTransport::dispatch_deliveries(std::uint64_t payload) {
  for (;;) {
    InFlight& flight = in_flight_[place_of(payload)];
    const std::uint32_t next = std::exchange(flight.next, no_message);
    if (flight.due == now_) {
      dispatch(payload);
    } else if (flight.due == opposite(now_)) {
      flight.due = opposite(Time{});  // settled for this instant after all, it needs another event
    }
    if (next == no_message) return;
    payload = delivery_of(in_flight_[next].destination, next);
  }
}

void SimulatedTransport::dispatch(std::uint64_t payload) {
  if (settings_.replay != nullptr) {
    follow(payload);
  } else if (settings_.failures == nullptr || !is_held_back(payload)) {
    happen(payload);
  }
  if (++events_ % events_per_pulse == 0 && settings_.pulse) settings_.pulse();
}

void SimulatedTransport::happen(std::uint64_t payload) {
  switch (kind_of(payload)) {
    case Kind::resume:
      resume(fibre_of(payload));
      break;
    case Kind::delivery:
      pass_on(place_of(payload));
      break;
    case Kind::network_timer:
      network_.on_timer(payload >> kind_bits, *this);
      break;
    case Kind::deadline:
      pass(static_cast<std::uint32_t>(payload >> kind_bits));
      break;
    case Kind::back:
      come_back(static_cast<NodeId>(payload >> kind_bits));
      break;
    case Kind::leave:
      let_leave();
      break;
  }
}

void SimulatedTransport::schedule(Time time, std::uint64_t payload) {
  newest_ = no_message;
  calendar_.push(time, payload);
}

void SimulatedTransport::schedule(Time time, Kind kind, std::uint64_t what) {
  schedule(time, payload_of(kind, what));
}

void SimulatedTransport::wake(Fibre& fibre, Time time) {
  schedule(std::max(time, now_), going_on(fibre));
}

void SimulatedTransport::start(Fibre& fibre) {
  if (is_running_) wake(fibre, now_);  // else it begins with the run and needs no event
}

}  // namespace starling
