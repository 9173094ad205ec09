#include "sim/node/transform.hpp"

#include <bit>

#include "sim/base/error.hpp"

namespace starling {
namespace {

using namespace transforms;

/// Of the inputs of one transform, which a program asks for at `where`.
struct Sizes {
  std::span<const std::size_t> floats;
  Where where;
};

/// The sizes, checked as they are read.
class Inputs {
 public:
  Inputs(Sizes sizes, std::size_t count) : sizes_(sizes) {
    ensure(sizes.floats.size() == count, "a transform with another number of inputs", sizes.where);
  }
  std::size_t operator[](std::size_t i) const { return sizes_.floats[i]; }
  /// Input `i` must have so many floats.
  const Inputs& expect(std::size_t i, std::size_t size) const {
    ensure(sizes_.floats[i] == size, "a transform of a vector of another size", sizes_.where);
    return *this;
  }

 private:
  Sizes sizes_;
};

std::size_t size_of(const KeepLargest& t, Sizes sizes) {
  ensure(t.count <= Inputs(sizes, 1)[0], "more entries to keep than there are", sizes.where);
  return 2 * std::size_t{t.count};
}
std::size_t size_of(const KeepAbove&, Sizes sizes) { return Inputs(sizes, 1)[0]; }
std::size_t size_of(const KeepSide&, Sizes sizes) { return Inputs(sizes, 1)[0]; }
std::size_t size_of(const SignedPositions&, Sizes sizes) {
  ensure(Inputs(sizes, 1)[0] % 2 == 0, "a sparse code holds pairs", sizes.where);
  return sizes.floats[0] / 2;
}
std::size_t size_of(const ScatterSigns& t, Sizes sizes) {
  const std::size_t words = Inputs(sizes, 1)[0];
  ensure(t.size <= 1U << 31, "a position has 31 bits", sizes.where);
  ensure(t.magnitude > 0 || words == 0 || words >= 2, "signs without magnitudes", sizes.where);
  return t.size;
}
std::size_t size_of(const Scatter& t, Sizes sizes) {
  ensure(Inputs(sizes, 1)[0] % 2 == 0, "a sparse code holds pairs", sizes.where);
  return t.size;
}
std::size_t size_of(const GatherRandom& t, Sizes sizes) {
  ensure(t.count <= Inputs(sizes, 1)[0], "more entries to keep than there are", sizes.where);
  return t.count;
}
std::size_t size_of(const ScatterRandom& t, Sizes sizes) {
  ensure(Inputs(sizes, 1)[0] <= t.size, "more entries to place than there is room", sizes.where);
  return t.size;
}
std::size_t size_of(const ClearWhere&, Sizes sizes) {
  const Inputs inputs(sizes, 2);
  return inputs.expect(1, inputs[0])[0];
}
std::size_t size_of(const ToHalf&, Sizes sizes) { return packed_words(Inputs(sizes, 1)[0], 16); }
std::size_t size_of(const FromHalf& t, Sizes sizes) {
  Inputs(sizes, 1).expect(0, packed_words(t.size, 16));
  return t.size;
}

std::size_t level_words(std::size_t size, std::uint32_t levels, std::uint32_t bucket) {
  ensure(levels >= 1 && bucket >= 1, "quantization without levels");
  return (size + bucket - 1) / bucket + packed_words(size, level_bits(levels));
}
std::size_t size_of(const ToLevels& t, Sizes sizes) {
  return level_words(Inputs(sizes, 1)[0], t.levels, t.bucket);
}
std::size_t size_of(const FromLevels& t, Sizes sizes) {
  Inputs(sizes, 1).expect(0, level_words(t.size, t.levels, t.bucket));
  return t.size;
}

std::size_t size_of(const Ternarize&, Sizes sizes) { return Inputs(sizes, 2).expect(1, 1)[0]; }
std::size_t size_of(const ToIntegers& t, Sizes sizes) {
  ensure(t.bits >= 1 && t.bits <= 24, "fields of 1 to 24 bits", sizes.where);
  return packed_words(Inputs(sizes, 1)[0], t.bits);
}
std::size_t size_of(const FromIntegers& t, Sizes sizes) {
  Inputs(sizes, 1).expect(0, packed_words(t.size, t.bits));
  return t.size;
}

std::size_t sign_words(std::size_t size, std::uint32_t bucket, bool is_symmetric) {
  ensure(bucket >= 1, "quantization without buckets");
  const std::size_t buckets = (size + bucket - 1) / bucket;
  return (is_symmetric ? 1 : 2) * buckets + packed_words(size, 1);
}
std::size_t size_of(const ToSigns& t, Sizes sizes) {
  return sign_words(Inputs(sizes, 1)[0], t.bucket, t.is_symmetric);
}
std::size_t size_of(const FromSigns& t, Sizes sizes) {
  Inputs(sizes, 1).expect(0, sign_words(t.size, t.bucket, t.is_symmetric));
  return t.size;
}
std::size_t size_of(const Signs&, Sizes sizes) { return Inputs(sizes, 1)[0]; }

std::size_t float4_words(std::size_t size, std::uint32_t bucket) {
  ensure(bucket >= 1, "quantization without buckets");
  return (size + bucket - 1) / bucket + packed_words(size, 4);
}
std::size_t size_of(const ToFloat4& t, Sizes sizes) {
  return float4_words(Inputs(sizes, 1)[0], t.bucket);
}
std::size_t size_of(const FromFloat4& t, Sizes sizes) {
  Inputs(sizes, 1).expect(0, float4_words(t.size, t.bucket));
  return t.size;
}

std::size_t size_of(const ToColors& t, Sizes sizes) {
  ensure(t.bits >= 1 && t.bits <= 24 && t.cell > 0,
         "a lattice needs cells above 0 and 1 to 24 bits", sizes.where);
  return packed_words(Inputs(sizes, 1)[0], t.bits);
}
std::size_t size_of(const FromColors& t, Sizes sizes) {
  const Inputs inputs(sizes, 2);
  return inputs.expect(0, packed_words(inputs[1], t.bits))[1];
}

std::size_t size_of(const Hash&, Sizes sizes) {
  Inputs(sizes, 1);
  return 1;
}
std::size_t size_of(const Rotate&, Sizes sizes) { return Inputs(sizes, 1)[0]; }

std::size_t size_of(const MatrixProduct& t, Sizes sizes) {
  Inputs(sizes, 2)
      .expect(0, std::size_t{t.rows} * t.inner)
      .expect(1, std::size_t{t.inner} * t.columns);
  return std::size_t{t.rows} * t.columns;
}
std::size_t size_of(const Orthonormalize& t, Sizes sizes) {
  return Inputs(sizes, 1).expect(0, std::size_t{t.rows} * t.columns)[0];
}

std::size_t size_of(const PanelsToRows& t, Sizes sizes) {
  return Inputs(sizes, 1).expect(0, std::size_t{t.rows} * t.columns)[0];
}
std::size_t size_of(const RowsToPanels& t, Sizes sizes) {
  return Inputs(sizes, 1).expect(0, std::size_t{t.rows} * t.columns)[0];
}

std::size_t size_of(const ClipNorm&, Sizes sizes) { return Inputs(sizes, 1)[0]; }
std::size_t size_of(const ClipDeviations&, Sizes sizes) { return Inputs(sizes, 1)[0]; }
std::size_t size_of(const ScaleBy&, Sizes sizes) { return Inputs(sizes, 2).expect(1, 1)[0]; }
std::size_t size_of(const LargestMagnitude&, Sizes sizes) {
  Inputs(sizes, 1);
  return 1;
}
std::size_t size_of(const Larger&, Sizes sizes) {
  const Inputs inputs(sizes, 2);
  return inputs.expect(1, inputs[0])[0];
}
std::size_t size_of(const AddSquare&, Sizes sizes) {
  const Inputs inputs(sizes, 2);
  return inputs.expect(1, inputs[0])[0];
}
std::size_t size_of(const DivideByRoot&, Sizes sizes) {
  const Inputs inputs(sizes, 2);
  return inputs.expect(1, inputs[0])[0];
}
std::size_t size_of(const ProjectStep& t, Sizes sizes) {
  const std::size_t size = std::size_t{t.rows} * t.columns;
  return Inputs(sizes, 3).expect(0, size).expect(1, size).expect(2, size)[0];
}
std::size_t size_of(const SideMeans&, Sizes sizes) {
  Inputs(sizes, 1);
  return 2;
}
std::size_t size_of(const ShiftSides&, Sizes sizes) {
  return Inputs(sizes, 3).expect(1, 2).expect(2, 2)[0];
}

}  // namespace

std::uint32_t level_bits(std::uint32_t levels) {
  return 1 + static_cast<std::uint32_t>(std::bit_width(levels));
}

std::size_t result_size(const Transform& transform, std::span<const std::size_t> inputs,
                        Where where) {
  const Sizes sizes{inputs, where};
  return std::visit([&sizes](const auto& t) { return size_of(t, sizes); }, transform);
}

}  // namespace starling
