#include "algorithms/codec.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "algorithms/sparse_codecs.hpp"
#include "sim/base/error.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

using namespace transforms;

/// Bucket 0: the whole vector.
std::uint32_t bucket_of(std::uint32_t bucket, std::size_t size) {
  return bucket == 0 ? narrow(size) : bucket;
}

std::int64_t bytes_of(std::size_t fields, std::size_t bits) {
  return static_cast<std::int64_t>((fields * bits + 7) / 8);
}

class None final : public Codec {
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

class Half final : public Codec {
 public:
  explicit Half(bool is_bfloat) : is_bfloat_(is_bfloat) {}
  Code encode(const Vector& v, const Random&) const override {
    return {transformed(ToHalf{is_bfloat_}, {v}), bytes_of(v.size(), 16)};
  }
  Vector decode(const Vector& words, std::size_t size, const Random&,
                const Vector&) const override {
    return transformed(FromHalf{is_bfloat_, narrow(size)}, {words});
  }
  bool is_unbiased() const override { return false; }

 private:
  bool is_bfloat_;
};

class Levels final : public Codec {
 public:
  /// Bucket 0: the whole vector.
  Levels(std::uint32_t levels, std::uint32_t bucket, bool is_max_norm, bool is_contractive)
      : levels_(levels),
        bucket_(bucket),
        is_max_norm_(is_max_norm),
        is_contractive_(is_contractive) {}
  Code encode(const Vector& v, const Random& stream) const override {
    const std::uint32_t bucket = bucket_of(bucket_, v.size());
    const std::size_t buckets = (v.size() + bucket - 1) / bucket;
    return {transformed(ToLevels{levels_, bucket, is_max_norm_, stream}, {v}),
            bytes_of(buckets, 32) + bytes_of(v.size(), level_bits(levels_))};
  }
  Vector decode(const Vector& words, std::size_t size, const Random&,
                const Vector&) const override {
    const std::uint32_t bucket = bucket_of(bucket_, size);
    const float factor = factor_of(std::min(bucket, narrow(size)));
    return transformed(FromLevels{levels_, bucket, factor, narrow(size)}, {words});
  }
  bool is_unbiased() const override { return !is_contractive_; }

 private:
  /// Of b entries with s levels at most min(b / s^2, sqrt(b) / s) times their squares are lost on average.
  float factor_of(std::uint32_t entries) const {
    if (!is_contractive_) return 1;
    const double ratio = std::sqrt(static_cast<double>(entries)) / levels_;
    return static_cast<float>(1 / (1 + std::min(ratio * ratio, ratio)));
  }
  std::uint32_t levels_, bucket_;
  bool is_max_norm_, is_contractive_;
};

class Float4 final : public Codec {
 public:
  /// Bucket 0: the whole vector.
  explicit Float4(std::uint32_t bucket) : bucket_(bucket) {}
  Code encode(const Vector& v, const Random&) const override {
    const std::uint32_t bucket = bucket_of(bucket_, v.size());
    const std::size_t buckets = (v.size() + bucket - 1) / bucket;
    return {transformed(ToFloat4{bucket}, {v}), bytes_of(buckets, 32) + bytes_of(v.size(), 4)};
  }
  Vector decode(const Vector& words, std::size_t size, const Random&,
                const Vector&) const override {
    return transformed(FromFloat4{bucket_of(bucket_, size), narrow(size)}, {words});
  }
  bool is_unbiased() const override { return false; }

 private:
  std::uint32_t bucket_;
};

/// Codes of 1-bit SGD, with two values per column, one after the other.
class ColumnSigns final : public Codec {
 public:
  explicit ColumnSigns(std::vector<Columns> columns) : columns_(std::move(columns)) {}
  Code encode(const Vector& v, const Random&) const override {
    std::vector<Vector> words;
    std::int64_t bytes = bytes_of(v.size(), 1);
    std::size_t at = 0;
    for (const auto& [count, size] : columns_) {
      words.push_back(transformed(ToSigns{false, narrow(size)}, {v.slice(at, count * size)}));
      bytes += bytes_of(2 * count, 32);
      at += count * size;
    }
    return {concatenate(words), bytes};
  }
  Vector decode(const Vector& words, std::size_t, const Random&, const Vector&) const override {
    std::vector<Vector> parts;
    std::size_t at = 0;
    for (const auto& [count, size] : columns_) {
      const std::size_t length = 2 * count + (count * size + 31) / 32;
      parts.push_back(transformed(FromSigns{false, narrow(size), narrow(count * size)},
                                  {words.slice(at, length)}));
      at += length;
    }
    return concatenate(parts);
  }
  bool is_unbiased() const override { return false; }

 private:
  std::vector<Columns> columns_;
};

class Signs final : public Codec {
 public:
  explicit Signs(bool is_symmetric) : is_symmetric_(is_symmetric) {}
  Code encode(const Vector& v, const Random&) const override {
    return {transformed(ToSigns{is_symmetric_, narrow(v.size())}, {v}),
            (is_symmetric_ ? 4 : 8) + bytes_of(v.size(), 1)};
  }
  Vector decode(const Vector& words, std::size_t size, const Random&,
                const Vector&) const override {
    return transformed(FromSigns{is_symmetric_, narrow(size), narrow(size)}, {words});
  }
  bool is_unbiased() const override { return false; }
  SharedCodec of_columns(const std::vector<Columns>& columns) const override {
    return is_symmetric_ ? nullptr : std::make_shared<ColumnSigns>(columns);
  }

 private:
  bool is_symmetric_;
};

class Lattice final : public Codec {
 public:
  Lattice(double cell, std::uint32_t bits, bool is_shifted)
      : cell_(cell), bits_(bits), is_shifted_(is_shifted) {}
  Code encode(const Vector& v, const Random& stream) const override {
    return {transformed(ToColors{cell_, bits_, is_shifted_, stream}, {v}),
            bytes_of(v.size(), bits_)};
  }
  Vector decode(const Vector& words, std::size_t, const Random& stream,
                const Vector& reference) const override {
    return transformed(FromColors{cell_, bits_, is_shifted_, stream}, {words, reference});
  }
  bool needs_reference() const override { return true; }
  bool is_unbiased() const override { return is_shifted_; }

 private:
  double cell_;
  std::uint32_t bits_;
  bool is_shifted_;
};

/// The keys of one codec, all with a prefix. `is_contractive` is the default of the key `contractive`.
class Keys {
 public:
  Keys(const Section& section, std::string_view prefix, bool is_contractive)
      : section_(section), prefix_(prefix), is_contractive_(is_contractive) {}

  double keep(std::optional<double> fallback = std::nullopt) const {
    return share("keep", fallback, "share of the entries that is sent");
  }
  double share(std::string_view key, std::optional<double> fallback, std::string_view help) const {
    const double share = fallback ? section_.optional<double>(name(key), *fallback, help)
                                  : section_.required<double>(name(key), help);
    section_.expect(share > 0 && share <= 1, name(key), "must be in (0, 1], got {}", share);
    return share;
  }
  /// Of codes whose size follows from a threshold.
  double keep_without_numbers() const {
    return share("keep", std::nullopt,
                 "share of the entries that a workload without numbers sends; others send what "
                 "reaches the threshold");
  }
  double threshold() const {
    const double threshold = positive("threshold", "least magnitude of an entry that is sent");
    section_.expect(threshold >= least_float, name("threshold"), "must be at least {}, got {}",
                    least_float, threshold);
    return threshold;
  }
  double positive(std::string_view key, std::string_view help) const {
    const double value = section_.required<double>(name(key), help);
    section_.expect(value > 0 && std::isfinite(value), name(key), "must be positive, got {}",
                    value);
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
    return flag("contractive", is_contractive_,
                "scale what is read down, so that it loses less than all there is");
  }
  bool flag(std::string_view key, bool fallback, std::string_view help) const {
    return section_.optional<bool>(name(key), fallback, help);
  }
  std::string choice(std::string_view key, std::vector<std::string> options,
                     std::string_view fallback, std::string_view help) const {
    return section_.choice(name(key), std::move(options), fallback, help);
  }

 private:
  std::string name(std::string_view key) const { return prefix_ + std::string(key); }
  const Section& section_;
  std::string prefix_;
  bool is_contractive_;
};

/// Reads the codec that is called `kind`.
struct Reader {
  std::string_view kind;
  SharedCodec (*read)(const Keys& keys);
};

constexpr std::string_view with_reference = "lattice";  // the others need none

constexpr Reader readers[] = {
    {"none", [](const Keys&) -> SharedCodec { return std::make_shared<None>(); }},
    {"half", [](const Keys&) -> SharedCodec { return std::make_shared<Half>(false); }},
    {"bfloat", [](const Keys&) -> SharedCodec { return std::make_shared<Half>(true); }},
    {"float4",
     [](const Keys& keys) -> SharedCodec { return std::make_shared<Float4>(keys.bucket()); }},
    {"top_k",
     [](const Keys& keys) {
       const double keep = keys.keep(0.001);
       return top_k_codec(keep, keys.flag("strict", false,
                                          "one entry less: those strictly above the k-th largest"));
     }},
    {"random_k",
     [](const Keys& keys) {
       const double keep = keys.keep();
       return random_k_codec(
           keep, keys.flag("unbiased", false, "scale the entries up so that their mean is right"));
     }},
    {"threshold",
     [](const Keys& keys) {
       const double threshold = keys.threshold();
       return threshold_codec(threshold, keys.keep_without_numbers());
     }},
    {"gradient_dropping",
     [](const Keys& keys) {
       const double keep = keys.keep();
       return gradient_dropping_codec(
           keep, keys.share("sample", 0.001,
                            "share of the entries that the threshold is found from; at least 1 / "
                            "keep of them"));
     }},
    {"threshold_quantization",
     [](const Keys& keys) {
       const double threshold = keys.threshold();
       return threshold_quantization_codec(threshold, keys.keep_without_numbers());
     }},
    {"adaptive_quantization",
     [](const Keys& keys) { return adaptive_quantization_codec(keys.keep()); }},
    {"levels",
     [](const Keys& keys) -> SharedCodec {
       const std::uint32_t levels = keys.count("levels", 7, 1, 32767, "quantization levels");
       const std::uint32_t bucket = keys.bucket();
       const bool is_max = keys.choice("norm", {"euclidean", "max"}, "euclidean",
                                       "what levels are relative to") == "max";
       return std::make_shared<Levels>(levels, bucket, is_max, keys.contracts());
     }},
    {"ternary",
     [](const Keys& keys) -> SharedCodec {
       return std::make_shared<Levels>(1, 0, true, keys.contracts());
     }},
    {"sign", [](const Keys&) -> SharedCodec { return std::make_shared<Signs>(true); }},
    {"one_bit", [](const Keys&) -> SharedCodec { return std::make_shared<Signs>(false); }},
    {with_reference, [](const Keys& keys) -> SharedCodec {
       const double cell = keys.positive("cell", "side of a lattice cell");
       const std::uint32_t bits = keys.count("bits", 8, 1, 24, "bits of an entry");
       return std::make_shared<Lattice>(
           cell, bits,
           keys.flag("shifted", true, "shift the lattice at random, so that it is unbiased"));
     }}};

/// `has_reference`: receivers have a vector near the one that is sent. `note` ends the help of `compression`.
SharedCodec read_any_codec(const Section& section, std::string_view fallback,
                           std::string_view prefix, bool is_contractive, bool has_reference,
                           std::string_view note = "") {
  const Keys keys(section, prefix, is_contractive);
  std::vector<std::string> kinds;
  for (const Reader& reader : readers) {
    if (has_reference || reader.kind != with_reference) kinds.emplace_back(reader.kind);
  }
  std::string help = "how vectors are compressed before they are sent";
  if (!has_reference)
    help += "; not by a lattice, as receivers have no vector near the one that is sent";
  const std::string kind =
      keys.choice("compression", std::move(kinds), fallback, help + std::string(note));
  const auto found = std::ranges::find(readers, kind, &Reader::kind);
  ensure(found != std::end(readers), "a choice is one of its options");
  return found->read(keys);
}

}  // namespace

std::size_t Codec::entries_of(std::size_t, std::size_t size) const { return size; }

SharedCodec Codec::of_columns(const std::vector<Columns>&) const { return nullptr; }

SharedCodec read_codec(const Section& section, std::string_view fallback, std::string_view prefix,
                       bool is_contractive) {
  return read_any_codec(section, fallback, prefix, is_contractive, true);
}

SharedCodec read_plain_codec(const Section& section, std::string_view fallback,
                             std::string_view prefix, bool is_contractive) {
  return read_any_codec(section, fallback, prefix, is_contractive, false);
}

SharedCodec exact_codec() { return std::make_shared<None>(); }

SharedCodec lattice_codec(double range, std::uint32_t bits, bool is_shifted) {
  const double cell = 2 * range / ((std::uint32_t{1} << bits) - 1);
  return std::make_shared<Lattice>(cell, bits, is_shifted);
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

Compression read_compression(const Section& section, bool feeds_back, std::string_view note) {
  Compression compression{.codec = read_any_codec(section, "none", "", false, false, note)};
  if (compression.is_exact()) return compression;
  compression.has_feedback =
      section.optional<bool>("error_feedback", feeds_back && !compression.codec->is_unbiased(),
                             "add what a code lost to the next vector before it is encoded; "
                             "contractive levels have it by default, too");
  return compression;
}

Code Compressor::encode(Vector v, const Random& stream) {
  return compression_.has_feedback
             ? feedback_.encode(*compression_.codec, std::move(v), stream).code
             : compression_.codec->encode(v, stream);
}

void Compressor::scale_residual(double factor) {
  if (feedback_.residual() && factor != 1) feedback_.residual().scale(factor);
}

}  // namespace starling::algorithms
