// The AVX2 and FMA build of the dense kernels; the only code compiled with -march=x86-64-v3.
#include "kernels/dense/kernels.hpp"

namespace starling::dense {

const Kernels& kernels_v3() { return vectorized_kernels; }

}  // namespace starling::dense
