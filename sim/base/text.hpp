// What readers of lines, lists and tables share.
#pragma once

#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace starling {

/// Of UTF-8, as spreadsheets write it in front of a table.
inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// `text` without the spaces, tabs and carriage returns around it.
constexpr std::string_view trim(std::string_view text) {
  constexpr std::string_view spaces = " \t\r";
  const std::size_t begin = text.find_first_not_of(spaces);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(spaces) - begin + 1);
}

/// The whole of `text` as a number; nothing if it is none, or does not fit.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

/// The parts of `text` between separators.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
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

/// Enough of `text` to recognize it in a message, on one line.
inline std::string excerpt(std::string_view text) {
  constexpr std::size_t longest = 60;
  return printable(text.substr(0, longest)) + (text.size() > longest ? "..." : "");
}

/// `text` with small letters for ASCII's capital ones.
inline std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace starling
