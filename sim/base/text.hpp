// What readers of lines, lists and tables share.
#pragma once

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string>
#include <string_view>

namespace starling {

/// Of UTF-8, as spreadsheets write it in front of a table.
inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// Whether `text` begins with the byte order mark of UTF-16, of either order; nothing here reads that.
constexpr bool is_utf16(std::string_view text) {
  return text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
}

/// `text` without the spaces, tabs and carriage returns around it.
constexpr std::string_view trim(std::string_view text) {
  constexpr std::string_view spaces = " \t\r";
  const std::size_t begin = text.find_first_not_of(spaces);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(spaces) - begin + 1);
}

/// `text` on one line, for a message: what ends lines or is no character at all becomes "\\n" or "\\x07".
inline std::string printable(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      line += c;
    } else if (c == '\n') {
      line += "\\n";
    } else {
      line += "\\x";
      line += digits[byte / 16];
      line += digits[byte % 16];
    }
  }
  return line;
}

/// The first line of `text` that is another one than in `other`, whatever their comments, and without its own.
inline std::string first_other_line(const std::string& text, const std::string& other) {
  const auto next = [](std::istringstream& lines, std::string& line) {
    if (!std::getline(lines, line)) return false;
    line.resize(std::min(line.find(" #"), line.size()));
    line.resize(line.find_last_not_of(' ') + 1);
    return true;
  };
  std::istringstream lines(text), others(other);
  std::string line, other_line;
  while (next(lines, line)) {
    if (!next(others, other_line) || line != other_line) return line;
  }
  return "fewer lines";
}

/// `text` with small letters for ASCII's capital ones.
inline std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace starling
