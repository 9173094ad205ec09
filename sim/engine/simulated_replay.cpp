// What a replay changes in the simulated transport: the events of a node happen in the order of the real run.

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/engine/simulated_transport.hpp"

namespace starling {

void SimulatedTransport::follow(std::uint64_t payload) {
  const std::optional<NodeId> node = node_of(payload);
  if (!node) return happen(payload);
  const Act act = act_of(payload);
  if (!settings_.replay->is_next(*node, act)) return settings_.replay->hold(*node, act, payload);
  happen(payload);
  while (const std::optional<std::uint64_t> held = settings_.replay->release(*node)) happen(*held);
  is_cut_ = settings_.replay->is_at_cut();
}

Act SimulatedTransport::act_of(std::uint64_t payload) const {
  switch (kind_of(payload)) {
    case Kind::resume:
      return Act::resume(fibre_of(payload).number);
    case Kind::deadline:
      return Act::deadline(timers_[payload >> kind_bits]->fibre->number);
    default: {
      const Message& message = in_flight_[place_of(payload)].message;
      return Act::delivery(message.source, message.tag);
    }
  }
}

void SimulatedTransport::check_followed() const {
  const std::string mismatch = settings_.replay->describe_mismatch();
  if (mismatch.empty()) return;
  throw Stalled(fmt::format("the run does not follow the recorded one at {:.6g} s: {}",
                            to_seconds(now_), mismatch));
}

void SimulatedTransport::withdraw_deadline(const ReceiveWait& wait) {
  const Act act = Act::deadline(wait.fibre->number);
  const std::optional<std::uint64_t> held = settings_.replay->withdraw(wait.fibre->node, act);
  if (held) happen(*held);  // it is nobody's any more
}

}  // namespace starling
