// The vectorized build of the kernels, written once over Lanes and compiled by v3.cpp and
// v4.cpp.
#pragma once

#include "kernels/dense/attention.hpp"
#include "kernels/dense/code_loops.hpp"
#include "kernels/dense/convolutions.hpp"
#include "kernels/dense/dense.hpp"
#include "kernels/dense/elementwise.hpp"
#include "kernels/dense/image_loops.hpp"
#include "kernels/dense/lanes.hpp"
#include "kernels/dense/normalize.hpp"
#include "kernels/dense/products.hpp"
#include "kernels/dense/random.hpp"
#include "kernels/dense/step_loops.hpp"

namespace starling::dense {
namespace {

constexpr Kernels vectorized_kernels = {
    .name = Lanes::build_name,
#include "kernels/dense/table.inc"
};

}  // namespace
}  // namespace starling::dense
