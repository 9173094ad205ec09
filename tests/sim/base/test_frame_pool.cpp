// Checks which memory coroutine frames get.
#include <cstring>
#include <thread>

#include <doctest/doctest.h>

#include "sim/base/frame_pool.hpp"

namespace starling {
namespace {

TEST_CASE("frames of every size are memory of their own") {
  for (const std::size_t bytes : {1, 16, 17, 1024, 1025, 100'000}) {
    void* first = frame_pool::take(bytes);
    void* second = frame_pool::take(bytes);
    std::memset(first, 1, bytes);
    std::memset(second, 2, bytes);
    CHECK(static_cast<char*>(first)[bytes - 1] == 1);
    frame_pool::give_back(first, bytes);
    CHECK(static_cast<char*>(second)[0] == 2);
    frame_pool::give_back(second, bytes);
  }
}

#if !defined(__SANITIZE_ADDRESS__)  // which wants to see every frame go

TEST_CASE("the next frame of a size is the one that ended last") {
  void* first = frame_pool::take(97);
  void* second = frame_pool::take(97);
  void* longer = frame_pool::take(113);
  frame_pool::give_back(first, 97);
  frame_pool::give_back(longer, 113);
  frame_pool::give_back(second, 97);
  CHECK(frame_pool::take(112) == second);  // sizes count in steps of 16 bytes
  CHECK(frame_pool::take(112) == first);
  CHECK(frame_pool::take(128) == longer);
  frame_pool::give_back(first, 112);
  frame_pool::give_back(second, 112);
  frame_pool::give_back(longer, 128);
}

TEST_CASE("a frame may end on another thread than it began on") {
  void* frame = frame_pool::take(64);
  void* again = nullptr;
  std::thread([frame, &again] {
    frame_pool::give_back(frame, 64);
    again = frame_pool::take(64);
    frame_pool::give_back(again, 64);  // freed when the thread ends: the leak checkers say so
  }).join();
  CHECK(again == frame);
}

#endif

}  // namespace
}  // namespace starling
