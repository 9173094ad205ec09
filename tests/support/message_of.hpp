// What an error says that is expected.
#pragma once

#include <string>
#include <string_view>

#include "sim/base/error.hpp"

namespace starling::test {

/// Of the Expected that `action` ends in; "no error" if it ends well. Any other error goes through.
template <class Expected = Error>
std::string message_of(const auto& action) {
  try {
    action();
  } catch (const Expected& error) {
    return error.what();
  }
  return "no error";
}

/// The message behind its `beginning`, which tells the place, say; all of one that begins otherwise.
inline std::string behind(std::string_view beginning, const std::string& message) {
  return message.starts_with(beginning) ? message.substr(beginning.size()) : message;
}

}  // namespace starling::test
