// One file, for the backward pass goes through the buffers of the forward pass in the opposite order (Passes).

#include "kernels/cuda/cuda_cnn.hpp"

#include <algorithm>

#include "kernels/cuda/launches.hpp"
#include "kernels/cuda/random_stream.hpp"
#include "kernels/finite.hpp"
#include "kernels/first_failure.hpp"
#include "kernels/scratch.hpp"

namespace starling {

using namespace cuda;

namespace {

/// For kernels that go through the pixels of images.
template <class Kernel>
void launch_pixels(Device& device, std::uint64_t images, std::uint32_t pixels,
                   const typename Kernel::Arguments& a) {
  device.launch<Kernel>(images * image_parts(pixels, a.channels), a, 0);
}

ConvolutionShape shape_of(const CnnNetwork::Convolve& o, const CnnNetwork::Placed& place) {
  return {.height = whole(place.from.height),
          .width = whole(place.from.width),
          .channels = whole(place.from.channels),
          .spread = 1,
          .border_height = whole(o.border_height),
          .border_width = whole(o.border_width),
          .kernel_height = whole(o.shape.kernel_height),
          .kernel_width = whole(o.shape.kernel_width),
          .stride = whole(o.shape.stride),
          .out_height = whole(place.to.height),
          .out_width = whole(place.to.width),
          .outputs = whole(o.shape.outputs)};
}

}  // namespace

/// What is computed together: `tasks` models, each with room for `rows` samples.
struct CudaCnn::Batch {
  std::uint32_t rows;
  Samples data;
  CnnNetwork::Mode mode;
  Twin<StepTask> tasks{};
  Twin<std::int32_t> indices{};
  Twin<float*> of_batches{};  // statistics of batch normalization
  Twin<Stream> streams{};     // (dropouts, tasks, rows)
  Twin<double> losses{};
  Twin<std::uint32_t> right{};    // evaluations
  Twin<std::uint32_t> strange{};  // gradients
  // In scratch memory, (tasks, rows, size) each:
  std::vector<float*> values{}, slopes{};  // [buffer]
  float* of_samples = nullptr;             // (tasks, rows, 2, channels normalized)
  float* sums = nullptr;                   // (tasks, rows, 2, widest)
  float* shares = nullptr;                 // the same
  float* flipped = nullptr;                // (tasks, weights of the largest convolution)
  double* row_losses = nullptr;

  std::uint64_t images() const { return std::uint64_t{tasks.count} * rows; }
};

CudaCnn::CudaCnn(const Cnn& cnn, Device& device, std::size_t scratch_bytes)
    : cnn_(cnn),
      device_(device),
      scratch_bytes_(std::min<std::size_t>(scratch_bytes, device.facts().free_bytes / 4)),
      train_(device, cnn.train(), "training"),
      test_(device, cnn.test(), "test") {
  const auto set = [&](std::size_t buffer, std::size_t size) {
    if (sizes_.size() <= buffer) sizes_.resize(buffer + 1);
    sizes_[buffer] = size;
  };
  for (const CnnNetwork::Placed& place : cnn.network().operations()) {
    set(place.input, place.from.size());
    set(place.output, place.to.size());
    if (const auto* dropout = std::get_if<CnnNetwork::Dropout>(&place.operation)) {
      set(dropout->factors, place.to.size());
      dropout_layers_.push_back(dropout->layer);
    }
  }
}

bool CudaCnn::fits(const Cnn& cnn, const Device& device) {
  const std::size_t rows = std::max({static_cast<std::size_t>(cnn.facts().batch_size),
                                     Cnn::evaluation_block, cnn.calibration_samples().size()});
  return std::ranges::all_of(cnn.network().operations(), [&](const CnnNetwork::Placed& place) {
    // Kernels count the pixels of a task in 32 bits, and a tile more.
    if (rows * std::max(place.from.pixels(), place.to.pixels()) >= std::size_t{1} << 31)
      return false;
    const auto* normalize = std::get_if<CnnNetwork::Normalize>(&place.operation);
    if (normalize == nullptr) return true;
    NormalizationArguments a{};
    a.channels = whole(place.from.channels);
    a.groups = whole(normalize->groups);
    return NormalizeSumsKernel::Sums::shared_bytes(a) <= device.facts().shared_bytes;
  });
}

/// One operation after the other, on the whole batch; see CnnNetwork::Passes.
struct CudaCnn::Passes {
  Device& device;
  const CnnNetwork& network;
  std::span<const std::size_t> dropout_layers;
  const Batch& batch;

  std::uint64_t tasks() const { return batch.tasks.count; }

  /// Whether a ReLU follows the operation, in the place of its result.
  bool is_cut(const CnnNetwork::Placed& place) const {
    const CnnNetwork::Placed* next = &place + 1;
    return next != network.operations().data() + network.operations().size() &&
           std::holds_alternative<CnnNetwork::Relu>(next->operation) &&
           next->output == place.output;
  }
  /// Whether the ReLU is done by the normalization before it.
  bool is_done(const CnnNetwork::Placed& relu) const {
    const CnnNetwork::Placed* before = &relu - 1;
    return &relu != network.operations().data() &&
           std::holds_alternative<CnnNetwork::Normalize>(before->operation) && is_cut(*before);
  }

  void map(ElementKernel::Operation operation, std::size_t size, const float* a, const float* b,
           float* y) const {
    const std::uint64_t count = batch.images() * size;
    launch_numbers<ElementKernel>(device, count, {operation, count, a, b, y});
  }

  // --- Convolve ---------------------------------------------------------------------------------

  ConvolutionArguments arguments(const CnnNetwork::Convolve& o,
                                 const CnnNetwork::Placed& place) const {
    return {.tasks = batch.tasks.device,
            .shape = shape_of(o, place),
            .rows = batch.rows,
            .weights = whole(o.weights),
            .bias = whole(o.bias),
            .is_biased = o.is_biased ? 1U : 0U,
            .adds = 0,
            .flipped = nullptr,
            .input = batch.values[place.input],
            .output = batch.values[place.output]};
  }
  void convolve(const ConvolutionArguments& a) const {
    if (a.shape.outputs > 32) {
      launch_tiles<ConvolveKernel>(device, tasks(), a);
    } else {
      launch_tiles<MiddleConvolveKernel, NarrowConvolveKernel>(device, tasks(), a.shape.outputs, a);
    }
  }
  void forward(const CnnNetwork::Convolve& o, const CnnNetwork::Placed& place) const {
    convolve(arguments(o, place));
  }
  void backward(const CnnNetwork::Convolve& o, const CnnNetwork::Placed& place) const {
    ConvolutionArguments a = arguments(o, place);
    a.output = batch.slopes[place.output];
    launch_tiles<ConvolutionGradientKernel, NarrowConvolutionGradientKernel>(device, tasks(),
                                                                             a.shape.outputs, a);
    if (place.input == 0) return;
    const std::uint64_t weights = tasks() * a.shape.inputs() * a.shape.outputs;
    launch_numbers<FlipKernel>(device, weights,
                               {a.tasks, weights, a.shape.places(), a.shape.channels,
                                a.shape.outputs, a.weights, batch.flipped});
    a.shape = a.shape.back();
    a.is_biased = 0;
    a.adds = place.adds_slope ? 1U : 0U;
    a.flipped = batch.flipped;
    a.input = batch.slopes[place.output];
    a.output = batch.slopes[place.input];
    convolve(a);
  }

  // --- Dense ------------------------------------------------------------------------------------

  LayerArguments arguments(const CnnNetwork::Dense& o, const CnnNetwork::Placed& place) const {
    return {.tasks = batch.tasks.device,
            .layer = shape_of(o),
            .rows = batch.rows,
            .is_first = 0,
            .is_last = 1,  // relu is an operation of its own
            .is_free = 1,
            .input = {batch.values[place.input], whole(o.inputs)},
            .output = {batch.values[place.output], whole(o.outputs)},
            .slope = {}};
  }
  void forward(const CnnNetwork::Dense& o, const CnnNetwork::Placed& place) const {
    launch_forward(device, tasks(), arguments(o, place));
  }
  void backward(const CnnNetwork::Dense& o, const CnnNetwork::Placed& place) const {
    LayerArguments a = arguments(o, place);
    // The gradient of the logits has taken their place.
    if (!o.is_last) a.output.at = batch.slopes[place.output];
    if (place.input != 0) a.slope = {batch.slopes[place.input], a.layer.inputs};
    launch_gradients(device, tasks(), a);
  }

  // --- Normalize --------------------------------------------------------------------------------

  NormalizationArguments arguments(const CnnNetwork::Normalize& o,
                                   const CnnNetwork::Placed& place) const {
    return {.tasks = batch.tasks.device,
            .rows = batch.rows,
            .pixels = whole(place.from.pixels()),
            .channels = whole(place.from.channels),
            .groups = whole(o.groups),
            .is_cut = is_cut(place) ? 1U : 0U,
            .scale = whole(o.scale),
            .shift = whole(o.shift),
            .statistics = whole(o.statistics),
            .statistics_width = whole(network.channels_normalized()),
            .of_samples = batch.of_samples,
            .of_batches = batch.of_batches.device,
            .input = batch.values[place.input],
            .output = batch.values[place.output],
            .output_slope = batch.slopes[place.output],
            .input_slope = batch.slopes[place.input],
            .sums = batch.sums,
            .shares = batch.shares};
  }
  void forward(const CnnNetwork::Normalize& o, const CnnNetwork::Placed& place) const {
    const NormalizationArguments a = arguments(o, place);
    if (o.groups > 0 || batch.mode != CnnNetwork::Mode::evaluate) {
      device.launch<MomentsKernel>(tasks() * NormalizedPart::count(a), a,
                                   MomentsKernel::Sums::shared_bytes(a));
    }
    launch_pixels<NormalizeKernel>(device, batch.images(), a.pixels, a);
  }
  void backward(const CnnNetwork::Normalize& o, const CnnNetwork::Placed& place) const {
    const NormalizationArguments a = arguments(o, place);
    device.launch<NormalizeSumsKernel>(tasks() * NormalizedPart::count(a), a,
                                       NormalizeSumsKernel::Sums::shared_bytes(a));
    launch_pixels<NormalizeGradientKernel>(device, batch.images(), a.pixels, a);
    device.launch<ScaleGradientKernel>(tasks(), a, 0);
  }

  // --- What has no parameters -------------------------------------------------------------------

  void forward(const CnnNetwork::Relu&, const CnnNetwork::Placed& place) const {
    if (is_done(place)) return;
    float* y = batch.values[place.output];
    map(ElementKernel::Operation::relu, place.to.size(), y, nullptr, y);
  }
  void backward(const CnnNetwork::Relu&, const CnnNetwork::Placed& place) const {
    if (is_done(place)) return;
    float* dy = batch.slopes[place.output];
    map(ElementKernel::Operation::relu_gradient, place.to.size(), dy, batch.values[place.output],
        dy);
  }

  PoolArguments arguments(const CnnNetwork::Pool& o, const CnnNetwork::Placed& place) const {
    return {.height = whole(place.from.height),
            .width = whole(place.from.width),
            .channels = whole(place.from.channels),
            .window = whole(o.window),
            .x = batch.values[place.input],
            .y = batch.values[place.output],
            .dy = batch.slopes[place.output],
            .dx = batch.slopes[place.input]};
  }
  void forward(const CnnNetwork::Pool& o, const CnnNetwork::Placed& place) const {
    const PoolArguments a = arguments(o, place);
    launch_pixels<PoolKernel>(device, batch.images(), a.squares(), a);
  }
  void backward(const CnnNetwork::Pool& o, const CnnNetwork::Placed& place) const {
    const PoolArguments a = arguments(o, place);
    if (a.height % a.window != 0 || a.width % a.window != 0)
      map(ElementKernel::Operation::clear, place.from.size(), nullptr, nullptr, a.dx);
    launch_pixels<PoolGradientKernel>(device, batch.images(), a.squares(), a);
  }

  AverageArguments arguments(const CnnNetwork::Placed& place, const float* from, float* to) const {
    return {batch.images(), whole(place.from.pixels()), whole(place.from.channels), from, to};
  }
  void forward(const CnnNetwork::Average&, const CnnNetwork::Placed& place) const {
    launch_numbers<AverageKernel>(
        device, batch.images() * place.to.size(),
        arguments(place, batch.values[place.input], batch.values[place.output]));
  }
  void backward(const CnnNetwork::Average&, const CnnNetwork::Placed& place) const {
    launch_numbers<AverageGradientKernel>(
        device, batch.images() * place.from.size(),
        arguments(place, batch.slopes[place.output], batch.slopes[place.input]));
  }

  void forward(const CnnNetwork::Dropout& o, const CnnNetwork::Placed& place) const {
    if (batch.mode != CnnNetwork::Mode::train) return;
    const auto before = static_cast<std::size_t>(std::ranges::find(dropout_layers, o.layer) -
                                                 dropout_layers.begin());
    device.launch<DropoutKernel>(batch.images(),
                                 {.streams = batch.streams.device + before * batch.images(),
                                  .size = whole(place.to.size()),
                                  .threshold = o.threshold,
                                  .grown = 65536.0F / static_cast<float>(65536 - o.threshold),
                                  .factors = batch.values[o.factors],
                                  .y = batch.values[place.output]},
                                 0);
  }
  void backward(const CnnNetwork::Dropout& o, const CnnNetwork::Placed& place) const {
    float* dy = batch.slopes[place.output];
    map(ElementKernel::Operation::multiply, place.to.size(), dy, batch.values[o.factors], dy);
  }

  void forward(const CnnNetwork::Add& o, const CnnNetwork::Placed& place) const {
    map(ElementKernel::Operation::add, place.to.size(), batch.values[place.input],
        batch.values[o.other], batch.values[place.output]);
  }
  void backward(const CnnNetwork::Add& o, const CnnNetwork::Placed& place) const {
    for (const std::size_t to : {place.input, o.other})
      map(ElementKernel::Operation::copy, place.to.size(), batch.slopes[place.output], nullptr,
          batch.slopes[to]);
  }

  // --- All of them ------------------------------------------------------------------------------

  void forward() const {
    device.launch<GatherKernel>(batch.images(),
                                {batch.tasks.device,
                                 batch.data,
                                 batch.rows,
                                 {batch.values[0], whole(network.image().size())}},
                                0);
    for (const CnnNetwork::Placed& place : network.operations())
      std::visit([&](const auto& o) { forward(o, place); }, place.operation);
  }
  void find_losses() const {
    device.launch<LossKernel>(
        tasks(),
        {.tasks = batch.tasks.device,
         .data = batch.data,
         .rows = batch.rows,
         .classes = whole(network.classes()),
         .logits = {batch.values[network.operations().back().output], whole(network.classes())},
         .losses = batch.losses.device,
         .row_losses = batch.row_losses,
         .right = batch.right.device},
        LossKernel::shared_bytes);
  }
  void backward() const {
    const auto operations = network.operations();
    for (std::size_t i = operations.size(); i-- > 0;)
      std::visit([&](const auto& o) { backward(o, operations[i]); }, operations[i].operation);
  }
};

/// The batch's scratch memory, from `base` on; returns how many floats that takes.
std::size_t CudaCnn::deal(Batch& batch, float* base) const {
  ScratchDealer floats(base);
  const std::size_t images = batch.images();
  const std::size_t statistics = 2 * cnn_.network().channels_normalized();
  batch.row_losses = reinterpret_cast<double*>(floats(2 * images));
  batch.of_samples = floats(images * statistics);
  for (const std::size_t size : sizes_) batch.values.push_back(floats(images * size));
  if (batch.mode != CnnNetwork::Mode::train) {
    batch.slopes.resize(sizes_.size());
    return floats.used();
  }
  std::size_t widest = 0, most_weights = 0;
  for (const CnnNetwork::Placed& place : cnn_.network().operations()) {
    if (std::holds_alternative<CnnNetwork::Normalize>(place.operation))
      widest = std::max(widest, place.from.channels);
    if (const auto* convolve = std::get_if<CnnNetwork::Convolve>(&place.operation))
      most_weights = std::max(most_weights, convolve->shape.inputs() * convolve->shape.outputs);
  }
  for (const std::size_t size : sizes_) batch.slopes.push_back(floats(images * size));
  batch.sums = floats(images * 2 * widest);
  batch.shares = floats(images * 2 * widest);
  batch.flipped = floats(batch.tasks.count * most_weights);
  return floats.used();
}

std::size_t CudaCnn::tasks_at_once(std::size_t rows, CnnNetwork::Mode mode) const {
  Batch one{.rows = whole(rows), .data = {}, .mode = mode};
  one.tasks.count = 1;
  return std::clamp<std::size_t>(scratch_bytes_ / (sizeof(float) * deal(one, nullptr)), 1,
                                 queued_at_once);
}

std::size_t CudaCnn::room_of(std::size_t tasks, std::size_t indices, std::size_t streams) {
  return Device::room_of<StepTask>(tasks) + Device::room_of<std::int32_t>(indices) +
         Device::room_of<float*>(tasks) + Device::room_of<Stream>(streams) +
         Device::room_of<double>(tasks) + 2 * Device::room_of<std::uint32_t>(tasks);
}

/// A batch with its tables empty and its scratch memory cut up.
CudaCnn::Batch CudaCnn::take(std::size_t tasks, std::size_t rows, std::size_t indices,
                             const Samples& data, CnnNetwork::Mode mode) const {
  const bool is_training = mode == CnnNetwork::Mode::train;
  const std::size_t streams = is_training ? dropout_layers_.size() * tasks * rows : 0;
  device_.begin(room_of(tasks, indices, streams));
  Batch batch{.rows = whole(rows), .data = data, .mode = mode};
  batch.tasks = device_.twin<StepTask>(tasks);
  batch.indices = device_.twin<std::int32_t>(indices);
  batch.of_batches = device_.twin<float*>(tasks);
  batch.streams = device_.twin<Stream>(streams);
  batch.strange = device_.twin<std::uint32_t>(tasks);
  batch.losses = device_.twin<double>(tasks);
  batch.right = device_.twin<std::uint32_t>(tasks);
  std::fill_n(batch.tasks.host, tasks, StepTask{});

  Batch nobodys = batch;
  const std::size_t floats = deal(nobodys, nullptr);
  deal(batch, static_cast<float*>(scratch_.fit(device_, floats * sizeof(float), "activations")));
  const std::size_t statistics = 2 * cnn_.network().channels_normalized();
  for (std::size_t t = 0; t < tasks; ++t)
    batch.of_batches.host[t] = batch.of_samples + t * rows * statistics;
  return batch;
}

void CudaCnn::gradients(std::span<GradientRequest> requests) const {
  const std::size_t most =
      tasks_at_once(static_cast<std::size_t>(facts().batch_size), CnnNetwork::Mode::train);
  const auto lock = device_.use();
  for (std::size_t r = 0; r < requests.size(); r += most)
    queue_gradients(requests.subspan(r, std::min(most, requests.size() - r)));
}

void CudaCnn::fill_dropout_streams(std::span<const GradientRequest> requests,
                                   Stream* streams) const {
  const auto rows = static_cast<std::size_t>(facts().batch_size);
  FirstFailure failure;
#pragma omp parallel for schedule(static)
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const CnnNetwork::Chance chance{cnn_.seed(), requests[r].node, requests[r].draw};
    try {
      for (std::size_t d = 0; d < dropout_layers_.size(); ++d) {
        for (std::size_t b = 0; b < rows; ++b) {
          streams[(d * requests.size() + r) * rows + b] =
              stream_of(CnnNetwork::dropout_stream(chance, dropout_layers_[d], b));
        }
      }
    } catch (...) {
      failure.note();
    }
  }
  failure.rethrow();
}

void CudaCnn::queue_gradients(std::span<GradientRequest> requests) const {
  const auto rows = static_cast<std::size_t>(facts().batch_size);
  const Batch batch =
      take(requests.size(), rows, requests.size() * rows, train_.get(), CnnNetwork::Mode::train);
  fill_gradient_tasks(requests, cnn_.sampler(), batch.tasks, batch.indices);
  for (std::size_t r = 0; r < requests.size(); ++r) {
    batch.tasks.host[r].strange = batch.strange.device + r;
    batch.strange.host[r] = 0;
  }
  fill_dropout_streams(requests, batch.streams.host);
  device_.upload(batch.tasks, batch.indices, batch.of_batches, batch.streams, batch.strange);
  const Passes passes{device_, cnn_.network(), dropout_layers_, batch};
  passes.forward();
  passes.find_losses();
  passes.backward();
  device_.download(batch.losses);
  device_.download(batch.strange);
  device_.wait();
  for (std::size_t r = 0; r < requests.size(); ++r) {
    requests[r].loss = loss_with(batch.strange.host[r] == 0, batch.losses.host[r]);
  }
}

/// Measures batch normalization of every model: (requests, 2, channels normalized).
void CudaCnn::calibrate(std::span<const EvaluationRequest> requests, float* statistics) const {
  const auto samples = cnn_.calibration_samples();
  const std::size_t width = 2 * cnn_.network().channels_normalized();
  const std::size_t most = tasks_at_once(samples.size(), CnnNetwork::Mode::calibrate);
  for (std::size_t begin = 0; begin < requests.size(); begin += most) {
    const std::size_t count = std::min(most, requests.size() - begin);
    const Batch batch =
        take(count, samples.size(), samples.size(), train_.get(), CnnNetwork::Mode::calibrate);
    std::ranges::copy(samples, batch.indices.host);
    for (std::size_t t = 0; t < count; ++t) {
      StepTask& task = batch.tasks.host[t];
      task.x = requests[begin + t].x;
      task.samples = batch.indices.device;
      task.rows = whole(samples.size());
      batch.of_batches.host[t] = statistics + (begin + t) * width;
    }
    device_.upload(batch.tasks, batch.indices, batch.of_batches);
    Passes{device_, cnn_.network(), dropout_layers_, batch}.forward();
  }
  device_.wait();  // scratch memory may grow
}

void CudaCnn::evaluate(std::span<EvaluationRequest> requests) const {
  Evaluations evaluations(requests, cnn_.test().samples, Cnn::evaluation_block);
  const bool is_calibrated = cnn_.network().has_batch_normalization();
  const std::size_t width = 2 * cnn_.network().channels_normalized();
  const auto lock = device_.use();
  float* statistics = nullptr;
  if (is_calibrated) {
    statistics = static_cast<float*>(statistics_.fit(
        device_, requests.size() * width * sizeof(float), "statistics of batch normalization"));
    calibrate(requests, statistics);
  }
  const std::size_t most = tasks_at_once(Cnn::evaluation_block, CnnNetwork::Mode::evaluate);
  for (std::size_t begin = 0; begin < evaluations.tasks(); begin += most) {
    const std::size_t count = std::min(most, evaluations.tasks() - begin);
    const Batch batch =
        take(count, Cnn::evaluation_block, 0, test_.get(), CnnNetwork::Mode::evaluate);
    evaluations.fill(begin, batch.tasks);
    for (std::size_t t = 0; is_calibrated && t < count; ++t)
      batch.of_batches.host[t] = statistics + evaluations.request_of(begin + t) * width;
    device_.upload(batch.tasks, batch.of_batches);
    const Passes passes{device_, cnn_.network(), dropout_layers_, batch};
    passes.forward();
    passes.find_losses();
    device_.download(batch.losses);
    device_.download(batch.right);
    device_.wait();
    evaluations.note(begin, batch.tasks, batch.losses, batch.right);
  }
  evaluations.answer();
}

}  // namespace starling
