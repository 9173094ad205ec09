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

constexpr Kernels vectorized_kernels = {
    .name = Lanes::build_name,
#include "kernels/dense_table.inc"
};

}  // namespace
}  // namespace starling::dense
