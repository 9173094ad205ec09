// Peers within one process: a thread for each, messages through queues. What MpiPeers does, without MPI.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/node/peers.hpp"

namespace starling::test {

/// Where the threads meet.
class Hub {
 public:
  explicit Hub(int count) : count_(count), numbers_(static_cast<std::size_t>(count)) {}

  /// Waits until all have come, and lets the last one do `what`.
  template <class Action>
  void meet(std::unique_lock<std::mutex>& lock, Action what) {
    const long meeting = meeting_;
    if (++arrived_ == count_) {
      what();
      arrived_ = 0;
      ++meeting_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return meeting_ != meeting; });
  }

  const int count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<std::vector<float>>> mail_;  // by (from, to)
  std::vector<std::vector<double>> numbers_;
  Place failed_ = nowhere;  // the first
  std::exception_ptr failure_;
  std::size_t floats_sent_ = 0;
  long messages_sent_ = 0;
  Wish wished_, agreed_;  // of this meeting so far, and of the one before
  int arrived_ = 0;
  long meeting_ = 0;
};

class ThreadPeers final : public Peers {
 public:
  ThreadPeers(Hub& hub, int own) : hub_(hub), own_(own) {}

  int own() const override { return own_; }
  int count() const override { return hub_.count_; }
  void send(int to, std::vector<float>&& numbers) override {
    std::lock_guard lock(hub_.mutex_);
    hub_.floats_sent_ += numbers.size();
    ++hub_.messages_sent_;
    hub_.mail_[{own_, to}].push_back(std::move(numbers));
    hub_.changed_.notify_all();
  }
  void clear() override {}  // a queue takes everything at once
  void expect(int from, std::size_t size) override { sizes_[from].push_back(size); }
  std::vector<float> take(int from, Place here) override {
    std::unique_lock lock(hub_.mutex_);
    auto& queue = hub_.mail_[{from, own_}];
    hub_.changed_.wait(lock, [&] { return !queue.empty() || hub_.failed_ < here; });
    if (queue.empty()) throw Abandoned();
    std::vector<float> numbers = std::move(queue.front());
    queue.pop_front();
    if (numbers.size() != sizes_[from].front()) throw Error("a message of another size");
    sizes_[from].pop_front();
    return numbers;
  }
  void look(Place here) override {
    std::lock_guard lock(hub_.mutex_);
    if (hub_.failed_ < here) throw Abandoned();
  }
  void fail(Place here, std::exception_ptr failure) override {
    try {
      std::rethrow_exception(failure);
    } catch (const Abandoned&) {
      return;
    } catch (...) {
    }
    std::lock_guard lock(hub_.mutex_);
    if (here < hub_.failed_) {
      hub_.failed_ = here;
      hub_.failure_ = failure;
    }
    hub_.changed_.notify_all();
  }
  Wish end_window(const Wish& own) override {
    std::unique_lock lock(hub_.mutex_);
    hub_.wished_.checkpoint |= own.checkpoint;
    hub_.wished_.signal = std::max(hub_.wished_.signal, own.signal);
    hub_.meet(lock, [this] { hub_.agreed_ = std::exchange(hub_.wished_, {}); });
    has_failed_ = hub_.failed_ != nowhere;
    if (has_failed_) std::rethrow_exception(hub_.failure_);
    return hub_.agreed_;
  }
  bool has_failed() const override { return has_failed_; }
  std::vector<double> gather(std::span<const double> own, std::span<const std::size_t>) override {
    std::unique_lock lock(hub_.mutex_);
    hub_.numbers_[static_cast<std::size_t>(own_)].assign(own.begin(), own.end());
    std::vector<double> all;
    hub_.meet(lock, [] {});
    for (const auto& numbers : hub_.numbers_) all.insert(all.end(), numbers.begin(), numbers.end());
    hub_.meet(lock, [] {});
    return all;
  }

 private:
  Hub& hub_;
  const int own_;
  std::map<int, std::deque<std::size_t>> sizes_;
  bool has_failed_ = false;
};

}  // namespace starling::test
