#include "sim/node/executor.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/error.hpp"

namespace starling {
namespace {

constexpr std::size_t row_granularity = 16;                // floats: rows begin on cache lines
constexpr std::size_t slab_floats = std::size_t{1} << 19;  // 2 MiB, one huge page

std::size_t rounded(std::size_t size) {
  return std::max<std::size_t>(1, (size + row_granularity - 1) / row_granularity) * row_granularity;
}

}  // namespace

Executor::Executor(Backend& backend, const Workload& workload, bool threaded,
                   bool stops_at_divergence, Sharing sharing)
    : backend_(backend), workload_(workload), stops_at_divergence_(stops_at_divergence) {
  if (sharing.peers != nullptr) {
    sharding_ = std::make_unique<Sharding>(std::move(sharing), backend, *this);
  }
  if (threaded) worker_ = std::thread([this] { work(); });
}

Executor::~Executor() {
  if (worker_.joinable()) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return state_ == State::idle; });
      state_ = State::stopping;
    }
    changed_.notify_all();
    worker_.join();
  }
  for (auto& [size, shelf] : shelves_) {
    for (float* slab : shelf.slabs) backend_.release(slab, size * shelf.rows_per_slab);
  }
}

void Executor::run(Window&& window) {
  std::swap(window_, window);
  if (!worker_.joinable()) return execute();
  {
    std::lock_guard lock(mutex_);
    state_ = State::running;
  }
  changed_.notify_all();
}

void Executor::rest() {
  if (!worker_.joinable()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return state_ == State::idle; });
}

void Executor::wait() {
  rest();
  if (failure_) std::rethrow_exception(failure_);
}

void Executor::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return state_ != State::idle; });
    if (state_ == State::stopping) return;
    lock.unlock();
    try {
      if (!failure_) execute();
    } catch (...) {
      failure_ = std::current_exception();
    }
    lock.lock();
    state_ = State::idle;
    changed_.notify_all();
  }
}

float* Executor::take(std::size_t size) {
  const std::size_t count = rounded(size);
  Shelf& shelf = shelves_[count];
  if (shelf.free.empty()) {
    shelf.rows_per_slab = std::max<std::size_t>(1, slab_floats / count);
    float* slab = backend_.allocate(count * shelf.rows_per_slab);
    shelf.slabs.push_back(slab);
    for (std::size_t i = shelf.rows_per_slab; i > 0; --i)
      shelf.free.push_back(slab + (i - 1) * count);
  }
  float* row = shelf.free.back();
  shelf.free.pop_back();
  live_bytes_ += static_cast<std::int64_t>(count * sizeof(float));
  statistics_.peak_bytes = std::max(statistics_.peak_bytes, live_bytes_);
  return row;
}

float* Executor::allocate(ValueId value, std::size_t size) {
  if (rows_.size() <= value) rows_.resize(value + 1);
  Row& row = rows_[value];
  if (row.floats == nullptr) row.floats = take(size);
  row.size = static_cast<std::uint32_t>(size);
  return row.floats;
}

void Executor::give_back(Row& row) {
  const std::size_t count = rounded(row.size);
  shelves_[count].free.push_back(std::exchange(row.floats, nullptr));
  live_bytes_ -= static_cast<std::int64_t>(count * sizeof(float));
}

void Executor::execute() {
  if (!sharding_) return run_window();
  sharding_->begin(window_);
  try {
    run_window();
  } catch (...) {
    sharding_->fail(current_, std::current_exception());
  }
  sharding_->end();
  const std::int64_t peak = statistics_.peak_bytes;
  statistics_ = sharding_->statistics();
  statistics_.peak_bytes = peak;
}

void Executor::run_window() {
  if (rows_.size() < window_.value_count) rows_.resize(window_.value_count);
  for (const ValueId value : window_.garbage) give_back(rows_[value]);
  for (const auto& use : window_.uses) {
    Row& row = rows_[use.value];
    row.size = use.size;
    row.readers = use.readers;
    row.dies = use.dies;
  }

  if (sharding_) {
    sharding_->after(0);
    for (const ValueId value : sharding_->unread()) give_back(rows_[value]);
  }

  ++statistics_.windows;
  const auto operation = [this](std::size_t i) -> const ComputeGraph::Operation& {
    return window_.operations[window_.order[i]];
  };
  for (std::size_t begin = 0, end = 0; begin < window_.order.size(); begin = end) {
    while (end < window_.order.size() && operation(end).wave == operation(begin).wave) ++end;
    ++statistics_.waves;
    current_ = 0;
    const ShardPlan::Wave wave = operation(begin).wave;
    if (sharding_) sharding_->before(wave);
    if (operation(begin).kind == ComputeGraph::Kind::gradient) {
      run_gradients(begin, end);
    } else {
      run_wave(begin, end);
    }
    if (sharding_) sharding_->after(wave);
    release_inputs(begin, end);
  }
}

bool Executor::fits(const ComputeGraph::Operation& operation, const ComputeGraph::Term& term,
                    std::uint32_t readers) const {
  const Row& row = rows_[term.value];
  return operation.kind == ComputeGraph::Kind::sum && row.dies && row.readers == readers &&
         row.floats != nullptr && term.size == operation.size && row.size == term.size;
}

float* Executor::output_row(const ComputeGraph::Operation& operation, ValueId x) {
  Row& out = rows_[operation.out];
  for (std::uint32_t t = operation.first_term; t != ComputeGraph::none; t = window_.terms[t].next) {
    const ValueId value = window_.terms[t].value;
    if (!fits(operation, window_.terms[t], value == x ? 2 : 1)) continue;
    // Its last reader is this sum: take over the row.
    return out.floats = std::exchange(rows_[value].floats, nullptr);
  }
  return out.floats = take(out.size);
}

std::array<std::span<const float>, most_inputs> Executor::inputs_of(
    const ComputeGraph::Operation& operation) const {
  std::array<std::span<const float>, most_inputs> inputs;
  std::size_t i = 0;
  for (std::uint32_t t = operation.first_term; t != ComputeGraph::none; t = window_.terms[t].next) {
    const auto& term = window_.terms[t];
    inputs[i++] = {row(term.value) + term.offset, term.size};
  }
  return inputs;
}

void Executor::run_wave(std::size_t begin, std::size_t end) {
  using Kind = ComputeGraph::Kind;
  jobs_.clear();
  terms_.clear();
  transforms_.clear();
  distances_.clear();
  measures_.clear();
  evaluations_.clear();
  evaluated_.clear();

  for (std::size_t i = begin; i < end; ++i) {
    const auto& operation = window_.operations[window_.order[i]];
    const std::size_t first = terms_.size();
    for (std::uint32_t t = operation.first_term; t != ComputeGraph::none;
         t = window_.terms[t].next) {
      const auto& term = window_.terms[t];
      terms_.push_back({row(term.value) + term.offset, term.factor});
    }
    switch (operation.kind) {
      case Kind::sum: {
        jobs_.push_back({output_row(operation), operation.size, static_cast<std::uint32_t>(first),
                         operation.term_count});
        ++statistics_.sums;
        break;
      }
      case Kind::concatenation: {
        float* out = allocate(operation.out, operation.size);
        std::size_t at = first;
        for (std::uint32_t t = operation.first_term; t != ComputeGraph::none;
             t = window_.terms[t].next) {
          const std::uint32_t size = window_.terms[t].size;
          jobs_.push_back({out, size, static_cast<std::uint32_t>(at++), 1});
          out += size;
        }
        ++statistics_.sums;
        break;
      }
      case Kind::transform: {
        float* out = allocate(operation.out, operation.size);
        transforms_.push_back(
            {&window_.transforms[operation.call], inputs_of(operation), {out, operation.size}});
        ++statistics_.transforms;
        break;
      }
      case Kind::measure:
        measures_.push_back({&window_.measures[operation.call], inputs_of(operation),
                             &operation.scalars[0]->number});
        ++statistics_.distances;
        break;
      case Kind::distance:
        distances_.push_back({terms_[first].values, terms_[first + 1].values,
                              &operation.scalars[0]->number,
                              window_.terms[operation.first_term].size});
        ++statistics_.distances;
        break;
      case Kind::evaluation:
        evaluations_.push_back({.x = terms_[first].values});
        evaluated_.push_back(i);
        ++statistics_.evaluations;
        break;
      case Kind::gradient:
        ensure(false, "a gradient in a wave of sums");
    }
  }

  if (!jobs_.empty()) {
    ++statistics_.sum_batches;
    backend_.linear(jobs_, terms_);
  }
  if (!transforms_.empty()) backend_.transform(transforms_);
  if (!distances_.empty()) backend_.squared_distances(distances_);
  if (!measures_.empty()) backend_.measure(measures_);
  if (!evaluations_.empty()) {
    workload_.evaluate(evaluations_);
    for (std::size_t e = 0; e < evaluations_.size(); ++e) {
      const auto& operation = window_.operations[window_.order[evaluated_[e]]];
      operation.scalars[0]->number = evaluations_[e].loss;
      operation.scalars[1]->number = evaluations_[e].accuracy;
    }
  }
}

void Executor::fold(const ComputeGraph::Operation& gradient) {
  const ValueId x = window_.terms[gradient.first_term].value;
  for (auto id = gradient.next_folded; id != ComputeGraph::none;
       id = window_.operations[id].next_folded) {
    const auto& sum = window_.operations[id];
    const auto first = static_cast<std::uint32_t>(terms_.size());
    for (std::uint32_t t = sum.first_term; t != ComputeGraph::none; t = window_.terms[t].next) {
      const auto& term = window_.terms[t];
      const bool is_gradient = term.value == gradient.out;
      terms_.push_back({is_gradient ? nullptr : row(term.value) + term.offset, term.factor});
    }
    jobs_.push_back({output_row(sum, x), sum.size, first, sum.term_count});
    ++statistics_.sums;
    ++statistics_.folded;
  }
}

void Executor::order_by_node(std::size_t begin, std::size_t end) {
  keys_.clear();
  for (std::size_t i = begin; i < end; ++i) {
    const ComputeGraph::OperationId id = window_.order[i];
    const NodeId node = window_.batches[window_.operations[id].call].node;
    keys_.push_back(static_cast<std::uint64_t>(node) << 32 | id);
  }
  std::sort(keys_.begin(), keys_.end());
  for (std::size_t i = begin; i < end; ++i) {
    window_.order[i] = static_cast<ComputeGraph::OperationId>(keys_[i - begin]);
  }
}

void Executor::run_gradients(std::size_t begin, std::size_t end) {
  order_by_node(begin, end);
  gradients_.clear();
  sums_end_.clear();
  jobs_.clear();
  terms_.clear();
  for (std::size_t i = begin; i < end; ++i) {
    const auto& operation = window_.operations[window_.order[i]];
    const auto& x = window_.terms[operation.first_term];
    const auto [node, draw] = window_.batches[operation.call];
    gradients_.push_back({.node = node, .draw = draw, .x = row(x.value) + x.offset});
    if (operation.next_folded == ComputeGraph::none) {
      Row& out = rows_[operation.out];
      gradients_.back().gradient = out.floats = take(out.size);
    } else {
      fold(operation);
    }
    sums_end_.push_back(jobs_.size());
  }
  for (std::size_t i = 0, first = 0; i < gradients_.size(); first = sums_end_[i++]) {
    gradients_[i].sums = {jobs_.data() + first, sums_end_[i] - first};
    gradients_[i].terms = terms_.data();
  }
  ++statistics_.gradient_batches;
  statistics_.gradients += static_cast<std::int64_t>(end - begin);
  workload_.gradients(gradients_);
  for (std::size_t i = begin; i < end; ++i) {
    const auto& operation = window_.operations[window_.order[i]];
    const GradientRequest& request = gradients_[i - begin];
    current_ = request.node;
    check_loss(request);
    if (operation.scalars[0] != nullptr) operation.scalars[0]->number = request.loss;
    if (operation.scalars[1] != nullptr) {
      operation.scalars[1]->number = static_cast<double>(request.episodes);
    }
  }
}

void Executor::release_inputs(const ComputeGraph::Operation& operation) {
  for (std::uint32_t t = operation.first_term; t != ComputeGraph::none; t = window_.terms[t].next) {
    drop(window_.terms[t].value);
  }
}

void Executor::release_inputs(std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const auto& operation = window_.operations[window_.order[i]];
    release_inputs(operation);
    for (auto id = operation.next_folded; id != ComputeGraph::none;
         id = window_.operations[id].next_folded) {
      release_inputs(window_.operations[id]);
    }
    // A result that is kept alive only by a scalar of its operation (the loss of an unread gradient).
    if (operation.out == ComputeGraph::none) continue;
    Row& out = rows_[operation.out];
    if (out.readers == 0 && out.dies && out.floats != nullptr) give_back(out);
  }
}

void Executor::check_loss(const GradientRequest& request) {
  if (std::isfinite(request.loss)) [[likely]]
    return;
  if (!stops_at_divergence_) {
    diverged_.try_emplace(request.node, request.draw);
    return;
  }
  throw Diverged(
      fmt::format("the loss of node {} became {} at its gradient {}: the run diverged; a smaller "
                  "learning rate may help",
                  request.node, request.loss, request.draw));
}

}  // namespace starling
