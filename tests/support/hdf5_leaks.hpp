// Of a file whose metadata is wrong the HDF5 library forgets a few bytes. The leak checker overlooks those, and no others.
// Included by one source of a program at most.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STARLING_CHECKS_LEAKS
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define STARLING_CHECKS_LEAKS
#endif

#ifdef STARLING_CHECKS_LEAKS
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }
#endif
