// Recording of the open window: its tables of values, operations and slots refer to each other. windows.cpp closes windows and
// reads what they have computed.

#include "sim/node/compute_graph.hpp"

#include <algorithm>
#include <bit>
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
  ensure(x.size_ == parameters_, "a gradient at a vector that has not the size of a model");
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

bool ComputeGraph::is_full() const {
  return open_gradients_ >= limits_.window_gradients || open_bytes_ >= limits_.window_bytes ||
         open_.operations.size() >= limits_.window_operations;
}

void ComputeGraph::close_if_full() {
  if (is_full()) submit(true);
}

}  // namespace starling
