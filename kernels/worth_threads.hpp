// Whether work is worth waking other threads for. They sleep between two parallel regions (tools/passive_waiting.hpp), and
// how long waking them takes is the machine's: some 5 us where a core is awake, 30 to 60 where a virtual one is halted.
// Results do not depend on it: a request has the same bits on any thread.
#pragma once

namespace starling {

/// What one thread gets through in a second, roughly: multiplications of a layer, floats of sums of vectors, additions that
/// wait for each other, random normals.
inline constexpr double multiplications_per_second = 3e10;
inline constexpr double floats_per_second = 1.2e10;
inline constexpr double chained_additions_per_second = 1e9;
inline constexpr double normals_per_second = 1e8;

/// Whether the threads of an OpenMP team are done with it sooner than one alone, which takes so many seconds. Measures, once
/// and for less than a millisecond, how long they take to wake up, unless that is clear without, or told by the environment
/// variable STARLING_WAKING_SECONDS (0: work is always shared, as in tests).
bool is_worth_threads(double seconds);

}  // namespace starling
