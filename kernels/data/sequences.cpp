#include "kernels/data/sequences.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "kernels/keys.hpp"
#include "sim/base/elementary.hpp"
#include "sim/base/error.hpp"
#include "sim/base/memory.hpp"
#include "sim/base/numbers.hpp"
#include "sim/base/random.hpp"
#include "sim/base/shipped_file.hpp"
#include "sim/base/text.hpp"
#include "sim/base/text_file.hpp"

namespace starling {
namespace {

constexpr int most_tokens = 1 << 20;  // a larger token number is surely none

void read_test_fraction(const Section& section, SequenceSettings& settings, double fallback) {
  settings.test_fraction = read_share_inside(section, "test_fraction", fallback,
                                             "this part of the file, the last, is held out");
}

void read_made(const Section& section, SequenceSettings& settings, std::size_t context) {
  constexpr std::int64_t many = std::int64_t{1} << 24;
  settings.vocabulary =
      static_cast<int>(read_whole(section, "vocabulary", 16, 2, most_tokens, "different tokens"));
  settings.classes = static_cast<int>(read_whole(section, "classes", 4, 1, most_tokens, "labels"));
  section.expect(settings.classes < settings.vocabulary, "classes",
                 "must be below the vocabulary, {}, got {}", settings.vocabulary, settings.classes);
  settings.samples = static_cast<std::size_t>(
      read_whole(section, "samples", 2000, 1, many, "training sequences, over all nodes"));
  settings.test_samples = static_cast<std::size_t>(
      read_whole(section, "test_samples", 500, 1, many, "held-out sequences"));
  settings.median_length =
      section.optional<double>("median_length", 12, "median of the lengths, which are lognormal");
  section.expect(settings.median_length >= 2, "median_length", "must be at least 2, got {}",
                 settings.median_length);
  settings.length_sigma =
      read_not_negative(section, "length_sigma", 0.5,
                        "standard deviation of the logarithm of the lengths; 0: all alike");
  const auto samples = static_cast<double>(settings.samples + settings.test_samples);
  const double length = std::min(settings.median_length, static_cast<double>(context));
  expect_memory(section, "samples", samples * length * 4,
                fmt::format("{} samples * {} tokens * 4 B", samples, length));
  settings.noise =
      read_between(section, "noise", 0.1, 0, 1, "fraction of tokens that do not follow the rule");
}

// --- Text ---------------------------------------------------------------------------------------

/// Windows of `context` tokens over `tokens`, the last of which is only foretold.
Sequences cut(std::vector<std::int32_t> tokens, std::size_t context, int vocabulary) {
  Sequences windows;
  const std::size_t inputs = tokens.size() - 1;
  for (std::size_t first = 0; first < inputs; first += context) {
    windows.begin.push_back(first);
    windows.samples.length.push_back(static_cast<std::int32_t>(std::min(context, inputs - first)));
  }
  windows.samples.samples = windows.begin.size();
  windows.samples.classes = vocabulary;
  windows.tokens = std::move(tokens);
  return windows;
}

/// Whether `text` begins with the byte order mark of UTF-16, of either order; nothing here reads that.
bool is_utf16(std::string_view text) {
  return text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
}

SplitSequences load_text(const SequenceSettings& settings, std::size_t context) {
  const std::string path = settings.path.empty() ? shipped_file("sonnets.txt") : settings.path;
  std::string text = read_whole_file(path);
  if (is_utf16(text))
    throw Error(path + ": expected text whose characters are bytes, such as UTF-8, found UTF-16");
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());  // no characters
  const std::size_t held_out = part_of(text.size(), settings.test_fraction);
  if (held_out < 2 || text.size() - held_out < 2) {
    throw Error(
        fmt::format("{}: expected 2 characters or more in either part, found {} of which "
                    "{} are held out",
                    path, text.size(), held_out));
  }

  std::array<std::int32_t, 256> numbers{};
  for (const char c : text) numbers[static_cast<unsigned char>(c)] = 1;
  int vocabulary = 0;
  for (std::int32_t& number : numbers) number = number > 0 ? vocabulary++ : -1;
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  for (const char c : text) tokens.push_back(numbers[static_cast<unsigned char>(c)]);

  const auto middle = tokens.end() - static_cast<std::ptrdiff_t>(held_out);
  SplitSequences split{.train = cut({tokens.begin(), middle}, context, vocabulary),
                       .test = cut({middle, tokens.end()}, context, vocabulary),
                       .predicts_next = true,
                       .vocabulary = vocabulary,
                       .classes = vocabulary};
  split.description = fmt::format("text of {} training and {} test characters, {} different",
                                  text.size() - held_out, held_out, vocabulary);
  return split;
}

// --- Labeled sequences --------------------------------------------------------------------------

Sequences make(const SequenceSettings& settings, std::size_t samples, std::size_t context,
               const char* purpose, std::uint64_t seed) {
  Sequences made;
  made.samples.samples = samples;
  made.samples.classes = settings.classes;
  const auto vocabulary = static_cast<std::uint64_t>(settings.vocabulary);
  const auto most = static_cast<double>(context);
  for (std::size_t s = 0; s < samples; ++s) {
    Random random(seed, purpose, shared_stream, static_cast<Step>(s));
    const auto label = s % static_cast<std::size_t>(settings.classes);
    const double length = std::clamp(
        std::nearbyint(settings.median_length * exact_exp(settings.length_sigma * random.normal())),
        std::min(2.0, most), most);
    made.begin.push_back(made.tokens.size());
    made.samples.length.push_back(static_cast<std::int32_t>(length));
    made.samples.y.push_back(static_cast<std::int32_t>(label));
    std::uint64_t token = random.below(vocabulary);
    for (std::size_t t = 0; t < made.length(s); ++t) {
      made.tokens.push_back(static_cast<std::int32_t>(token));
      token = random.uniform() < settings.noise ? random.below(vocabulary)
                                                : (token + 1 + label) % vocabulary;
    }
  }
  return made;
}

/// The tokens of an HDF5 dataset, without the padding; `vocabulary` grows to hold them.
Sequences unpad(Dataset padded, std::size_t context, const std::string& path, int& vocabulary) {
  Sequences result;
  if (!padded.shape.empty()) {
    throw Error(fmt::format(
        "{}: x: expected shape (samples, longest) of token numbers, found (samples, {})", path,
        fmt::join(padded.shape, ", ")));
  }
  if (padded.length.empty()) {
    if (padded.features > context) {
      throw Error(fmt::format("{}: x: expected samples of at most {} tokens, the context, found {}",
                              path, context, padded.features));
    }
    padded.length.assign(padded.samples, static_cast<std::int32_t>(padded.features));
  }
  for (std::size_t s = 0; s < padded.samples; ++s) {
    const auto length = static_cast<std::size_t>(padded.length[s]);
    if (length > std::min(padded.features, context)) {
      throw Error(fmt::format("{}: length: expected at most {}, the {}, found {} at sample {}",
                              path, std::min(padded.features, context),
                              padded.features < context ? "width of x" : "context", length, s));
    }
    result.begin.push_back(result.tokens.size());
    for (const float value : padded.row(s).first(length)) {
      if (value < 0 || value >= static_cast<float>(most_tokens) || value != std::floor(value)) {
        throw Error(fmt::format("{}: x: expected token numbers 0 to {}, found {} at sample {}",
                                path, most_tokens - 1, value, s));
      }
      result.tokens.push_back(static_cast<std::int32_t>(value));
      vocabulary = std::max(vocabulary, static_cast<int>(value) + 1);
    }
  }
  padded.x.clear();
  padded.features = 0;
  result.samples = std::move(padded);
  return result;
}

SplitSequences load_file(const SequenceSettings& settings, std::size_t context) {
  DatasetSettings file;
  file.kind = "hdf5";
  file.path = settings.path;
  file.test_path = settings.test_path;
  file.test_fraction = settings.test_fraction;
  file.is_padded = true;
  SplitDataset padded = load_dataset(file, 0);
  SplitSequences split;
  split.classes = padded.train.classes;
  const std::string& test_path = settings.test_path.empty() ? settings.path : settings.test_path;
  split.train = unpad(std::move(padded.train), context, settings.path, split.vocabulary);
  split.test = unpad(std::move(padded.test), context, test_path, split.vocabulary);
  return split;
}

}  // namespace

SequenceSettings read_sequence_settings(const Section& section, std::size_t context) {
  SequenceSettings settings;
  settings.kind =
      section.choice("dataset", {"text", "sequences", "hdf5"}, "text",
                     "next characters of a text, or labels of sequences: made, or from a file");
  if (settings.kind == "text") {
    settings.path = section.resolve_path(
        section.optional<std::string>("path", "", "text file; empty: the sonnets shipped"));
    read_test_fraction(section, settings, 0.1);
  } else if (settings.kind == "sequences") {
    read_made(section, settings, context);
  } else {
    settings.path = section.resolve_path(section.required<std::string>(
        "path", "HDF5 file: x (samples, longest) of token numbers, y and, optionally, length"));
    settings.test_path = section.resolve_path(
        section.optional<std::string>("test_path", "", "HDF5 file with the held-out sequences"));
    if (settings.test_path.empty()) read_test_fraction(section, settings, 0.2);
  }
  return settings;
}

SplitSequences load_sequences(const SequenceSettings& settings, std::size_t context,
                              std::uint64_t seed) {
  if (settings.kind == "text") return load_text(settings, context);
  SplitSequences split;
  if (settings.kind == "hdf5") {
    split = load_file(settings, context);
  } else {
    split.train = make(settings, settings.samples, context, "sequences", seed);
    split.test = make(settings, settings.test_samples, context, "sequences held out", seed);
    split.vocabulary = settings.vocabulary;
    split.classes = settings.classes;
  }
  const auto mean = static_cast<double>(split.train.tokens.size()) /
                    static_cast<double>(split.train.samples.samples);
  split.description = fmt::format(
      "{} training and {} test sequences of {:.1f} tokens on the mean, {} different, {} classes",
      split.train.samples.samples, split.test.samples.samples, mean, split.vocabulary,
      split.classes);
  return split;
}

}  // namespace starling
