// Fewer bits per entry: half precision, levels, floats of four bits, signs, colours of a lattice; and a hash that tells
// wrong ones.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/transforms.hpp"

namespace starling::transforms {
namespace {

/// Appends bit fields to words that are floats in name only.
class FieldWriter {
 public:
  explicit FieldWriter(std::span<float> words) : words_(words) {}
  void put(std::uint32_t field, std::uint32_t bits) {
    pending_ |= std::uint64_t{field} << used_;
    used_ += bits;
    if (used_ < 32) return;
    words_[next_++] = std::bit_cast<float>(static_cast<std::uint32_t>(pending_));
    pending_ >>= 32;
    used_ -= 32;
  }
  void finish() {
    if (used_ > 0) words_[next_] = std::bit_cast<float>(static_cast<std::uint32_t>(pending_));
  }

 private:
  std::span<float> words_;
  std::size_t next_ = 0;
  std::uint64_t pending_ = 0;
  std::uint32_t used_ = 0;
};

class FieldReader {
 public:
  explicit FieldReader(std::span<const float> words) : words_(words) {}
  std::uint32_t take(std::uint32_t bits) {
    if (left_ < bits) {
      pending_ |= std::uint64_t{std::bit_cast<std::uint32_t>(words_[next_++])} << left_;
      left_ += 32;
    }
    const auto field = static_cast<std::uint32_t>(pending_ & ((std::uint64_t{1} << bits) - 1));
    pending_ >>= bits;
    left_ -= bits;
    return field;
  }

 private:
  std::span<const float> words_;
  std::size_t next_ = 0;
  std::uint64_t pending_ = 0;
  std::uint32_t left_ = 0;
};

/// Uniform in [0, 1) from one word of the stream.
double uniform_word(Random& random) { return random() * 0x1p-32; }

/// The upper `kept` bits of a word, rounded to nearest even. A carry into the exponent is right: it means the next
/// power of two, or infinity.
constexpr std::uint32_t rounded_upper(std::uint32_t word, int dropped) {
  const std::uint32_t half = std::uint32_t{1} << (dropped - 1);
  const std::uint32_t odd = (word >> dropped) & 1;
  return (word + half - 1 + odd) >> dropped;
}

std::uint32_t to_bfloat(float v) {
  const auto word = std::bit_cast<std::uint32_t>(v);
  return std::isnan(v) ? (word >> 16) | 0x40 : rounded_upper(word, 16);
}

float from_bfloat(std::uint32_t field) { return std::bit_cast<float>(field << 16); }

/// Half precision: 5 bits of exponent (bias 15), 10 of mantissa.
std::uint32_t to_half(float v) {
  const auto word = std::bit_cast<std::uint32_t>(v);
  const std::uint32_t sign = (word >> 16) & 0x8000;
  const std::uint32_t magnitude = word & 0x7fff'ffff;
  if (std::isnan(v)) return sign | 0x7e00;
  if (magnitude >= 0x4780'0000) return sign | 0x7c00;  // 2^16 and more
  if (magnitude < 0x3880'0000) {                       // below 2^-14: a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24F;
    return sign | static_cast<std::uint32_t>(std::nearbyint(scaled));
  }
  return sign | rounded_upper(magnitude - ((127 - 15) << 23), 13);
}

float from_half(std::uint32_t field) {
  const std::uint32_t sign = (field & 0x8000) << 16;
  const std::uint32_t exponent = (field >> 10) & 0x1f;
  const std::uint32_t mantissa = field & 0x3ff;
  if (exponent == 0) {
    const float v = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) | sign);
  }
  const std::uint32_t widened = exponent == 0x1f ? 0xff : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (widened << 23) | (mantissa << 13));
}

float norm_of(std::span<const float> v, bool is_max_norm) {
  if (!is_max_norm) {
    const double squares =
        lane_sum(v.size(), [v](std::size_t i) { return static_cast<double>(v[i]) * v[i]; });
    return static_cast<float>(std::sqrt(squares));
  }
  return largest_magnitude(v);
}

/// Of 0 and 2^(e - 7), e = 1 .. 7, the one nearest to `share`, as e.
std::uint32_t exponent_of(double share) {
  if (!(share >= 0x1p-7)) return 0;  // nor is NaN; a largest magnitude that is not finite will tell
  std::uint32_t e = 7;
  for (double level = 1; e > 1 && share < 0.75 * level; level /= 2) --e;
  return e;
}

/// Number of the cell that v lies in, modulo a power of two; exact for any finite v.
std::uint32_t colour_of(double v, double cell, double offset, std::uint32_t bits) {
  const double number = std::nearbyint((v - offset) / cell);
  const double colours = static_cast<double>(std::uint32_t{1} << bits);
  if (!std::isfinite(number)) return 0;
  double colour = std::fmod(number, colours);
  if (colour < 0) colour += colours;
  return static_cast<std::uint32_t>(colour);
}

double offset_of(bool is_shifted, double cell, Random& random) {
  return is_shifted ? (uniform_word(random) - 0.5) * cell : 0.0;
}

/// Two's complement of so many bits.
std::uint32_t field_of_integer(int value, std::uint32_t bits) {
  return static_cast<std::uint32_t>(value) & ((std::uint32_t{1} << bits) - 1);
}

int integer_of_field(std::uint32_t field, std::uint32_t bits) {
  const std::uint32_t sign = std::uint32_t{1} << (bits - 1);
  return static_cast<int>(field ^ sign) - static_cast<int>(sign);
}

}  // namespace

float largest_magnitude(std::span<const float> v) {
  float largest = 0;
  for (const float x : v) largest = std::isnan(x) ? x : std::max(std::fabs(x), largest);
  return largest;
}

void compute(const ToHalf& t, const TransformJob& job) {
  FieldWriter fields(job.out);
  for (const float v : job.inputs[0]) fields.put(t.is_bfloat ? to_bfloat(v) : to_half(v), 16);
  fields.finish();
}

void compute(const FromHalf& t, const TransformJob& job) {
  FieldReader fields(job.inputs[0]);
  for (float& v : job.out)
    v = t.is_bfloat ? from_bfloat(fields.take(16)) : from_half(fields.take(16));
}

void compute(const ToLevels& t, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  const std::size_t buckets = (v.size() + t.bucket - 1) / t.bucket;
  const std::uint32_t bits = level_bits(t.levels);
  FieldWriter fields(job.out.subspan(buckets));
  Random random = t.random;
  for (std::size_t b = 0; b < buckets; ++b) {
    const std::size_t begin = b * t.bucket;
    const auto bucket = v.subspan(begin, std::min<std::size_t>(t.bucket, v.size() - begin));
    const float norm = norm_of(bucket, t.is_max_norm);
    job.out[b] = norm;
    for (const float x : bucket) {
      const double u = uniform_word(random);
      const double share = norm > 0 ? std::fabs(x) / static_cast<double>(norm) : 0;
      const double level = std::min(std::floor(t.levels * share + u), double{1} * t.levels);
      // A norm that is not finite makes the bucket NaN on the other side, and its loss will tell.
      const auto field = level >= 0 ? static_cast<std::uint32_t>(level) : 0;
      fields.put(field << 1 | static_cast<std::uint32_t>(std::signbit(x)), bits);
    }
  }
  fields.finish();
}

void compute(const FromLevels& t, const TransformJob& job) {
  const std::size_t buckets = (job.out.size() + t.bucket - 1) / t.bucket;
  const std::span<const float> norms = job.inputs[0].first(buckets);
  const std::uint32_t bits = level_bits(t.levels);
  FieldReader fields(job.inputs[0].subspan(buckets));
  for (std::size_t i = 0; i < job.out.size(); ++i) {
    const std::uint32_t field = fields.take(bits);
    const double level = field >> 1;
    const double size = static_cast<double>(norms[i / t.bucket]) * (level / t.levels);
    job.out[i] = static_cast<float>(t.factor * ((field & 1) != 0 ? -size : size));
  }
}

void compute(const Ternarize& t, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  const double scale = job.inputs[1][0];
  Random random = t.random;
  for (std::size_t i = 0; i < v.size(); ++i) {
    const bool is_kept = std::fabs(v[i]) / scale > uniform_word(random);
    job.out[i] = !is_kept ? 0.0F : v[i] < 0 ? -1.0F : 1.0F;
  }
}

void compute(const ToIntegers& t, const TransformJob& job) {
  const auto half = static_cast<float>(std::uint32_t{1} << (t.bits - 1));
  FieldWriter fields(job.out);
  for (const float v : job.inputs[0]) {
    const float inside = std::isnan(v) ? 0 : std::clamp(v, -half, half - 1);
    fields.put(field_of_integer(static_cast<int>(inside), t.bits), t.bits);
  }
  fields.finish();
}

void compute(const FromIntegers& t, const TransformJob& job) {
  FieldReader fields(job.inputs[0]);
  for (float& v : job.out) v = static_cast<float>(integer_of_field(fields.take(t.bits), t.bits));
}

void compute(const ToSigns& t, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  const auto is_negative = [](float x) { return std::signbit(x) && x != 0; };
  const auto mean = [](double sum, std::size_t count) {
    return count == 0 ? 0.0F : static_cast<float>(sum / static_cast<double>(count));
  };
  const std::size_t buckets = (v.size() + t.bucket - 1) / t.bucket;
  for (std::size_t k = 0; k < buckets; ++k) {
    const std::size_t begin = k * t.bucket;
    const auto b = v.subspan(begin, std::min<std::size_t>(t.bucket, v.size() - begin));
    const double positive_sum =
        lane_sum(b.size(), [&](std::size_t i) { return is_negative(b[i]) ? 0.0 : double{b[i]}; });
    const double negative_sum =
        lane_sum(b.size(), [&](std::size_t i) { return is_negative(b[i]) ? double{b[i]} : 0.0; });
    if (t.is_symmetric) {
      job.out[k] = mean(positive_sum - negative_sum, b.size());
    } else {
      const auto negatives = static_cast<std::size_t>(std::ranges::count_if(b, is_negative));
      job.out[2 * k] = mean(positive_sum, b.size() - negatives);
      job.out[2 * k + 1] = mean(negative_sum, negatives);
    }
  }
  FieldWriter fields(job.out.subspan((t.is_symmetric ? 1 : 2) * buckets));
  for (const float x : v) fields.put(is_negative(x) ? 1 : 0, 1);
  fields.finish();
}

void compute(const FromSigns& t, const TransformJob& job) {
  const std::span<const float> code = job.inputs[0];
  const std::size_t buckets = (job.out.size() + t.bucket - 1) / t.bucket;
  FieldReader fields(code.subspan((t.is_symmetric ? 1 : 2) * buckets));
  for (std::size_t i = 0; i < job.out.size(); ++i) {
    const std::size_t k = i / t.bucket;
    const float positive = code[t.is_symmetric ? k : 2 * k];
    const float negative = t.is_symmetric ? -positive : code[2 * k + 1];
    job.out[i] = fields.take(1) != 0 ? negative : positive;
  }
}

void compute(const ToFloat4& t, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  const std::size_t buckets = (v.size() + t.bucket - 1) / t.bucket;
  FieldWriter fields(job.out.subspan(buckets));
  for (std::size_t b = 0; b < buckets; ++b) {
    const std::size_t begin = b * t.bucket;
    const auto bucket = v.subspan(begin, std::min<std::size_t>(t.bucket, v.size() - begin));
    const float largest = norm_of(bucket, true);
    job.out[b] = largest;
    for (const float x : bucket) {
      const double share = largest > 0 ? std::fabs(x) / static_cast<double>(largest) : 0;
      fields.put(exponent_of(share) | (std::signbit(x) ? 8U : 0U), 4);
    }
  }
  fields.finish();
}

void compute(const FromFloat4& t, const TransformJob& job) {
  const std::size_t buckets = (job.out.size() + t.bucket - 1) / t.bucket;
  FieldReader fields(job.inputs[0].subspan(buckets));
  for (std::size_t i = 0; i < job.out.size(); ++i) {
    const std::uint32_t field = fields.take(4);
    const std::uint32_t exponent = field & 7;
    const double share = exponent == 0 ? 0.0 : 1.0 / static_cast<double>(128U >> exponent);
    const double size = static_cast<double>(job.inputs[0][i / t.bucket]) * share;
    job.out[i] = static_cast<float>((field & 8) != 0 ? -size : size);
  }
}

void compute(const ToColours& t, const TransformJob& job) {
  FieldWriter fields(job.out);
  Random random = t.random;
  for (const float v : job.inputs[0]) {
    const double offset = offset_of(t.is_shifted, t.cell, random);
    fields.put(colour_of(v, t.cell, offset, t.bits), t.bits);
  }
  fields.finish();
}

void compute(const FromColours& t, const TransformJob& job) {
  FieldReader fields(job.inputs[0]);
  Random random = t.random;
  const double colours = static_cast<double>(std::uint32_t{1} << t.bits);
  for (std::size_t i = 0; i < job.out.size(); ++i) {
    const double offset = offset_of(t.is_shifted, t.cell, random);
    const double colour = fields.take(t.bits);
    const double around = (job.inputs[1][i] - offset) / t.cell;
    const double turns = std::nearbyint((around - colour) / colours);
    job.out[i] = static_cast<float>(t.cell * (colours * turns + colour) + offset);
  }
}

void compute(const Hash&, const TransformJob& job) {
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < job.inputs[0].size(); ++i) {
    // The finalizer of MurmurHash3 (Appleby, 2011); sums modulo 2^32 have any order.
    std::uint32_t x = std::bit_cast<std::uint32_t>(job.inputs[0][i]) + (i + 1) * 0x9e37'79b9U;
    x = (x ^ (x >> 16)) * 0x85eb'ca6bU;
    x = (x ^ (x >> 13)) * 0xc2b2'ae35U;
    sum += x ^ (x >> 16);
  }
  job.out[0] = static_cast<float>(sum >> 8);
}

}  // namespace starling::transforms
