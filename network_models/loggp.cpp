// LogGP: every node has one processor for messages (cpu) and one port per direction (tx, rx); the
// fabric between is ideal. For a message of k bytes, k' = max(k - 1, 0):
//
//   send at t     cpu = t + o + k' O               tx = t + g + k' G    first byte: t + o + L
//   arrival at t  cpu = t + o + max(k' O, k' G)    rx = t + g + k' G    delivered: the new cpu
//
// so an undisturbed message takes L + 2 o + k' G (where O <= G). A send waits until cpu and tx are
// free, an arrival until cpu and rx are; whoever waits longest goes first among those that can.
// Both queues are first come, first served, hence so is each pair of nodes. Computing gradients
// does not occupy this cpu. A node with a slowdown pays o, g, O and G times that, at its own end.
//
// Rules of LogGOPSim (Hoefler, Schneider, Lumsdaine, "LogGOPSim: simulating large-scale
// applications in the LogGOPS model", HPDC 2010), which extends Alexandrov et al., "LogGP", SPAA
// 1995. Its S, the size from which a send is done only when matched, is left out: here a send
// never blocks.

#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "network_models/byte_cost.hpp"
#include "network_models/overrides.hpp"
#include "network_models/registry.hpp"

namespace starling::network_models {
namespace {

struct Costs {
  Duration latency;          // L
  Duration overhead;         // o
  Duration gap;              // g
  double overhead_per_byte;  // O, ps
  double gap_per_byte;       // G, ps
};

class LogGP final : public NetworkModel {
 public:
  /// `slowdown`: by node, empty if there are none.
  LogGP(const Costs& costs, NodeId nodes, std::vector<double> slowdown)
      : costs_(costs), slowdown_(std::move(slowdown)), ports_(static_cast<std::size_t>(nodes)) {}

  void start(const Transfer& transfer, NetworkClock& clock) override {
    const std::uint32_t index = allocate();
    const std::int64_t rest = std::max<std::int64_t>(transfer.bytes - 1, 0);
    messages_[index] = {.rest = rest,
                        .joined = 0,
                        .id = transfer.id,
                        .source = transfer.source,
                        .destination = transfer.destination,
                        .next = none};
    Ports& ports = ports_of(transfer.source);
    if (ports.is_idle() && std::max(ports.cpu, ports.tx) <= clock.now()) {
      send(ports, index, clock);
    } else {
      join(ports.sends, index);
      serve(transfer.source, clock);
    }
  }

  void on_timer(std::uint64_t cookie, NetworkClock& clock) override {
    if (cookie % 2 == wake_up) {
      serve(static_cast<NodeId>(cookie / 2), clock);
      return;
    }
    const auto index = static_cast<std::uint32_t>(cookie / 2);
    const NodeId node = messages_[index].destination;
    Ports& ports = ports_of(node);
    if (ports.is_idle() && std::max(ports.cpu, ports.rx) <= clock.now()) {
      receive(ports, index, clock);
    } else {
      join(ports.arrivals, index);
      serve(node, clock);
    }
  }

  LinkCost link_cost() const override {
    return {2 * costs_.overhead + costs_.latency, 1e-12 * costs_.gap_per_byte};
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint64_t first_byte = 0;  // cookie = 2 * index of the message
  static constexpr std::uint64_t wake_up = 1;     // cookie = 2 * node + 1

  struct Message {
    std::int64_t rest;  // k'
    std::uint64_t joined;
    std::uint32_t id;
    NodeId source;
    NodeId destination;
    std::uint32_t next;  // behind it in its queue, or next free record
  };

  struct Queue {
    std::uint32_t first = none;
    std::uint32_t last = none;
  };

  struct alignas(64) Ports {  // a cache line: nodes are met in any order
    Time cpu{};               // each is free from that time on
    Time tx{};
    Time rx{};
    Time wake{};  // a wake-up is set for then, if that is still to come
    Queue sends;
    Queue arrivals;

    bool is_idle() const { return sends.first == none && arrivals.first == none; }
  };

  Ports& ports_of(NodeId node) { return ports_[static_cast<std::size_t>(node)]; }

  /// What a message costs one of its ends.
  struct EndCost {
    Duration overhead;        // o
    Duration gap;             // g
    Duration bytes_overhead;  // k' O
    Duration bytes_gap;       // k' G
  };
  EndCost cost_at(NodeId node, std::int64_t rest) const {
    const double factor = slowdown_.empty() ? 1 : slowdown_[static_cast<std::size_t>(node)];
    if (factor == 1) [[likely]]
      return {costs_.overhead, costs_.gap, byte_cost(rest, costs_.overhead_per_byte),
              byte_cost(rest, costs_.gap_per_byte)};
    return {byte_cost(costs_.overhead.count(), factor), byte_cost(costs_.gap.count(), factor),
            byte_cost(rest, factor * costs_.overhead_per_byte),
            byte_cost(rest, factor * costs_.gap_per_byte)};
  }

  void send(Ports& ports, std::uint32_t index, NetworkClock& clock) {
    const EndCost cost = cost_at(messages_[index].source, messages_[index].rest);
    const Time sent = after(clock.now(), cost.overhead);
    ports.cpu = after(sent, cost.bytes_overhead);
    ports.tx = after(after(clock.now(), cost.gap), cost.bytes_gap);
    clock.set_timer(after(sent, costs_.latency), 2 * std::uint64_t{index} + first_byte);
  }

  void receive(Ports& ports, std::uint32_t index, NetworkClock& clock) {
    const Message& message = messages_[index];
    const EndCost cost = cost_at(message.destination, message.rest);
    ports.cpu =
        after(after(clock.now(), cost.overhead), std::max(cost.bytes_overhead, cost.bytes_gap));
    ports.rx = after(after(clock.now(), cost.gap), cost.bytes_gap);
    const std::uint32_t id = message.id;
    release(index);
    clock.deliver(ports.cpu, id);
  }

  void join(Queue& queue, std::uint32_t index) {
    messages_[index].joined = next_joined_++;
    messages_[index].next = none;
    (queue.first == none ? queue.first : messages_[queue.last].next) = index;
    queue.last = index;
  }

  std::uint32_t take_first(Queue& queue) {
    const std::uint32_t index = queue.first;
    queue.first = messages_[index].next;
    return index;
  }

  // Does what can be done at this node now, and sets a wake-up for what must wait.
  void serve(NodeId node, NetworkClock& clock) {
    Ports& ports = ports_of(node);
    const Time now = clock.now();
    while (true) {
      constexpr Time never = Time::max();
      const Time can_send = ports.sends.first == none ? never : std::max(ports.cpu, ports.tx);
      const Time can_receive = ports.arrivals.first == none ? never : std::max(ports.cpu, ports.rx);
      const Time ready = std::min(can_send, can_receive);
      if (ready > now) {
        if (ready != never && !(now < ports.wake && ports.wake <= ready)) {
          ports.wake = ready;
          clock.set_timer(ready, 2 * static_cast<std::uint64_t>(node) + wake_up);
        }
        return;
      }
      const bool sends_first =
          can_receive > now || (can_send <= now && messages_[ports.sends.first].joined <
                                                       messages_[ports.arrivals.first].joined);
      if (sends_first) {
        send(ports, take_first(ports.sends), clock);
      } else {
        receive(ports, take_first(ports.arrivals), clock);
      }
    }
  }

  std::uint32_t allocate() {
    if (free_ == none) {
      messages_.emplace_back();
      return static_cast<std::uint32_t>(messages_.size() - 1);
    }
    const std::uint32_t index = free_;
    free_ = messages_[index].next;
    return index;
  }

  void release(std::uint32_t index) {
    messages_[index].next = free_;
    free_ = index;
  }

  Costs costs_;
  std::vector<double> slowdown_;   // (nodes), of o, g, O and G; or empty
  std::vector<Ports> ports_;       // (nodes)
  std::vector<Message> messages_;  // on their way or waiting; the rest is a list of free records
  std::uint32_t free_ = none;
  std::uint64_t next_joined_ = 0;
};

struct Preset {
  std::string_view name;
  std::string_view latency, overhead, gap, bandwidth, overhead_per_byte;
};

// Only slingshot's numbers were read in a file of others. The rest are recalled, not measured: set
// to published latencies (half a round trip = L + 2 o) and bandwidths of MPI on such networks.
// Calibrate before trusting them.
constexpr Preset presets[] = {
    // Cray Aries: 1.3 us MPI ping, about 10 GB/s per node; Cray XC series network, WP-Aries01-1112.
    // From memory.
    {"aries", "0.9 us", "0.2 us", "0.3 us", "10 GB/s", "0 s"},
    // InfiniBand EDR, 100 Gbit/s: OSU latency 1.0 - 1.1 us, 12.2 GB/s. From memory.
    {"edr", "0.8 us", "0.15 us", "0.1 us", "12.2 GB/s", "0 s"},
    // InfiniBand HDR, 200 Gbit/s: OSU latency 1.0 us, 24.5 GB/s. From memory.
    {"hdr", "0.7 us", "0.15 us", "0.1 us", "24.5 GB/s", "0 s"},
    // HPE Slingshot of CSCS Alps with NCCL: scripts/configs/lgs_ai_config.yaml of ATLAHS.
    {"slingshot", "3.7 us", "0.2 us", "5 ns", "25 GB/s", "0 s"},
    // 10 Gbit/s Ethernet with TCP. From memory.
    {"10gbe", "15 us", "5 us", "5 us", "1.18 GB/s", "0.2 ns"},
    // A 1 Gbit/s path between cities, 50 ms one way (20 to 100 ms are usual). From memory.
    {"wan", "50 ms", "10 us", "10 us", "117.6 MB/s", "0.2 ns"},
};

double parse_slowdown(const std::string& text) {
  double factor = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error != std::errc() || rest != text.data() + text.size() || !(factor > 0 && factor <= 1e6)) {
    throw std::invalid_argument("must be factors above 0 and up to 1e6, got \"" + text + "\"");
  }
  return factor;
}

}  // namespace

std::unique_ptr<NetworkModel> loggp(const Section& section, NodeId nodes, std::uint64_t) {
  std::vector<std::string> names = {"none"};
  for (const Preset& preset : presets) names.emplace_back(preset.name);
  const std::string name = section.choice(
      "preset", names, "none", "a machine whose numbers are the defaults of the keys below");
  const auto preset = std::ranges::find(presets, name, &Preset::name);
  const bool has_preset = preset != std::end(presets);

  const auto duration = [&](std::string_view key, std::string_view Preset::*field,
                            std::string_view help) {
    return has_preset ? section.optional<Duration>(key, parse_duration((*preset).*field), help)
                      : section.required<Duration>(key, help);
  };
  constexpr std::string_view bandwidth_help = "1 / G: of a port, sending or receiving";
  Costs costs{};
  costs.latency = duration("latency", &Preset::latency, "L: the way of a byte through the network");
  costs.overhead =
      duration("overhead", &Preset::overhead, "o: processor time per message, at each end");
  costs.gap =
      section.optional<Duration>("gap", has_preset ? parse_duration(preset->gap) : Duration{0},
                                 "g: shortest time between messages of one port");
  const auto bandwidth = has_preset
                             ? section.optional<Bandwidth>(
                                   "bandwidth", parse_bandwidth(preset->bandwidth), bandwidth_help)
                             : section.required<Bandwidth>("bandwidth", bandwidth_help);
  const auto overhead_per_byte = section.optional<Duration>(
      "overhead_per_byte", has_preset ? parse_duration(preset->overhead_per_byte) : Duration{0},
      "O: processor time per byte, at each end");
  costs.gap_per_byte = 1e12 / bandwidth.bytes_per_second;
  costs.overhead_per_byte = static_cast<double>(overhead_per_byte.count());
  const auto slow = read_ranges(
      section, "slowdowns", nodes, parse_slowdown,
      "of single nodes: their overheads and gaps times so much, such as 3: 2, 8-11: 1.5");
  section.finish();
  std::vector<double> slowdown(slow.empty() ? 0 : static_cast<std::size_t>(nodes), 1.0);
  for (const auto& [first, last, factor] : slow) {
    std::fill(slowdown.begin() + first, slowdown.begin() + last + 1, factor);
  }
  return std::make_unique<LogGP>(costs, nodes, std::move(slowdown));
}

}  // namespace starling::network_models
