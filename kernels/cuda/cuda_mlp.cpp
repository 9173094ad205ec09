#include "kernels/cuda/cuda_mlp.hpp"

#include <algorithm>

#include "kernels/cuda/cuda_mlp_batch.hpp"
#include "kernels/cuda/launches.hpp"
#include "kernels/finite.hpp"

namespace starling {

using namespace cuda;

namespace {

/// Gradients whose tables are in memory at a time.
constexpr std::size_t tabled_at_once = 16 * queued_at_once;

std::uint32_t stride_of(std::uint32_t columns) { return (columns + 3) / 4 * 4; }

/// f<Kernel>() with the kernel of so many threads.
template <class F>
void with_step(unsigned threads, const F& f) {
  switch (threads) {
    case StepKernel::threads:
      return f.template operator()<StepKernel>();
    case FlatStepKernel::threads:
      return f.template operator()<FlatStepKernel>();
    case BroadStepKernel::threads:
      return f.template operator()<BroadStepKernel>();
    default:
      return f.template operator()<WideStepKernel>();
  }
}

}  // namespace

CudaMlp::CudaMlp(const Mlp& mlp, Device& device, Precision precision, const Limits& limits)
    : mlp_(mlp),
      device_(device),
      precision_(precision),
      limits_(limits),
      train_(device, mlp.train(), "training"),
      test_(device, mlp.test(), "test"),
      sampler_(device, mlp.sampler()) {
  for (const DenseLayer& layer : mlp.layers()) layers_.push_back(shape_of(layer));
  const auto rows = whole(static_cast<std::size_t>(facts().batch_size));
  layout_ = StepKernel::layout(layers_.data(), whole(layers_.size()), rows);
  const std::size_t most = std::min(limits.shared_bytes, device.facts().shared_bytes);
  // A layout counts in 32 bits, which one that is far too large would wrap around.
  is_small_ = std::max<std::size_t>(rows, facts().parameters) <= most / sizeof(float) &&
              block_bytes(most_folded_sums, most_folded_sums * most_folded_terms) <= most;
  if (is_small_) {
    threads_ = limits.threads != 0 ? limits.threads : step_threads();
    with_step(threads_, [&]<class Kernel>() {
      layout_ = Kernel::layout(layers_.data(), whole(layers_.size()), rows);
    });
  }
  bool has_fast_layer = false;
  for (std::size_t l = 0; l < layers_.size(); ++l) has_fast_layer |= is_fast(l);
  if (is_small_ || !has_fast_layer) precision_ = Precision::strict;
}

/// Floats between the rows of a gradient of activations.
std::uint32_t CudaMlp::slope_stride() const {
  std::uint32_t widest = 0;
  for (std::size_t l = 1; l < layers_.size(); ++l)  // nobody asks for that of the samples
    widest = std::max(widest, stride_of(layers_[l].inputs));
  return widest;
}

/// Floats of scratch memory that a task takes.
std::size_t CudaMlp::scratch_floats(std::size_t rows) const {
  std::size_t floats = 2 * rows;  // losses are doubles
  for (const LayerShape& layer : layers_) floats += rows * stride_of(layer.outputs);
  if (gathers(rows)) floats += rows * stride_of(layers_[0].inputs);
  return floats + 2 * rows * slope_stride();
}

CudaMlp::SumCount CudaMlp::count_sums(std::span<const GradientRequest> requests) {
  SumCount count;
  for (const GradientRequest& request : requests) {
    count.sums += request.sums.size();
    for (const LinearJob& sum : request.sums) count.terms += sum.terms;
  }
  return count;
}

/// Lists the sums that a request wants and their terms at `next`, which goes on behind them; says whether all that they read
/// and write begins at multiples of 16 bytes.
bool CudaMlp::list_sums(const GradientRequest& request, LinearTask* sums, TermOnDevice* terms,
                        SumCount& next) {
  bool are_even = true;
  for (const LinearJob& job : request.sums) {
    sums[next.sums++] = {job.out, job.length, whole(next.terms), job.terms, 0};
    are_even &= is_even(job.out);
    for (const LinearTerm& term : std::span(request.terms + job.first_term, job.terms)) {
      terms[next.terms++] = {term.values, term.factor};
      are_even &= is_even(term.values);
    }
  }
  return are_even;
}

/// What Device::begin() must make room for before take(), for so many indices of gradients or none, and sums.
std::size_t CudaMlp::room_of(std::size_t tasks, std::size_t indices, const SumCount& count) const {
  const std::size_t draws = indices > 0 ? tasks : 0;
  return pointer_room(tasks, draws > 0 ? indices / tasks : Mlp::evaluation_block) +
         Device::room_of<StepTask>(tasks) + Device::room_of<std::int32_t>(indices) +
         Device::room_of<double>(tasks) + 2 * Device::room_of<std::uint32_t>(tasks) +
         Device::room_of<DrawTask>(draws) + Device::room_of<LinearTask>(count.sums) +
         Device::room_of<TermOnDevice>(count.terms);
}

CudaMlp::Batch CudaMlp::take(std::size_t tasks, std::size_t rows, std::size_t indices,
                             const Samples& data, const SumCount& count) const {
  Batch batch{.rows = whole(rows), .data = data};
  batch.tasks = device_.twin<StepTask>(tasks);
  batch.draws = device_.twin<DrawTask>(indices > 0 ? tasks : 0);
  batch.sums = device_.twin<LinearTask>(count.sums);
  batch.terms = device_.twin<TermOnDevice>(count.terms);
  batch.strange = device_.twin<std::uint32_t>(tasks);
  batch.indices = device_.twin<std::int32_t>(indices);
  batch.losses = device_.twin<double>(tasks);
  batch.right = device_.twin<std::uint32_t>(tasks);
  return batch;
}

/// The tables of gradients, with the sums that are wanted in their place. One thread does it in less time than it takes to
/// wake others up, which sleep while they wait.
void CudaMlp::fill(const Batch& batch, std::span<const GradientRequest> requests) {
  SumCount next;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const GradientRequest& request = requests[r];
    const LinearTask* const sums = batch.sums.device + next.sums;
    const bool are_even = list_sums(request, batch.sums.host, batch.terms.host, next);
    batch.tasks.host[r] = {.x = request.x,
                           .gradient = request.gradient,
                           .samples = batch.indices.device + r * batch.rows,
                           .first = 0,
                           .rows = batch.rows,
                           .sums = sums,
                           .terms = batch.terms.device,
                           .sum_count = whole(request.sums.size()),
                           .are_sums_even = are_even ? 1U : 0U,
                           .strange = batch.strange.device + r};
    batch.strange.host[r] = 0;
    batch.draws.host[r] = {request.draw, static_cast<std::uint32_t>(request.node), 0};
  }
}

void CudaMlp::gradients(std::span<GradientRequest> requests) const {
  if (is_small_) {
    gradients_in_blocks(requests);
  } else {
    gradients_by_layers(requests);
  }
}

void CudaMlp::gradients_by_layers(std::span<GradientRequest> requests) const {
  const auto rows = static_cast<std::size_t>(facts().batch_size);
  const std::size_t fitting = limits_.scratch_bytes / (sizeof(float) * scratch_floats(rows));
  const std::size_t most = std::clamp<std::size_t>(fitting, 1, queued_at_once);
  const auto lock = device_.use();
  for (std::size_t r = 0; r < requests.size(); r += tabled_at_once) {
    const auto together = requests.subspan(r, std::min(tabled_at_once, requests.size() - r));
    const auto pieces = [&](const auto& each) {
      for (std::size_t p = 0; p < together.size(); p += most)
        each(p, std::min(most, together.size() - p));
    };
    std::size_t room = 0;
    std::vector<SumCount> sums;
    pieces([&](std::size_t p, std::size_t count) {
      sums.push_back(count_sums(together.subspan(p, count)));
      room += room_of(count, count * rows, sums.back());
    });
    device_.begin(room);
    std::vector<Batch> batches;  // the device works on one while the host prepares the next
    pieces([&](std::size_t p, std::size_t count) {
      batches.push_back(queue_gradients(together.subspan(p, count), sums[p / most]));
    });
    device_.wait();
    pieces([&](std::size_t p, std::size_t count) {
      const Batch& batch = batches[p / most];
      for (std::size_t i = 0; i < count; ++i)
        together[p + i].loss = loss_with(batch.strange.host[i] == 0, batch.losses.host[i]);
    });
  }
}

CudaMlp::Batch CudaMlp::queue_gradients(std::span<const GradientRequest> requests,
                                        const SumCount& count) const {
  const auto rows = static_cast<std::size_t>(facts().batch_size);
  Batch batch = take(requests.size(), rows, requests.size() * rows, train_.get(), count);
  fill(batch, requests);
  device_.upload(batch.tasks, batch.draws, batch.sums, batch.terms, batch.strange);
  sampler_.draw(batch.draws, batch.indices);
  lay_out(batch);
  forward(batch);
  backward(batch);
  device_.download(batch.losses);
  device_.download(batch.strange);
  return batch;
}

/// Of a block with a task of so many sums and terms.
std::size_t CudaMlp::block_bytes(std::size_t sums, std::size_t terms) const {
  return sizeof(float) * (std::size_t{layout_.total} + BlockTask::words(sums, terms));
}

/// As few threads of a block as fill a multiprocessor together with those of the others that it has room for: what one
/// block waits for, at its barriers most of all, others make up for.
unsigned CudaMlp::step_threads() const {
  const std::size_t bytes = block_bytes(1, 2);
  if (bytes <= shared_by(9)) return StepKernel::threads;
  if (bytes <= shared_by(5)) return FlatStepKernel::threads;
  if (bytes <= shared_by(3)) return BroadStepKernel::threads;
  return WideStepKernel::threads;
}

void CudaMlp::gradients_in_blocks(std::span<GradientRequest> requests) const {
  struct Piece {
    std::span<GradientRequest> requests;
    Twin<BlockResult> results;
  };
  std::vector<Piece> pieces;
  const auto finish = [&] {
    device_.wait();
    for (const Piece& piece : pieces) {
      for (std::size_t i = 0; i < piece.requests.size(); ++i) {
        const BlockResult& result = piece.results.host[i];
        piece.requests[i].loss = loss_with(result.strange == 0, result.loss);
      }
    }
    pieces.clear();
  };
  const auto lock = device_.use();
  for (std::size_t begin = 0; begin < requests.size();) {
    const auto here = requests.subspan(begin, std::min(queued_at_once, requests.size() - begin));
    std::uint32_t words = 0;
    for (const GradientRequest& request : here) {
      const SumCount count = count_sums({&request, 1});
      words = std::max(words, BlockTask::words(count.sums, count.terms));
    }
    const std::size_t room = Device::room_of<std::uint32_t>(words * here.size()) +
                             Device::room_of<BlockResult>(here.size());
    if (!device_.has_room(room)) finish();
    device_.begin(room);
    pieces.push_back({here, queue_in_blocks(here, words)});
    begin += here.size();
  }
  finish();
}

/// One thread fills tables in less time than it takes to wake others up, which sleep while they wait.
Twin<BlockResult> CudaMlp::queue_in_blocks(std::span<const GradientRequest> requests,
                                           std::uint32_t words) const {
  const auto tasks = device_.twin<std::uint32_t>(words * requests.size());
  const auto results = device_.twin<BlockResult>(requests.size());
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const GradientRequest& request = requests[r];
    auto* task = reinterpret_cast<BlockTask*>(tasks.host + r * words);
    auto* const sums = reinterpret_cast<LinearTask*>(task + 1);
    auto* const terms = reinterpret_cast<TermOnDevice*>(sums + request.sums.size());
    SumCount count;
    const bool are_even = list_sums(request, sums, terms, count);
    *task = {.x = request.x,
             .gradient = request.gradient,
             .draw = request.draw,
             .node = static_cast<std::uint32_t>(request.node),
             .sums = whole(count.sums),
             .terms = whole(count.terms),
             .are_sums_even = are_even ? 1U : 0U};
  }
  with_step(threads_, [&]<class Kernel>() {
    typename Kernel::Arguments arguments{
        .tasks = tasks.host,
        .results = results.host,
        .task_words = words,
        .rows = whole(static_cast<std::size_t>(facts().batch_size)),
        .data = train_.get(),
        .parts = sampler_.get(),
        .layer_count = whole(layers_.size()),
        .layers = {},
        .at = layout_};
    std::ranges::copy(layers_, arguments.layers);
    device_.launch<Kernel>(requests.size(), arguments,
                           whole(layout_.total + words) * std::uint32_t{sizeof(float)});
  });
  return results;
}

/// Cuts the scratch memory up. Whole groups of 4 floats come first, so that every activation is aligned for cuBLAS.
void CudaMlp::lay_out(Batch& batch) const {
  const std::size_t room = batch.tasks.count * batch.rows;
  auto* next = static_cast<float*>(scratch_.fit(
      device_, batch.tasks.count * scratch_floats(batch.rows) * sizeof(float), "activations"));
  for (const LayerShape& layer : layers_) {
    batch.after.push_back({next, stride_of(layer.outputs)});
    next += room * stride_of(layer.outputs);
  }
  for (Activations& slope : batch.slope) {
    slope = {next, slope_stride()};
    next += room * slope.stride;
  }
  if (gathers(batch.rows)) {
    batch.gathered = {next, stride_of(layers_[0].inputs)};
    next += room * batch.gathered.stride;
    device_.launch<GatherKernel>(room, {batch.tasks.device, batch.data, batch.rows, batch.gathered},
                                 0);
  }
  batch.row_losses = reinterpret_cast<double*>(next);
}

LayerArguments CudaMlp::arguments(const Batch& batch, std::size_t l) const {
  const Rows samples{batch.data.x, batch.data.features};
  return {.tasks = batch.tasks.device,
          .layer = layers_[l],
          .rows = batch.rows,
          .is_first = l == 0 ? 1U : 0U,
          .is_last = l + 1 == layers_.size() ? 1U : 0U,
          .is_free = 0,
          .input = l == 0 ? samples : batch.after[l - 1],
          .output = batch.after[l],
          .slope = {}};
}

void CudaMlp::forward_layer(const Batch& batch, std::size_t l) const {
  const LayerArguments layer = arguments(batch, l);
  if (is_fast(l)) {
    forward_fast(batch, layer);
  } else {
    launch_forward(device_, batch.tasks.count, layer);
  }
}

/// To the losses; of gradients, to the gradients of logits as well.
void CudaMlp::forward(const Batch& batch) const {
  const std::size_t last = layers_.size() - 1;
  for (std::size_t l = 0; l < last; ++l) forward_layer(batch, l);
  if (layers_[last].outputs <= few_outputs && batch.rows <= NarrowLossKernel::rows) {
    launch_losses(device_, batch.tasks.count,
                  {.layer = arguments(batch, last),
                   .data = batch.data,
                   .losses = batch.losses.device,
                   .right = batch.right.device});
    return;
  }
  forward_layer(batch, last);
  device_.launch<LossKernel>(batch.tasks.count,
                             {.tasks = batch.tasks.device,
                              .data = batch.data,
                              .rows = batch.rows,
                              .classes = layers_[last].outputs,
                              .logits = batch.after[last],
                              .losses = batch.losses.device,
                              .row_losses = batch.row_losses,
                              .right = batch.right.device},
                             LossKernel::shared_bytes);
}

void CudaMlp::backward(const Batch& batch) const {
  Activations dy = batch.after.back();  // logits have become their gradient
  for (std::size_t l = layers_.size(); l-- > 0;) {
    LayerArguments layer = arguments(batch, l);
    layer.output = dy;
    if (l > 0) layer.slope = batch.slope[l % 2];
    if (is_fast(l)) {  // that of the input first, because a sum may take the place of the model
      if (l > 0) launch_tiles<FastInputGradientKernel>(device_, batch.tasks.count, layer);
      launch_tiles<FastParameterGradientKernel>(device_, batch.tasks.count, layer);
    } else {
      launch_gradients(device_, batch.tasks.count, layer);
    }
    dy = layer.slope;
  }
}

void CudaMlp::evaluate(std::span<EvaluationRequest> requests) const {
  Evaluations evaluations(requests, mlp_.test().samples, Mlp::evaluation_block);
  const std::size_t most = std::max<std::size_t>(
      1, limits_.scratch_bytes / (sizeof(float) * scratch_floats(Mlp::evaluation_block)));
  const auto lock = device_.use();
  for (std::size_t begin = 0; begin < evaluations.tasks(); begin += most) {
    const std::size_t count = std::min(most, evaluations.tasks() - begin);
    device_.begin(room_of(count, 0, {}));
    Batch batch = take(count, Mlp::evaluation_block, 0, test_.get(), {});
    std::fill_n(batch.tasks.host, count, StepTask{});
    evaluations.fill(begin, batch.tasks);
    device_.upload(batch.tasks);
    lay_out(batch);
    forward(batch);
    device_.download(batch.losses);
    device_.download(batch.right);
    device_.wait();
    evaluations.note(begin, batch.tasks, batch.losses, batch.right);
  }
  evaluations.answer();
}

}  // namespace starling
