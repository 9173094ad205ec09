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
#define STARLING_PRAGMA(text) _Pragma(#text)
#define STARLING_UNROLL STARLING_PRAGMA(unroll)
#define STARLING_UNROLL_BY(times) STARLING_PRAGMA(unroll times)
#else
#include <bit>
#include <cmath>
#include <cstdlib>
#include <vector>

#define STARLING_DEVICE inline
#define STARLING_UNROLL
#define STARLING_UNROLL_BY(times)
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

/// Copies from device memory to shared memory that a thread queues and goes on. It closes what it has queued into a group;
/// after await_copies_but_last() all groups but the last one are there, for other threads from the next phase on.
STARLING_DEVICE void copy_quad_ahead(float* to,
                                     const float* from) {  // both at multiples of 16 bytes
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(__cvta_generic_to_global(from))
               : "memory");
}
STARLING_DEVICE void copy_float_ahead(float* to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(__cvta_generic_to_global(from))
               : "memory");
}
/// The same, or zeros where nothing is there.
STARLING_DEVICE void copy_quad_or_zeros_ahead(float* to, const float* from, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(__cvta_generic_to_global(from)), "r"(is_there ? 16 : 0)
               : "memory");
}
STARLING_DEVICE void copy_float_or_zero_ahead(float* to, const float* from, bool is_there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(__cvta_generic_to_global(from)), "r"(is_there ? 4 : 0)
               : "memory");
}
STARLING_DEVICE void end_copies_ahead() { asm volatile("cp.async.commit_group;" ::: "memory"); }
STARLING_DEVICE void await_copies_but_last() {
  asm volatile("cp.async.wait_group 1;" ::: "memory");
}

/// Device memory that will be read: its line of 128 bytes may come to the second-level cache meanwhile.
STARLING_DEVICE void read_soon(const float* at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(at)));
}

/// The same number, though the compiler cannot know that: it computes what follows from it where that is needed, and
/// does not keep it in registers from before a loop.
STARLING_DEVICE unsigned anew(unsigned x) {
  asm volatile("mov.u32 %0, %0;" : "+r"(x));
  return x;
}

STARLING_DEVICE std::uint32_t bits_of(float x) { return __float_as_uint(x); }
STARLING_DEVICE float float_of(std::uint32_t bits) { return __uint_as_float(bits); }
STARLING_DEVICE double double_of(std::uint64_t bits) {
  return __longlong_as_double(static_cast<long long>(bits));
}
STARLING_DEVICE std::uint64_t bits_of(double x) {
  return static_cast<std::uint64_t>(__double_as_longlong(x));
}

STARLING_DEVICE std::uint32_t ones_of(std::uint64_t bits) {
  return static_cast<std::uint32_t>(__popcll(static_cast<long long>(bits)));
}
/// Above the highest one.
STARLING_DEVICE std::uint32_t zeros_before(std::uint64_t bits) {
  return static_cast<std::uint32_t>(__clzll(static_cast<long long>(bits)));
}

#else

struct CopyAhead {
  float* to;
  const float* from;  // null: zeros
  std::size_t bytes;
};
/// Queued by one thread of the block: happens as late as it may.
struct CopiesAhead {
  std::vector<CopyAhead> open, last,
      before;  // group that is not closed, the last one, and those before it
  bool are_over() const { return open.empty() && last.empty() && before.empty(); }
};
inline CopiesAhead copies_ahead[1024];
inline unsigned copying_thread = 0;

/// Some of a block's threads: all of them, or one that goes through the kernel alone.
struct Block {
  unsigned index;
  unsigned char* shared_memory;
  unsigned first, last;  // threads first, first + 1, .. last - 1
  void (*end_phase)();   // null, or waits for the block's other threads

  template <class F>
  void each(const F& f) const {
    for (unsigned thread = first; thread < last; ++thread) {
      copying_thread = thread;
      f(thread);
    }
    if (end_phase != nullptr) end_phase();
  }
};

template <class T, unsigned threads>
struct Local {
  T values[threads];
  T& operator[](unsigned thread) { return values[thread]; }
};

inline void add_atomically(std::uint32_t& counter, std::uint32_t amount) { counter += amount; }
inline void copy_quad_ahead(float* to, const float* from) {
  const auto at = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  if (at % 16 != 0) std::abort();
  copies_ahead[copying_thread].open.push_back({to, from, 4 * sizeof(float)});
}
inline void copy_float_ahead(float* to, const float* from) {
  copies_ahead[copying_thread].open.push_back({to, from, sizeof(float)});
}
inline void copy_quad_or_zeros_ahead(float* to, const float* from, bool is_there) {
  if (is_there) return copy_quad_ahead(to, from);
  copies_ahead[copying_thread].open.push_back({to, nullptr, 4 * sizeof(float)});
}
inline void copy_float_or_zero_ahead(float* to, const float* from, bool is_there) {
  if (is_there) return copy_float_ahead(to, from);
  copies_ahead[copying_thread].open.push_back({to, nullptr, sizeof(float)});
}
inline void end_copies_ahead() {
  CopiesAhead& own = copies_ahead[copying_thread];
  own.before.insert(own.before.end(), own.last.begin(), own.last.end());
  own.last.swap(own.open);
  own.open.clear();
}
inline void await_copies_but_last() {
  CopiesAhead& own = copies_ahead[copying_thread];
  for (const CopyAhead& copy : own.before) {
    if (copy.from != nullptr) {
      std::memcpy(copy.to, copy.from, copy.bytes);
    } else {
      std::memset(copy.to, 0, copy.bytes);
    }
  }
  own.before.clear();
}
inline void read_soon(const float* at) {  // which is memory
  static_cast<void>(*static_cast<const volatile float*>(at));
}
inline unsigned anew(unsigned x) { return x; }
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
inline std::uint32_t ones_of(std::uint64_t bits) {
  return static_cast<std::uint32_t>(std::popcount(bits));
}
inline std::uint32_t zeros_before(std::uint64_t bits) {
  return static_cast<std::uint32_t>(std::countl_zero(bits));
}
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

/// Until all that the thread has queued is there.
STARLING_DEVICE void await_copies() {
  end_copies_ahead();  // an empty group, which is last
  await_copies_but_last();
}

/// Two and four floats moved as one.
struct alignas(8) Pair {
  float x, y;
};
struct alignas(16) Quad {
  float x, y, z, w;
};

STARLING_DEVICE bool is_even(const float* at) {
  return reinterpret_cast<std::uintptr_t>(at) % sizeof(Quad) == 0;
}

/// Stores to device memory, at a multiple of 16 bytes, by one instruction. Where a Quad or a float4 is assigned, nvcc often
/// makes four stores instead, each of which moves 32 bytes for its 4.
STARLING_DEVICE void store_quad(float* to, const Quad& from) {
#if defined(__CUDACC__)
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
               "f"(from.x), "f"(from.y), "f"(from.z), "f"(from.w)
               : "memory");
#else
  *reinterpret_cast<Quad*>(to) = from;
#endif
}

/// at + rows * stride, in one instruction where the stride in bytes is at hand. Less than 2^30 floats a row.
STARLING_DEVICE const float* rows_on(const float* at, std::uint32_t rows, std::uint32_t stride) {
  const auto bytes = std::uint64_t{rows} * (stride * std::uint32_t{sizeof(float)});
  return reinterpret_cast<const float*>(reinterpret_cast<const char*>(at) + bytes);
}

STARLING_DEVICE std::uint32_t lesser(std::uint32_t a, std::uint32_t b) { return a < b ? a : b; }

}  // namespace starling::cuda
