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
  if (rows_.size() <= value) {
    rows_.resize(value + 1, nullptr);
    sizes_.resize(value + 1, 0);
    readers_.resize(value + 1, 0);
    dies_.resize(value + 1, 0);
  }
  if (rows_[value] == nullptr) rows_[value] = take(size);
  sizes_[value] = static_cast<std::uint32_t>(size);
  return rows_[value];
}

void Executor::give_back(ValueId value) {
  const std::size_t count = rounded(sizes_[value]);
  shelves_[count].free.push_back(rows_[value]);
  live_bytes_ -= static_cast<std::int64_t>(count * sizeof(float));
  rows_[value] = nullptr;
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
  if (rows_.size() < window_.value_count) {
    rows_.resize(window_.value_count, nullptr);
    sizes_.resize(window_.value_count, 0);
    readers_.resize(window_.value_count, 0);
    dies_.resize(window_.value_count, 0);
  }
  for (const ValueId value : window_.garbage) give_back(value);
  for (const auto& use : window_.uses) {
    sizes_[use.value] = use.size;
    readers_[use.value] = use.readers;
    dies_[use.value] = use.dies;
  }

  if (sharding_) {
    sharding_->after(0);
    for (const ValueId value : sharding_->unread()) give_back(value);
  }

  ++statistics_.windows;
  const auto operation = [this](std::size_t i) -> const ComputeGraph::Operation& {
    return window_.operations[window_.order[i]];
  };
  for (std::size_t begin = 0, end = 0; begin < window_.order.size(); begin = end) {
    while (end < window_.order.size() && operation(end).level == operation(begin).level) ++end;
    ++statistics_.waves;
    current_ = 0;
    const auto wave = static_cast<ShardPlan::Wave>(operation(begin).level);
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
  return operation.kind == ComputeGraph::Kind::sum && dies_[term.value] &&
         readers_[term.value] == readers && rows_[term.value] != nullptr &&
         term.size == sizes_[operation.out] && sizes_[term.value] == term.size;
}

float* Executor::output_row(const ComputeGraph::Operation& operation, ValueId x) {
  for (std::uint32_t t = operation.first_term; t != ComputeGraph::none; t = window_.terms[t].next) {
    const ValueId value = window_.terms[t].value;
    if (!fits(operation, window_.terms[t], value == x ? 2 : 1)) continue;
    return std::exchange(rows_[value], nullptr);  // its last reader is this sum: take over the row
  }
  return take(sizes_[operation.out]);
}

std::array<std::span<const float>, most_inputs> Executor::inputs_of(
    const ComputeGraph::Operation& operation) const {
  std::array<std::span<const float>, most_inputs> inputs;
  std::size_t i = 0;
  for (std::uint32_t t = operation.first_term; t != ComputeGraph::none; t = window_.terms[t].next) {
    const auto& term = window_.terms[t];
    inputs[i++] = {rows_[term.value] + term.offset, term.size};
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
      terms_.push_back({rows_[term.value] + term.offset, term.factor});
    }
    switch (operation.kind) {
      case Kind::sum: {
        float* out = output_row(operation);
        rows_[operation.out] = out;
        jobs_.push_back(
            {out, sizes_[operation.out], static_cast<std::uint32_t>(first), operation.term_count});
        ++statistics_.sums;
        break;
      }
      case Kind::concatenation: {
        float* out = rows_[operation.out] = take(sizes_[operation.out]);
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
        const std::uint32_t size = sizes_[operation.out];
        float* out = rows_[operation.out] = take(size);
        transforms_.push_back(
            {&window_.transforms[operation.call], inputs_of(operation), {out, size}});
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
      terms_.push_back({is_gradient ? nullptr : rows_[term.value] + term.offset, term.factor});
    }
    float* out = output_row(sum, x);
    rows_[sum.out] = out;
    jobs_.push_back({out, sizes_[sum.out], first, sum.term_count});
    ++statistics_.sums;
    ++statistics_.folded;
  }
}

void Executor::order_by_node(std::size_t begin, std::size_t end) {
  keys_.clear();
  for (std::size_t i = begin; i < end; ++i) {
    const ComputeGraph::OperationId id = window_.order[i];
    keys_.push_back(static_cast<std::uint64_t>(window_.operations[id].node) << 32 | id);
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
    gradients_.push_back(
        {.node = operation.node, .draw = operation.draw, .x = rows_[x.value] + x.offset});
    if (operation.next_folded == ComputeGraph::none) {
      gradients_.back().gradient = rows_[operation.out] = take(sizes_[operation.out]);
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
    if (operation.out != ComputeGraph::none && readers_[operation.out] == 0 &&
        dies_[operation.out] && rows_[operation.out] != nullptr) {
      give_back(operation.out);
    }
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
