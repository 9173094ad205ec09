// Image kernels: what a convolutional network does besides fully connected layers, as pure functions
// on one image at a time, so that no number depends on the batch. Part of dense::Kernels; the
// contract is that of kernels/dense/dense.hpp: plain loops define every number, sums run in one written
// order.
//
// An image is (height, width, channels), row-major, channels last and without gaps. Vectors run over
// channels.
#pragma once

#include <cstddef>

namespace starling::dense {

/// A convolution without padding; whoever wants a border frames the image with zeros. All positive,
/// and the kernel fits into the image.
struct Convolution {
  std::size_t height, width, channels;  // of x
  std::size_t kernel_height, kernel_width, stride;
  std::size_t outputs;  // channels of y

  constexpr std::size_t out_height() const { return (height - kernel_height) / stride + 1; }
  constexpr std::size_t out_width() const { return (width - kernel_width) / stride + 1; }
  /// Terms of one sum. Weights are an (inputs x outputs) matrix, panel-major; input
  /// (kernel_y * kernel_width + kernel_x) * channels + c is channel c at that place of the kernel.
  constexpr std::size_t inputs() const { return kernel_height * kernel_width * channels; }
};

/// What normalization sees at once: `pixels` x `channels`, the channels in `groups` equal groups that
/// share mean and variance.
struct Normalization {
  std::size_t pixels, channels, groups;
};

/// One build of the image kernels. No function allocates or throws.
struct ImageKernels {
  /// y_po = fma(x at input k of pixel p, W_ko, ..) for k = 0, 1, .., starting from bias_o, or from
  /// y_po itself if `bias` is null.
  void (*convolve)(const Convolution& shape, const float* x, const float* weights,
                   const float* bias, float* y);

  /// Continues what is in the gradients by the terms of this image, pixels in order:
  ///   dW_ko = fma(x at input k of pixel p, dy_po, ..),  dbias_o = (.. + dy_0o) + dy_1o + ..
  /// `bias_gradient` may be null.
  void (*convolution_gradient)(const Convolution& shape, const float* x, const float* dy,
                               float* weight_gradient, float* bias_gradient);

  /// Negative values become 0; NaN stays.
  void (*relu)(float* x, std::size_t count);
  /// dy becomes 0 where y, the output of relu, is not positive.
  void (*relu_gradient)(const float* y, float* dy, std::size_t count);
  /// y = a + b
  void (*add)(const float* a, const float* b, float* y, std::size_t count);

  /// Maximum of every window x window square, squares side by side; rows and columns that fill no
  /// square are left out. NaN wins.
  void (*max_pool)(std::size_t height, std::size_t width, std::size_t channels, std::size_t window,
                   const float* x, float* y);
  /// The gradient goes to the first pixel of its square, row by row, that has the maximum; all other
  /// dx are 0.
  void (*max_pool_gradient)(std::size_t height, std::size_t width, std::size_t channels,
                            std::size_t window, const float* x, const float* dy, float* dx);

  /// y_c = ((0 + x_0c) + x_1c + ..) / pixels
  void (*average)(std::size_t pixels, std::size_t channels, const float* x, float* y);
  /// dx_pc = dy_c / pixels
  void (*average_gradient)(std::size_t pixels, std::size_t channels, const float* dy, float* dx);

  /// mean_c and rate_c = 1 / sqrt(variance + epsilon), of the group of channel c: sums in double,
  /// first over pixels, channel by channel, then over the channels of the group, both in order; the
  /// variance is the mean of (x - mean)^2. `sums` is scratch (channels).
  void (*moments)(Normalization shape, const float* x, double* sums, float* mean, float* rate);
  /// y = ((x - mean_c) rate_c) scale_c + shift_c
  void (*normalize)(Normalization shape, const float* x, const float* mean, const float* rate,
                    const float* scale, const float* shift, float* y);
  /// With n = (x - mean_c) rate_c and, over pixels and in double, s_c = sum of dy, t_c = sum of dy n:
  ///   dshift_c = (what is in it) + s_c,  dscale_c = (what is in it) + t_c,
  ///   dx = rate_c (scale_c dy - S - n T)
  /// where S and T are the means, over pixels and channels of the group, of scale dy and scale dy n.
  /// `sums` (2 channels) and `shares` (2 channels) are scratch.
  void (*normalize_gradient)(Normalization shape, const float* x, const float* mean,
                             const float* rate, const float* scale, const float* dy, double* sums,
                             float* shares, float* scale_gradient, float* shift_gradient,
                             float* dx);
};

inline constexpr double normalization_epsilon = 1e-5;

}  // namespace starling::dense
