// The vectorized kernels that are no products: exp and log, softmax with cross-entropy, linear
// combinations and distances of vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dense/dense.hpp"
#include "kernels/dense/lanes.hpp"
#include "kernels/dense/math.hpp"

namespace starling::dense {
namespace {

void gather(std::size_t batch, std::size_t columns, const float* from, const std::int32_t* rows,
            float* to, std::size_t to_stride) {
  const std::size_t whole = columns / width * width;
  const Mask rest = Lanes::first(columns - whole);
  for (std::size_t b = 0; b < batch; ++b, to += to_stride) {
    const float* const row = from + static_cast<std::size_t>(rows[b]) * columns;
    for (std::size_t i = 0; i < whole; i += width) Lanes::store(to + i, Lanes::load(row + i));
    if (whole < columns) Lanes::store(to + whole, Lanes::load(row + whole, rest), rest);
  }
}

STARLING_INLINE Vector exponential_of(Vector x) {
  x = Lanes::smaller(Lanes::all(exp_highest), x);
  x = Lanes::greater(Lanes::all(exp_lowest), x);
  const Vector shifted = Lanes::fma(x, Lanes::all(log2_e), Lanes::all(rounding_shift));
  const Vector n = Lanes::subtract(shifted, Lanes::all(rounding_shift));
  const Vector r = Lanes::fma(n, Lanes::all(-ln2_low), Lanes::fma(n, Lanes::all(-ln2_high), x));
  Vector q = Lanes::all(exp_polynomial[0]);
#pragma GCC unroll 8
  for (int i = 1; i < 6; ++i) q = Lanes::fma(q, r, Lanes::all(exp_polynomial[i]));
  const Vector y = Lanes::add(Lanes::fma(q, Lanes::multiply(r, r), r), Lanes::all(1.0f));
  return Lanes::scale(y, n);
}

STARLING_INLINE Vector logarithm_of(Vector x) {
  const auto offset = Lanes::subtract(Lanes::bits(x), Lanes::integers(sqrt_half_bits));
  const Vector e = Lanes::convert(Lanes::shift_right<23>(offset));
  const auto mantissa = Lanes::add(Lanes::both(offset, Lanes::integers(0x007FFFFFu)),
                                   Lanes::integers(sqrt_half_bits));
  const Vector f = Lanes::subtract(Lanes::floats(mantissa), Lanes::all(1.0f));
  const Vector square = Lanes::multiply(f, f);
  Vector p = Lanes::all(log_polynomial[0]);
#pragma GCC unroll 8
  for (int i = 1; i < 9; ++i) p = Lanes::fma(p, f, Lanes::all(log_polynomial[i]));
  Vector y = Lanes::multiply(Lanes::multiply(p, square), f);
  y = Lanes::fma(e, Lanes::all(ln2_low), y);
  y = Lanes::fma(Lanes::all(-0.5f), square, y);
  y = Lanes::fma(e, Lanes::all(ln2_high), Lanes::add(f, y));
  return Lanes::add(y, Lanes::subtract(x, x));  // NaN for infinity and NaN
}

/// Columns o .. o + width - 1 of `rows` rows, at most width of them, transposed back to where they came from.
STARLING_INLINE void store_transposed(float* to, std::size_t stride, std::size_t rows,
                                      std::size_t columns, Vector (&block)[width]) {
  Lanes::transpose(block);
  const Mask mask = Lanes::first(columns);
#pragma GCC unroll 16
  for (std::size_t r = 0; r < width; ++r) {
    if (r < rows) Lanes::store(to + r * stride, block[r], mask);
  }
}

constexpr std::size_t held_classes = 16;

/// As many samples as a vector has lanes, one lane each, so that sums over classes run in class
/// order. Up to `held_classes` of them stay transposed from logits to gradient.
STARLING_INLINE void softmax_rows(std::size_t rows, std::size_t classes, float* z,
                                  std::size_t z_stride, const std::int32_t* labels, float share,
                                  double* losses) {
  alignas(64) std::int32_t label_lanes[width] = {};
  for (std::size_t r = 0; r < rows; ++r) label_lanes[r] = labels[r];
  const Lanes::Integers label = Lanes::load(label_lanes);
  Vector blocks[held_classes / width][width];
  const bool is_wide = classes > held_classes;
  /// All samples' values of each class, and its number.
  const auto each = [&](bool loads, bool stores, auto task) STARLING_INLINED {
    for (std::size_t o = 0; o < classes; o += width) {
      const std::size_t columns = at_most(width, classes - o);
      Vector(&block)[width] = blocks[is_wide ? 0 : o / width];
      if (loads) load_transposed(z + o, z_stride, rows, columns, block);
#pragma GCC unroll 16
      for (std::size_t c = 0; c < width; ++c) {
        if (c >= columns) continue;
        task(block[c], o + c);
      }
      if (stores) store_transposed(z + o, z_stride, rows, columns, block);
    }
  };

  const auto is_label = [label](std::size_t number) STARLING_INLINED {
    return Lanes::equal(label, Lanes::integers(static_cast<std::uint32_t>(number)));
  };

  Vector highest = Lanes::zero(), target = Lanes::zero(), sum = Lanes::zero();
  each(true, false, [&](Vector& logit, std::size_t number) STARLING_INLINED {
    highest = number == 0 ? logit : Lanes::greater(logit, highest);
    target = Lanes::choose(logit, target, is_label(number));
  });
  each(is_wide, is_wide, [&](Vector& logit, std::size_t) STARLING_INLINED {
    logit = exponential_of(Lanes::subtract(logit, highest));
    sum = Lanes::add(sum, logit);
  });
  const Vector scale = Lanes::divide(Lanes::all(share), sum);
  each(is_wide, true, [&](Vector& power, std::size_t number) STARLING_INLINED {
    const Vector right = Lanes::fma(power, scale, Lanes::all(-share));
    power = Lanes::choose(right, Lanes::multiply(power, scale), is_label(number));
  });

  alignas(64) float tops[width], targets[width], logarithms[width];
  Lanes::store(tops, highest);
  Lanes::store(targets, target);
  Lanes::store(logarithms, logarithm_of(sum));
  for (std::size_t r = 0; r < rows; ++r) {
    losses[r] = static_cast<double>(logarithms[r]) -
                (static_cast<double>(targets[r]) - static_cast<double>(tops[r]));
  }
}

void softmax_cross_entropy(std::size_t batch, std::size_t classes, float* z, std::size_t z_stride,
                           const std::int32_t* labels, double* losses) {
  const float share = 1.0f / static_cast<float>(batch);
  for (std::size_t b = 0; b < batch; b += width) {
    softmax_rows(at_most(width, batch - b), classes, z + b * z_stride, z_stride, labels + b, share,
                 losses + b);
  }
}

void exponential(const float* x, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; i += width) {
    const Mask mask = Lanes::first(at_most(width, count - i));
    Lanes::store(y + i, exponential_of(Lanes::load(x + i, mask)), mask);
  }
}

void logarithm(const float* x, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; i += width) {
    const Mask mask = Lanes::first(at_most(width, count - i));
    Lanes::store(y + i, logarithm_of(Lanes::load(x + i, mask)), mask);
  }
}

/// out = fma(.. fma(first terms ..)), columns begin .. end - 1, continued from `sums` if `resume`.
/// `streams`: past the cache, see Lanes::stream(). A function of its own: in line with its siblings GCC 12 keeps the
/// pointers in memory.
template <std::size_t term_count, bool resume, bool streams>
__attribute__((noinline)) void combine(float* out, const float* sums, const LinearTerm* terms,
                                       std::size_t begin, std::size_t end) {
  const float* values[term_count];
  Vector factors[term_count];
#pragma GCC unroll 9
  for (std::size_t t = 0; t < term_count; ++t) {
    values[t] = terms[t].values;
    factors[t] = Lanes::all(terms[t].factor);
  }
  const auto combined = [&](std::size_t i, auto load) STARLING_INLINED {
    Vector sum;
    if constexpr (resume) {
      sum = Lanes::fma(factors[0], load(values[0] + i), load(sums + i));
    } else {
      sum = Lanes::multiply(factors[0], load(values[0] + i));
    }
#pragma GCC unroll 9
    for (std::size_t t = 1; t < term_count; ++t)
      sum = Lanes::fma(factors[t], load(values[t] + i), sum);
    return sum;
  };
  std::size_t i = begin;
  const auto whole = [](const float* p) STARLING_INLINED { return Lanes::load(p); };
  for (; i + 2 * width <= end; i += 2 * width) {
    const Vector first = combined(i, whole), second = combined(i + width, whole);
    if constexpr (streams) {
      Lanes::stream(out + i, first);
      Lanes::stream(out + i + width, second);
    } else {
      Lanes::store(out + i, first);
      Lanes::store(out + i + width, second);
    }
  }
  for (; i < end; i += width) {
    const Mask mask = Lanes::first(at_most(width, end - i));
    Lanes::store(
        out + i,
        combined(i, [mask](const float* p) STARLING_INLINED { return Lanes::load(p, mask); }),
        mask);
  }
}

/// Terms that one pass over the columns combines: those of a node with eight neighbors.
constexpr std::size_t most_at_once = 9;

template <bool resume, bool streams = false>
STARLING_INLINE void combine_few(float* out, const float* sums, const LinearTerm* terms,
                                 std::size_t term_count, std::size_t begin, std::size_t end) {
  switch (term_count) {
    case 1:
      return combine<1, resume, streams>(out, sums, terms, begin, end);
    case 2:
      return combine<2, resume, streams>(out, sums, terms, begin, end);
    case 3:
      return combine<3, resume, streams>(out, sums, terms, begin, end);
    case 4:
      return combine<4, resume, streams>(out, sums, terms, begin, end);
    case 5:
      return combine<5, resume, streams>(out, sums, terms, begin, end);
    case 6:
      return combine<6, resume, streams>(out, sums, terms, begin, end);
    case 7:
      return combine<7, resume, streams>(out, sums, terms, begin, end);
    case 8:
      return combine<8, resume, streams>(out, sums, terms, begin, end);
    default:
      return combine<most_at_once, resume, streams>(out, sums, terms, begin, end);
  }
}

/// out = values, whatever the bits mean.
template <bool streams>
STARLING_INLINE void copy_columns(float* out, const float* values, std::size_t begin,
                                  std::size_t end) {
  std::size_t i = begin;
  for (; i + width <= end; i += width) {
    if constexpr (streams) {
      Lanes::stream(out + i, Lanes::load(values + i));
    } else {
      Lanes::store(out + i, Lanes::load(values + i));
    }
  }
  if (i < end) {
    const Mask mask = Lanes::first(end - i);
    Lanes::store(out + i, Lanes::load(values + i, mask), mask);
  }
}

template <bool streams>
STARLING_INLINE void linear_columns(float* out, const LinearTerm* terms, std::size_t term_count,
                                    std::size_t begin, std::size_t end) {
  if (term_count == 0) {
    for (std::size_t i = begin; i < end; ++i) out[i] = 0;
    return;
  }
  if (term_count == 1 && terms[0].factor == 1) {
    return copy_columns<streams>(out, terms[0].values, begin, end);
  }
  if (term_count <= most_at_once) {
    return combine_few<false, streams>(out, nullptr, terms, term_count, begin, end);
  }

  // Many terms: groups over a strip of columns that stays in the first-level cache. Sums
  // wait in a buffer, because `out` may be a term that is still to be read; the last group writes
  // `out`.
  constexpr std::size_t strip = 1024, group = most_at_once;
  alignas(64) float buffer[strip];
  for (std::size_t from = begin; from < end; from += strip) {
    const std::size_t to = at_most(end, from + strip);
    LinearTerm here[group];
    for (std::size_t t = 0; t < term_count; t += group) {
      const std::size_t count = at_most(group, term_count - t);
      for (std::size_t g = 0; g < count; ++g) {
        here[g] = {terms[t + g].values + from, terms[t + g].factor};
      }
      if (t == 0) {
        combine<most_at_once, false, false>(buffer, nullptr, here, 0, to - from);
      } else if (t + count < term_count) {
        combine<most_at_once, true, false>(buffer, buffer, here, 0, to - from);
      } else {
        combine_few<true, streams>(out + from, buffer, here, count, 0, to - from);
      }
    }
  }
}

/// Whether a result is none of its terms.
STARLING_INLINE bool is_apart(const float* out, const LinearTerm* terms, std::size_t term_count) {
  for (std::size_t t = 0; t < term_count; ++t) {
    if (terms[t].values == out) return false;
  }
  return true;
}

STARLING_INLINE bool is_aligned(const float* p) {
  return reinterpret_cast<std::uintptr_t>(p) % sizeof(Vector) == 0;
}

void linear(float* out, const LinearTerm* terms, std::size_t term_count, std::size_t begin,
            std::size_t end, bool is_far) {
  if (is_far && is_aligned(out + begin) && is_apart(out, terms, term_count)) {
    linear_columns<true>(out, terms, term_count, begin, end);
  } else {
    linear_columns<false>(out, terms, term_count, begin, end);
  }
}

double squared_distance(const float* a, const float* b, std::size_t count) {
  constexpr std::size_t doubles = width / 2, groups = 16 / doubles;
  Lanes::Doubles sums[groups];
#pragma GCC unroll 4
  for (std::size_t g = 0; g < groups; ++g) sums[g] = Lanes::zero_doubles();
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
#pragma GCC unroll 4
    for (std::size_t g = 0; g < groups; ++g) {
      const Lanes::Doubles d = Lanes::differences(a + i + g * doubles, b + i + g * doubles);
      sums[g] = Lanes::fma(d, d, sums[g]);
    }
  }
  alignas(64) double lanes[16];
#pragma GCC unroll 4
  for (std::size_t g = 0; g < groups; ++g) Lanes::store(lanes + g * doubles, sums[g]);
  for (std::size_t l = 0; i < count; ++i, ++l) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    lanes[l] = __builtin_fma(d, d, lanes[l]);
  }
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

}  // namespace
}  // namespace starling::dense
