// The constant network: every pair of nodes has a link of its own.
//
//   alone   = start + latency + bytes / bandwidth
//   arrival = max(alone, previous arrival of the same (source, destination))
//
// There is no contention: any number of messages travel side by side, also those of one pair. The
// maximum alone keeps a pair in order: a small message does not overtake a large one sent before
// it, it arrives at the same instant, right behind. Without `bandwidth` bytes cost nothing.

#include <cstddef>
#include <limits>
#include <vector>

#include "network_models/byte_cost.hpp"
#include "network_models/registry.hpp"

namespace starling::network_models {
namespace {

// Last arrival of every pair with something on its way: a hash table with linear probing. A pair
// whose last message has arrived constrains nothing, so such entries go whenever the table would
// grow; it stays small.
class LastArrivals {
 public:
  LastArrivals() : entries_(1024) {}

  /// The last arrival of the pair, to be overwritten; some time <= `now` if there is none.
  Time& of(NodeId source, NodeId destination, Time now) {
    const auto pair =
        static_cast<std::uint64_t>(source) << 32 | static_cast<std::uint32_t>(destination);
    Entry* entry = find(pair);
    if (entry->pair == pair) [[likely]]
      return entry->arrival;
    if (4 * (used_ + 1) > 3 * entries_.size()) {
      rebuild(now);
      entry = find(pair);
    }
    ++used_;
    *entry = {pair, now};
    return entry->arrival;
  }

 private:
  static constexpr std::uint64_t nobody = std::numeric_limits<std::uint64_t>::max();
  struct Entry {
    std::uint64_t pair = nobody;
    Time arrival{};
  };

  Entry* find(std::uint64_t pair) {
    const std::size_t mask = entries_.size() - 1;
    std::size_t i = static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15u) >> 32) & mask;
    while (entries_[i].pair != pair && entries_[i].pair != nobody) i = (i + 1) & mask;
    return &entries_[i];
  }

  void rebuild(Time now) {
    std::vector<Entry> live;
    for (const Entry& entry : entries_) {
      if (entry.pair != nobody && entry.arrival > now) live.push_back(entry);
    }
    std::size_t size = entries_.size();
    while (size < 4 * (live.size() + 1)) size *= 2;
    entries_.assign(size, Entry{});
    for (const Entry& entry : live) *find(entry.pair) = entry;
    used_ = live.size();
  }

  std::vector<Entry> entries_;  // a power of two of them, at most three quarters used
  std::size_t used_ = 0;
};

class Constant final : public NetworkModel {
 public:
  Constant(Duration latency, double seconds_per_byte)
      : latency_(latency),
        seconds_per_byte_(seconds_per_byte),
        picoseconds_per_byte_(1e12 * seconds_per_byte) {}

  void start(const Transfer& transfer, NetworkClock& clock) override {
    const Time now = clock.now();
    const Time alone =
        after(after(now, latency_), byte_cost(transfer.bytes, picoseconds_per_byte_));
    Time& last = last_arrivals_.of(transfer.source, transfer.destination, now);
    last = std::max(last, alone);
    clock.deliver(last, transfer.id);
  }

  void on_timer(std::uint64_t, NetworkClock&) override {
    ensure(false, "the constant network sets no timers");
  }

  LinkCost link_cost() const override { return {latency_, seconds_per_byte_}; }

 private:
  Duration latency_;
  double seconds_per_byte_;
  double picoseconds_per_byte_;
  LastArrivals last_arrivals_;
};

}  // namespace

std::unique_ptr<NetworkModel> constant(const Section& section, NodeId, std::uint64_t) {
  const auto latency =
      section.required<Duration>("latency", "from sending to arrival of an empty message");
  const double seconds_per_byte = read_seconds_per_byte(
      section, "bandwidth", "infinite",
      "of every pair of nodes, such as 10 Gbit/s; infinite: bytes cost nothing");
  section.finish();
  return std::make_unique<Constant>(latency, seconds_per_byte);
}

}  // namespace starling::network_models
