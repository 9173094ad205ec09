// The AVX-512 build of the dense kernels; the only code compiled with -march=x86-64-v4
// -mprefer-vector-width=512.

// GCC 12 takes the deliberately undefined operands inside its own AVX-512 intrinsics for mistakes
// (PR 105593).
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#pragma GCC diagnostic ignored "-Wuninitialized"
#include "kernels/dense/kernels.hpp"

namespace starling::dense {

const Kernels& kernels_v4() { return vectorized_kernels; }

}  // namespace starling::dense
