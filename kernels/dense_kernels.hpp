// The vectorized build of the kernels, written once over Lanes and compiled by dense_v3.cpp and
// dense_v4.cpp.
#pragma once

#include "kernels/dense.hpp"
#include "kernels/dense_attention.hpp"
#include "kernels/dense_code_loops.hpp"
#include "kernels/dense_convolutions.hpp"
#include "kernels/dense_elementwise.hpp"
#include "kernels/dense_image_loops.hpp"
#include "kernels/dense_lanes.hpp"
#include "kernels/dense_normalize.hpp"
#include "kernels/dense_products.hpp"
#include "kernels/dense_random.hpp"
#include "kernels/dense_step_loops.hpp"

namespace starling::dense {
namespace {

constexpr Kernels vectorized_kernels = {.name = Lanes::build_name,
                                        .gather = gather,
                                        .forward = forward,
                                        .parameter_gradient = parameter_gradient,
                                        .parameter_sums = parameter_sums,
                                        .input_gradient = input_gradient,
                                        .softmax_cross_entropy = softmax_cross_entropy,
                                        .exponential = exponential,
                                        .logarithm = logarithm,
                                        .linear = linear,
                                        .squared_distance = squared_distance,
                                        .add_square = add_square,
                                        .divide_by_root = divide_by_root,
                                        .images = {.convolve = convolve,
                                                   .convolution_gradient = convolution_gradient,
                                                   .relu = relu,
                                                   .relu_gradient = relu_gradient,
                                                   .add = add,
                                                   .max_pool = max_pool,
                                                   .max_pool_gradient = max_pool_gradient,
                                                   .average = average,
                                                   .average_gradient = average_gradient,
                                                   .moments = moments,
                                                   .normalize = normalize,
                                                   .normalize_gradient = normalize_gradient},
                                        .sequences = {.layer_norm = layer_norm,
                                                      .layer_norm_gradient = layer_norm_gradient,
                                                      .gelu = gelu,
                                                      .gelu_gradient = gelu_gradient,
                                                      .attention = attention,
                                                      .attention_gradient = attention_gradient},
                                        .codes = code_kernels(random_words)};

}  // namespace
}  // namespace starling::dense
