// Tables of published or measured numbers that tests compare with.
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/csv.hpp"

namespace starling::test {

/// The cells of a row by the names of their columns.
using Row = std::map<std::string, std::string>;

/// The rows of a CSV file, whose first one names the columns. `path` begins at the project's root, where tests run.
inline std::vector<Row> reference_table(const std::string& path) {
  const std::ifstream file(path);
  REQUIRE_MESSAGE(file.is_open(), path);
  std::ostringstream content;
  content << file.rdbuf();
  const std::vector<CsvRow> lines = parse_csv(content.str(), path);
  REQUIRE(lines.size() > 1);
  std::vector<Row> rows;
  for (std::size_t r = 1; r < lines.size(); ++r) {
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < lines[r].cells.size(); ++i) {
      row[lines[0].cells.at(i)] = lines[r].cells[i];
    }
  }
  return rows;
}

inline double number(const Row& row, const std::string& name) { return std::stod(row.at(name)); }

}  // namespace starling::test
