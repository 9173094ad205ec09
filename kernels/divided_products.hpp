// The products of layers, cut into parts for the threads of a crew. A part is the same kernel on some rows, inputs or
// outputs, so every number has the bits of the whole.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "kernels/crew.hpp"
#include "kernels/dense/dense.hpp"
#include "kernels/finite.hpp"

namespace starling {

/// Nearly equal ranges of 0 .. count - 1 that begin at multiples of `grain`; at most `most` of them, at least one.
class Cut {
 public:
  Cut(std::size_t count, std::size_t grain, std::size_t most)
      : count_(count),
        grain_(grain),
        grains_(std::max<std::size_t>(1, (count + grain - 1) / grain)),
        pieces_(std::clamp<std::size_t>(most, 1, grains_)) {}
  std::size_t pieces() const { return pieces_; }
  dense::Range operator[](std::size_t i) const { return {at(i), at(i + 1)}; }

 private:
  std::size_t at(std::size_t i) const { return std::min(grains_ * i / pieces_ * grain_, count_); }

  std::size_t count_, grain_, grains_, pieces_;
};

/// The functions of dense::Kernels.
class DividedProducts {
 public:
  /// `member`: of the calling thread; null: nothing is cut.
  DividedProducts(const dense::Kernels& kernels, Crew::Member* member)
      : kernels_(kernels), member_(member) {}

  /// Whether the calling thread, or another one in a part of these products, had a result that is not finite.
  bool have_overflowed() const { return has_overflowed() || have_parts_overflowed_; }

  void forward(dense::Shape s, const float* x, std::size_t x_stride, const float* weights,
               const float* bias, bool relu, float* y, std::size_t y_stride,
               dense::Ahead* ahead = nullptr) const {
    if (parts(s) == 1)
      return kernels_.forward(s, x, x_stride, weights, bias, relu, y, y_stride, ahead);
    const Cut rows(s.batch, least_rows, parts(s));
    const Cut outputs(s.outputs, dense::panel_columns, parts(s) / rows.pieces());
    split(outputs, rows, [&](dense::Range o, dense::Range r) {
      kernels_.forward({size(r), s.inputs, size(o)}, x + r.begin * x_stride, x_stride,
                       weights + o.begin * s.inputs, bias + o.begin, relu,
                       y + r.begin * y_stride + o.begin, y_stride, nullptr);
    });
  }

  void parameter_gradient(dense::Shape s, const float* x, std::size_t x_stride, const float* dy,
                          std::size_t dy_stride, float* weight_gradient,
                          float* bias_gradient) const {
    if (parts(s) == 1)
      return kernels_.parameter_gradient(s, x, x_stride, dy, dy_stride, weight_gradient,
                                         bias_gradient);
    const Cut outputs(s.outputs, dense::panel_columns, parts(s));
    const Cut inputs(s.inputs, least_rows, parts(s) / outputs.pieces());  // of single panels
    split(outputs, inputs, [&](dense::Range o, dense::Range i) {
      kernels_.parameter_gradient({s.batch, size(i), size(o)}, x + i.begin, x_stride, dy + o.begin,
                                  dy_stride,
                                  weight_gradient + o.begin * s.inputs + i.begin * size(o),
                                  i.begin == 0 ? bias_gradient + o.begin : nullptr);
    });
  }

  void parameter_sums(dense::Shape s, const float* x, std::size_t x_stride, const float* dy,
                      std::size_t dy_stride, const dense::Folding& folding) const {
    if (parts(s) == 1) return kernels_.parameter_sums(s, x, x_stride, dy, dy_stride, folding);
    const Cut outputs(s.outputs, dense::panel_columns, parts(s));
    split(outputs, Cut(1, 1, 1), [&](dense::Range o, dense::Range) {
      dense::Folding part = folding;
      part.weights += o.begin * s.inputs;
      part.bias += o.begin;
      kernels_.parameter_sums({s.batch, s.inputs, size(o)}, x, x_stride, dy + o.begin, dy_stride,
                              part);
    });
  }

  void input_gradient(dense::Shape s, const float* dy, std::size_t dy_stride, const float* weights,
                      const float* x, std::size_t x_stride, float* dx) const {
    if (parts(s) == 1)
      return kernels_.input_gradient(s, {0, s.inputs}, dy, dy_stride, weights, x, x_stride, dx);
    const Cut rows(s.batch, least_rows, parts(s));
    const Cut inputs(s.inputs, dense::panel_columns, parts(s) / rows.pieces());
    split(inputs, rows, [&](dense::Range i, dense::Range r) {
      kernels_.input_gradient({size(r), s.inputs, s.outputs}, i, dy + r.begin * dy_stride,
                              dy_stride, weights, x == nullptr ? nullptr : x + r.begin * x_stride,
                              x_stride, dx + r.begin * x_stride);
    });
  }

  /// Calls part(range) for ranges of 0 .. count - 1; each of the `count` takes as long as so many multiplications, at least one.
  template <class Part>
  void over(std::size_t count, std::size_t multiplications, const Part& part) const {
    if (member_ == nullptr) return part(dense::Range{0, count});
    const Cut ranges(count, least_multiplications / multiplications + 1, most_parts());
    split(ranges, Cut(1, 1, 1), [&](dense::Range range, dense::Range) { part(range); });
  }

 private:
  static constexpr std::size_t least_rows = 32;
  /// Of a part: it takes some microseconds.
  static constexpr std::size_t least_multiplications = std::size_t{1} << 18;

  static std::size_t size(dense::Range range) { return range.end - range.begin; }
  std::size_t most_parts() const { return 4 * member_->threads(); }
  std::size_t parts(dense::Shape s) const {
    if (member_ == nullptr) return 1;
    return std::clamp<std::size_t>(s.batch * s.inputs * s.outputs / least_multiplications, 1,
                                   most_parts());
  }
  template <class Part>
  void split(const Cut& first, const Cut& second, const Part& part) const {
    const std::size_t count = first.pieces() * second.pieces();
    const auto piece = [&](std::size_t i) {
      part(first[i % first.pieces()], second[i / first.pieces()]);
      if (has_overflowed()) have_parts_overflowed_ = true;
    };
    if (count == 1) return piece(0);
    member_->split(count, piece);
  }

  const dense::Kernels& kernels_;
  Crew::Member* member_;
  mutable std::atomic<bool> have_parts_overflowed_ = false;
};

}  // namespace starling
