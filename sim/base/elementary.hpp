// exp, log and cosine in explicit fused multiply-adds. The C library picks different code on different
// processors, so its last bit may differ; these give the same bits on every machine, instruction set and
// (strict) GPU. Accurate to about 1 ulp in their stated range.
#pragma once

namespace starling {

/// e^x. 0 below -745, infinity above 709.78, NaN for NaN.
double exact_exp(double x);
/// Natural logarithm. -infinity for 0, NaN below, infinity for infinity.
double exact_log(double x);
/// Cosine of 2 pi `turns`; NaN unless 0 <= turns <= 1.
double exact_cos_turns(double turns);

}  // namespace starling
