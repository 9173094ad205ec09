// The constant network: every pair of nodes has a link of its own.
//
//   alone   = start + latency + bytes / bandwidth
//   arrival = max(alone, previous arrival of the same (source, destination))
//
// There is no contention: any number of messages travel side by side, also those of one pair. The
// maximum alone keeps a pair in order: a small message does not overtake a large one sent before
// it, it arrives at the same instant, right behind. Without `bandwidth` bytes cost nothing.

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <vector>

#include "network_models/byte_cost.hpp"
#include "network_models/registry.hpp"

namespace starling::network_models {
namespace {

// Last arrival of every pair with something on its way. A pair whose last message has arrived constrains nothing, so its
// place is free. Two pairs of each source lie in a record of its own; where a node sends to more at a time, others are in a
// hash table with linear probing, which drops such pairs whenever it would grow: it stays small.
class LastArrivals {
 public:
  explicit LastArrivals(NodeId nodes) : records_(static_cast<std::size_t>(nodes)) {}

  /// The last arrival of the pair, to be overwritten; some time <= `now` if there is none.
  Time& of(NodeId source, NodeId destination, Time now) {
    Record& record = records_[static_cast<std::size_t>(source)];
    for (std::size_t i = 0; i < record.arrival.size(); ++i) {
      if (record.destination[i] == destination) return record.arrival[i];
    }
    const auto pair =
        static_cast<std::uint64_t>(source) << 32 | static_cast<std::uint32_t>(destination);
    if (used_ > 0) [[unlikely]] {
      if (Entry* entry = find(pair); entry->pair == pair) return entry->arrival;
    }
    for (std::size_t i = 0; i < record.arrival.size(); ++i) {
      if (record.arrival[i] > now) continue;
      record.destination[i] = destination;
      return record.arrival[i];
    }
    return add(pair, now);
  }
  NodeRecords node_records() const { return {records_.data(), sizeof(Record)}; }

 private:
  static constexpr std::uint64_t nobody = std::numeric_limits<std::uint64_t>::max();
  struct Record {
    std::array<NodeId, 2> destination{-1, -1};
    std::array<Time, 2> arrival{};
  };
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

  Time& add(std::uint64_t pair, Time now) {
    if (4 * (used_ + 1) > 3 * entries_.size()) rebuild(now);
    ++used_;
    Entry* entry = find(pair);
    *entry = {pair, now};
    return entry->arrival;
  }

  void rebuild(Time now) {
    std::vector<Entry> live;
    for (const Entry& entry : entries_) {
      if (entry.pair != nobody && entry.arrival > now) live.push_back(entry);
    }
    std::size_t size = std::max(first_size, entries_.size());
    while (size < 4 * (live.size() + 1)) size *= 2;
    entries_.assign(size, Entry{});
    for (const Entry& entry : live) *find(entry.pair) = entry;
    used_ = live.size();
  }

  static constexpr std::size_t first_size = 64;
  std::vector<Record> records_;  // (nodes)
  std::vector<Entry> entries_;   // a power of two of them, at most three quarters used; or none
  std::size_t used_ = 0;
};

class Constant final : public NetworkModel {
 public:
  Constant(Duration latency, double seconds_per_byte, NodeId nodes)
      : latency_(latency),
        seconds_per_byte_(seconds_per_byte),
        picoseconds_per_byte_(1e12 * seconds_per_byte),
        last_arrivals_(nodes) {}

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
  NodeRecords node_records() const override { return last_arrivals_.node_records(); }

 private:
  Duration latency_;
  double seconds_per_byte_;
  double picoseconds_per_byte_;
  LastArrivals last_arrivals_;
};

}  // namespace

std::unique_ptr<NetworkModel> constant(const Section& section, NodeId nodes, std::uint64_t) {
  const auto latency =
      section.required<Duration>("latency", "from sending to arrival of an empty message");
  const double seconds_per_byte = read_seconds_per_byte(
      section, "bandwidth", "infinite",
      "of every pair of nodes, such as 10 Gbit/s; infinite: bytes cost nothing");
  section.finish();
  return std::make_unique<Constant>(latency, seconds_per_byte, nodes);
}

}  // namespace starling::network_models
