#include "sim/base/csv.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/base/text_file.hpp"

namespace starling {
namespace {

/// Takes a quoted cell, whose first quote is at the start of `line`, off it.
std::string take_quoted(std::string_view& line) {
  std::string cell;
  const std::string_view whole = line;
  line.remove_prefix(1);
  while (!line.empty()) {
    const bool is_quote = line.front() == '"';
    if (is_quote && !line.substr(1).starts_with('"')) break;
    cell += line.front();
    line.remove_prefix(is_quote ? 2 : 1);
  }
  if (line.empty())
    throw Error(fmt::format("the cell that begins with {} has no closing quote", excerpt(whole)));
  line.remove_prefix(1);
  const std::string_view rest = trim(line.substr(0, line.find(',')));
  if (!rest.empty())
    throw Error(fmt::format("expected a comma behind \"{}\", found {}", cell, excerpt(rest)));
  line.remove_prefix(std::min(line.find(','), line.size()));
  return cell;
}

}  // namespace

std::vector<std::string> csv_cells(std::string_view line) {
  std::vector<std::string> cells;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (line.starts_with('"')) {
      cells.push_back(take_quoted(line));
    } else {
      const std::size_t comma = std::min(line.find(','), line.size());
      cells.emplace_back(trim(line.substr(0, comma)));
      line.remove_prefix(comma);
    }
    if (line.empty()) return cells;
    line.remove_prefix(1);
  }
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos && !text.starts_with('#') && trim(text) == text)
    return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted.append(letter == '"' ? 2 : 1, letter);
  return quoted + '"';
}

std::vector<CsvRow> parse_csv(std::string_view text, std::string_view path) {
  std::vector<CsvRow> rows;
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    try {
      rows.push_back({number, csv_cells(line)});
    } catch (const Error& error) {
      throw Error(fmt::format("{}:{}: {}", path, number, error.what()));
    }
  }
  return rows;
}

std::vector<std::string> read_csv_cells(const Section& section, std::string_view key,
                                        const std::string& text) {
  try {
    return text.empty() ? std::vector<std::string>() : csv_cells(text);
  } catch (const Error& error) {
    section.fail(key, "must be names with commas between them: {}", error.what());
  }
}

std::vector<CsvRow> read_csv(const Section& section, std::string_view key,
                             const std::string& path) {
  const std::string text = read_text(section, key, path);
  std::vector<CsvRow> rows;
  try {
    rows = parse_csv(text, path);
  } catch (const Error& error) {
    section.fail(key, "{}", error.what());
  }
  section.expect(!rows.empty(), key, "{}: cannot read: it is empty", path);
  const std::vector<std::string>& first = rows[0].cells;
  section.expect(first.size() > 1 || first[0].find_first_of(";\t") == std::string::npos, key,
                 "{}:{}: expected cells parted by commas, got \"{}\"", path, rows[0].line,
                 excerpt(first[0]));
  return rows;
}

}  // namespace starling
