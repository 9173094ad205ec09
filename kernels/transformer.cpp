#include "kernels/transformer.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include <fmt/core.h>

#include "kernels/keys.hpp"
#include "kernels/model_facts.hpp"
#include "kernels/registry.hpp"
#include "kernels/whole_gradient.hpp"
#include "sim/base/error.hpp"
#include "sim/base/number_file.hpp"
#include "sim/base/random.hpp"

namespace starling {
namespace {

constexpr std::size_t evaluation_tokens =
    1024;  // of a block; part of the definition of the order of sums

/// Cuts sequences into blocks of at most evaluation_tokens, or one that is longer.
std::vector<std::size_t> cut_into_blocks(const Sequences& sequences) {
  std::vector<std::size_t> blocks = {0};
  std::size_t tokens = 0;
  for (std::size_t s = 0; s < sequences.samples.samples; ++s) {
    tokens += sequences.length(s);
    if (tokens > evaluation_tokens && s > blocks.back()) {
      blocks.push_back(s);
      tokens = sequences.length(s);
    }
  }
  blocks.push_back(sequences.samples.samples);
  return blocks;
}

}  // namespace

Transformer::Transformer(Problem problem, const dense::Kernels& kernels)
    : problem_(std::move(problem)),
      kernels_(kernels),
      model_({problem_.layers, problem_.heads, problem_.width, problem_.context,
              static_cast<std::size_t>(problem_.data.vocabulary),
              static_cast<std::size_t>(problem_.data.classes), problem_.data.predicts_next},
             kernels),
      sampler_(problem_.parts, problem_.batch_size, problem_.sampling, problem_.seed),
      test_blocks_(cut_into_blocks(problem_.data.test)) {
  facts_.description = fmt::format("transformer of {} {}, {} {}, width {}, on {}", problem_.layers,
                                   problem_.layers == 1 ? "layer" : "layers", problem_.heads,
                                   problem_.heads == 1 ? "head" : "heads", problem_.width,
                                   problem_.data.description);
  set_parameters(facts_, model_.parameters(), problem_.wire_parameters);
  model_.add_tensors(facts_);
  facts_.has_accuracy = true;
  facts_.batch_size = static_cast<double>(problem_.batch_size);
  facts_.cost_unit = "token";
  facts_.samples = sampler_.samples();
  facts_.data_bytes = problem_.data.train.bytes() + problem_.data.test.bytes();
  if (problem_.buckets > 0) {
    bucket_sampler_.emplace(
        problem_.parts, problem_.data.train.samples.length,
        BucketSampler::Limits{problem_.batch_size, problem_.buckets, problem_.max_tokens},
        problem_.seed);
    facts_.batch_size = bucket_sampler_->mean_batch_size();
  }
  const auto sequences = static_cast<std::size_t>(facts_.batch_size);
  const Sequences& train = problem_.data.train;
  const std::size_t tokens = sequences * train.tokens.size() / train.samples.samples;
  facts_.scratch_floats = model_.work_floats(
      {sequences, tokens, static_cast<std::size_t>(std::ranges::max(train.samples.length))});
  multiplications_ = 3 * static_cast<double>(tokens) * count_weights(facts_);
  problem_.parts.clear();  // the samplers have their own copies
  problem_.parts.shrink_to_fit();
}

void Transformer::initial_model(std::span<float> x) const {
  model_.initialize(x, Random(problem_.seed, "initial model"));
}

void Transformer::samples_of(NodeId node, Step draw, std::vector<std::int32_t>& samples) const {
  if (bucket_sampler_) {
    bucket_sampler_->batch(node, draw, samples);
  } else {
    samples.resize(static_cast<std::size_t>(problem_.batch_size));
    sampler_.batch(node, draw, samples);
  }
}

std::int64_t Transformer::batch_cost(NodeId node, Step draw) const {
  std::vector<std::int32_t> samples;
  samples_of(node, draw, samples);
  std::int64_t tokens = 0;
  for (const std::int32_t sample : samples) {
    tokens += problem_.data.train.samples.length[static_cast<std::size_t>(sample)];
  }
  return tokens;
}

void Transformer::push(const Sequences& from, std::size_t sample, PackedBatch& batch) const {
  const std::size_t begin = from.begin[sample], length = from.length(sample);
  const std::span<const std::int32_t> tokens = from.tokens;
  batch.push(tokens.subspan(begin, length));
  if (problem_.data.predicts_next) {
    const auto next = tokens.subspan(begin + 1, length);
    batch.labels.insert(batch.labels.end(), next.begin(), next.end());
  } else {
    batch.labels.push_back(from.samples.y[sample]);
  }
}

void Transformer::pack(NodeId node, Step draw, TransformerModel::Work& work) const {
  samples_of(node, draw, work.samples);
  work.batch.clear();
  for (const std::int32_t sample : work.samples) {
    push(problem_.data.train, static_cast<std::size_t>(sample), work.batch);
  }
}

void Transformer::gradient(GradientRequest& request, TransformerModel::Work& work,
                           Crew::Member* member) const {
  pack(request.node, request.draw, work);
  make_whole_gradient(request, facts_.parameters, kernels_, member, [&](float* gradient) {
    return model_.gradient(request.x, work, gradient, member);
  });
}

void Transformer::gradients(std::span<GradientRequest> requests) const {
  ReadyRequests ready(requests);
  gradients_of(ready, requests);
}

void Transformer::gradients_of(RowOwner& owner, std::span<GradientRequest> requests) const {
  for_all_of<TransformerModel::Work>(
      owner, requests.size(), multiplications_,
      [&](GradientRequest& request, TransformerModel::Work& work, Crew::Member* member) {
        gradient(request, work, member);
      });
}

PackedBatch Transformer::pack_test(std::size_t block) const {
  PackedBatch batch;
  for (std::size_t s = test_blocks_[block]; s < test_blocks_[block + 1]; ++s) {
    push(problem_.data.test, s, batch);
  }
  return batch;
}

Score Transformer::score(const float* x, std::size_t block, TransformerModel::Work& work) const {
  work.batch = pack_test(block);
  model_.score(x, work);
  return score_logits(kernels_, model_.shape().classes, work.logits.at, work.logits.stride,
                      work.batch.labels.data(), work.losses);
}

void Transformer::evaluate(std::span<EvaluationRequest> requests) const {
  const std::size_t blocks = test_blocks();
  std::vector<Score> scores(requests.size() * blocks);  // (requests, blocks)
  for_all<TransformerModel::Work>(scores.size(), multiplications_ / 3,
                                  [&](std::size_t i, TransformerModel::Work& work) {
                                    scores[i] = score(requests[i / blocks].x, i % blocks, work);
                                  });
  answer(requests, scores);
}

namespace workloads {
namespace {

std::size_t read_size(const Section& section, const char* key, std::int64_t fallback,
                      std::int64_t most, const char* help) {
  return static_cast<std::size_t>(read_whole(section, key, fallback, 1, most, help));
}

void read_shape(const Section& section, Transformer::Problem& problem) {
  problem.layers = read_size(section, "layers", 1, 1000, "blocks of attention and MLP");
  problem.width = read_size(section, "width", 32, 1 << 16, "numbers that stand for a token");
  problem.heads = read_size(section, "heads", 2, 1 << 10, "heads of attention; divide the width");
  section.expect(problem.heads > 0 && problem.width % problem.heads == 0, "heads",
                 "must divide the width, {}, got {}", problem.width, problem.heads);
  problem.context = read_size(section, "context", 32, 1 << 16,
                              "tokens of the longest sequence; of a window of the text");
}

void read_batches(const Section& section, Transformer::Problem& problem) {
  problem.batch_size = static_cast<std::int64_t>(
      read_size(section, "batch_size", 8, 1 << 20, "sequences of one gradient, at most"));
  const std::string batching = section.choice(
      "batching", {"packed", "bucket"}, "packed",
      "mini-batches of any samples, or of samples of like length; neither has padding");
  if (batching != "bucket") return;
  problem.buckets = static_cast<std::int64_t>(read_size(
      section, "buckets", 8, 1 << 20, "equal parts of a node's samples, sorted by length"));
  problem.max_tokens = static_cast<std::int64_t>(
      read_size(section, "max_tokens", 8192, 1 << 30,
                "of a mini-batch, counting all its samples as long as the bucket's longest"));
}

}  // namespace

std::unique_ptr<Workload> transformer(const Section& section, NodeId nodes, std::uint64_t seed) {
  Transformer::Problem problem;
  problem.seed = seed;
  read_shape(section, problem);
  read_batches(section, problem);
  const SequenceSettings dataset = read_sequence_settings(section, problem.context);
  const PartitionSettings dealing =
      read_partition_settings(section, problem.buckets == 0);  // buckets draw anew
  section.expect(
      dataset.kind != "text" || (dealing.kind != "by_label" && dealing.kind != "dirichlet"),
      "partition", "needs labels, and the windows of a text have none, got {}", dealing.kind);
  problem.wire_parameters = read_wire_parameters(section);
  section.finish();

  problem.sampling = dealing.sampling;
  problem.data = read_named_files(section, "dataset",
                                  [&] { return load_sequences(dataset, problem.context, seed); });
  problem.data.description += ", partition " + dealing.kind;
  problem.parts = partition(section, dealing, problem.data.train.samples, nodes, seed);
  return std::make_unique<Transformer>(std::move(problem));
}

}  // namespace workloads
}  // namespace starling
