#include "algorithms/dense_codecs.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "sim/base/elementary.hpp"

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

class HalfCodec final : public Codec {
 public:
  explicit HalfCodec(bool is_bfloat) : is_bfloat_(is_bfloat) {}
  Code encode(const Vector& v, const Random&) const override {
    return {transformed(ToHalf{is_bfloat_}, {v}), bytes_of(v.size(), bits_of_entry())};
  }
  Vector decode(const Vector& words, std::size_t size, const Random&,
                const Vector&) const override {
    return transformed(FromHalf{is_bfloat_, narrow(size)}, {words});
  }
  std::uint32_t bits_of_entry() const override { return 16; }
  bool is_unbiased() const override { return false; }

 private:
  bool is_bfloat_;
};

class LevelsCodec final : public Codec {
 public:
  /// Bucket 0: the whole vector.
  LevelsCodec(std::uint32_t levels, std::uint32_t bucket, bool is_max_norm, bool is_contractive,
              LevelCoding coding)
      : levels_(levels),
        bucket_(bucket),
        is_max_norm_(is_max_norm),
        is_contractive_(is_contractive),
        coding_(coding) {}
  Code encode(const Vector& v, const Random& stream) const override {
    const std::uint32_t bucket = bucket_of(bucket_, v.size());
    return {transformed(ToLevels{levels_, bucket, is_max_norm_, stream}, {v}),
            bytes(v.size(), bucket)};
  }
  Vector decode(const Vector& words, std::size_t size, const Random&,
                const Vector&) const override {
    const std::uint32_t bucket = bucket_of(bucket_, size);
    const float factor = factor_of(std::min(bucket, narrow(size)));
    return transformed(FromLevels{levels_, bucket, factor, narrow(size)}, {words});
  }
  std::uint32_t bits_of_entry() const override {
    return coding_ == LevelCoding::fixed ? level_bits(levels_) : 0;
  }
  bool is_unbiased() const override { return !is_contractive_; }

 private:
  std::int64_t bytes(std::size_t size, std::uint32_t bucket) const {
    const std::size_t buckets = (size + bucket - 1) / bucket;
    if (coding_ == LevelCoding::fixed)
      return bytes_of(buckets, 32) + bytes_of(size, level_bits(levels_));
    const std::size_t whole = size / bucket;
    const double bits =
        static_cast<double>(whole) * elias_bits(bucket) +
        (buckets > whole ? elias_bits(static_cast<double>(size - whole * bucket)) : 0);
    return static_cast<std::int64_t>(std::ceil(bits / 8));
  }
  /// Of a bucket.
  double elias_bits(double entries) const {
    const double s = levels_;
    const double fixed = entries * level_bits(levels_);
    const double spread = s * (s + std::sqrt(entries));
    if (spread > entries / 2) return 32 + fixed;
    const double log2 = exact_log(2 * (s * s + entries) / spread) / std::numbers::ln2;
    return 32 + std::min(fixed, spread * (3 + 1.5 * log2));
  }
  /// Of b entries with s levels at most min(b / s^2, sqrt(b) / s) times their squares are lost on average.
  float factor_of(std::uint32_t entries) const {
    if (!is_contractive_) return 1;
    const double ratio = std::sqrt(static_cast<double>(entries)) / levels_;
    return static_cast<float>(1 / (1 + std::min(ratio * ratio, ratio)));
  }
  std::uint32_t levels_, bucket_;
  bool is_max_norm_, is_contractive_;
  LevelCoding coding_;
};

class Float4Codec final : public Codec {
 public:
  /// Bucket 0: the whole vector.
  explicit Float4Codec(std::uint32_t bucket) : bucket_(bucket) {}
  Code encode(const Vector& v, const Random&) const override {
    const std::uint32_t bucket = bucket_of(bucket_, v.size());
    const std::size_t buckets = (v.size() + bucket - 1) / bucket;
    return {transformed(ToFloat4{bucket}, {v}),
            bytes_of(buckets, 32) + bytes_of(v.size(), bits_of_entry())};
  }
  Vector decode(const Vector& words, std::size_t size, const Random&,
                const Vector&) const override {
    return transformed(FromFloat4{bucket_of(bucket_, size), narrow(size)}, {words});
  }
  std::uint32_t bits_of_entry() const override { return 4; }
  bool is_unbiased() const override { return false; }

 private:
  std::uint32_t bucket_;
};

/// Codes of 1-bit SGD, with two values per column, one after the other.
class ColumnSignsCodec final : public Codec {
 public:
  explicit ColumnSignsCodec(std::vector<Columns> columns) : columns_(std::move(columns)) {}
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

class SignsCodec final : public Codec {
 public:
  explicit SignsCodec(bool is_symmetric) : is_symmetric_(is_symmetric) {}
  Code encode(const Vector& v, const Random&) const override {
    return {transformed(ToSigns{is_symmetric_, narrow(v.size())}, {v}),
            (is_symmetric_ ? 4 : 8) + bytes_of(v.size(), bits_of_entry())};
  }
  Vector decode(const Vector& words, std::size_t size, const Random&,
                const Vector&) const override {
    return transformed(FromSigns{is_symmetric_, narrow(size), narrow(size)}, {words});
  }
  std::uint32_t bits_of_entry() const override { return 1; }
  bool is_unbiased() const override { return false; }
  SharedCodec of_columns(const std::vector<Columns>& columns) const override {
    return is_symmetric_ ? nullptr : std::make_shared<ColumnSignsCodec>(columns);
  }

 private:
  bool is_symmetric_;
};

class LatticeCodec final : public Codec {
 public:
  LatticeCodec(double cell, std::uint32_t bits, bool is_shifted)
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

}  // namespace

SharedCodec half_codec(bool is_bfloat) { return std::make_shared<HalfCodec>(is_bfloat); }
SharedCodec float4_codec(std::uint32_t bucket) { return std::make_shared<Float4Codec>(bucket); }
SharedCodec levels_codec(std::uint32_t levels, std::uint32_t bucket, bool is_max_norm,
                         bool is_contractive, LevelCoding coding) {
  return std::make_shared<LevelsCodec>(levels, bucket, is_max_norm, is_contractive, coding);
}
SharedCodec signs_codec(bool is_symmetric) { return std::make_shared<SignsCodec>(is_symmetric); }
SharedCodec lattice_codec_of_cell(double cell, std::uint32_t bits, bool is_shifted) {
  return std::make_shared<LatticeCodec>(cell, bits, is_shifted);
}

std::size_t bucket_words(std::size_t size, std::uint32_t bucket, std::size_t bits) {
  const std::size_t entries = bucket_of(bucket, size);
  return (size + entries - 1) / entries + packed_words(size, bits);
}

}  // namespace starling::algorithms
