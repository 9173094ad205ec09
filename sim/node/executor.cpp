// A window's waves, the order of its gradients, and the rows of each request. One file, for all of them count down who
// still reads the values of the window at hand.

#include "sim/node/executor.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/core.h>
#include <omp.h>

#include "sim/base/error.hpp"
#include "sim/base/prefetch.hpp"
#include "sim/node/worker_thread.hpp"

namespace starling {
namespace {

/// Places of a strip of gradients, of `places` in all.
std::size_t strip_width(std::size_t places, std::size_t gradients, std::size_t waves) {
  if (waves == 1) return RequestQueue::short_strip(gradients);
  // Else wide ones, as their edges wait for each other, but some for every thread, which may have to stand back.
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  const auto part = [places](std::size_t parts) { return (places - 1) / parts + 1; };
  return std::max(part(4 * threads), std::min(2 * waves, part(2 * threads)));
}

}  // namespace

Executor::Executor(Backend& backend, const Workload& workload, bool threaded,
                   bool stops_at_divergence, Sharing sharing)
    : backend_(backend),
      workload_(workload),
      rows_(backend),
      stops_at_divergence_(stops_at_divergence) {
  if (sharing.peers != nullptr) {
    sharding_ = std::make_unique<Sharding>(std::move(sharing), backend, *this);
  }
  if (threaded) worker_ = start_worker([this] { work(); });
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
}

void Executor::run(Window& window) {
  std::swap(window_, window);
  window.clear();
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
  is_awaited_ = true;
  changed_.wait(lock, [this] { return state_ == State::idle; });
  is_awaited_ = false;
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
  rows_.fit(window_.value_count);
  for (const ValueId value : window_.garbage) rows_.release(value);
  for (const auto& use : window_.uses) rows_.expect(use.value, use.size, use.readers, use.dies);

  if (sharding_) {
    sharding_->after(0);
    for (const ValueId value : sharding_->unread()) rows_.release(value);
  }

  ++statistics_.windows;
  const auto operation = [this](std::size_t i) -> const ComputeGraph::Operation& {
    return window_.operations[window_.order[i]];
  };
  const std::size_t count = window_.order.size();
  const auto end_of_wave = [&](std::size_t begin) {
    std::size_t end = begin + 1;
    while (end < count && operation(end).wave == operation(begin).wave) ++end;
    ++statistics_.waves;
    return end;
  };
  const bool flows = workload_.takes_one_by_one() && !sharding_;
  for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
    end = end_of_wave(begin);
    current_ = 0;
    const ShardPlan::Wave wave = operation(begin).wave;
    if (sharding_) sharding_->before(wave);
    if (operation(begin).kind == ComputeGraph::Kind::gradient) {
      std::size_t waves = 1;
      // Gradients of the waves behind wait for what they read, not for the whole wave.
      while (flows && end < count && operation(end).kind == ComputeGraph::Kind::gradient) {
        end = end_of_wave(end);
        ++waves;
      }
      run_gradients(begin, end, waves);
    } else {
      run_wave(begin, end);
    }
    if (sharding_) sharding_->after(wave);
  }
  statistics_.peak_bytes = std::max(statistics_.peak_bytes, rows_.peak_bytes());
}

float* Executor::output_row(const ComputeGraph::Operation& operation, ValueId x) {
  for (std::uint32_t t = operation.first_term; t != ComputeGraph::none; t = window_.terms[t].next) {
    const ValueId value = window_.terms[t].value;
    if (float* row = rows_.take_over(operation.out, value, value == x ? 2 : 1)) return row;
  }
  return rows_.make(operation.out);
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

void Executor::collect_wave(std::size_t begin, std::size_t end) {
  jobs_.clear();
  terms_.clear();
  transforms_.clear();
  distances_.clear();
  measures_.clear();
  evaluations_.clear();
  evaluated_.clear();

  for (std::size_t i = begin; i < end; ++i) collect(i);
}

void Executor::collect(std::size_t place) {
  using Kind = ComputeGraph::Kind;
  const auto& operation = window_.operations[window_.order[place]];
  const std::size_t first = terms_.size();
  for (std::uint32_t t = operation.first_term; t != ComputeGraph::none; t = window_.terms[t].next) {
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
      float* out = rows_.make(operation.out);
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
      float* out = rows_.make(operation.out);
      transforms_.push_back(
          {&window_.transforms[operation.call], inputs_of(operation), {out, operation.size}});
      ++statistics_.transforms;
      break;
    }
    case Kind::measure:
      measures_.push_back(
          {&window_.measures[operation.call], inputs_of(operation), &operation.scalars[0]->number});
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
      evaluated_.push_back(place);
      ++statistics_.evaluations;
      break;
    case Kind::gradient:
      ensure(false, "a gradient in a wave of sums");
  }
}

void Executor::call_batches() {
  if (!jobs_.empty()) {
    ++statistics_.sum_batches;
    backend_.linear(jobs_, terms_);
  }
  if (!transforms_.empty()) {
    ++statistics_.transform_batches;
    backend_.transform(transforms_);
  }
  if (!distances_.empty()) {
    ++statistics_.distance_batches;
    backend_.squared_distances(distances_);
  }
  if (!measures_.empty()) {
    ++statistics_.distance_batches;
    backend_.measure(measures_);
  }
  if (!evaluations_.empty()) {
    ++statistics_.evaluation_batches;
    workload_.evaluate(evaluations_);
    for (std::size_t e = 0; e < evaluations_.size(); ++e) {
      const auto& operation = window_.operations[window_.order[evaluated_[e]]];
      const EvaluationRequest& done = evaluations_[e];
      operation.scalars[0]->number = done.loss;
      // Outputs that are not finite say nothing, though they count as some class.
      operation.scalars[1]->number = std::isfinite(done.loss) ? done.accuracy : std::nan("");
    }
  }
}

void Executor::run_wave(std::size_t begin, std::size_t end) {
  collect_wave(begin, end);
  call_batches();
  for (std::size_t i = begin; i < end; ++i) {
    const auto& operation = window_.operations[window_.order[i]];
    release_inputs(operation);
    if (operation.out == ComputeGraph::none) continue;
    rows_.release_unread(operation.out);
    rows_.publish(operation.out);
  }
}

// The turn of a gradient comes behind those of all whose results it reads, and behind the nodes before its own. So on a ring
// a node's second gradient follows its right neighbor's first one, and so on: some models at a time make all their way
// through the window while they are in the cache, and the next ones follow.
void Executor::order_in_strips(std::size_t begin, std::size_t end, std::size_t waves) {
  constexpr auto none = ComputeGraph::none;
  const auto& operations = window_.operations;
  NodeId lowest = std::numeric_limits<NodeId>::max(), highest = 0;
  for (const auto& batch : window_.batches) {
    lowest = std::min(lowest, batch.owner);
    highest = std::max(highest, batch.owner);
  }
  const auto nodes = static_cast<std::size_t>(highest - lowest) + 1;
  const std::size_t nodes_per_place = nodes / (end - begin) + 1;
  const std::size_t places = (nodes - 1) / nodes_per_place + 1;
  const std::size_t width = strip_width(places, end - begin, waves);
  const std::size_t turns = width + waves;  // of a strip, at most

  if (waves > 1) turns_.assign(operations.size(), 0);
  keys_.clear();
  ends_.assign(((places - 1) / width + 1) * turns, 0);
  for (std::size_t i = begin; i < end; ++i) {
    const ComputeGraph::OperationId gradient = window_.order[i];
    const NodeId node = window_.batches[operations[gradient].call].owner;
    const std::size_t place = static_cast<std::size_t>(node - lowest) / nodes_per_place;
    const std::size_t strip = place / width;
    std::size_t turn = place % width;
    for (auto id = waves > 1 ? gradient : none; id != none; id = operations[id].next_folded) {
      for (auto t = operations[id].first_term; t != none; t = window_.terms[t].next) {
        const ComputeGraph::OperationId producer = window_.terms[t].producer;
        if (producer < turns_.size()) turn = std::max<std::size_t>(turn, turns_[producer]);
      }
    }
    for (auto id = waves > 1 ? gradient : none; id != none; id = operations[id].next_folded) {
      turns_[id] = static_cast<std::uint32_t>(turn + 1);
    }
    keys_.push_back(strip * turns + turn);
    ++ends_[keys_.back()];
  }

  std::exclusive_scan(ends_.begin(), ends_.end(), ends_.begin(), std::size_t{0});
  unsorted_.assign(window_.order.begin() + static_cast<std::ptrdiff_t>(begin),
                   window_.order.begin() + static_cast<std::ptrdiff_t>(end));
  for (std::size_t i = 0; i < unsorted_.size(); ++i) {
    window_.order[begin + ends_[keys_[i]]++] = unsorted_[i];
  }
  strips_.clear();
  for (std::size_t last = turns - 1; last < ends_.size(); last += turns) {
    strips_.push_back(ends_[last]);
  }
  queue_.reset(strips_);
}

void Executor::run_gradients(std::size_t begin, std::size_t end, std::size_t waves) {
  order_in_strips(begin, end, waves);
  statistics_.gradient_batches += static_cast<std::int64_t>(waves);
  first_gradient_ = begin;
  gradients_.clear();
  std::size_t sums = 0, terms = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const auto& operation = window_.operations[window_.order[i]];
    sums += operation.folded_sums;
    terms += operation.folded_terms;
  }
  jobs_.resize(sums);
  terms_.resize(terms);
  sums = terms = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const auto& operation = window_.operations[window_.order[i]];
    const auto [node, draw] = window_.batches[operation.call];
    gradients_.push_back({.node = node,
                          .draw = draw,
                          .sums = {jobs_.data() + sums, operation.folded_sums},
                          .terms = terms_.data() + terms});
    sums += operation.folded_sums;
    terms += operation.folded_terms;
  }
  statistics_.gradients += static_cast<std::int64_t>(end - begin);
  statistics_.sums += static_cast<std::int64_t>(sums);
  statistics_.folded += static_cast<std::int64_t>(sums);
  {
    const RowStore::Lanes lanes(rows_, workload_.facts().parameters);
    workload_.gradients_of(*this, gradients_);
  }
  check_losses();
}

// The order of a batch is not that of processes which share the run: all tell of the first by wave, node and draw.
void Executor::check_losses() {
  const GradientRequest* first = nullptr;
  const auto place = [this](const GradientRequest& request) {
    return std::tuple(gradient(index_of(request)).wave, request.node, request.draw);
  };
  for (const GradientRequest& request : gradients_) {
    if (std::isfinite(request.loss)) [[likely]]
      continue;
    if (!stops_at_divergence_) {
      check_loss(request);
    } else if (first == nullptr || place(request) < place(*first)) {
      first = &request;
    }
  }
  if (first == nullptr) return;
  current_ = first->node;
  check_loss(*first);
}

// Recorded on another processor, the operations of a batch lie far apart and name each other.
void Executor::fetch_ahead(std::size_t index) const {
  constexpr auto none = ComputeGraph::none;
  const std::size_t count = gradients_.size();
  if (index + 4 < count) prefetch(&gradient(index + 4), sizeof(ComputeGraph::Operation));
  if (index + 3 < count && gradient(index + 3).next_folded != none) {
    prefetch(&window_.operations[gradient(index + 3).next_folded], sizeof(ComputeGraph::Operation));
  }
  if (index + 2 < count && gradient(index + 2).next_folded != none) {
    const auto& sum = window_.operations[gradient(index + 2).next_folded];
    prefetch(&window_.terms[gradient(index + 2).first_term]);
    prefetch(&window_.terms[sum.first_term], 3 * sizeof(ComputeGraph::Term));
  }
  if (index + 1 < count && gradient(index + 1).next_folded != none) {
    const auto& sum = window_.operations[gradient(index + 1).next_folded];
    for (std::uint32_t t = sum.first_term; t != none; t = window_.terms[t].next) {
      rows_.fetch(window_.terms[t].value);
    }
    rows_.fetch(sum.out);
  }
}

GradientRequest* Executor::begin(RequestQueue::Lane& lane) {
  const auto index = queue_.take(lane, [this](std::size_t i) { return try_to_begin(i); });
  if (!index) return nullptr;
  GradientRequest& request = gradients_[*index];
  request.next_x = nullptr;
  // Nobody else begins, and ends, the next one of the strip that this thread has.
  if (const std::size_t next = *index + 1; next < strips_[lane.strip]) {
    const auto& x = window_.terms[gradient(next).first_term];
    if (rows_.is_made(x.value)) request.next_x = row(x.value) + x.offset;
  }
  return &request;
}

bool Executor::try_to_begin(std::size_t index) {
  GradientRequest& request = gradients_[index];
  const auto& operation = gradient(index);
  fetch_ahead(index);
  const auto& x = window_.terms[operation.first_term];
  if (!rows_.is_made(x.value)) return false;
  request.x = row(x.value) + x.offset;
  if (request.sums.empty()) {
    request.gradient = rows_.make(operation.out);
    return true;
  }
  const auto is_own = [&](ValueId value) {  // a sum that is computed with the same gradient
    auto id = operation.next_folded;
    while (id != ComputeGraph::none && window_.operations[id].out != value) {
      id = window_.operations[id].next_folded;
    }
    return id != ComputeGraph::none;
  };
  for (auto id = operation.next_folded; id != ComputeGraph::none;
       id = window_.operations[id].next_folded) {
    for (auto t = window_.operations[id].first_term; t != ComputeGraph::none;
         t = window_.terms[t].next) {
      const ValueId value = window_.terms[t].value;
      if (value != operation.out && !rows_.is_made(value) && !is_own(value)) return false;
    }
  }
  LinearJob* job = jobs_.data() + (request.sums.data() - jobs_.data());
  LinearTerm* const first = terms_.data() + (request.terms - terms_.data());
  LinearTerm* next = first;
  for (auto id = operation.next_folded; id != ComputeGraph::none;
       id = window_.operations[id].next_folded) {
    const auto& sum = window_.operations[id];
    *job = {.out = nullptr,
            .length = sum.size,
            .first_term = static_cast<std::uint32_t>(next - first),
            .terms = sum.term_count};
    for (std::uint32_t t = sum.first_term; t != ComputeGraph::none; t = window_.terms[t].next) {
      const auto& term = window_.terms[t];
      const bool is_gradient = term.value == operation.out;
      *next++ = {is_gradient ? nullptr : row(term.value) + term.offset, term.factor};
    }
    (job++)->out = output_row(sum, x.value);
  }
  return true;
}

void Executor::end(GradientRequest& request) {
  const auto& operation = gradient(index_of(request));
  if (operation.scalars[0] != nullptr) operation.scalars[0]->number = request.loss;
  if (operation.scalars[1] != nullptr) {
    operation.scalars[1]->number = static_cast<double>(request.episodes);
  }
  const ValueId x = window_.terms[operation.first_term].value;
  std::uint32_t uses_of_x = 1;
  // A result that is kept alive only by a scalar of its operation (the loss of an unread gradient) goes at once.
  rows_.release_unread(operation.out);
  rows_.publish(operation.out);
  for (auto id = operation.next_folded; id != ComputeGraph::none;
       id = window_.operations[id].next_folded) {
    rows_.publish(window_.operations[id].out);
    for (std::uint32_t t = window_.operations[id].first_term; t != ComputeGraph::none;
         t = window_.terms[t].next) {
      const ValueId value = window_.terms[t].value;
      if (value == x) {
        ++uses_of_x;
      } else if (value != operation.out) {  // which has no row
        rows_.drop(value);
      }
    }
  }
  rows_.drop(x, uses_of_x);
}

void Executor::release_inputs(const ComputeGraph::Operation& operation) {
  for (std::uint32_t t = operation.first_term; t != ComputeGraph::none; t = window_.terms[t].next) {
    rows_.drop(window_.terms[t].value);
  }
}

void Executor::check_loss(const GradientRequest& request) {
  if (std::isfinite(request.loss)) [[likely]]
    return;
  if (!stops_at_divergence_) {
    diverged_.add(request.node, request.draw);
    return;
  }
  throw Diverged(fmt::format("the loss of node {}", request.node), request.loss,
                 fmt::format("at its gradient {}", request.draw));
}

}  // namespace starling
