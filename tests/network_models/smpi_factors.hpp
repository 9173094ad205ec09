// The factors of SimGrid's SMPI by size of message, as a scenario writes them (defaults of smpi/lat-factor and smpi/bw-factor,
// SimGrid 3.32).
#pragma once

namespace starling::network_test {

inline constexpr const char* smpi_latency_factor =
    "0 B: 2.01467, 257 B: 1.95341, 732 B: 1.9503, 1426 B: 1.61075, 3484 B: 1.88101, 5776 B: "
    "2.18796, 9376 B: 2.59299, "
    "15424 B: 3.48845, 65472 B: 11.6436";
inline constexpr const char* smpi_bandwidth_factor =
    "0 B: 0.812084, 257 B: 0.338112, 732 B: 0.341987, 1426 B: 0.608902, 3484 B: 0.77493, 5776 B: "
    "1.08739, 9376 B: 0.58729, "
    "15424 B: 0.697866, 65472 B: 0.940694";

}  // namespace starling::network_test
