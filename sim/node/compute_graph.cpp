// Recording, closing and reading of windows. One file, for all of them work on the tables of the open window (values,
// operations, slots), which refer to each other.

#include "sim/node/compute_graph.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/make_room.hpp"
#include "sim/base/prefetch.hpp"
#include "sim/node/executor.hpp"
#include "sim/node/sharding.hpp"

namespace starling {
namespace {

// A window closes at so many gradients: enough for batches, few enough that recordings stay in the last level of
// cache and that models which are replaced leave soon.
constexpr std::int64_t gradients_per_node = 16, most_gradients = 8192;
constexpr NodeId first_node = 0;
constexpr double not_computed = std::numeric_limits<double>::quiet_NaN();
// So many operations that begin with the same value are looked at for an equal one.
constexpr int most_alike = 8;
// Recordings of two windows do not fit the second-level cache: so many entries ahead, their lines are on their way.
constexpr std::size_t operations_ahead = 8, others_ahead = 24;

/// Asks for the place of a coming entry.
template <class T>
void fetch_end(const std::vector<T>& entries, std::size_t ahead) {
  if (!entries.empty()) prefetch_to_write(entries.data() + entries.size() + ahead);
}

}  // namespace

// --- Construction --------------------------------------------------------------------------------------------

ComputeGraph::ComputeGraph(Backend& backend, const Workload& workload, Limits limits,
                           Execution execution)
    : ComputeGraph(backend, workload, limits, execution, Sharing{}) {}

ComputeGraph::ComputeGraph(Backend& backend, const Workload& workload, Limits limits,
                           Execution execution, Sharing sharing)
    : backend_(backend),
      workload_(workload),
      has_numbers_(workload.facts().has_numbers),
      folds_sums_(limits.folds_sums && workload.folds_sums()),
      parameters_(workload.facts().parameters),
      wire_bytes_per_float_(
          4.0 * static_cast<double>(workload.facts().wire_parameters) /
          static_cast<double>(std::max<std::size_t>(1, workload.facts().parameters))),
      limits_(limits),
      recorder_(&first_node),
      executor_(std::make_unique<Executor>(backend, workload,
                                           has_numbers_ && execution == Execution::overlapped,
                                           limits.stops_at_divergence, std::move(sharing))) {
  if (limits_.window_gradients <= 0) {
    const std::int64_t nodes = std::max<std::int64_t>(1, std::ssize(workload.facts().samples));
    limits_.window_gradients = std::min(gradients_per_node * nodes, most_gradients);
  }
  if (!has_numbers_) values_.push_back({.handles = 1});  // the one value of every hollow vector
}

ComputeGraph::~ComputeGraph() {
  deliveries_.clear();
  initial_model_ = {};
  executor_.reset();  // first: the window in flight writes to slots_
}

// --- Bookkeeping of values and scalars -----------------------------------------------------------------------

ComputeGraph::ValueId ComputeGraph::new_value(std::uint32_t size) {
  ValueId id;
  if (free_values_.empty()) {
    id = static_cast<ValueId>(values_.size());
    make_room(released_, values_.size() + 1);  // where handles end
    values_.emplace_back();
  } else {
    id = free_values_.back();
    free_values_.pop_back();
    if (free_values_.size() >= operations_ahead) {
      prefetch_to_write(&values_[*(free_values_.end() - operations_ahead)]);
    }
  }
  values_[id] = {.size = size};
  return id;
}

std::uint32_t ComputeGraph::new_slot() {
  std::uint32_t slot;
  if (free_slots_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    make_room(free_slots_, slots_.size() + 1);
    make_room(slots_freed_at_completion_, slots_.size() + 1);
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    if (free_slots_.size() >= operations_ahead) {
      prefetch_to_write(&slots_[*(free_slots_.end() - operations_ahead)]);
    }
  }
  slots_[slot].handles = 1;
  slots_[slot].window = open_window_;
  return slot;
}

Vector ComputeGraph::hollow(std::uint32_t size) {
  retain(0);
  return Vector(this, 0, 0, size);
}

// --- Recording -----------------------------------------------------------------------------------------------

ComputeGraph::Operation& ComputeGraph::begin(Kind kind) {
  fetch_end(open_.operations, operations_ahead);
  Operation& operation = open_.operations.emplace_back();
  operation.kind = kind;
  operation.recorder = *recorder_;
  return operation;
}

ComputeGraph::Operation& ComputeGraph::begin(const BatchName& batch, const Vector& x) {
  Operation& operation = begin(Kind::gradient);
  operation.call = static_cast<std::uint32_t>(open_.batches.size());
  open_.batches.push_back(batch);
  add_term(operation, x, 1.0F);
  return operation;
}

void ComputeGraph::add_term(Operation& operation, const Vector& v, float factor) {
  Value& value = values_[v.value_];
  const auto index = static_cast<std::uint32_t>(open_.terms.size());
  fetch_end(open_.terms, others_ahead);
  open_.terms.push_back({v.value_, value.producer, v.offset(), v.size_, factor, none});
  (operation.first_term == none ? operation.first_term : open_.terms[operation.last_term].next) =
      index;
  operation.last_term = index;
  ++operation.term_count;
  ++value.readers;
  if (!value.is_touched) touch(v.value_);
}

void ComputeGraph::touch(ValueId id) {
  Value& value = values_[id];
  value.is_touched = 1;
  fetch_end(open_.uses, others_ahead);
  open_.uses.push_back({.value = id, .size = value.size, .readers = 0, .dies = false});
}

void ComputeGraph::set_output(Operation& operation, ValueId id) {
  Value& value = values_[id];
  operation.out = id;
  value.recorder = operation.recorder;
  value.producer = static_cast<OperationId>(&operation - open_.operations.data());
  value.window = open_window_;
  touch(id);
  open_bytes_ += static_cast<std::int64_t>(value.size) * 4;
}

Scalar ComputeGraph::set_scalar(Operation& operation, int index) {
  const std::uint32_t slot = new_slot();
  slots_[slot].number = not_computed;
  operation.scalars[index] = &slots_[slot];
  return Scalar(this, slot);
}

bool ComputeGraph::equal(const Operation& a, const Operation& b) const {
  if (a.fate == Fate::dropped) return false;  // it goes on elsewhere
  if (a.kind != b.kind || a.term_count != b.term_count || a.size != b.size) return false;
  if (a.kind == Kind::transform && open_.transforms[a.call] != open_.transforms[b.call])
    return false;
  std::uint32_t s = a.first_term;
  std::uint32_t t = b.first_term;
  for (; s != none; s = open_.terms[s].next, t = open_.terms[t].next) {
    const Term& p = open_.terms[s];
    const Term& q = open_.terms[t];
    if (p.value != q.value || p.offset != q.offset || p.size != q.size ||
        std::bit_cast<std::uint32_t>(p.factor) != std::bit_cast<std::uint32_t>(q.factor)) {
      return false;
    }
  }
  return true;
}

ComputeGraph::OperationId ComputeGraph::find_equal(const Operation& operation) const {
  // Forgetting is harmless (a sum may be computed twice); a long walk is not.
  OperationId other = operation.next_alike;
  for (int i = 0; i < most_alike && other != none; ++i) {
    if (equal(open_.operations[other], operation)) return other;
    other = open_.operations[other].next_alike;
  }
  return none;
}

ComputeGraph::ValueId ComputeGraph::finish(std::uint32_t size) {
  Operation& operation = open_.operations.back();
  operation.size = size;
  OperationId& newest_alike = operation.first_term == none
                                  ? newest_of_nothing_
                                  : values_[open_.terms[operation.first_term].value].newest_alike;
  operation.next_alike = newest_alike;
  if (const OperationId known = find_equal(operation); known != none) {
    // Withdraw the operation, answer with its equal.
    for (std::uint32_t t = operation.first_term; t != none; t = open_.terms[t].next) {
      --values_[open_.terms[t].value].readers;
    }
    if (operation.first_term != none) open_.terms.resize(operation.first_term);
    if (operation.kind == Kind::transform) open_.transforms.pop_back();
    open_.operations.pop_back();
    ++recorded_.shared;
    const ValueId value = open_.operations[known].out;
    retain(value);
    return value;
  }
  newest_alike = static_cast<OperationId>(open_.operations.size() - 1);
  const ValueId value = new_value(size);
  set_output(operation, value);
  retain(value);
  close_if_full();
  return value;
}

Vector ComputeGraph::finish_vector(std::size_t size) {
  const auto floats = static_cast<std::uint32_t>(size);
  return Vector(this, finish(floats), 0, floats);
}

ComputeGraph::Operation* ComputeGraph::growable(const Vector& x) {
  const Value& value = values_[x.value_];
  if (value.producer == none || value.handles > 1 || value.readers > 0 || x.offset() > 0 ||
      x.size_ != value.size) {
    return nullptr;
  }
  Operation& operation = open_.operations[value.producer];
  return operation.kind == Kind::sum ? &operation : nullptr;
}

ComputeGraph::Operation& ComputeGraph::move_to_end(ValueId sum) {
  Value& value = values_[sum];
  const Operation moved = open_.operations[value.producer];
  open_.operations[value.producer].fate = Fate::dropped;
  value.producer = static_cast<OperationId>(open_.operations.size());
  open_.operations.push_back(moved);
  return open_.operations.back();
}

void ComputeGraph::scale(Vector& x, double factor) {
  if (!has_numbers_) return;
  add_term(begin(Kind::sum), x, static_cast<float>(factor));
  rename(x, finish(x.size_));
}

void ComputeGraph::rename(Vector& x, ValueId value) {
  release(x.value_);
  x.value_ = value;
  x.place_ &= Vector::numbers_bit;
}

void ComputeGraph::add_scaled(Vector& x, double factor, const Vector& y) {
  if (!has_numbers_) return;
  if (Operation* sum = growable(x); sum != nullptr && y.value_ != x.value_) {
    const OperationId read = values_[y.value_].producer;
    if (read != none && read > values_[x.value_].producer) sum = &move_to_end(x.value_);
    add_term(*sum, y, static_cast<float>(factor));
    ++recorded_.joined;
    return;
  }
  Operation& operation = begin(Kind::sum);
  add_term(operation, x, 1.0F);
  add_term(operation, y, static_cast<float>(factor));
  rename(x, finish(x.size_));
}

Vector ComputeGraph::zeros(std::size_t size) {
  if (!has_numbers_) return hollow(static_cast<std::uint32_t>(size));
  begin(Kind::sum);
  return finish_vector(size);
}

Vector ComputeGraph::normals(std::size_t size, Random random) {
  std::span<float> room;
  Vector v = make(size, room);
  for (float& number : room) number = static_cast<float>(random.normal());
  return v;
}

Vector ComputeGraph::initial_model() {
  if (!initial_model_) {
    if (!has_numbers_) {
      initial_model_ = hollow(static_cast<std::uint32_t>(parameters_));
    } else {
      std::span<float> room;
      initial_model_ = make(parameters_, room);
      workload_.initial_model(room);
    }
  }
  return initial_model_;
}

Gradient ComputeGraph::gradient(NodeId node, Step draw, const Vector& x) {
  if (!has_numbers_) return {hollow(static_cast<std::uint32_t>(parameters_)), {}};
  ensure(x.size_ == parameters_, "a gradient at a vector that is no model");
  Operation& operation = begin({node, draw}, x);
  const auto size = static_cast<std::uint32_t>(parameters_);
  const ValueId value = new_value(size);
  set_output(operation, value);
  retain(value);
  Gradient result{Vector(this, value, 0, size), set_scalar(operation, 0),
                  facts().counts_episodes ? set_scalar(operation, 1) : Scalar()};
  ++open_gradients_;
  close_if_full();
  return result;
}

ModelQuality ComputeGraph::evaluate(const Vector& x) {
  ensure(has_numbers_, "an evaluation without numbers");
  Operation& operation = begin(Kind::evaluation);
  add_term(operation, x, 1.0F);
  ModelQuality quality;
  quality.loss = set_scalar(operation, 0);
  quality.accuracy = set_scalar(operation, 1);
  return quality;
}

// --- Windows -------------------------------------------------------------------------------------------------

bool ComputeGraph::is_full() const {
  return open_gradients_ >= limits_.window_gradients || open_bytes_ >= limits_.window_bytes ||
         open_.operations.size() >= limits_.window_operations;
}

void ComputeGraph::close_if_full() {
  if (is_full()) submit(true);
}

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
    if (id >= others_ahead) fetch_output(open_.operations[id - others_ahead]);
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

std::vector<ComputeGraph::ValueId> ComputeGraph::settle_uses() {
  std::vector<ValueId> never_made;  // have no row, the id is free once the window is over
  std::size_t kept = 0;
  for (std::size_t i = 0; i < open_.uses.size(); ++i) {
    Use& use = open_.uses[i];
    if (i + others_ahead < open_.uses.size())
      prefetch(&values_[open_.uses[i + others_ahead].value]);
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
  const std::vector<ValueId> never_made = settle_uses();
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
