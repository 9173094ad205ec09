// Fewer bits per entry: half precision, levels, floats of four bits, signs, colors of a lattice; and a hash that tells
// wrong ones.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "kernels/dense/dense.hpp"
#include "kernels/transforms.hpp"

namespace starling::transforms {
namespace {

/// Room for one piece.
using Fields = std::array<std::uint32_t, piece_entries>;

/// Encodes `size` entries piece by piece: make(begin, end, fields) gives those of entries begin .. end - 1.
template <class Make>
void write_fields(std::size_t size, std::uint32_t bits, float* words, const Make& make) {
  Fields fields;
  for (std::size_t begin = 0; begin < size; begin += piece_entries) {
    const std::size_t end = std::min(begin + piece_entries, size);
    make(begin, end, fields.data());
    dense::kernels().codes.pack(fields.data(), end - begin, bits, words + begin * bits / 32);
  }
}

/// Decodes them: take(begin, end, fields) gets those of entries begin .. end - 1.
template <class Take>
void read_fields(std::size_t size, std::uint32_t bits, const float* words, const Take& take) {
  Fields fields;
  for (std::size_t begin = 0; begin < size; begin += piece_entries) {
    const std::size_t end = std::min(begin + piece_entries, size);
    dense::kernels().codes.unpack(words + begin * bits / 32, end - begin, bits, fields.data());
    take(begin, end, fields.data());
  }
}

/// Calls task(bucket, first, count) for the parts of entries begin .. end - 1 that lie in one bucket each.
template <class Task>
void for_buckets(std::size_t begin, std::size_t end, std::size_t bucket, const Task& task) {
  for (std::size_t stop = 0; begin < end; begin = stop) {
    stop = std::min((begin / bucket + 1) * bucket, end);
    task(begin / bucket, begin, stop - begin);
  }
}

/// The next `count` words, or null if nothing is random.
const std::uint32_t* words_of(RandomWords& random, bool is_random, std::size_t count,
                              Fields& words) {
  if (!is_random) return nullptr;
  random.take(std::span(words).first(count));
  return words.data();
}

float norm_of(std::span<const float> v, bool is_max_norm) {
  if (!is_max_norm) {
    const double squares =
        lane_sum(v.size(), [v](std::size_t i) { return static_cast<double>(v[i]) * v[i]; });
    return static_cast<float>(std::sqrt(squares));
  }
  return largest_magnitude(v);
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
  return std::bit_cast<float>(dense::kernels().codes.largest_magnitude(v.data(), v.size()));
}

void RandomWords::blocks(std::size_t count, std::uint32_t* words) {
  while (count > 0) {
    auto& [first, node, low, high] = state_.counter;
    const std::size_t left = (std::uint64_t{1} << 32) - first;
    const std::size_t now = std::min(count, left);
    dense::kernels().codes.random_words({state_.key[0], state_.key[1]}, first, {node, low, high},
                                        now, words);
    first += static_cast<std::uint32_t>(now);
    if (now == left) ++state_.key[0];
    words += 4 * now;
    count -= now;
  }
}

void RandomWords::take(std::span<std::uint32_t> words) {
  std::size_t done = 0;
  const auto use_up = [&] {
    while (done < words.size() && state_.used < 4)
      words[done++] = state_.block[static_cast<std::size_t>(state_.used++)];
  };
  use_up();
  const std::size_t whole = (words.size() - done) / 4;
  blocks(whole, words.data() + done);
  done += 4 * whole;
  if (done == words.size()) return;
  blocks(1, state_.block.data());
  state_.used = 0;
  use_up();
}

void compute(const ToHalf& t, const TransformJob& job) {
  const dense::CodeKernels& codes = dense::kernels().codes;
  const auto encode = t.is_bfloat ? codes.to_bfloat : codes.to_half;
  const std::span<const float> v = job.inputs[0];
  write_fields(v.size(), 16, job.out.data(),
               [&](std::size_t begin, std::size_t end, std::uint32_t* fields) {
                 encode(v.data() + begin, end - begin, fields);
               });
}

void compute(const FromHalf& t, const TransformJob& job) {
  const dense::CodeKernels& codes = dense::kernels().codes;
  const auto decode = t.is_bfloat ? codes.from_bfloat : codes.from_half;
  read_fields(job.out.size(), 16, job.inputs[0].data(),
              [&](std::size_t begin, std::size_t end, const std::uint32_t* fields) {
                decode(fields, end - begin, job.out.data() + begin);
              });
}

void compute(const ToLevels& t, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  const std::size_t buckets = (v.size() + t.bucket - 1) / t.bucket;
  for_buckets(0, v.size(), t.bucket, [&](std::size_t b, std::size_t first, std::size_t count) {
    job.out[b] = norm_of(v.subspan(first, count), t.is_max_norm);
  });
  RandomWords random(t.random);
  Fields words;
  write_fields(
      v.size(), level_bits(t.levels), job.out.data() + buckets,
      [&](std::size_t begin, std::size_t end, std::uint32_t* fields) {
        random.take(std::span(words).first(end - begin));
        for_buckets(begin, end, t.bucket, [&](std::size_t b, std::size_t first, std::size_t count) {
          dense::kernels().codes.to_levels(v.data() + first, words.data() + first - begin, count,
                                           job.out[b], t.levels, fields + first - begin);
        });
      });
}

void compute(const FromLevels& t, const TransformJob& job) {
  const std::size_t buckets = (job.out.size() + t.bucket - 1) / t.bucket;
  read_fields(
      job.out.size(), level_bits(t.levels), job.inputs[0].data() + buckets,
      [&](std::size_t begin, std::size_t end, const std::uint32_t* fields) {
        for_buckets(begin, end, t.bucket, [&](std::size_t b, std::size_t first, std::size_t count) {
          dense::kernels().codes.from_levels(fields + first - begin, count, job.inputs[0][b],
                                             t.levels, t.factor, job.out.data() + first);
        });
      });
}

void compute(const Ternarize& t, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  RandomWords random(t.random);
  Fields words;
  for (std::size_t begin = 0; begin < v.size(); begin += piece_entries) {
    const std::size_t count = std::min(piece_entries, v.size() - begin);
    random.take(std::span(words).first(count));
    dense::kernels().codes.ternarize(v.data() + begin, words.data(), count, job.inputs[1][0],
                                     job.out.data() + begin);
  }
}

void compute(const ToIntegers& t, const TransformJob& job) {
  const auto half = static_cast<float>(std::uint32_t{1} << (t.bits - 1));
  const std::span<const float> v = job.inputs[0];
  write_fields(v.size(), t.bits, job.out.data(),
               [&](std::size_t begin, std::size_t end, std::uint32_t* fields) {
                 for (std::size_t i = begin; i < end; ++i) {
                   const float inside = std::isnan(v[i]) ? 0 : std::clamp(v[i], -half, half - 1);
                   fields[i - begin] = field_of_integer(static_cast<int>(inside), t.bits);
                 }
               });
}

void compute(const FromIntegers& t, const TransformJob& job) {
  read_fields(job.out.size(), t.bits, job.inputs[0].data(),
              [&](std::size_t begin, std::size_t end, const std::uint32_t* fields) {
                for (std::size_t i = begin; i < end; ++i)
                  job.out[i] = static_cast<float>(integer_of_field(fields[i - begin], t.bits));
              });
}

void compute(const ToSigns& t, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  const std::size_t buckets = (v.size() + t.bucket - 1) / t.bucket;
  for_buckets(0, v.size(), t.bucket, [&](std::size_t k, std::size_t first, std::size_t count) {
    const dense::SideSums sums = dense::kernels().codes.sign_sums(v.data() + first, count);
    if (t.is_symmetric) {
      job.out[k] = mean_of(sums.upper - sums.lower, count);
    } else {
      job.out[2 * k] = mean_of(sums.upper, count - sums.lower_count);
      job.out[2 * k + 1] = mean_of(sums.lower, sums.lower_count);
    }
  });
  write_fields(v.size(), 1, job.out.data() + (t.is_symmetric ? 1 : 2) * buckets,
               [&](std::size_t begin, std::size_t end, std::uint32_t* fields) {
                 dense::kernels().codes.to_signs(v.data() + begin, end - begin, fields);
               });
}

void compute(const FromSigns& t, const TransformJob& job) {
  const std::span<const float> code = job.inputs[0];
  const std::size_t buckets = (job.out.size() + t.bucket - 1) / t.bucket;
  read_fields(
      job.out.size(), 1, code.data() + (t.is_symmetric ? 1 : 2) * buckets,
      [&](std::size_t begin, std::size_t end, const std::uint32_t* fields) {
        for_buckets(begin, end, t.bucket, [&](std::size_t k, std::size_t first, std::size_t count) {
          const float positive = code[t.is_symmetric ? k : 2 * k];
          dense::kernels().codes.from_signs(fields + first - begin, count, positive,
                                            t.is_symmetric ? -positive : code[2 * k + 1],
                                            job.out.data() + first);
        });
      });
}

void compute(const Signs&, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  for (std::size_t i = 0; i < v.size(); ++i) job.out[i] = v[i] >= 0 ? 1.0F : -1.0F;
}

void compute(const ToFloat4& t, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  const std::size_t buckets = (v.size() + t.bucket - 1) / t.bucket;
  for_buckets(0, v.size(), t.bucket, [&](std::size_t b, std::size_t first, std::size_t count) {
    job.out[b] = largest_magnitude(v.subspan(first, count));
  });
  write_fields(v.size(), 4, job.out.data() + buckets,
               [&](std::size_t begin, std::size_t end, std::uint32_t* fields) {
                 for_buckets(begin, end, t.bucket,
                             [&](std::size_t b, std::size_t first, std::size_t count) {
                               dense::kernels().codes.to_float4(v.data() + first, count, job.out[b],
                                                                fields + first - begin);
                             });
               });
}

void compute(const FromFloat4& t, const TransformJob& job) {
  const std::size_t buckets = (job.out.size() + t.bucket - 1) / t.bucket;
  read_fields(job.out.size(), 4, job.inputs[0].data() + buckets,
              [&](std::size_t begin, std::size_t end, const std::uint32_t* fields) {
                for_buckets(
                    begin, end, t.bucket, [&](std::size_t b, std::size_t first, std::size_t count) {
                      dense::kernels().codes.from_float4(fields + first - begin, count,
                                                         job.inputs[0][b], job.out.data() + first);
                    });
              });
}

void compute(const ToColors& t, const TransformJob& job) {
  const std::span<const float> v = job.inputs[0];
  RandomWords random(t.random);
  Fields words;
  write_fields(v.size(), t.bits, job.out.data(),
               [&](std::size_t begin, std::size_t end, std::uint32_t* fields) {
                 dense::kernels().codes.to_colors(
                     v.data() + begin, words_of(random, t.is_shifted, end - begin, words),
                     end - begin, t.cell, t.bits, fields);
               });
}

void compute(const FromColors& t, const TransformJob& job) {
  RandomWords random(t.random);
  Fields words;
  read_fields(job.out.size(), t.bits, job.inputs[0].data(),
              [&](std::size_t begin, std::size_t end, const std::uint32_t* fields) {
                dense::kernels().codes.from_colors(
                    fields, job.inputs[1].data() + begin,
                    words_of(random, t.is_shifted, end - begin, words), end - begin, t.cell, t.bits,
                    job.out.data() + begin);
              });
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
