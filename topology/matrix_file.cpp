#include "topology/matrix_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "sim/base/csv.hpp"
#include "sim/base/text.hpp"

namespace starling::topologies {

bool is_matrix(std::string_view path) { return lower(std::string(path)).ends_with(".csv"); }

GraphFile read_matrix(const Section& section, std::string_view key, const std::string& path,
                      Entries entries) {
  const std::vector<CsvRow> rows = read_csv(section, key, path);
  const std::size_t count = rows.size();
  std::vector<double> numbers;
  for (const CsvRow& row : rows) {
    const auto fail = [&](const std::string& what) { fail_at(section, key, path, row.line, what); };
    if (row.cells.size() != count) {
      fail(fmt::format(
          "expected {} numbers with commas between them, as there are {} rows, found {}", count,
          count, row.cells.size()));
    }
    for (const std::string& cell : row.cells) {
      const auto number = number_in<double>(cell);
      if (!number || !std::isfinite(*number))
        fail(fmt::format("expected numbers alone, found \"{}\"", cell));
      numbers.push_back(*number);
    }
  }
  const auto at = [&](std::size_t i, std::size_t j) { return numbers[i * count + j]; };

  const bool are_links =
      std::ranges::all_of(numbers, [](double number) { return number == 0 || number == 1; });
  const bool has_weights =
      entries == Entries::weights || (entries == Entries::by_value && !are_links);
  GraphFile graph;
  for (std::size_t i = 0; i < count; ++i) {
    graph.vertices.push_back({std::to_string(i), {}, rows[i].line});
    double sum = 0;
    for (std::size_t j = 0; j < count; ++j) {
      sum += at(i, j);
      graph.is_directed = graph.is_directed || at(i, j) != at(j, i);
    }
    // Weights that were floats, or were written with seven digits.
    if (has_weights && std::abs(sum - 1) > 1e-6) {
      fail_at(section, key, path, rows[i].line,
              fmt::format("expected weights that add up to 1 in each row, found {:.7g}; mixing = "
                          "uniform or metropolis ignores the weights",
                          sum));
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) {
      if (at(i, j) == 0 || i == j || (!graph.is_directed && j > i)) continue;
      GraphFile::Edge edge{j, i, {}, rows[i].line};
      if (has_weights) edge.attributes["weight"] = rows[i].cells[j];
      graph.edges.push_back(std::move(edge));
    }
  }
  return graph;
}

}  // namespace starling::topologies
