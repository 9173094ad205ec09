// Timing only: a model that has a size and no numbers. Messages, computing times and waiting are
// simulated as ever, nothing is computed, so a thousand ResNet-50 nodes or a hundred thousand small
// ones run in seconds.
//
// Models by name: kernels/tensor_shapes.hpp.
//
// A vector of the engine has fewer than 2^31 floats; a larger model is simulated with a half, a third, .. of its floats,
// each of which counts as two, three, .. on the wire.
//
// Batches have the same size always, or tokens of uneven samples (lengths.hpp), which a
// compute-time model turns into seconds.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "kernels/data/lengths.hpp"
#include "kernels/registry.hpp"
#include "kernels/tensor_shapes.hpp"
#include "sim/base/error.hpp"
#include "sim/base/number_file.hpp"
#include "sim/base/numbers.hpp"
#include "sim/base/text.hpp"

namespace starling::workloads {
namespace {

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
  for (const KnownModel& known : known_models()) names.emplace_back(known.name);
  name = section.choice("model", names, names[0], "a well-known size, with its tensors");
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
  const auto model = std::ranges::find(known_models(), name, &KnownModel::name);
  return static_cast<std::int64_t>(size_of(model->shapes()));
}

/// The tensors of a model; without shapes all are vectors.
struct Tensors {
  std::vector<std::size_t> sizes;
  std::vector<TensorShape> shapes{};
};

/// "2304x256", or the floats of a vector.
TensorShape read_shape(const Section& section, std::string_view text) {
  const std::vector<std::string_view> factors = split(text, 'x');
  const auto is_size = [](std::optional<double> size) {
    return size && *size >= 1 && *size <= most_parameters && *size == std::floor(*size);
  };
  const auto rows = number_in<double>(trim(factors.front()));
  const auto columns = factors.size() == 1 ? 1.0 : number_in<double>(trim(factors.back()));
  const bool is_shape = factors.size() <= 2 && is_size(rows) && is_size(columns);
  section.expect(is_shape, "tensors",
                 "must be whole numbers of floats, or shapes such as 2304x256, got {}",
                 trim(text).empty() ? "nothing" : trim(text));
  if (!is_shape) return {1};  // in a probe
  return {static_cast<std::size_t>(*rows), static_cast<std::size_t>(*columns)};
}

/// Of every tensor: those of a well-known model, scaled if the size is another, or a list, which says the size of
/// the model if no other key does.
Tensors read_tensors(const Section& section, std::string& model, std::int64_t& parameters) {
  const auto text = section.optional<std::string>(
      "tensors", model == "a model" ? "one" : "model",
      "the model's tensors: those of `model`; of a named model, scaled; `one`; or a "
      "list that adds up to the model, of floats or, for matrices, inputs x outputs "
      "(2304x256, 256). With `parameters` or `bytes` the default is one, and nothing "
      "is sent in pieces");
  if (text == "one") return {{static_cast<std::size_t>(parameters)}};
  for (const KnownModel& known : known_models()) {
    if (text != known.name && !(text == "model" && model == known.name)) continue;
    const std::vector<TensorShape> shapes = known.shapes();
    section.expect(parameters >= std::ssize(shapes), "tensors",
                   "must not be more than the model has parameters, {}, got {}", parameters,
                   shapes.size());
    const auto floats = static_cast<std::size_t>(parameters);
    if (size_of(shapes) == floats) return {sizes_of(shapes), shapes};
    return {scaled_tensors(sizes_of(shapes), floats)};
  }
  Tensors tensors;
  double sum = 0;
  section.expect(!trim(text).empty(), "tensors", "must name at least one tensor");
  for (const std::string_view each : split(text, ',')) {
    tensors.shapes.push_back(read_shape(section, each));
    sum += static_cast<double>(tensors.shapes.back().rows) *
           static_cast<double>(tensors.shapes.back().columns);
  }
  if (model != "a model" && sum != static_cast<double>(parameters)) {
    section.expect(sum <= most_parameters, "tensors", "must add up to at most {}, got {}",
                   most_parameters, sum);
    model = "a model";
    parameters = static_cast<std::int64_t>(sum);
  }
  section.expect(sum == static_cast<double>(parameters), "tensors",
                 "must add up to the model's {} parameters, got {}", parameters, sum);
  tensors.sizes = sizes_of(tensors.shapes);
  return tensors;
}

/// Of what has more than one column.
std::vector<WeightMatrix> matrices_of(std::span<const TensorShape> shapes) {
  std::vector<WeightMatrix> matrices;
  std::size_t at = 0;
  for (const TensorShape& shape : shapes) {
    if (shape.columns > 1) {
      matrices.push_back({.offset = at,
                          .rows = static_cast<std::uint32_t>(shape.rows),
                          .columns = static_cast<std::uint32_t>(shape.columns)});
    }
    at += shape.size();
  }
  return matrices;
}

}  // namespace

std::unique_ptr<Workload> timing(const Section& section, NodeId nodes, std::uint64_t seed) {
  std::string name;
  std::int64_t parameters = read_parameters(section, name);
  Tensors tensors = read_tensors(section, name, parameters);
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
  if (per_float > 1) tensors = {scaled_tensors(tensors.sizes, floats)};
  WorkloadFacts facts{
      .description = fmt::format("{} of {} parameters, timing only", name, parameters),
      .parameters = floats,
      .wire_parameters = parameters,
      .has_numbers = false,
      .batch_size = lengths ? lengths->mean_batch_size() : static_cast<double>(batch_size),
      .cost_unit = lengths ? "token" : "sample",
      .tensors = std::move(tensors.sizes),
      .samples = {},
      .matrices = matrices_of(tensors.shapes)};
  for (NodeId i = 0; i < nodes; ++i) {  // as equal as can be, the first ones get the rest
    facts.samples.push_back(samples / nodes + (i < samples % nodes ? 1 : 0));
  }
  return std::make_unique<Timing>(std::move(facts), batch_size, std::move(lengths));
}

}  // namespace starling::workloads
