#include "sim/record/table_file.hpp"

#include <cstdint>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/record/hdf5_file.hpp"

namespace starling {
namespace {

constexpr std::int64_t table_file_version = 1;

void write_table(hdf5::Writer& writer, const NamedTable& table) {
  writer.group("/" + table.name, hdf5::Writer::Order::as_made);
  for (const auto& [name, number] : table.attributes)
    writer.attribute("/" + table.name, name, number);
  for (const TableColumn& column : table.columns) {
    ensure(column.rows() == table.columns.front().rows(), "columns of a table are equally long");
    const std::string path = fmt::format("/{}/{}", table.name, column.name);
    if (const auto* numbers = std::get_if<std::vector<double>>(&column.cells)) {
      writer.column(path, *numbers);
    } else {
      writer.texts(path, std::get<std::vector<std::string>>(column.cells));
    }
  }
}

}  // namespace

std::size_t TableColumn::rows() const {
  return std::visit([](const auto& all) { return all.size(); }, cells);
}

std::string table_file(const std::string& format, const std::vector<NamedTable>& tables) {
  const hdf5::Silence silence;
  try {
    hdf5::Writer writer;
    writer.attribute("/", "format", format);
    writer.attribute("/", "format_version", table_file_version);
    for (const NamedTable& table : tables) write_table(writer, table);
    const std::span<const std::byte> bytes = writer.bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  } catch (const hdf5::Failure& failure) {
    throw Error(fmt::format("cannot make a table: {}", failure.what()));
  }
}

}  // namespace starling
