#include "kernels/cuda/transform_encoding.hpp"

#include "kernels/cuda/encode_kernel.hpp"
#include "kernels/cuda/largest_kernel.hpp"
#include "kernels/cuda/map_kernel.hpp"
#include "kernels/cuda/project_kernel.hpp"
#include "kernels/cuda/random_stream.hpp"
#include "kernels/transforms.hpp"

namespace starling::cuda {
namespace {

using namespace transforms;

std::uint32_t pieces(std::uint32_t size, std::uint32_t piece) {
  return static_cast<std::uint32_t>((std::uint64_t{size} + piece - 1) / piece);
}

/// Fills in what its transform says, apart from the vectors.
struct Encoder {
  EncodedTransform& to;
  TransformTask& task;

  void map(Map kind) {
    task.kind = static_cast<std::uint32_t>(kind);
    to.blocks[EncodedTransform::map] = pieces(MapKernel::extent_of(task), MapKernel::tile);
  }
  /// What other settings say must be there.
  void scatter(Map kind) {
    map(kind);
    to.blocks[EncodedTransform::clear] = pieces(task.out_size, ClearKernel::tile);
  }
  void row(Row kind) {
    task.kind = static_cast<std::uint32_t>(kind);
    to.blocks[EncodedTransform::row] = 1;
  }
  /// By buckets, of which pieces of a row shall have whole ones; otherwise their norms come first.
  void encode(Row kind, std::uint32_t bucket, std::uint32_t bits) {
    bool is_whole = false;
    task.kind = static_cast<std::uint32_t>(kind);
    task.piece = EncodeKernel::piece_of(bucket, bits, is_whole);
    to.blocks[EncodedTransform::encode] = pieces(task.size[0], task.piece);
    if (is_whole) return;
    to.blocks[EncodedTransform::row] = 1;
    task.flags |= EncodeKernel::norms_are_there;
  }
  void sizes(std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0) {
    task.a = a;
    task.b = b;
    task.c = c;
  }
  void lattice(double cell, std::uint32_t bits, bool is_shifted, const Random& random) {
    task.cell = cell;
    task.flags = is_shifted ? 1 : 0;
    task.random = stream_of(random);
    sizes(bits);
  }

  void operator()(const KeepLargest& t) {
    sizes(t.count, t.first);
    if (t.count == 0) return;
    to.blocks[EncodedTransform::largest] = LargestKernel::pieces_of(task.size[0]);
    to.scratch_doubles =
        (LargestKernel::bytes_of(task.size[0]) + sizeof(double) - 1) / sizeof(double);
  }
  void operator()(const KeepAbove& t) { map(Map::keep_above), task.f[0] = t.threshold; }
  void operator()(const KeepSide& t) { map(Map::keep_side), task.flags = t.is_negative ? 1 : 0; }
  void operator()(const SignedPositions&) { map(Map::signed_positions); }
  void operator()(const ScatterSigns& t) { task.f[0] = t.magnitude, scatter(Map::scatter_signs); }
  void operator()(const Scatter&) { scatter(Map::scatter); }
  void operator()(const GatherRandom& t) {
    map(Map::gather);
    to.positions = random_positions(t.count, task.size[0], t.random);
  }
  void operator()(const ScatterRandom& t) {
    scatter(Map::scatter_at);
    task.f[0] = t.factor;
    to.positions = random_positions(task.size[0], task.out_size, t.random);
  }
  void operator()(const ClearWhere&) { map(Map::clear_where); }
  void operator()(const ToHalf& t) { map(Map::to_half), task.flags = t.is_bfloat ? 1 : 0; }
  void operator()(const FromHalf& t) { map(Map::from_half), task.flags = t.is_bfloat ? 1 : 0; }
  void operator()(const ToLevels& t) {
    sizes(t.levels, t.bucket, level_bits(t.levels));
    task.flags = t.is_max_norm ? 1 : 0;
    encode(Row::to_levels, t.bucket, level_bits(t.levels));
    task.random = stream_of(t.random);
  }
  void operator()(const FromLevels& t) {
    map(Map::from_levels);
    sizes(t.levels, t.bucket, level_bits(t.levels));
    task.f[0] = t.factor;
  }
  void operator()(const Ternarize& t) { map(Map::ternarize), task.random = stream_of(t.random); }
  void operator()(const ToIntegers& t) { map(Map::to_integers), sizes(t.bits); }
  void operator()(const FromIntegers& t) { map(Map::from_integers), sizes(t.bits); }
  void operator()(const ToSigns& t) {
    row(Row::to_signs), sizes(t.bucket);
    task.flags = t.is_symmetric ? 1 : 0;
  }
  void operator()(const FromSigns& t) {
    map(Map::from_signs), sizes(t.bucket);
    task.flags = t.is_symmetric ? 1 : 0;
  }
  void operator()(const Signs&) { map(Map::signs); }
  void operator()(const ToFloat4& t) {
    sizes(t.bucket);
    encode(Row::to_float4, t.bucket, 4);
  }
  void operator()(const FromFloat4& t) { map(Map::from_float4), sizes(t.bucket); }
  void operator()(const ToColors& t) {
    map(Map::to_colors);
    lattice(t.cell, t.bits, t.is_shifted, t.random);
  }
  void operator()(const FromColors& t) {
    map(Map::from_colors);
    lattice(t.cell, t.bits, t.is_shifted, t.random);
  }
  void operator()(const Hash&) { row(Row::hash); }
  void operator()(const Rotate& t) {
    row(Row::rotate);
    task.flags = t.is_inverse ? 1 : 0;
    task.random = stream_of(t.random);
    to.scratch_doubles = task.size[0];
  }
  void operator()(const MatrixProduct& t) {
    map(Map::matrix_product);
    sizes(t.rows, t.inner, t.columns);
    task.flags = (t.is_left_transposed ? 1U : 0U) | (t.is_right_transposed ? 2U : 0U);
  }
  void operator()(const Orthonormalize& t) {
    row(Row::orthonormalize);
    sizes(t.rows, t.columns);
    to.scratch_doubles = std::size_t{t.rows} * t.columns;
  }
  void operator()(const PanelsToRows& t) {
    map(Map::panels_to_rows), sizes(t.rows, t.columns);
    task.flags = t.is_transposed ? 1 : 0;
  }
  void operator()(const RowsToPanels& t) {
    map(Map::rows_to_panels), sizes(t.rows, t.columns);
    task.flags = t.is_transposed ? 1 : 0;
  }
  void operator()(const ClipNorm& t) { row(Row::clip_norm), task.f[0] = t.limit; }
  void operator()(const ClipDeviations& t) { row(Row::clip_deviations), task.f[0] = t.limit; }
  void operator()(const ScaleBy& t) { map(Map::scale_by), task.f[0] = t.factor; }
  void operator()(const LargestMagnitude&) { row(Row::largest_magnitude); }
  void operator()(const Larger&) { map(Map::larger); }
  void operator()(const AddSquare& t) {
    map(Map::add_square);
    task.f[0] = t.keep;
    task.f[1] = t.share;
  }
  void operator()(const DivideByRoot& t) {
    map(Map::divide_by_root);
    task.f[0] = t.scale;
    task.f[1] = t.spread;
    task.f[2] = t.epsilon;
  }
  void operator()(const ProjectStep& t) {
    map(Map::project_step), sizes(t.rows, t.columns);
    to.blocks[EncodedTransform::project] = ProjectKernel::groups_of(t.columns);
    task.f[0] = t.delta;
    task.f[1] = t.epsilon;
    task.f[2] = t.decay;
    task.f[3] = t.projected_decay;
    to.scratch_doubles = ProjectKernel::doubles_of(t.columns);
  }
  void operator()(const SideMeans&) { row(Row::side_means); }
  void operator()(const ShiftSides&) { map(Map::shift_sides); }
  void operator()(const CountNonzero&) { row(Row::count_nonzero); }
  void operator()(const LeastMagnitude&) { row(Row::least_magnitude); }
  void operator()(const LargestDifference&) { row(Row::largest_difference); }
};

void set_inputs(TransformTask& task,
                const std::array<std::span<const float>, most_inputs>& inputs) {
  for (std::size_t i = 0; i < most_inputs; ++i) {
    task.in[i] = inputs[i].data();
    task.size[i] = static_cast<std::uint32_t>(inputs[i].size());
  }
}

}  // namespace

EncodedTransform encode(const TransformJob& job) {
  EncodedTransform encoded;
  set_inputs(encoded.task, job.inputs);
  encoded.task.out = job.out.data();
  encoded.task.out_size = static_cast<std::uint32_t>(job.out.size());
  std::visit(Encoder{encoded, encoded.task}, *job.transform);
  return encoded;
}

EncodedTransform encode(const MeasureJob& job) {
  EncodedTransform encoded;
  set_inputs(encoded.task, job.inputs);
  std::visit(Encoder{encoded, encoded.task}, *job.measure);
  return encoded;
}

}  // namespace starling::cuda
