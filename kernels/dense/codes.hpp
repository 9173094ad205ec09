// Code kernels: what the transforms of compression do with each entry (sim/node/transform.hpp has the formulas), as pure
// functions of arrays that the caller cuts into pieces. Part of dense::Kernels; the contract is that of kernels/dense/dense.hpp.
//
// Fields are small whole numbers, one in each 32-bit word, until pack() joins them. `random` holds a word of a stream for
// every entry, which stands for the number word 2^-32 in [0, 1).
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling::dense {

/// Sums over the entries of either side, in double: lane l of 16 sums the i with i mod 16 = l in order, then lanes fold in
/// halves as those of squared_distance() do.
struct SideSums {
  double upper = 0, lower = 0;
  std::size_t lower_count = 0;
};

/// One build of the code kernels. No function allocates or throws.
struct CodeKernels {
  /// Words of `blocks` blocks of Philox4x32-10 (see sim/base/random.cpp), whose counters begin with first, first + 1, ..
  /// and end with the three of `counter`; first + blocks <= 2^32.
  void (*random_words)(const std::uint32_t (&key)[2], std::uint32_t first,
                       const std::uint32_t (&counter)[3], std::size_t blocks, std::uint32_t* words);

  /// Fields of `bits` bits, 1 to 32, fill words from the lowest bit; the last word is filled with zeros.
  void (*pack)(const std::uint32_t* fields, std::size_t count, std::uint32_t bits, float* words);
  void (*unpack)(const float* words, std::size_t count, std::uint32_t bits, std::uint32_t* fields);

  /// The largest of the words of |v_i|, which are in the order of magnitudes, NaN behind infinity; 0 if there are none.
  std::uint32_t (*largest_magnitude)(const float* v, std::size_t count);

  /// ToHalf and FromHalf.
  void (*to_half)(const float* v, std::size_t count, std::uint32_t* fields);
  void (*from_half)(const std::uint32_t* fields, std::size_t count, float* out);
  void (*to_bfloat)(const float* v, std::size_t count, std::uint32_t* fields);
  void (*from_bfloat)(const std::uint32_t* fields, std::size_t count, float* out);

  /// ToLevels and FromLevels, of one bucket.
  void (*to_levels)(const float* v, const std::uint32_t* random, std::size_t count, float norm,
                    std::uint32_t levels, std::uint32_t* fields);
  void (*from_levels)(const std::uint32_t* fields, std::size_t count, float norm,
                      std::uint32_t levels, float factor, float* out);

  /// ToFloat4 and FromFloat4, of one bucket.
  void (*to_float4)(const float* v, std::size_t count, float largest, std::uint32_t* fields);
  void (*from_float4)(const std::uint32_t* fields, std::size_t count, float largest, float* out);

  /// ToSigns and FromSigns, of one bucket. Negative zero is not negative.
  SideSums (*sign_sums)(const float* v, std::size_t count);
  void (*to_signs)(const float* v, std::size_t count, std::uint32_t* fields);
  void (*from_signs)(const std::uint32_t* fields, std::size_t count, float positive, float negative,
                     float* out);

  /// ToColors and FromColors; `random` is null if nothing is shifted.
  void (*to_colors)(const float* v, const std::uint32_t* random, std::size_t count, double cell,
                    std::uint32_t bits, std::uint32_t* fields);
  void (*from_colors)(const std::uint32_t* fields, const float* reference,
                      const std::uint32_t* random, std::size_t count, double cell,
                      std::uint32_t bits, float* out);

  /// Ternarize.
  void (*ternarize)(const float* v, const std::uint32_t* random, std::size_t count, double scale,
                    float* out);

  /// SideMeans: the sums of the entries >= 0 and of the magnitudes of all others.
  SideSums (*side_sums)(const float* v, std::size_t count);

  /// In place, all sums and differences of the Walsh-Hadamard transform; `size` is a power of two.
  void (*hadamard)(double* v, std::size_t size);
};

}  // namespace starling::dense
