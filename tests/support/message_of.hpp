// What an Error says that is expected.
#pragma once

#include <string>

#include "sim/base/error.hpp"

namespace starling::test {

/// Of the Error that `action` ends in; "no error" if it ends well.
std::string message_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace starling::test
