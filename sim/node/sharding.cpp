#include "sim/node/sharding.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/processor_time.hpp"
#include "sim/node/executor.hpp"

namespace starling {
namespace {

constexpr std::size_t most_kept_operations = 100'000;
/// Fetched rows that may be under way at once: 64 MiB.
constexpr std::size_t most_leaving = std::size_t{1} << 24;

}  // namespace

Sharding::Sharding(Sharing sharing, Backend& backend, Executor& executor)
    : peers_(*sharing.peers),
      backend_(backend),
      executor_(executor),
      plan_(std::move(sharing.blocks), peers_.own(), peers_.count()),
      pending_(static_cast<std::size_t>(peers_.count())) {}

void Sharding::begin(Window& window) {
  std::swap(whole_, window);
  const double started = thread_time();
  plan_.cut(whole_, window);
  // What a large recording took is needed for the next one, which is under way.
  if (whole_.operations.capacity() > most_kept_operations) whole_ = {};
  plan_seconds_ += thread_time() - started;
  wave_ = 0;
  shipped_ = expected_ = 0;
}

void Sharding::before(ShardPlan::Wave wave) {
  wave_ = wave;
  peers_.look(place(wave, 0));
  // What others made in earlier waves is on its way, or will be without our doing.
  const auto& incoming = plan_.incoming();
  for (; expected_ < incoming.size() && incoming[expected_].made < wave; ++expected_) {
    const ShardPlan::Message& message = incoming[expected_];
    peers_.expect(message.peer, message.floats);
    pending_[static_cast<std::size_t>(message.peer)].push_back(
        {message.needed, static_cast<std::uint32_t>(expected_)});
  }
  for (std::deque<Pending>& queue : pending_) {
    const auto needed = [wave](const Pending& one) { return one.needed <= wave; };
    while (std::ranges::any_of(queue, needed)) {  // in the order in which they were sent
      unpack(incoming[queue.front().message]);
      queue.pop_front();
    }
  }
}

void Sharding::unpack(const ShardPlan::Message& message) {
  const std::vector<float> numbers = peers_.take(message.peer, place(wave_, 0));
  std::size_t at = 0;
  for (std::uint32_t r = message.first; r < message.first + message.rows; ++r) {
    const ShardPlan::Row& row = plan_.incoming_rows()[r];
    backend_.write(executor_.allocate(row.value, row.size),
                   std::span(numbers).subspan(at, row.size));
    at += row.size;
  }
}

void Sharding::after(ShardPlan::Wave wave) {
  const auto& outgoing = plan_.outgoing();
  for (; shipped_ < outgoing.size() && outgoing[shipped_].made <= wave; ++shipped_) {
    const ShardPlan::Message& message = outgoing[shipped_];
    std::vector<float> numbers(message.floats);
    std::size_t at = 0;
    for (std::uint32_t r = message.first; r < message.first + message.rows; ++r) {
      const ShardPlan::Row& row = plan_.outgoing_rows()[r];
      backend_.read(std::span(numbers).subspan(at, row.size),
                    executor_.row(row.value) + row.offset);
      at += row.size;
      executor_.drop(row.value);
    }
    peers_.send(message.peer, std::move(numbers));
  }
}

void Sharding::fail(NodeId node, std::exception_ptr failure) {
  peers_.fail(place(wave_, node), std::move(failure));
}

void Sharding::end() {
  agreed_ = peers_.end_window(wish_);
  const auto& numbers = plan_.numbers();
  std::vector<std::size_t> counts;
  for (const auto& of_process : numbers) counts.push_back(of_process.size());
  own_numbers_.clear();
  for (const double* number : numbers[static_cast<std::size_t>(peers_.own())]) {
    own_numbers_.push_back(*number);
  }
  const std::vector<double> all = peers_.gather(own_numbers_, counts);
  auto next = all.begin();
  for (const auto& of_process : numbers) {
    for (double* number : of_process) *number = *next++;
  }
}

GraphStatistics Sharding::statistics() const {
  GraphStatistics statistics = plan_.statistics();
  statistics.plan_seconds = plan_seconds_;
  return statistics;
}

void Sharding::abandon(std::exception_ptr failure) {
  if (peers_.has_failed()) return;  // all know
  peers_.fail(0, std::move(failure));
  peers_.end_window({});
}

bool Sharding::adopt(ValueId value, NodeId node) {
  const std::int32_t home = plan_.process_of(node);
  plan_.put(value, home);
  return home == peers_.own();
}

std::span<const float> Sharding::fetch(ValueId value, std::size_t offset, std::size_t size) {
  const std::int32_t home = plan_.home(value);
  const bool is_here = home == peers_.own() || home == ShardPlan::everywhere;
  if (!is_here && peers_.own() != 0) return {};
  if (is_here) {
    fetched_.resize(size);
    backend_.read(fetched_, executor_.row(value) + offset);
    if (peers_.own() == 0) return fetched_;
    if (home == ShardPlan::everywhere) return {};
    peers_.send(0, std::move(fetched_));
    floats_leaving_ += size;
    if (floats_leaving_ > most_leaving) {
      peers_.clear();
      floats_leaving_ = 0;
    }
    return {};
  }
  peers_.expect(home, size);
  fetched_ = peers_.take(home, nowhere);
  return fetched_;
}

}  // namespace starling
