#include "algorithms/codec.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "algorithms/dense_codecs.hpp"
#include "algorithms/sparse_codecs.hpp"
#include "algorithms/tensor_codec.hpp"
#include "sim/base/error.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

class NoCodec final : public Codec {
 public:
  Code encode(const Vector& v, const Random&) const override {
    return {v, 4 * static_cast<std::int64_t>(v.size())};
  }
  Vector decode(const Vector& words, std::size_t, const Random&, const Vector&) const override {
    return words;
  }
  bool is_unbiased() const override { return true; }
  bool is_exact() const override { return true; }
};

/// Reads the keys of one codec.
class Keys {
 public:
  Keys(const Section& section, const CodecKeys& keys) : section_(section), keys_(keys) {}

  double keep(std::optional<double> fallback = std::nullopt) const {
    return share("keep", fallback, "share of the entries that is sent");
  }
  double share(std::string_view key, std::optional<double> fallback, std::string_view help) const {
    return read_share_above_0(section_, name(key), fallback, help);
  }
  /// Of codes whose size follows from a threshold.
  double keep_without_numbers() const {
    return share("keep", std::nullopt,
                 "share of the entries that a workload without numbers sends; others send what "
                 "reaches the threshold");
  }
  double threshold() const {
    return magnitude("threshold", "least magnitude of an entry that is sent");
  }
  double magnitude(std::string_view key, std::string_view help) const {
    const auto value = section_.required<double>(name(key), help);
    section_.expect_range(name(key), value, least_float, largest_float);
    return value;
  }
  std::uint32_t count(std::string_view key, std::int64_t fallback, std::int64_t low,
                      std::int64_t high, std::string_view help) const {
    return static_cast<std::uint32_t>(read_whole(section_, name(key), fallback, low, high, help));
  }
  std::uint32_t bucket() const {
    return count("bucket", 512, 0, 1 << 30, "entries that share a norm; 0: all");
  }
  bool contracts() const {
    return flag("contractive", keys_.is_contractive,
                "scale what is read down, so that it loses less than all there is");
  }
  LevelCoding level_coding(bool is_max_norm) const {
    const auto coding = choice<LevelCoding>(
        "coding", {{"fixed", LevelCoding::fixed}, {"elias", LevelCoding::elias}}, "fixed",
        "what is charged: fields of one width, or the bound of Elias's code where that is "
        "shorter");
    section_.expect(coding == LevelCoding::fixed || !is_max_norm, name("coding"),
                    "= elias needs norm = euclidean, which its bound is for");
    return coding;
  }
  bool flag(std::string_view key, bool fallback, std::string_view help) const {
    return section_.optional<bool>(name(key), fallback, help);
  }
  template <class T>
  T choice(std::string_view key, const std::vector<Option<T>>& options, std::string_view fallback,
           std::string_view help) const {
    return section_.choice(name(key), options, fallback, help);
  }
  std::string name(std::string_view key) const { return fmt::format("{}{}", keys_.prefix, key); }

 private:
  const Section& section_;
  const CodecKeys& keys_;
};

/// A codec, and how many floats its code of so many has; none where that follows from their values, or tensors by themselves
/// are coded as a whole is.
struct CodecRead {
  SharedCodec codec;
  std::function<std::size_t(std::size_t)> words_of{};
};

/// Reads the codec that is called `kind`.
struct Reader {
  std::string_view kind;
  CodecRead (*read)(const Keys& keys);
};

constexpr std::string_view with_reference = "lattice";  // the others need none

constexpr Reader readers[] = {
    {"none", [](const Keys&) -> CodecRead { return {std::make_shared<NoCodec>()}; }},
    {"half", [](const Keys&) -> CodecRead { return {half_codec(false)}; }},
    {"bfloat", [](const Keys&) -> CodecRead { return {half_codec(true)}; }},
    {"float4",
     [](const Keys& keys) -> CodecRead {
       const std::uint32_t bucket = keys.bucket();
       return {float4_codec(bucket),
               [=](std::size_t size) { return bucket_words(size, bucket, 4); }};
     }},
    {"top_k",
     [](const Keys& keys) -> CodecRead {
       const double keep = keys.keep(0.001);
       const bool is_strict =
           keys.flag("strict", false, "one entry less: those strictly above the k-th largest");
       return {top_k_codec(keep, is_strict),
               [=](std::size_t size) { return 2 * std::size_t{share_of(keep, size, is_strict)}; }};
     }},
    {"random_k",
     [](const Keys& keys) -> CodecRead {
       const double keep = keys.keep();
       const bool is_unbiased =
           keys.flag("unbiased", false, "scale the entries up so that their mean is right");
       return {random_k_codec(keep, is_unbiased),
               [=](std::size_t size) { return std::size_t{share_of(keep, size)}; }};
     }},
    {"threshold",
     [](const Keys& keys) -> CodecRead {
       const double threshold = keys.threshold();
       return {threshold_codec(threshold, keys.keep_without_numbers())};
     }},
    {"gradient_dropping",
     [](const Keys& keys) -> CodecRead {
       const double keep = keys.keep();
       return {gradient_dropping_codec(
           keep, keys.share("sample", 0.001,
                            "share of the entries that the threshold is found from; at least 1 / "
                            "keep of them"))};
     }},
    {"threshold_quantization",
     [](const Keys& keys) -> CodecRead {
       const double threshold = keys.threshold();
       return {threshold_quantization_codec(threshold, keys.keep_without_numbers())};
     }},
    {"adaptive_quantization",
     [](const Keys& keys) -> CodecRead { return {adaptive_quantization_codec(keys.keep())}; }},
    {"levels",
     [](const Keys& keys) -> CodecRead {
       const std::uint32_t levels = keys.count("levels", 7, 1, 32767, "quantization levels");
       const std::uint32_t bucket = keys.bucket();
       const bool is_max = keys.choice<bool>("norm", {{"euclidean", false}, {"max", true}},
                                             "euclidean", "what levels are relative to");
       const bool contracts = keys.contracts();
       const LevelCoding coding = keys.level_coding(is_max);
       return {levels_codec(levels, bucket, is_max, contracts, coding),
               [=](std::size_t size) { return bucket_words(size, bucket, level_bits(levels)); }};
     }},
    {"ternary",
     [](const Keys& keys) -> CodecRead {
       return {levels_codec(1, 0, true, keys.contracts()),
               [](std::size_t size) { return bucket_words(size, 0, level_bits(1)); }};
     }},
    {"sign",
     [](const Keys&) -> CodecRead {
       return {signs_codec(true), [](std::size_t size) { return bucket_words(size, 0, 1); }};
     }},
    {"one_bit",
     [](const Keys&) -> CodecRead {
       return {signs_codec(false), [](std::size_t size) { return bucket_words(size, 0, 1) + 1; }};
     }},
    {with_reference, [](const Keys& keys) -> CodecRead {
       const double cell =
           keys.magnitude("cell",
                          "side of a lattice cell; entries of two models that differ by more than "
                          "cell * (2^bits - 1) / 2 are decoded wrongly, without an error");
       const std::uint32_t bits = keys.count("bits", 8, 1, 24, "bits of an entry");
       return {lattice_codec_of_cell(
           cell, bits,
           keys.flag("shifted", true, "shift the lattice at random, so that it is unbiased"))};
     }}};

/// `has_reference`: receivers have a vector near the one that is sent.
SharedCodec read_any_codec(const Section& section, const CodecKeys& offered, bool has_reference) {
  const Keys keys(section, offered);
  std::vector<std::string> kinds;
  for (const Reader& reader : readers) {
    if (has_reference || reader.kind != with_reference) kinds.emplace_back(reader.kind);
  }
  std::string help = "how vectors are compressed before they are sent";
  if (!has_reference)
    help += "; not by a lattice, as receivers have no vector near the one that is sent";
  help += offered.note;
  const std::string kind =
      section.choice(keys.name("compression"), std::move(kinds), offered.fallback, help);
  const auto found = std::ranges::find(readers, kind, &Reader::kind);
  ensure(found != std::end(readers), "a choice is one of its options");
  CodecRead read = found->read(keys);
  if (offered.tensors == nullptr || !read.words_of) return read.codec;
  std::vector<std::size_t> units = read_unit(section, *offered.tensors, "model", keys.name("unit"));
  if (units.empty()) return read.codec;
  if (units.size() < 2) {
    section.warn(keys.name("unit"), "= tensors changes nothing: the workload has one tensor");
    return read.codec;
  }
  return codec_of_tensors(std::move(read.codec), std::move(units), std::move(read.words_of));
}

}  // namespace

std::size_t Codec::entries_of(std::size_t, std::size_t size) const { return size; }

SharedCodec Codec::of_columns(const std::vector<Columns>&) const { return nullptr; }

SharedCodec read_codec(const Section& section) { return read_any_codec(section, {}, true); }

SharedCodec read_plain_codec(const Section& section, const CodecKeys& keys) {
  return read_any_codec(section, keys, false);
}

SharedCodec exact_codec() { return std::make_shared<NoCodec>(); }

SharedCodec lattice_codec(double range, std::uint32_t bits, bool is_shifted) {
  const double cell = 2 * range / ((std::uint32_t{1} << bits) - 1);
  return lattice_codec_of_cell(cell, bits, is_shifted);
}

Random code_stream(const Node& node, NodeId sender, Step k, std::string_view purpose) {
  return node.random_of(sender, purpose, k);
}

Encoded encode(const Codec& codec, const Vector& v, const Random& stream, const Vector& reference) {
  Encoded result;
  result.code = codec.encode(v, stream);
  result.decoded = codec.decode(result.code.words, v.size(), stream, reference);
  return result;
}

Encoded ErrorFeedback::encode(const Codec& codec, Vector v, const Random& stream) {
  if (residual_) v.add(residual_);
  Encoded result = algorithms::encode(codec, v, stream);
  residual_ = {};
  if (codec.is_exact()) return result;
  residual_ = v;
  residual_.add_scaled(-1, result.decoded);
  return result;
}

Compression read_compression(const Section& section, bool feeds_back, const CodecKeys& keys) {
  Compression compression{.codec = read_plain_codec(section, keys)};
  if (compression.is_exact()) return compression;
  compression.has_feedback =
      section.optional<bool>("error_feedback", feeds_back && !compression.codec->is_unbiased(),
                             "add what a code lost to the next vector before it is encoded; "
                             "contractive levels have it by default, too");
  return compression;
}

bool read_rescales_residual(const Section& section) {
  return section.optional<bool>(
      "rescale_residual", true,
      "what was held back counts at the learning rate of its own step; no: at that of the step in "
      "which it travels, as published");
}

Code Compressor::encode(Vector v, const Random& stream) {
  return compression_.has_feedback
             ? feedback_.encode(*compression_.codec, std::move(v), stream).code
             : compression_.codec->encode(v, stream);
}

}  // namespace starling::algorithms
