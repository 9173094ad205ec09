// What the fuzz targets share. A target is a function that takes any bytes and may refuse them, with
// an error that is meant for users, but does nothing worse. libFuzzer drives it (meson -Dfuzz=true), or replay.cpp
// with the corpus (in every build).
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "sim/base/error.hpp"
#include "tests/support/temporary_directory.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace starling::test {

/// Runs `action`; the errors that scenarios and files may cause are as good as success.
template <class Action>
void allow_refusal(const Action& action) {
  try {
    action();
  } catch (const ScenarioError&) {
  } catch (const Error&) {
  } catch (const std::invalid_argument&) {
  }
}

}  // namespace starling::test
