// STARLING_TARGET_CLONES(targets...) before a function: it is compiled once for each target, the last of which is "default", and
// the first one that the processor can run is called. Where compilers cannot do that, it is compiled once.
#pragma once

// Clang 16 makes the first version alone where a header declares the function, and calls it on every processor.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define STARLING_TARGET_CLONES(...) __attribute__((target_clones(__VA_ARGS__)))
#else
#define STARLING_TARGET_CLONES(...)
#endif

// For loops over numbers: with vectors, and fused multiply-adds that are no calls of the C library, where the processor has them.
#define STARLING_VECTORIZED STARLING_TARGET_CLONES("arch=x86-64-v4", "arch=x86-64-v3", "default")
