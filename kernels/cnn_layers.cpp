#include "kernels/cnn_layers.hpp"

#include <limits>
#include <optional>
#include <span>
#include <stdexcept>

#include <fmt/format.h>

#include "sim/base/did_you_mean.hpp"
#include "sim/base/section.hpp"
#include "sim/base/text.hpp"

namespace starling {
namespace {

using Kind = CnnLayer::Kind;

constexpr std::size_t most = 1 << 20;  // of anything countable
constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();
constexpr std::size_t most_stride = 16, most_kernel = 63;

/// A kind of layer and how its parameters are written.
struct Word {
  const char* name;
  Kind kind;
  const char* usage;
};

constexpr Word words[] = {
    {"conv", Kind::conv, "conv CHANNELS HxW [same] [/STRIDE] [unbiased]"},
    {"relu", Kind::relu, "relu"},
    {"pool", Kind::pool, "pool SIZE"},
    {"average", Kind::average, "average"},
    {"batchnorm", Kind::batchnorm, "batchnorm"},
    {"groupnorm", Kind::groupnorm, "groupnorm GROUPS"},
    {"dropout", Kind::dropout, "dropout PROBABILITY"},
    {"dense", Kind::dense, "dense WIDTH"},
    {"residual", Kind::residual, "residual CHANNELS GROUPS [/STRIDE]"},
};

/// A whole number 1 .. limit, or nothing.
std::optional<std::size_t> count_of(std::string_view text, std::size_t limit) {
  const auto value = number_in<std::size_t>(text);
  return value && *value >= 1 && *value <= limit ? value : std::nullopt;
}

/// Reads the words of one layer from the second on; false if one is wrong or missing.
bool read_parameters(std::span<const std::string_view> given, CnnLayer& layer) {
  std::size_t at = 0;
  const auto next_count = [&](std::size_t& to, std::size_t limit) {
    const auto value = at < given.size() ? count_of(given[at], limit) : std::nullopt;
    if (value) to = *value, ++at;
    return value.has_value();
  };
  const Kind kind = layer.kind;
  const bool has_count =
      kind == Kind::conv || kind == Kind::pool || kind == Kind::dense || kind == Kind::residual;
  const bool has_groups = kind == Kind::groupnorm || kind == Kind::residual;
  if (has_count && !next_count(layer.count, most)) return false;
  if (has_groups && !next_count(layer.groups, most)) return false;
  if (kind == Kind::conv) {
    if (at == given.size()) return false;
    const auto sides = split(given[at++], 'x');
    const auto height = count_of(sides.front(), most_kernel);
    const auto width = count_of(sides.back(), most_kernel);
    if (sides.size() != 2 || !height || !width) return false;
    layer.kernel_height = *height;
    layer.kernel_width = *width;
    layer.same = at < given.size() && given[at] == "same";
    at += layer.same;
  }
  if (kind == Kind::dropout) {
    if (at == given.size()) return false;
    layer.rate = number_in<decltype(layer.rate)>(given[at++]).value_or(-1);
    // Rates are multiples of 2^-16, see CnnNetwork.
    if (!(layer.rate == 0 || (layer.rate >= 1.0 / 65536 && layer.rate < 1))) return false;
  }
  if ((kind == Kind::conv || kind == Kind::residual) && at < given.size() &&
      given[at].front() == '/') {
    const auto stride = count_of(given[at++].substr(1), most_stride);
    if (!stride) return false;
    layer.stride = *stride;
  }
  layer.unbiased = kind == Kind::conv && at < given.size() && given[at] == "unbiased";
  at += layer.unbiased;
  return at == given.size();
}

CnnLayer parse_layer(std::string_view text, std::size_t number) {
  auto given = split(text, ' ');
  std::erase(given, "");
  if (given.empty()) {
    throw std::invalid_argument(
        fmt::format("must be layers separated by commas, got nothing as layer {}", number));
  }
  CnnLayer layer{.kind = Kind::relu, .text = fmt::format("{}", fmt::join(given, " "))};
  for (const Word& word : words) {
    if (given[0] != word.name) continue;
    layer.kind = word.kind;
    if (read_parameters(std::span(given).subspan(1), layer)) return layer;
    for (const std::string_view part : given) {
      if (count_of(part, unlimited) && !count_of(part, most)) {
        throw std::invalid_argument(fmt::format("must have numbers up to {} in layer {}, got `{}`",
                                                most, number, layer.text));
      }
    }
    throw std::invalid_argument(fmt::format("must have layer {} in the form `{}`, got `{}`", number,
                                            word.usage, layer.text));
  }
  std::vector<std::string> names;
  for (const Word& word : words) names.emplace_back(word.name);
  throw std::invalid_argument(fmt::format("must be layers of {}, got `{}` as layer {}{}",
                                          fmt::join(names, ", "), layer.text, number,
                                          did_you_mean(given[0], names)));
}

}  // namespace

std::vector<CnnLayer> parse_cnn_layers(std::string_view text) {
  std::vector<CnnLayer> layers;
  for (const std::string_view part : split(text, ',')) {
    layers.push_back(parse_layer(part, layers.size() + 1));
  }
  return layers;
}

}  // namespace starling
