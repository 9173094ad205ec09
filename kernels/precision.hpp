// How exactly a GPU computes.
#pragma once

namespace starling {

enum class Precision {
  strict,  // the bits of the CPU
  fast     // large products in TF32: 10 bits of mantissa in, 23 out, sums in no promised order
};

}  // namespace starling
