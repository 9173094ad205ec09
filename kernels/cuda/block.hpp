// How kernels are written so that one source runs on a GPU and, for tests, on the host: a kernel is the work of one
// block, a sequence of phases; each phase is the same function for every thread of the block, and all threads finish a
// phase before the next begins. On a GPU a phase ends with a barrier; on the host it is a loop, or each thread goes alone
// from barrier to barrier.
//
// What a thread keeps from phase to phase is a Local (registers on a GPU), what threads share lies in the block's shared
// memory. Whatever decides which phases run must be the same for all threads. Code between phases may read shared memory
// if the next phase does not write it.
//
// Multiplications and additions fuse where the source says fma and nowhere else, here as everywhere: nvcc is told so
// (meson.build), and a GPU's fma, division, square root and conversions round as IEEE 754 says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define STARLING_DEVICE __device__ __forceinline__
#define STARLING_UNROLL _Pragma("unroll")
#else
#include <cmath>
#define STARLING_DEVICE inline
#define STARLING_UNROLL
#endif

namespace starling::cuda {

#if defined(__CUDACC__)

struct Block {
  unsigned index;  // among the blocks of the launch
  unsigned char* shared_memory;

  /// One phase: f(thread) for every thread.
  template <class F>
  STARLING_DEVICE void each(const F& f) const {
    f(threadIdx.x);
    __syncthreads();
  }
};

/// A T of every thread.
template <class T, unsigned threads>
struct Local {
  T value;
  STARLING_DEVICE T& operator[](unsigned) { return value; }
};

STARLING_DEVICE void add_atomically(std::uint32_t& counter, std::uint32_t amount) {
  atomicAdd(&counter, amount);
}
STARLING_DEVICE std::uint32_t bits_of(float x) { return __float_as_uint(x); }
STARLING_DEVICE float float_of(std::uint32_t bits) { return __uint_as_float(bits); }
STARLING_DEVICE double double_of(std::uint64_t bits) {
  return __longlong_as_double(static_cast<long long>(bits));
}
STARLING_DEVICE std::uint64_t bits_of(double x) {
  return static_cast<std::uint64_t>(__double_as_longlong(x));
}

#else

/// Some of a block's threads: all of them, or one that goes through the kernel alone.
struct Block {
  unsigned index;
  unsigned char* shared_memory;
  unsigned first, last;  // threads first, first + 1, .. last - 1
  void (*end_phase)();   // null, or waits for the block's other threads

  template <class F>
  void each(const F& f) const {
    for (unsigned thread = first; thread < last; ++thread) f(thread);
    if (end_phase != nullptr) end_phase();
  }
};

template <class T, unsigned threads>
struct Local {
  T values[threads];
  T& operator[](unsigned thread) { return values[thread]; }
};

inline void add_atomically(std::uint32_t& counter, std::uint32_t amount) { counter += amount; }
template <class To, class From>
To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
inline std::uint32_t bits_of(float x) { return same_bits<std::uint32_t>(x); }
inline float float_of(std::uint32_t bits) { return same_bits<float>(bits); }
inline double double_of(std::uint64_t bits) { return same_bits<double>(bits); }
inline std::uint64_t bits_of(double x) { return same_bits<std::uint64_t>(x); }
using std::fabs;
using std::floor;
using std::fma;
using std::fmaf;
using std::fmod;
using std::isfinite;
using std::isnan;
using std::nearbyint;
using std::signbit;
using std::sqrt;

#endif

/// Four floats moved as one.
struct alignas(16) Quad {
  float x, y, z, w;
};

STARLING_DEVICE std::uint32_t lesser(std::uint32_t a, std::uint32_t b) { return a < b ? a : b; }

}  // namespace starling::cuda
