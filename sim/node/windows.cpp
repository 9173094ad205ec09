// Closing of windows, and reading of what they have computed.

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/prefetch.hpp"
#include "sim/node/compute_graph.hpp"
#include "sim/node/executor.hpp"
#include "sim/node/sharding.hpp"

namespace starling {
namespace {

// A window's tables do not fit the second-level cache: so many entries ahead, lines are on their way.
constexpr std::size_t entries_ahead = 24;

}  // namespace

void ComputeGraph::Window::clear() {
  operations.clear();
  terms.clear();
  transforms.clear();
  measures.clear();
  batches.clear();
  order.clear();
  uses.clear();
  garbage.clear();
}

std::vector<ComputeGraph::PutOff> ComputeGraph::drop_unread(bool puts_off) {
  std::vector<PutOff> put_off;
  // Backwards, so that dropping a reader can make its inputs droppable too.
  for (std::size_t id = open_.operations.size(); id-- > 0;) {
    if (id >= entries_ahead) fetch_output(open_.operations[id - entries_ahead]);
    Operation& operation = open_.operations[id];
    if (operation.out == none || operation.fate == Fate::dropped) continue;
    const bool is_gradient = operation.kind == Kind::gradient;
    Value& out = values_[operation.out];
    if (out.readers > 0 || (is_gradient ? !puts_off || out.handles == 0 : out.handles > 0))
      continue;
    for (std::uint32_t t = operation.first_term; t != none; t = open_.terms[t].next) {
      --values_[open_.terms[t].value].readers;
    }
    operation.fate = Fate::dropped;
    out.producer = never;
    if (is_gradient) {
      const Term& x = open_.terms[operation.first_term];
      ++values_[x.value].handles;
      put_off.push_back({operation, open_.batches[operation.call], x});
    } else {
      ++recorded_.dropped;
    }
  }
  return put_off;
}

/// Sorts by counting: a window has many operations, but few levels.
void ComputeGraph::order_by_level() {
  levels_.clear();
  std::array<std::size_t, 64> recent{};  // where some levels are, or were
  const auto wave_of = [this, &recent](Level level) {
    std::size_t& at = recent[((level >> 32) * 2 + (level & 1)) % recent.size()];
    if (at < levels_.size() && levels_[at].first == level) return at;
    const auto place =
        std::lower_bound(levels_.begin(), levels_.end(), std::pair(level, std::size_t{0}));
    at = static_cast<std::size_t>(place - levels_.begin());
    if (place == levels_.end() || place->first != level) levels_.emplace(place, level, 0);
    return at;
  };
  const auto count = static_cast<OperationId>(open_.operations.size());
  for (OperationId id = 0; id < count; ++id) {
    if (open_.operations[id].fate == Fate::runs) ++levels_[wave_of(places_[id].level)].second;
  }
  std::size_t begin = 0;
  for (auto& [level, operations] : levels_) begin += std::exchange(operations, begin);
  open_.order.resize(begin);
  for (OperationId id = 0; id < count; ++id) {
    Operation& operation = open_.operations[id];
    if (operation.fate != Fate::runs) continue;
    const std::size_t wave = wave_of(places_[id].level);
    operation.wave = static_cast<std::uint32_t>(wave);
    open_.order[levels_[wave].second++] = id;
  }
}

std::vector<ComputeGraph::ValueId> ComputeGraph::resolve_uses() {
  std::vector<ValueId> never_made;  // have no row, the id is free once the window is over
  std::size_t kept = 0;
  for (std::size_t i = 0; i < open_.uses.size(); ++i) {
    Use& use = open_.uses[i];
    if (i + entries_ahead < open_.uses.size())
      prefetch(&values_[open_.uses[i + entries_ahead].value]);
    Value& value = values_[use.value];
    use.readers = value.readers;
    use.dies = value.handles == 0;
    const bool is_made = value.producer != never;
    value.readers = 0;
    value.producer = none;
    value.newest_alike = none;
    value.is_touched = 0;
    if (!is_made) {
      if (use.dies) never_made.push_back(use.value);  // else put off
    } else if (use.dies && use.readers == 0 && value.window != open_window_) {
      open_.garbage.push_back(use.value);  // its only readers were dropped
    } else {
      open_.uses[kept++] = use;
    }
  }
  open_.uses.resize(kept);
  return never_made;
}

void ComputeGraph::submit(bool puts_off) {
  if (open_.operations.empty() && released_.empty()) return;
  open_.garbage.assign(released_.begin(), released_.end());
  released_.clear();

  // A gradient that is still held, but that nothing has read yet, is put off to the next window when this one is
  // only full: the sum that it can be folded into has not been recorded yet. Else every node would have a stored
  // gradient whenever a window closes.
  const std::vector<PutOff> put_off = drop_unread(puts_off && folds_sums_);
  place_operations();
  order_by_level();
  const std::vector<ValueId> never_made = resolve_uses();
  open_.value_count = values_.size();

  complete();
  // From here on the executor is idle. What dies in this window is free when it is over.
  if (!host_copies_.empty()) {
    for (const Use& use : open_.uses) bring_up(use.value);
  }
  for (const Use& use : open_.uses) {
    if (use.dies) freed_at_completion_.push_back(use.value);
  }
  freed_at_completion_.insert(freed_at_completion_.end(), open_.garbage.begin(),
                              open_.garbage.end());
  freed_at_completion_.insert(freed_at_completion_.end(), never_made.begin(), never_made.end());

  if (journal_.is_replaying()) {
    open_.clear();
  } else {
    executor_->run(open_);
  }
  newest_of_nothing_ = none;
  ++open_window_;

  for (auto waiting = put_off.rbegin(); waiting != put_off.rend(); ++waiting) {
    const Vector x(this, waiting->x.value, waiting->x.offset,
                   waiting->x.size);  // takes the handle over
    Operation& operation = begin(waiting->batch, x);
    operation.recorder = waiting->gradient.recorder;
    for (int i = 0; i < 2; ++i) {
      Slot* scalar = waiting->gradient.scalars[i];
      if (scalar == nullptr || scalar->handles == 0) continue;
      operation.scalars[i] = scalar;
      scalar->window = open_window_;
    }
    set_output(operation, waiting->gradient.out);
  }
  open_bytes_ = 0;  // what is put off takes no memory yet
  open_gradients_ = 0;
}

void ComputeGraph::complete() {
  executor_->wait();
  if (completed_window_ == open_window_ - 1) return;
  completed_window_ = open_window_ - 1;
  if (const Sharding* sharding = executor_->sharding()) agreed_ = sharding->agreed();
  free_values_.insert(free_values_.end(), freed_at_completion_.begin(), freed_at_completion_.end());
  if (!host_copies_.empty()) {
    for (const ValueId value : freed_at_completion_) host_copies_.erase(value);
  }
  freed_at_completion_.clear();
  std::erase_if(slots_freed_at_completion_, [this](std::uint32_t slot) {
    if (slots_[slot].window > completed_window_) return false;  // of the window about to run
    free_slots_.push_back(slot);
    return true;
  });
  while (!deliveries_.empty()) {
    const auto& [scalar, where] = deliveries_.front();
    if (slots_[scalar.slot_].window > completed_window_) break;
    *where = journal_.pass(slots_[scalar.slot_].number);
    deliveries_.pop_front();
  }
}

void ComputeGraph::flush() {
  submit(false);
  complete();
}

std::span<const float> ComputeGraph::read(const Vector& x) {
  if (!has_numbers_) return {};
  ensure(!journal_.is_replaying(), "a replay has no vectors to read");
  if (values_[x.value_].window > completed_window_) flush();
  complete();
  bring_up(x.value_);
  if (Sharding* sharding = executor_->sharding())
    return sharding->fetch(x.value_, x.offset(), x.size_);
  if (backend_.is_host()) return {executor_->row(x.value_) + x.offset(), x.size_};
  const auto [copy, is_new] = host_copies_.try_emplace(x.value_);
  std::vector<float>& values = copy->second.values;
  if (is_new) {
    values.resize(values_[x.value_].size);
    backend_.read(values, executor_->row(x.value_));
  }
  return std::span(values).subspan(x.offset(), x.size_);
}

void ComputeGraph::bring_up(ValueId value) {
  const auto found = host_copies_.find(value);
  if (found == host_copies_.end() || !found->second.is_ahead) return;
  backend_.write(executor_->row(value), found->second.values);
  found->second.is_ahead = false;
}

double ComputeGraph::read(const Scalar& scalar) {
  if (slots_[scalar.slot_].window > completed_window_) flush();
  return journal_.pass(slots_[scalar.slot_].number);
}

void ComputeGraph::deliver(const Scalar& scalar, double* where) {
  const Slot& slot = slots_[scalar.slot_];
  if (slot.window <= completed_window_) {
    *where = journal_.pass(slot.number);
  } else {
    deliveries_.emplace_back(scalar, where);
  }
}

void ComputeGraph::deliver_known() {
  executor_->rest();
  if (executor_->sharding() != nullptr) return;
  for (const auto& [scalar, where] : deliveries_) {
    const double number = slots_[scalar.slot_].number;
    if (!std::isnan(number)) *where = number;
  }
  deliveries_.clear();
}

Vector ComputeGraph::make(std::size_t size, std::span<float>& room) {
  if (!has_numbers_) {
    room = {};
    return hollow(static_cast<std::uint32_t>(size));
  }
  complete();
  const ValueId value = new_value(static_cast<std::uint32_t>(size));
  retain(value);
  room = {executor_->allocate(value, size), size};
  if (Sharding* sharding = executor_->sharding()) sharding->make(value);
  if (!backend_.is_host()) {
    HostCopy& copy = host_copies_[value];
    copy = {std::vector<float>(size), true};
    room = copy.values;
  }
  return Vector(this, value, 0, static_cast<std::uint32_t>(size));
}

ComputeGraph::Job ComputeGraph::begin_gradient(NodeId node, Step draw, const Vector& x) {
  Job job{.request = {.node = node, .draw = draw}, .x = x, .result = {}};
  std::span<float> room;
  job.result.values = make(parameters_, room);
  if (!has_numbers_) return job;
  if (values_[x.value_].window > completed_window_) flush();
  complete();
  bring_up(x.value_);
  const ValueId result = job.result.values.value_;
  host_copies_.erase(result);  // not the host, but the workload makes it
  job.request.x = executor_->row(x.value_) + x.offset();
  job.request.gradient = executor_->row(result);
  const std::uint32_t slot = new_slot();
  slots_[slot].window = 0;
  job.result.loss = Scalar(this, slot);
  return job;
}

void ComputeGraph::finish_gradient(Job& job) {
  job.x = {};
  if (!has_numbers_) return;
  executor_->check_loss(job.request);
  slots_[job.result.loss.slot_].number = job.request.loss;
}

Wish ComputeGraph::agree(const Wish& own) {
  Sharding* sharding = executor_->sharding();
  if (sharding == nullptr) return own;
  sharding->wish(own);
  return agreed_;
}

void ComputeGraph::abandon(std::exception_ptr failure) {
  Sharding* sharding = executor_->sharding();
  if (sharding == nullptr) return;
  executor_->rest();
  sharding->abandon(std::move(failure));
}

void ComputeGraph::close() {
  if (Sharding* sharding = executor_->sharding()) sharding->close();
}

const DivergedAt& ComputeGraph::diverged() {
  flush();
  return executor_->diverged();
}

GraphStatistics ComputeGraph::statistics() const {
  GraphStatistics all = executor_->statistics();
  all.joined = recorded_.joined;
  all.shared = recorded_.shared;
  all.dropped = recorded_.dropped;
  return all;
}

}  // namespace starling
