// Plain tables as one HDF5 file: named columns of texts or numbers, for h5py and everything else that reads HDF5. A
// sweep's tables go out this way beside their CSV files.
//
//   /         attributes   format, format_version = 1
//   /TABLE    a group per table, its columns in the order in which they were made; attributes of its own, if it has some
//     COLUMN  (rows)       UTF-8 of fixed length, or float64 with NaN where a cell is unknown
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace starling {

struct TableColumn {
  std::string name;
  std::variant<std::vector<std::string>, std::vector<double>> cells;

  std::size_t rows() const;
};

/// Columns of equal length.
struct NamedTable {
  std::string name;
  std::vector<TableColumn> columns;
  std::map<std::string, std::int64_t> attributes{};
};

/// The bytes of a file that holds `tables`; `format` is what its attribute says. Equal tables give equal bytes. Throws
/// Error in the library's stead.
std::string table_file(const std::string& format, const std::vector<NamedTable>& tables);

}  // namespace starling
