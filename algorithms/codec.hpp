// Codecs: how a vector becomes few bytes, and what the receiver makes of them. Every algorithm that
// compresses reads one with read_codec(); its keys are the same everywhere.
//
//   compression   bytes for d entries              what it does
//   none          4 d
//   half          2 d                              IEEE half precision; bfloat: bfloat16
//   float4        4 ceil(d / bucket) + d / 2       floats of 4 bits without mantissa (E3M0), in ratio to the bucket's largest
//   top_k         8 k                              the k = keep * d largest entries (at least one), or,
//                                                  `strict`, k - 1: those strictly above the k-th, but for ties
//   random_k      4 k                              k entries that both sides draw alike, times d / k if `unbiased`
//   threshold     8 k                              entries of at least `threshold`; k follows from the values, so the
//                                                  timeline waits for them; timing only: k = keep * d
//   gradient_dropping       8 k                    entries above a threshold that `keep` of a random `sample` of them reach
//   threshold_quantization  4 k                    +-`threshold` for every entry of at least that magnitude
//   adaptive_quantization   8 + 4 k                the largest `keep` of the positive and of the negative entries, a mean each
//   levels        4 ceil(d / bucket) + d b / 8     QSGD: `levels` stochastic levels of b = 1 + ceil(log2(levels + 1)) bits
//   ternary       4 + d / 4                        one level of the largest magnitude; terngrad.cpp shares it and clips
//   sign          4 + d / 8                        +-||v||_1 / d
//   one_bit       8 + d / 8                        the mean of either side; in one_bit.cpp 8 bytes for every column
//   lattice       d b / 8                          colors of a cubic lattice of side `cell`, read beside a reference
//
// `coding = elias` charges levels what QSGD's Theorem 3.2 bounds the mean length of Elias's code of them by: per bucket of b
// entries with s levels, if S = s (s + sqrt(b)) is at most b / 2 and where it is less,
//
//   32 + S (3 + 1.5 log2(2 (s^2 + b) / S)) bits
//
// Codes of normal numbers take 55 to 80 % of that, and those of heavier tails less. What is read is the same.
//
// Unbiased: none, random_k with `unbiased`, levels, ternary, lattice with a shift. The others lose something for good
// unless error feedback returns it. Levels of b entries lose up to w = min(b / levels^2, sqrt(b) / levels) times the
// squares of these; `contractive` divides what is read by 1 + w, which then is nearer to what was sent than nothing
// is, as algorithms that track each other by codes need (Alistarh et al., "QSGD", NeurIPS 2017, Lemma 3.1; Koloskova
// et al., 2019). A lattice code is right only where the two sides' vectors differ by less than cell (2^bits - 1) / 2
// in every entry, and silently wrong elsewhere. Formulas and sources: sim/node/transform.hpp, algorithms/sparse_codecs.hpp.
//
// A code is of a whole model or, with `unit = tensors`, of each of its tensors by itself, as frameworks and most released code
// have it: with a norm, magnitudes or a share `keep` of its own (algorithms/tensor_codec.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/section.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

/// Columns of weight matrices that lie one after the other, `size` entries each.
struct Columns {
  std::size_t count;
  std::size_t size;
};

class Codec {
 public:
  virtual ~Codec() = default;
  /// `stream` names the random numbers of this one code; the decoder is given an equal one.
  virtual Code encode(const Vector& v, const Random& stream) const = 0;
  /// What `words` say of a vector of so many floats. `reference` is a vector near it, for those that need one.
  virtual Vector decode(const Vector& words, std::size_t size, const Random& stream,
                        const Vector& reference) const = 0;
  virtual bool needs_reference() const { return false; }
  /// Whether the mean of what is decoded is what was encoded.
  virtual bool is_unbiased() const = 0;
  /// How many entries, of a vector of so many floats, a code of so many words says something of: no others are not zero.
  virtual std::size_t entries_of(std::size_t words, std::size_t size) const;
  /// Bits of an entry where all have the same, beside scales; 0 where codes grow with what they say.
  virtual std::uint32_t bits_of_entry() const { return 0; }
  /// Whether nothing is lost.
  virtual bool is_exact() const { return false; }
  /// The same for vectors that are made of `columns`, with values of each; null if it has no such form.
  virtual std::shared_ptr<const Codec> of_columns(const std::vector<Columns>& columns) const;
};

using SharedCodec = std::shared_ptr<const Codec>;

/// The sizes of a workload's tensors, in order; null where vectors are not always whole models.
using Tensors = const std::vector<std::size_t>*;

/// How the keys of a codec differ from algorithm to algorithm.
struct CodecKeys {
  std::string_view fallback = "none";  // of `compression`
  std::string_view prefix{};           // of all their names
  std::string_view note{};             // ends the help of `compression`
  bool is_contractive = false;         // default of `contractive`
  Tensors tensors = nullptr;           // with them, `unit`: whether each is compressed by itself
};

/// Reads the key `compression` and those of the codec it names.
SharedCodec read_codec(const Section& section);

/// The same, for receivers without a vector near the one that is sent: without codecs that need a reference.
SharedCodec read_plain_codec(const Section& section, const CodecKeys& keys = {});

/// The codec that sends vectors as they are.
SharedCodec exact_codec();
/// Lattice codes of `bits` bits that are right for vectors nearer than `range` in every entry: a cell has the side
/// 2 range / (2^bits - 1).
SharedCodec lattice_codec(double range, std::uint32_t bits, bool is_shifted);

/// A size as transforms take it; vectors with numbers have fewer than 2^31 entries.
inline std::uint32_t narrow(std::size_t size) { return static_cast<std::uint32_t>(size); }

/// Stream of the code that `sender` makes at step `k`; `purpose` tells codes of one step apart.
Random code_stream(const Node& node, NodeId sender, Step k, std::string_view purpose = "code");

/// A code, and what its receivers make of it.
struct Encoded {
  Code code;
  Vector decoded;
};

/// Encodes and decodes; `reference` for codecs that need one.
Encoded encode(const Codec& codec, const Vector& v, const Random& stream,
               const Vector& reference = {});

/// The time that a node takes to make codes of `count` vectors like `v`, and to read so many.
inline Node::Until encoding(Node& node, const Codec& codec, const Vector& v,
                            std::size_t count = 1) {
  return node.encode(v, codec.is_exact() ? 0 : count);
}
inline Node::Until decoding(Node& node, const Codec& codec, const Vector& v,
                            std::size_t count = 1) {
  return node.decode(v, codec.is_exact() ? 0 : count);
}

/// Error feedback: what a code loses is added to the next vector before it is encoded.
///   p <- v + e,  send Q(p),  e <- p - Q(p)
/// Seide et al., Interspeech 2014; Stich, Cordonnier, Jaggi, "Sparsified SGD with memory", NeurIPS 2018. The
/// learning rate belongs into v: a residual does not know that it changed. Where it comes later, see RateChange.
class ErrorFeedback {
 public:
  Encoded encode(const Codec& codec, Vector v, const Random& stream);
  /// e; empty before the first code and where nothing is lost.
  Vector& residual() { return residual_; }
  /// What was held back counts so many times from now on.
  void scale_residual(double factor) {
    if (residual_ && factor != 1) residual_.scale(factor);
  }

 private:
  Vector residual_;
};

/// For residuals of gradients, to which the learning rate comes after they are decoded: what was held back at another rate counts as
/// if rates were applied before the code is made.
class RateChange {
 public:
  /// `rescales`: false for residuals that do not follow the rate.
  explicit RateChange(bool rescales = true) : rescales_(rescales) {}

  /// The next gradients are applied at `rate`: what was held back counts so many times from now on.
  double come_to(double rate) {
    loses_ = rescales_ && rate == 0;
    if (!rescales_ || loses_) return 1;
    const double last = std::exchange(rate_, rate);
    return last > 0 ? last / rate : 1;
  }
  /// Whether what is sent now is lost, as it is applied at a rate of 0: nothing that was held back goes along.
  bool loses() const { return loses_; }

 private:
  bool rescales_;
  bool loses_ = false;
  double rate_ = 0;  // the last one above 0; none yet
};

/// Reads `rescale_residual`: whether residuals follow the rate.
bool read_rescales_residual(const Section& section);

/// What becomes of vectors that a node sends again and again.
struct Compression {
  SharedCodec codec = exact_codec();
  bool has_feedback = false;

  bool is_exact() const { return codec->is_exact(); }
};

/// Reads what read_plain_codec() does; then, if the codec loses something, `error_feedback`: by default what loses something
/// for good has it, if it `feeds_back`.
Compression read_compression(const Section& section, bool feeds_back = true,
                             const CodecKeys& keys = {});

/// Encodes one such vector after the other.
class Compressor {
 public:
  /// `compression` outlives it.
  explicit Compressor(const Compression& compression) : compression_(compression) {}
  bool is_exact() const { return compression_.is_exact(); }
  Code encode(Vector v, const Random& stream);
  /// What was held back counts so many times from now on.
  void scale_residual(double factor) { feedback_.scale_residual(factor); }

 private:
  const Compression& compression_;
  ErrorFeedback feedback_;
};

}  // namespace starling::algorithms
