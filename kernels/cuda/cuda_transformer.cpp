// One file, for the backward pass goes through the buffers of the forward pass in the opposite order (Passes).

#include "kernels/cuda/cuda_transformer.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cuda/launches.hpp"
#include "kernels/finite.hpp"
#include "kernels/first_failure.hpp"

namespace starling {

using namespace cuda;

/// What the mini-batches of a piece need, each of them: as much as the largest. All are even, so that behind two
/// numbers for each the next matrix begins at a multiple of 16 bytes, too, as products want their rows.
struct CudaTransformer::Room {
  std::size_t rows = 0, sequences = 0, labels = 0;
  std::size_t attention = 0;  // floats of scratch memory per head, of all tasks together
  std::size_t jobs = 0;       // sequences of all tasks together

  void add(const PackedBatch& batch) {
    const auto even = [](std::size_t n) { return (n + 1) / 2 * 2; };
    rows = std::max(rows, even(batch.tokens.size()));
    sequences = std::max(sequences, even(batch.begin.size() - 1));
    labels = std::max(labels, even(batch.labels.size()));
    jobs += batch.begin.size() - 1;
    for (std::size_t s = 0; s + 1 < batch.begin.size(); ++s) {
      const std::size_t length = batch.begin[s + 1] - batch.begin[s];
      attention += 2 * length * length;
    }
  }
  /// Of scratch memory.
  std::size_t floats(const TransformerShape& shape, std::size_t tasks, bool is_training) const {
    const std::size_t kept = is_training ? shape.layers : 1;
    const std::size_t of_row =
        kept * (16 * shape.width + 4) + 3 * shape.width + 2 + (is_training ? 9 * shape.width : 0);
    const std::size_t of_label = shape.classes + 2;  // a loss is a double
    return tasks * (rows * of_row + labels * of_label + 2 * sequences * shape.width) +
           attention * shape.heads;
  }
};

/// What is computed together. Matrices have room for `rows` rows of each task.
struct CudaTransformer::Batch {
  struct Kept {
    float *input, *input_normed, *qkv, *attended, *middle, *middle_normed, *expanded, *activated;
    float *input_moments, *middle_moments;
  };
  Room room;
  Twin<StepTask> tasks{}, label_tasks{};        // as many rows as tokens, and as labels
  Twin<std::int32_t> tokens{}, positions{};     // (tasks, rows)
  Twin<std::uint32_t> begin{}, sequence_of{};   // (tasks, sequences + 1), (tasks, rows)
  Twin<std::int32_t> labels{}, label_places{};  // (tasks, labels)
  Twin<AttentionJob> jobs{};
  Twin<std::uint32_t> strange{};  // gradients
  Twin<double> losses{};
  Twin<std::uint32_t> right{};  // evaluations
  // In scratch memory:
  std::vector<Kept> kept{};  // [layer], or one that all take turns in
  float *output = nullptr, *output_normed = nullptr, *output_moments = nullptr, *branch = nullptr;
  float *pooled = nullptr, *pooled_slope = nullptr, *logits = nullptr, *attention = nullptr;
  float *slope = nullptr, *normed_slope = nullptr, *wide_slope = nullptr, *qkv_slope = nullptr;
  double* row_losses = nullptr;
};

CudaTransformer::CudaTransformer(const Transformer& transformer, Device& device,
                                 std::size_t scratch_bytes)
    : transformer_(transformer),
      model_(transformer.model()),
      device_(device),
      scratch_bytes_(scratch_bytes) {}

/// One operation after the other, on the whole batch; see TransformerModel.
struct CudaTransformer::Passes {
  Device& device;
  const TransformerModel& model;
  const Batch& batch;

  const TransformerShape& shape() const { return model.shape(); }
  std::uint64_t tasks() const { return batch.tasks.count; }
  std::uint64_t numbers(std::size_t columns) const { return tasks() * batch.room.rows * columns; }

  void add(const float* a, const float* b, float* y) const {
    const std::uint64_t count = numbers(shape().width);
    launch_numbers<ElementKernel>(device, count, {ElementKernel::Operation::add, count, a, b, y});
  }

  // --- Dense layers -----------------------------------------------------------------------------

  /// Of the rows of tokens, or of those of labels.
  LayerArguments layer(const DenseLayer& dense, float* in, float* out, bool is_head = false) const {
    return {.tasks = is_head ? batch.label_tasks.device : batch.tasks.device,
            .layer = shape_of(dense),
            .rows = whole(is_head ? batch.room.labels : batch.room.rows),
            .is_first = 0,
            .is_last = 1,
            .is_free = 1,
            .input = {in, whole(dense.inputs)},
            .output = {out, whole(dense.outputs)},
            .slope = {}};
  }
  void run(const LayerArguments& a) const { launch_forward(device, tasks(), a); }
  /// With the gradient of the output as `output`; leaves that of the input in `slope`.
  void run_back(LayerArguments a, float* slope) const {
    a.slope = {slope, a.layer.inputs};
    launch_gradients(device, tasks(), a);
  }

  // --- The others -------------------------------------------------------------------------------

  LayerNormArguments norm_of(std::size_t gain, const float* x, float* moments) const {
    return {.tasks = batch.tasks.device,
            .rows = whole(batch.room.rows),
            .columns = whole(shape().width),
            .gain = whole(gain),
            .x = x,
            .y = nullptr,
            .moments = moments,
            .dy = nullptr,
            .dx = nullptr};
  }
  std::uint64_t norm_blocks() const {
    return tasks() * ((batch.room.rows + norm_rows - 1) / norm_rows);
  }
  template <class Kernel>
  std::uint64_t column_blocks() const {
    return tasks() * ((shape().width + Kernel::threads - 1) / Kernel::threads);
  }
  void norm(std::size_t gain, const float* x, float* y, float* moments) const {
    LayerNormArguments a = norm_of(gain, x, moments);
    a.y = y;
    device.launch<LayerNormKernel>(norm_blocks(), a, LayerNormKernel::shared_bytes);
  }
  /// Adds to batch.slope.
  void norm_back(std::size_t gain, const float* x, float* moments) const {
    LayerNormArguments a = norm_of(gain, x, moments);
    a.dy = batch.normed_slope;
    a.dx = batch.slope;
    device.launch<LayerNormGradientKernel>(norm_blocks(), a, LayerNormGradientKernel::shared_bytes);
    device.launch<GainGradientKernel>(column_blocks<GainGradientKernel>(), a, 0);
  }

  AttentionArguments attention_of(const Batch::Kept& kept) const {
    const std::size_t head_width = shape().width / shape().heads;
    return {.jobs = batch.jobs.device,
            .heads = whole(shape().heads),
            .head_width = whole(head_width),
            .scale = 1.0F / std::sqrt(static_cast<float>(head_width)),
            .qkv = kept.qkv,
            .attended = kept.attended,
            .dy = batch.branch,
            .qkv_slope = batch.qkv_slope,
            .scratch = batch.attention};
  }
  PoolRowsArguments pool_of(const float* from, float* to) const {
    return {.task_count = whole(tasks()),
            .rows = whole(batch.room.rows),
            .sequences = whole(batch.room.sequences),
            .width = whole(shape().width),
            .begin = batch.begin.device,
            .sequence_of = batch.sequence_of.device,
            .from = from,
            .to = to};
  }

  // --- All of them ------------------------------------------------------------------------------

  const Batch::Kept& kept(std::size_t l) const {
    return batch.kept[std::min(l, batch.kept.size() - 1)];
  }

  void run_layer(const TransformerModel::Layer& l, const Batch::Kept& k, float* out) const {
    norm(l.attention_norm, k.input, k.input_normed, k.input_moments);
    run(layer(l.qkv, k.input_normed, k.qkv));
    device.launch<AttentionKernel>(batch.jobs.count * shape().heads, attention_of(k), 0);
    run(layer(l.project, k.attended, batch.branch));
    add(k.input, batch.branch, k.middle);

    norm(l.mlp_norm, k.middle, k.middle_normed, k.middle_moments);
    run(layer(l.expand, k.middle_normed, k.expanded));
    const std::uint64_t wide = numbers(4 * shape().width);
    launch_numbers<GeluKernel>(device, wide, {wide, k.expanded, k.activated});
    run(layer(l.contract, k.activated, batch.branch));
    add(k.middle, batch.branch, out);
  }

  LayerArguments head() const {
    return layer(model.head(), shape().predicts_next ? batch.output_normed : batch.pooled,
                 batch.logits, true);
  }

  void forward() const {
    launch_numbers<EmbedKernel>(device, numbers(shape().width),
                                {.tasks = batch.tasks.device,
                                 .task_count = whole(tasks()),
                                 .rows = whole(batch.room.rows),
                                 .width = whole(shape().width),
                                 .position_embedding = whole(model.position_embedding()),
                                 .tokens = batch.tokens.device,
                                 .positions = batch.positions.device,
                                 .out = batch.kept[0].input});
    const auto layers = model.layers();
    for (std::size_t l = 0; l < layers.size(); ++l)
      run_layer(layers[l], kept(l), l + 1 == layers.size() ? batch.output : kept(l + 1).input);
    norm(model.output_norm(), batch.output, batch.output_normed, batch.output_moments);
    if (!shape().predicts_next) {
      launch_numbers<PoolRowsKernel>(device, tasks() * batch.room.sequences * shape().width,
                                     pool_of(batch.output_normed, batch.pooled));
    }
    run(head());
  }

  void find_losses() const {
    device.launch<LossKernel>(tasks(),
                              {.tasks = batch.label_tasks.device,
                               .data = {nullptr, batch.labels.device, 0},
                               .rows = whole(batch.room.labels),
                               .classes = whole(shape().classes),
                               .logits = {batch.logits, whole(shape().classes)},
                               .losses = batch.losses.device,
                               .row_losses = batch.row_losses,
                               .right = batch.right.device},
                              LossKernel::shared_bytes);
  }

  void layer_back(const TransformerModel::Layer& l, const Batch::Kept& k) const {
    run_back(layer(l.contract, k.activated, batch.slope), batch.wide_slope);
    const std::uint64_t wide = numbers(4 * shape().width);
    launch_numbers<GeluGradientKernel>(device, wide, {wide, k.expanded, batch.wide_slope});
    run_back(layer(l.expand, k.middle_normed, batch.wide_slope), batch.normed_slope);
    norm_back(l.mlp_norm, k.middle, k.middle_moments);

    run_back(layer(l.project, k.attended, batch.slope), batch.branch);
    device.launch<AttentionGradientKernel>(batch.jobs.count * shape().heads, attention_of(k), 0);
    run_back(layer(l.qkv, k.input_normed, batch.qkv_slope), batch.normed_slope);
    norm_back(l.attention_norm, k.input, k.input_moments);
  }

  /// Logits have become their gradient.
  void backward() const {
    if (shape().predicts_next) {
      run_back(head(), batch.normed_slope);
    } else {
      run_back(head(), batch.pooled_slope);
      launch_numbers<SpreadRowsKernel>(device, numbers(shape().width),
                                       pool_of(batch.pooled_slope, batch.normed_slope));
    }
    const std::uint64_t count = numbers(shape().width);
    launch_numbers<ElementKernel>(
        device, count, {ElementKernel::Operation::clear, count, nullptr, nullptr, batch.slope});
    norm_back(model.output_norm(), batch.output, batch.output_moments);
    const auto layers = model.layers();
    for (std::size_t l = layers.size(); l-- > 0;) layer_back(layers[l], batch.kept[l]);
    device.launch<EmbeddingGradientKernel>(column_blocks<EmbeddingGradientKernel>(),
                                           {.tasks = batch.tasks.device,
                                            .rows = whole(batch.room.rows),
                                            .width = whole(shape().width),
                                            .vocabulary = whole(shape().vocabulary),
                                            .context = whole(shape().context),
                                            .tokens = batch.tokens.device,
                                            .positions = batch.positions.device,
                                            .slope = batch.slope},
                                           0);
  }
};

template <class Run>
void CudaTransformer::in_pieces(std::span<const Item> items, bool is_training,
                                const Run& run) const {
  for (std::size_t first = 0; first < items.size();) {
    Room room;
    std::size_t count = 0;
    while (first + count < items.size() && count < queued_at_once) {
      Room with = room;
      with.add(*items[first + count].batch);
      const std::size_t bytes = sizeof(float) * with.floats(model_.shape(), count + 1, is_training);
      if (count > 0 && bytes > scratch_bytes_) break;
      room = with;
      ++count;
    }
    run(first, count);
    first += count;
  }
}

/// A batch with its tables uploaded and its scratch memory cut up.
CudaTransformer::Batch CudaTransformer::take(std::span<const Item> items, bool is_training) const {
  const std::size_t tasks = items.size();
  Batch batch{};
  Room& room = batch.room;
  for (const Item& item : items) room.add(*item.batch);
  const std::size_t rows = tasks * room.rows, labels = tasks * room.labels;
  device_.begin(2 * Device::room_of<StepTask>(tasks) + 2 * Device::room_of<std::int32_t>(rows) +
                Device::room_of<std::uint32_t>(tasks * (room.sequences + 1)) +
                Device::room_of<std::uint32_t>(rows) + 2 * Device::room_of<std::int32_t>(labels) +
                Device::room_of<AttentionJob>(room.jobs) + Device::room_of<double>(tasks) +
                2 * Device::room_of<std::uint32_t>(tasks));
  batch.tasks = device_.twin<StepTask>(tasks);
  batch.label_tasks = device_.twin<StepTask>(tasks);
  batch.tokens = device_.twin<std::int32_t>(rows);
  batch.positions = device_.twin<std::int32_t>(rows);
  batch.begin = device_.twin<std::uint32_t>(tasks * (room.sequences + 1));
  batch.sequence_of = device_.twin<std::uint32_t>(rows);
  batch.labels = device_.twin<std::int32_t>(labels);
  batch.label_places = device_.twin<std::int32_t>(labels);
  batch.jobs = device_.twin<AttentionJob>(room.jobs);
  batch.strange = device_.twin<std::uint32_t>(tasks);
  batch.losses = device_.twin<double>(tasks);
  batch.right = device_.twin<std::uint32_t>(tasks);
  fill_tables(batch, items, is_training);
  device_.upload(batch.tasks, batch.label_tasks, batch.tokens, batch.positions, batch.begin,
                 batch.sequence_of, batch.labels, batch.label_places, batch.jobs, batch.strange);
  cut_up_scratch(batch, is_training);
  return batch;
}

void CudaTransformer::fill_tables(const Batch& batch, std::span<const Item> items,
                                  bool is_training) const {
  const Room& room = batch.room;
  const std::size_t rows = batch.tokens.count, labels = batch.labels.count;
  std::fill_n(batch.tokens.host, rows, 0);
  std::fill_n(batch.positions.host, rows, 0);
  std::fill_n(batch.sequence_of.host, rows, 0U);
  std::fill_n(batch.labels.host, labels, 0);
  std::iota(batch.label_places.host, batch.label_places.host + labels, 0);
  std::uint64_t next_job = 0, next_scratch = 0;
  for (std::size_t t = 0; t < items.size(); ++t) {
    const PackedBatch& from = *items[t].batch;
    const std::size_t first = t * room.rows;
    std::ranges::copy(from.tokens, batch.tokens.host + first);
    std::ranges::copy(from.labels, batch.labels.host + t * room.labels);
    std::uint32_t* begin = batch.begin.host + t * (room.sequences + 1);
    std::fill_n(begin, room.sequences + 1, whole(from.tokens.size()));
    for (std::size_t s = 0; s + 1 < from.begin.size(); ++s) {
      const std::size_t length = from.begin[s + 1] - from.begin[s];
      begin[s] = whole(from.begin[s]);
      batch.jobs.host[next_job++] = {first + from.begin[s], whole(length), next_scratch};
      next_scratch += 2 * length * length * model_.shape().heads;
      for (std::size_t p = 0; p < length; ++p) {
        batch.positions.host[first + from.begin[s] + p] = static_cast<std::int32_t>(p);
        batch.sequence_of.host[first + from.begin[s] + p] = whole(s);
      }
    }
    StepTask task{};
    task.x = items[t].x;
    task.gradient = items[t].gradient;
    task.rows = whole(from.tokens.size());
    task.strange = batch.strange.device + t;
    batch.strange.host[t] = 0;
    batch.tasks.host[t] = task;
    task.first = whole(t * room.labels);
    task.rows = whole(from.labels.size());
    task.samples = is_training ? batch.label_places.device + t * room.labels : nullptr;
    batch.label_tasks.host[t] = task;
  }
}

void CudaTransformer::cut_up_scratch(Batch& batch, bool is_training) const {
  const TransformerShape& shape = model_.shape();
  const Room& room = batch.room;
  const std::size_t tasks = batch.tasks.count;
  auto* next = static_cast<float*>(
      scratch_.fit(device_, room.floats(shape, tasks, is_training) * sizeof(float), "activations"));
  const auto deal = [&](std::size_t count) {
    float* const at = next;
    next += count;
    return at;
  };
  const auto matrix = [&](std::size_t columns) { return deal(tasks * room.rows * columns); };
  const std::size_t width = shape.width;
  batch.row_losses =
      reinterpret_cast<double*>(deal(2 * batch.labels.count));  // first, as doubles want 8 bytes
  for (std::size_t l = 0; l < (is_training ? shape.layers : 1); ++l) {
    batch.kept.push_back({.input = matrix(width),
                          .input_normed = matrix(width),
                          .qkv = matrix(3 * width),
                          .attended = matrix(width),
                          .middle = matrix(width),
                          .middle_normed = matrix(width),
                          .expanded = matrix(4 * width),
                          .activated = matrix(4 * width),
                          .input_moments = matrix(2),
                          .middle_moments = matrix(2)});
  }
  batch.output = matrix(width);
  batch.output_normed = matrix(width);
  batch.output_moments = matrix(2);
  batch.branch = matrix(width);
  batch.pooled = deal(tasks * room.sequences * width);
  batch.pooled_slope = deal(tasks * room.sequences * width);
  if (is_training) {
    batch.slope = matrix(width);
    batch.normed_slope = matrix(width);
    batch.wide_slope = matrix(4 * width);
    batch.qkv_slope = matrix(3 * width);
  }
  batch.logits = deal(batch.labels.count * shape.classes);
  batch.attention = deal(room.attention * shape.heads);
}

void CudaTransformer::gradients(std::span<GradientRequest> requests) const {
  std::vector<PackedBatch> packed(requests.size());
  FirstFailure failure;
#pragma omp parallel
  {
    TransformerModel::Work work;
#pragma omp for schedule(static)
    for (std::size_t r = 0; r < requests.size(); ++r) {
      try {
        transformer_.pack(requests[r].node, requests[r].draw, work);
        packed[r] = work.batch;
      } catch (...) {
        failure.note();
      }
    }
  }
  failure.rethrow();
  std::vector<Item> items;
  items.reserve(requests.size());
  for (std::size_t r = 0; r < requests.size(); ++r)
    items.push_back({requests[r].x, requests[r].gradient, &packed[r]});
  const auto lock = device_.use();
  in_pieces(items, true, [&](std::size_t first, std::size_t count) {
    const Batch batch = take(std::span(items).subspan(first, count), true);
    const Passes passes{device_, model_, batch};
    passes.forward();
    passes.find_losses();
    passes.backward();
    device_.download(batch.losses);
    device_.download(batch.strange);
    device_.wait();
    for (std::size_t i = 0; i < count; ++i)
      requests[first + i].loss = loss_with(batch.strange.host[i] == 0, batch.losses.host[i]);
  });
}

void CudaTransformer::evaluate(std::span<EvaluationRequest> requests) const {
  std::vector<PackedBatch> blocks;
  for (std::size_t b = 0; b < transformer_.test_blocks(); ++b)
    blocks.push_back(transformer_.pack_test(b));
  std::vector<Item> items;  // (requests, blocks)
  items.reserve(requests.size() * blocks.size());
  for (const EvaluationRequest& request : requests) {
    for (const PackedBatch& block : blocks) items.push_back({request.x, nullptr, &block});
  }
  std::vector<Score> scores(items.size());
  const auto lock = device_.use();
  in_pieces(items, false, [&](std::size_t first, std::size_t count) {
    const Batch batch = take(std::span(items).subspan(first, count), false);
    const Passes passes{device_, model_, batch};
    passes.forward();
    passes.find_losses();
    device_.download(batch.losses);
    device_.download(batch.right);
    device_.wait();
    for (std::size_t i = 0; i < count; ++i) {
      scores[first + i] = {batch.losses.host[i],
                           static_cast<std::int64_t>(items[first + i].batch->labels.size()),
                           batch.right.host[i]};
    }
  });
  answer(requests, scores);
}

}  // namespace starling
