// Tables as text: one row per line, cells separated by commas, spaces around them dropped. A cell in
// double quotes may hold commas, and a quote as two (RFC 4180). Empty lines and lines that begin
// with # are skipped, and so is a byte order mark.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/section.hpp"

namespace starling {

struct CsvRow {
  std::size_t line;  // from 1
  std::vector<std::string> cells;
};

/// The cells of one line.
std::vector<std::string> csv_cells(std::string_view line);
/// `text` as a cell: in quotes if it holds a comma, a quote or an end of line.
std::string csv_field(const std::string& text);

std::vector<CsvRow> parse_csv(std::string_view text);

/// Reads the file at `path`, which `key` of the section names. Throws ScenarioError if it cannot be
/// read or holds no row.
std::vector<CsvRow> read_csv(const Section& section, std::string_view key, const std::string& path);

}  // namespace starling
