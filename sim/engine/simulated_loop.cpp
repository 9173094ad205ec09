// The loop of the simulated transport: takes events from the calendar and lets them happen. While one happens, the
// memory of those that follow is on its way: an event names what it will touch, those places name others.

#include <algorithm>

#include "sim/engine/simulated_transport.hpp"

namespace starling {
namespace {

constexpr std::int64_t events_per_pulse = 256;

// How many events ahead the first, second and third step towards what an event uses are taken: a miss takes about as
// long as two events.
constexpr std::size_t far = 9;
constexpr std::size_t halfway = 6;
constexpr std::size_t near = 3;
// What fewer nodes use stays in the first level of cache: looking ahead would cost 120 instructions per message and
// gain nothing.
constexpr NodeId fewest_to_look_ahead = 200;
// Of a coroutine's frame, whose size nobody tells.
constexpr std::size_t frame_bytes = 4 * cache_line;

}  // namespace

void SimulatedTransport::run() {
  is_running_ = true;
  for (Fibre* fibre : std::exchange(first_, {})) {
    dispatch(reinterpret_cast<std::uint64_t>(fibre) | static_cast<std::uint64_t>(Kind::start));
  }
  const bool looks_ahead = settings_.nodes >= fewest_to_look_ahead;
  while (!calendar_.empty()) {
    const Event event = calendar_.pop();
    if (looks_ahead) look_ahead();
    now_ = event.time;
    const bool was_put_off =
        kind_of(event.payload) == Kind::delivery && in_flight_[place_of(event.payload)].due != now_;
    if (!was_put_off) dispatch(event.payload);
  }
  is_running_ = false;
  if (settings_.replay != nullptr) check_followed();
  if (active() > 0) end_run();
}

void SimulatedTransport::look_ahead() const {
  asm volatile("");  // GCC 12 drops calls of functions that do nothing but prefetch
  if (const Event* event = calendar_.ahead(far)) {
    const std::uint64_t payload = event->payload;
    switch (kind_of(payload)) {
      case Kind::delivery: {
        const NodeId node = destination_of(payload);
        prefetch(&in_flight_[place_of(payload)], sizeof(InFlight));
        prefetch(mailbox_.place(node));
        for (const NodeRecords& records : records_) records.prefetch(node);
        break;
      }
      case Kind::resume:
      case Kind::start:
        prefetch(pointer_of<void>(payload));
        break;
      default:
        break;
    }
  }
  if (const Event* event = calendar_.ahead(halfway)) {
    const std::uint64_t payload = event->payload;
    if (kind_of(payload) == Kind::delivery) {
      prefetch(mailbox_.waiting(destination_of(payload)), sizeof(ReceiveWait));
      // Many messages are answered.
      records_.front().prefetch(in_flight_[place_of(payload)].message.source);
    } else if (kind_of(payload) == Kind::resume) {
      const auto* wait = pointer_of<Suspension>(payload);
      prefetch(wait->fibre);
      prefetch(wait->handle.address(), frame_bytes);
    } else if (kind_of(payload) == Kind::start) {
      prefetch(pointer_of<Fibre>(payload)->task.handle().address(), frame_bytes);
    }
  }
  if (const Event* event = calendar_.ahead(near)) {
    const std::uint64_t payload = event->payload;
    if (kind_of(payload) == Kind::delivery) {
      const ReceiveWait* wait = mailbox_.waiting(destination_of(payload));
      if (wait == nullptr) return;
      prefetch(wait->fibre);
      prefetch(wait->handle.address(), frame_bytes);
    } else if (kind_of(payload) == Kind::resume) {
      const NodeId node = pointer_of<Suspension>(payload)->fibre->node;
      for (const NodeRecords& records : records_) records.prefetch(node);
    }
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
      resume(*pointer_of<Suspension>(payload));
      break;
    case Kind::start:
      begin(*pointer_of<Fibre>(payload));
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
  }
}

void SimulatedTransport::schedule(Time time, Kind kind, std::uint64_t what) {
  calendar_.push(time, what << kind_bits | static_cast<std::uint64_t>(kind));
}

void SimulatedTransport::schedule(Time time, Kind kind, const void* what) {
  // Its address has room for the kind.
  calendar_.push(time, reinterpret_cast<std::uint64_t>(what) | static_cast<std::uint64_t>(kind));
}

void SimulatedTransport::wake(Suspension& wait, Time time) {
  static_assert(alignof(Suspension) >= (1U << kind_bits));
  schedule(std::max(time, now_), Kind::resume, &wait);
}

void SimulatedTransport::start(Fibre& fibre) {
  static_assert(alignof(Fibre) >= (1U << kind_bits));
  if (is_running_) return schedule(now_, Kind::start, &fibre);
  first_.push_back(&fibre);  // no need of an event
}

}  // namespace starling
