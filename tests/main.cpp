// The main() of every test executable; the tests themselves are in the files beside it.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "tools/passive_waiting.hpp"

int main(int count, char** words) {
  starling::wait_passively(words);  // by Meson, the environment says so already
  return doctest::Context(count, words).run();
}
