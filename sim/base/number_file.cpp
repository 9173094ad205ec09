#include "sim/base/number_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace starling {
namespace {

/// Reads the comma-separated numbers of a line; false if any is not a number.
bool read_numbers(std::string_view line, std::vector<double>& numbers) {
  numbers.clear();
  while (true) {
    const std::size_t comma = line.find(',');
    const auto number = number_in<double>(trim(line.substr(0, comma)));
    if (!number) return false;
    numbers.push_back(*number);
    if (comma == line.npos) return true;
    line.remove_prefix(comma + 1);
  }
}

/// Whether a first line names columns: none of its fields begins like a number.
bool is_header(std::string_view line) {
  constexpr std::string_view number_begins = "0123456789+-.";
  while (true) {
    const std::size_t comma = line.find(',');
    const std::string_view field = trim(line.substr(0, comma));
    if (field.empty() || number_begins.find(field.front()) != field.npos) return false;
    if (comma == line.npos) return true;
    line.remove_prefix(comma + 1);
  }
}

/// What is told of a line that parts its fields by something else than commas.
std::string hint_of_commas(std::string_view line) {
  constexpr std::pair<char, const char*> marks[] = {
      {';', "semicolons"}, {'\t', "tabs"}, {' ', "blanks"}};
  std::vector<double> numbers;
  for (const auto& [mark, name] : marks) {
    std::string repaired(trim(line));
    std::ranges::replace(repaired, mark, ',');
    if (repaired != trim(line) && read_numbers(repaired, numbers))
      return fmt::format("; fields are parted by commas, not by {}", name);
  }
  return "";
}

}  // namespace

NumberFile::NumberFile(std::string path, std::string_view what, std::string_view expected)
    : path_(std::move(path)), expected_(expected), file_(path_) {
  if (!file_) throw Error(fmt::format("{}: cannot open {}: {}", path_, what, std::strerror(errno)));
  if (std::filesystem::is_directory(path_))  // which opens like a file
    throw Error(fmt::format("{}: cannot read {}: is a directory", path_, what));
}

bool NumberFile::next() {
  while (std::getline(file_, line_)) {
    ++number_;
    if (number_ == 1 && line_.starts_with(byte_order_mark)) line_.erase(0, byte_order_mark.size());
    if (trim(line_).empty()) continue;
    if (read_numbers(line_, values_)) return true;
    if (number_ > 1 || !is_header(line_)) refuse(expected_, hint_of_commas(line_));
    header_ = line_;
    std::erase_if(header_, [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
  }
  if (file_.bad()) throw Error(fmt::format("{}: cannot read after line {}", path_, number_));
  return false;
}

void NumberFile::refuse(std::string_view expected, std::string_view hint) const {
  throw Error(fmt::format("{}:{}: expected {}, got \"{}\"{}", path_, number_, expected,
                          excerpt(trim(line_)), hint));
}

void NumberFile::refuse_header(std::string_view expected) const {
  throw Error(
      fmt::format("{}:1: expected the header {}, got \"{}\"", path_, expected, excerpt(header_)));
}

void NumberFile::expect_seconds() const {
  constexpr std::string_view others[] = {"ms", "msec",         "milliseconds", "us",      "usec",
                                         "ns", "microseconds", "nanoseconds",  "minutes", "hours"};
  std::string words = lower(header_);
  std::ranges::replace_if(
      words, [](char c) { return c < 'a' || c > 'z'; }, ' ');
  for (const std::string_view word : split(words, ' ')) {
    if (std::ranges::find(others, word) != std::end(others)) refuse_header("of times in seconds");
  }
}

std::string key_of_file(const Section& section, std::string_view message,
                        std::string_view otherwise) {
  std::string key(otherwise);
  const std::string_view file = message.substr(0, message.find(": "));
  std::size_t longest = 0;
  for (const KeyUse& use : section.uses()) {
    if (use.type != "text" || use.value.size() <= longest) continue;
    // Behind the scenario's folder, and before the name of a file if it is a folder itself.
    const std::size_t at = file.find(use.value);
    if (at == file.npos || (at > 0 && file[at - 1] != '/')) continue;
    longest = use.value.size();
    key = use.key;
  }
  return key;
}

}  // namespace starling
