#include "kernels/cnn.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/keys.hpp"
#include "kernels/model_facts.hpp"
#include "kernels/registry.hpp"
#include "kernels/whole_gradient.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"

namespace starling {
namespace {

constexpr std::size_t calibration_count = 256;  // samples, or all if there are fewer

constexpr CnnNetwork::Chance no_chance{0, 0, 0};  // nothing is dropped in an evaluation

/// The first samples of a random order.
std::vector<std::int32_t> draw_calibration_samples(std::size_t samples, std::uint64_t seed) {
  std::vector<std::int32_t> order(samples);
  std::iota(order.begin(), order.end(), 0);
  Random(seed, "calibration samples").shuffle(order);
  order.resize(std::min(samples, calibration_count));
  return order;
}

}  // namespace

Cnn::Cnn(Problem problem, const dense::Kernels& kernels)
    : problem_(std::move(problem)),
      kernels_(kernels),
      sampler_(problem_.parts, problem_.batch_size, problem_.sampling, problem_.seed),
      network_(problem_.layers, problem_.image,
               static_cast<std::size_t>(problem_.data.train.classes)) {
  ensure(problem_.image.size() == problem_.data.train.features, "Cnn: images of another size");
  if (network_.has_batch_normalization()) {
    calibration_samples_ = draw_calibration_samples(problem_.data.train.samples, problem_.seed);
  }
  set_parameters(facts_, network_.parameters(), problem_.wire_parameters);
  network_.add_tensors(facts_);
  facts_.scratch_floats = std::max(
      {network_.work_floats(static_cast<std::size_t>(problem_.batch_size), true),
       network_.work_floats(calibration_samples_.size(), false),
       network_.work_floats(std::min(evaluation_block, problem_.data.test.samples), false)});
  facts_.description =
      fmt::format("{} of {} layers and {} parameters on {}", problem_.name,
                  problem_.layers.size() + 1, facts_.parameters, problem_.data.description);
  set_samples(facts_, problem_, sampler_);
  multiplications_ = 3 * facts_.batch_size * static_cast<double>(network_.multiplications());
  problem_.parts.clear();  // the sampler has its own copy
  problem_.parts.shrink_to_fit();
}

void Cnn::initial_model(std::span<float> x) const {
  ensure(x.size() == facts_.parameters, "initial_model: wrong size");
  network_.initial_model(problem_.seed, problem_.is_uniform, x);
}

std::int64_t Cnn::batch_cost(NodeId node, Step draw) const {
  return sampler_.cost(node, draw, problem_.data.train);
}

void Cnn::load(const Dataset& data, std::span<const std::int32_t> samples,
               CnnNetwork::Work& work) const {
  const auto& input = work.values[0];
  kernels_.gather(samples.size(), data.features, data.x.data(), samples.data(), input.at,
                  input.stride);
  for (std::size_t b = 0; b < samples.size(); ++b) {
    work.labels[b] = data.y[static_cast<std::size_t>(samples[b])];
  }
}

void Cnn::gradient(GradientRequest& request, CnnNetwork::Work& work, Crew::Member* member) const {
  network_.fit(work, static_cast<std::size_t>(problem_.batch_size), true);
  sampler_.batch(request.node, request.draw, work.indices);
  load(problem_.data.train, work.indices, work);
  const CnnNetwork::Chance chance{problem_.seed, request.node, request.draw};
  network_.forward(kernels_, request.x, chance, CnnNetwork::Mode::train, work, member);
  const auto& logits = work.values.back();
  kernels_.softmax_cross_entropy(work.batch, network_.classes(), logits.at, logits.stride,
                                 work.labels.data(), work.losses.data());
  double loss = 0;
  for (const double sample_loss : work.losses) loss += sample_loss;
  make_whole_gradient(request, facts_.parameters, kernels_, member, [&](float* gradient) {
    network_.backward(kernels_, request.x, work, gradient, member);
    return loss / static_cast<double>(work.batch);
  });
}

void Cnn::gradients(std::span<GradientRequest> requests) const {
  ReadyRequests ready(requests);
  gradients_of(ready, requests);
}

void Cnn::gradients_of(RowOwner& owner, std::span<GradientRequest> requests) const {
  for_all_of<CnnNetwork::Work>(owner, requests.size(), multiplications_,
                               [&](GradientRequest& request, CnnNetwork::Work& work,
                                   Crew::Member* member) { gradient(request, work, member); });
}

void Cnn::calibrate(const float* x, std::span<float> statistics, CnnNetwork::Work& work) const {
  network_.fit(work, calibration_samples_.size(), false);
  load(problem_.data.train, calibration_samples_, work);
  network_.forward(kernels_, x, no_chance, CnnNetwork::Mode::calibrate, work);
  const std::size_t count = statistics.size() / 2;
  std::copy_n(work.mean, count, statistics.begin());
  std::copy_n(work.rate, count, statistics.begin() + static_cast<std::ptrdiff_t>(count));
}

Score Cnn::score(const float* x, std::span<const float> statistics, std::size_t first,
                 std::size_t count, CnnNetwork::Work& work) const {
  const Dataset& test = problem_.data.test;
  network_.fit(work, count, false);
  std::iota(work.indices.begin(), work.indices.end(), static_cast<std::int32_t>(first));
  load(test, work.indices, work);
  const std::size_t half = statistics.size() / 2;
  std::copy_n(statistics.begin(), half, work.mean);
  std::copy_n(statistics.begin() + static_cast<std::ptrdiff_t>(half), half, work.rate);
  network_.forward(kernels_, x, no_chance, CnnNetwork::Mode::evaluate, work);
  const auto& logits = work.values.back();
  return score_logits(kernels_, network_.classes(), logits.at, logits.stride, work.labels.data(),
                      work.losses);
}

void Cnn::evaluate(std::span<EvaluationRequest> requests) const {
  const std::size_t samples = problem_.data.test.samples;
  const std::size_t blocks = (samples + evaluation_block - 1) / evaluation_block;
  const std::size_t width =
      network_.has_batch_normalization() ? 2 * network_.channels_normalized() : 0;
  std::vector<float> statistics(requests.size() * width);  // (requests, mean and rate)
  const auto per_sample = static_cast<double>(network_.multiplications());
  const auto statistics_of = [&](std::size_t r) {
    return std::span(statistics).subspan(r * width, width);
  };
  if (width > 0) {
    const double multiplications = per_sample * static_cast<double>(calibration_samples_.size());
    for_all<CnnNetwork::Work>(requests.size(), multiplications,
                              [&](std::size_t r, CnnNetwork::Work& work) {
                                calibrate(requests[r].x, statistics_of(r), work);
                              });
  }
  std::vector<Score> scores(requests.size() * blocks);  // (requests, blocks)
  const double multiplications =
      per_sample * static_cast<double>(std::min(evaluation_block, samples));
  for_all<CnnNetwork::Work>(
      scores.size(), multiplications, [&](std::size_t i, CnnNetwork::Work& work) {
        const std::size_t r = i / blocks, first = i % blocks * evaluation_block;
        scores[i] = score(requests[r].x, statistics_of(r), first,
                          std::min(evaluation_block, samples - first), work);
      });
  answer(requests, scores);
}

namespace workloads {
namespace {

constexpr const char* small_network =
    "conv 8 3x3 same, relu, pool 2, conv 16 3x3 same, relu, pool 2, dense 32, relu";

/// Layers, what descriptions call the network, and the key that an error in them belongs to.
struct Spelling {
  std::vector<CnnLayer> layers;
  std::string name;
  const char* key;
};

Spelling read_layers(const Section& section) {
  std::vector<std::string> names = {"layers"};
  for (const CnnPreset& preset : cnn_presets) names.emplace_back(preset.name);
  const std::string net =
      section.choice("net", names, "layers", "a well-known network, or `layers`: as the key says");
  for (const CnnPreset& preset : cnn_presets) {
    if (net == preset.name) return {parse_cnn_layers(preset.layers), net, "net"};
  }
  const auto text = section.optional<std::string>(
      "layers", small_network,
      "from the image on: conv C HxW [same] [/S] [unbiased], relu, pool N, average, batchnorm, "
      "groupnorm G, dropout P, dense N, residual C G [/S]; dense to the classes follows");
  try {
    return {parse_cnn_layers(text), "CNN", "layers"};
  } catch (const std::invalid_argument& error) {
    section.fail("layers", "{}", error.what());
  }
}

/// "28x28x1" as numbers; nothing if it is something else.
bool parse_extent(const std::string& text, Extent& extent) {
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t* side : {&extent.height, &extent.width, &extent.channels}) {
    const auto [rest, error] = std::from_chars(at, end, *side);
    if (error != std::errc() || *side < 1 || *side > 1 << 20) return false;
    if (side != &extent.channels && (rest == end || *rest != 'x')) return false;
    at = side != &extent.channels ? rest + 1 : rest;
  }
  return at == end;
}

/// Square images of one channel, else of three.
Extent guess_extent(std::size_t features) {
  for (const std::size_t channels : {1, 3}) {
    const auto side = static_cast<std::size_t>(
        std::lround(std::sqrt(static_cast<double>(features) / static_cast<double>(channels))));
    if (side * side * channels == features) return {side, side, channels};
  }
  return {0, 0, 0};
}

/// The file that a part of the samples is from.
const std::string& file_of(const DatasetSettings& dataset, bool is_test) {
  if (dataset.kind == "idx") return is_test ? dataset.test_images : dataset.train_images;
  if (dataset.kind == "cifar10") return is_test ? dataset.batches.back() : dataset.batches.front();
  return is_test ? dataset.test_path : dataset.path;
}

/// Whether samples of that `shape` may be such images. Sides of 1 change nothing, and rows may be flat; sides in another order, as
/// channels first, or more of them, as pixels of four channels taken for one each, would be read as wrong images.
bool may_be(const Extent& image, const std::vector<std::size_t>& shape) {
  const auto sides = [](std::vector<std::size_t> all) {
    std::erase(all, std::size_t{1});
    return all;
  };
  const std::vector<std::size_t> expected = sides({image.height, image.width, image.channels});
  const std::vector<std::size_t> found = sides(shape);
  return found.size() < expected.size() || found == expected;
}

}  // namespace

std::unique_ptr<Workload> cnn(const Section& section, NodeId nodes, std::uint64_t seed) {
  Cnn::Problem problem;
  problem.seed = seed;
  Spelling spelling = read_layers(section);
  problem.layers = std::move(spelling.layers);
  problem.name = spelling.name;
  const auto image = section.optional<std::string>("image", "square",
                                                   "HEIGHTxWIDTHxCHANNELS, channels last; square: "
                                                   "the sides follow from the samples, with 1 or 3 "
                                                   "channels");
  section.expect(image == "square" || parse_extent(image, problem.image), "image",
                 "must be HEIGHTxWIDTHxCHANNELS or square, got {}", image);
  problem.batch_size = read_batch_size(section);
  problem.is_uniform = read_is_uniform(section);
  const SampleSettings settings = read_samples(section, problem);

  problem.data = load_samples(section, settings, seed);
  const std::size_t features = problem.data.train.features;
  if (image == "square") problem.image = guess_extent(features);
  const std::vector<std::size_t>& shape = problem.data.train.shape;
  section.expect(
      problem.image.size() == features, "image",
      "must have as many numbers as a sample, {}, got {}{}{}", features, image,
      image == "square" ? "; no square of 1 or 3 channels has so many: say HEIGHTxWIDTHxCHANNELS"
                        : "",
      shape.size() > 1
          ? fmt::format(" ({} has {})", file_of(settings.dataset, false), fmt::join(shape, "x"))
          : "");
  for (const Dataset* part : {&problem.data.train, &problem.data.test}) {
    section.expect(may_be(problem.image, part->shape), "image",
                   "must be the shape of a sample in {}, {}, got {}x{}x{}; channels come last",
                   file_of(settings.dataset, part == &problem.data.test),
                   fmt::join(part->shape, "x"), problem.image.height, problem.image.width,
                   problem.image.channels);
  }
  deal_samples(section, settings.partition, nodes, problem);
  try {
    auto cnn = std::make_unique<Cnn>(std::move(problem));
    section.expect(cnn->facts().batch_size > 1 || !cnn->network().normalizes_over_samples_alone(),
                   "batch_size",
                   "must be above 1 with batchnorm of one pixel: one number is 0 when normalized");
    return cnn;
  } catch (const std::invalid_argument& error) {
    section.fail(spelling.key, "{}", error.what());
  }
}

}  // namespace workloads
}  // namespace starling
