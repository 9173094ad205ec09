// Timing only: a model that has a size and no numbers. Messages, computing times and waiting are
// simulated as ever, nothing is computed, so a thousand ResNet-50 nodes or a hundred thousand small
// ones run in seconds.
//
// Sizes of the presets are those of the models in the WAGMA paper (Li et al., "Breaking (Global)
// Barriers in Parallel Stochastic Optimization with Wait-Avoiding Group Averaging", IEEE TPDS
// 32(7), 2021, section 5), ResNet-50 on ImageNet, the base Transformer on WMT17, and the policy of
// a habitat navigation task; and of the video classifier in the eager-SGD paper.
//
// A vector of the engine has fewer than 2^31 floats; a larger model is simulated with a half, a third, .. of its floats,
// each of which counts as two, three, .. on the wire.
//
// Batches have the same size always, or tokens of uneven samples (lengths.hpp), which a
// compute-time model turns into seconds.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "kernels/data/lengths.hpp"
#include "kernels/registry.hpp"
#include "kernels/tensor_sizes.hpp"
#include "sim/base/error.hpp"
#include "sim/base/number_file.hpp"
#include "sim/base/numbers.hpp"

namespace starling::workloads {
namespace {

struct Preset {
  const char* name;
  std::int64_t parameters;
  std::vector<std::size_t> (*tensors)();
};

constexpr std::array presets{Preset{"resnet50", 25'559'081, resnet50_tensors},
                             Preset{"transformer_base", 61'362'176, transformer_base_tensors},
                             Preset{"resnet18_lstm", 8'476'421, resnet18_lstm_tensors},
                             Preset{"inception_lstm", 34'663'525, inception_lstm_tensors}};
constexpr std::int64_t bytes_per_parameter = 4;
constexpr std::int64_t most_batch = 1 << 30;
constexpr std::int64_t most_floats = std::numeric_limits<std::int32_t>::max();  // of a vector

class Timing final : public Workload {
 public:
  Timing(WorkloadFacts facts, std::int64_t batch_size, std::optional<LengthSampler> lengths)
      : facts_(std::move(facts)), batch_size_(batch_size), lengths_(std::move(lengths)) {}

  const WorkloadFacts& facts() const override { return facts_; }
  std::int64_t batch_cost(NodeId node, Step draw) const override {
    return lengths_ ? lengths_->cost(node, draw) : batch_size_;
  }
  void initial_model(std::span<float>) const override { fail(); }
  void gradients(std::span<GradientRequest>) const override { fail(); }
  void evaluate(std::span<EvaluationRequest>) const override { fail(); }

 private:
  static void fail() { ensure(false, "a timing-only workload was asked for numbers"); }

  WorkloadFacts facts_;
  std::int64_t batch_size_;  // without lengths
  std::optional<LengthSampler> lengths_;
};

/// Number of floats; `name` becomes what descriptions call the model. Decides by values, not by
/// which keys were written, so a scenario with its defaults filled in means the same.
std::int64_t read_parameters(const Section& section, std::string& name) {
  std::vector<std::string> names;
  for (const Preset& preset : presets) names.emplace_back(preset.name);
  name = section.choice("model", names, presets[0].name, "a well-known size");
  const std::int64_t parameters =
      read_whole(section, "parameters", 0, 0, most_parameters,
                 "floats of the model, in place of `model`; 0: those of `model`");
  const std::int64_t bytes =
      section
          .optional<Bytes>("bytes", Bytes{},
                           "size of the model, in place of `model`; 0 B: that of `model`")
          .count;
  section.expect(bytes <= bytes_per_parameter * most_parameters && bytes % bytes_per_parameter == 0,
                 "bytes",
                 "must be a multiple of {} B, a float's size, up to {} B, got {} B; {} B is one",
                 bytes_per_parameter, bytes_per_parameter * most_parameters, bytes,
                 bytes_per_parameter + std::min(bytes - bytes % bytes_per_parameter,
                                                bytes_per_parameter * (most_parameters - 1)));
  section.expect(parameters == 0 || bytes == 0, "bytes",
                 "must not be given together with parameters");
  if (parameters > 0 || bytes > 0) {
    name = "a model";
    return parameters > 0 ? parameters : bytes / bytes_per_parameter;
  }
  for (const Preset& preset : presets) {
    if (name == preset.name) return preset.parameters;
  }
  ensure(false, "Section::choice answered with a name that was not offered");
  return 0;
}

/// Floats of every tensor: those of a well-known model, scaled if the size is another, or a list, which says the size of
/// the model if no other key does.
std::vector<std::size_t> read_tensors(const Section& section, std::string& model,
                                      std::int64_t& parameters) {
  const auto text = section.optional<std::string>(
      "tensors", model == "a model" ? "one" : "model",
      "floats of each tensor: those of `model`; of a named model, scaled; one; or a list, whose "
      "sum is the model. With `parameters` or `bytes` the default is one, and nothing is sent in "
      "pieces");
  if (text == "one") return {static_cast<std::size_t>(parameters)};
  for (const Preset& preset : presets) {
    if (text != preset.name && !(text == "model" && model == preset.name)) continue;
    std::vector<std::size_t> sizes = preset.tensors();
    section.expect(parameters >= std::ssize(sizes), "tensors",
                   "must not be more than the model has parameters, {}, got {}", parameters,
                   sizes.size());
    if (preset.parameters == parameters) return sizes;
    return scaled_tensors(sizes, static_cast<std::size_t>(parameters));
  }
  std::vector<std::size_t> sizes;
  double sum = 0;
  for (const double size : section.numbers("tensors", {}, "floats of each tensor")) {
    section.expect(size >= 1 && size <= most_parameters && size == std::floor(size), "tensors",
                   "must be whole numbers of floats, got {}", size);
    sizes.push_back(static_cast<std::size_t>(size));
    sum += size;
  }
  section.expect(!sizes.empty(), "tensors", "must name at least one tensor");
  if (model != "a model" && sum != static_cast<double>(parameters)) {
    section.expect(sum <= most_parameters, "tensors", "must add up to at most {}, got {}",
                   most_parameters, sum);
    model = "a model";
    parameters = static_cast<std::int64_t>(sum);
  }
  section.expect(sum == static_cast<double>(parameters), "tensors",
                 "must add up to the model's {} parameters, got {}", parameters, sum);
  return sizes;
}

}  // namespace

std::unique_ptr<Workload> timing(const Section& section, NodeId nodes, std::uint64_t seed) {
  std::string name;
  std::int64_t parameters = read_parameters(section, name);
  std::vector<std::size_t> tensors = read_tensors(section, name, parameters);
  const std::int64_t batch_size = read_whole(section, "batch_size", 32, 1, most_batch,
                                             "samples of one gradient, for throughput");
  const std::string batching =
      section.choice("batching", {"samples", "padded", "packed", "bucket"}, "samples",
                     "batches of equal samples, or tokens of uneven ones");
  const bool has_lengths = batching != "samples";
  LengthSettings length_settings;
  if (has_lengths) length_settings = read_length_settings(section, batching, batch_size);
  auto samples = section.optional<std::int64_t>("samples", has_lengths ? 0 : 1'281'167,
                                                "training samples over all nodes, for epochs; the "
                                                "default is ImageNet's; 0: those in `lengths`");
  section.expect(samples >= nodes || (has_lengths && samples == 0), "samples",
                 "must be at least the number of nodes, {}, got {}", nodes, samples);
  section.finish();

  std::optional<LengthSampler> lengths;
  if (has_lengths) {
    lengths = read_named_file(section, "lengths",
                              [&] { return LengthSampler(std::move(length_settings), seed); });
  }
  if (samples == 0) samples = lengths->samples();
  const std::int64_t per_float = (parameters + most_floats - 1) / most_floats;
  const auto floats = static_cast<std::size_t>(parameters / per_float);
  if (per_float > 1) tensors = scaled_tensors(tensors, floats);
  WorkloadFacts facts{
      .description = fmt::format("{} of {} parameters, timing only", name, parameters),
      .parameters = floats,
      .wire_parameters = parameters,
      .has_numbers = false,
      .batch_size = lengths ? lengths->mean_batch_size() : static_cast<double>(batch_size),
      .cost_unit = lengths ? "token" : "sample",
      .tensors = std::move(tensors),
      .samples = {}};
  for (NodeId i = 0; i < nodes; ++i) {  // as equal as can be, the first ones get the rest
    facts.samples.push_back(samples / nodes + (i < samples % nodes ? 1 : 0));
  }
  return std::make_unique<Timing>(std::move(facts), batch_size, std::move(lengths));
}

}  // namespace starling::workloads
