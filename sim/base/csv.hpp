// Tables as text: one row per line, cells separated by commas, spaces around them dropped. A cell in
// double quotes may hold commas, and a quote as two, as in RFC 4180, but no end of line. Empty lines
// and lines that begin with # are skipped, and so is a byte order mark.
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

/// The cells of one line. Throws Error where a quote is not closed, or something stands behind a closing one.
std::vector<std::string> csv_cells(std::string_view line);
/// `text` as a cell: in quotes if it would not be read as it is. An end of line is written, but cannot be read.
std::string csv_field(const std::string& text);

/// The rows of a table. Throws Error, which begins with "PATH:LINE: ".
std::vector<CsvRow> parse_csv(std::string_view text, std::string_view path);

/// The cells of the value `text` of `key`; none if it is empty. Throws ScenarioError.
std::vector<std::string> read_csv_cells(const Section& section, std::string_view key,
                                        const std::string& text);

/// Reads the file at `path`, which `key` of the section names. Throws ScenarioError if it cannot be
/// read, holds no row or a wrong one.
std::vector<CsvRow> read_csv(const Section& section, std::string_view key, const std::string& path);

}  // namespace starling
