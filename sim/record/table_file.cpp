// The file is made in memory, HDF5's core driver without a file behind it, and handed out as bytes: who writes them
// decides how.
#include "sim/record/table_file.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <hdf5.h>

#include "sim/base/error.hpp"
#include "sim/base/hdf5.hpp"

namespace starling {
namespace {

constexpr std::int64_t table_file_version = 1;
constexpr std::size_t memory_step = 1 << 16;

using hdf5::check;
using hdf5::Handle;

Handle text_type(std::size_t length) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  check(H5Tset_size(type, std::max<std::size_t>(1, length)));
  check(H5Tset_cset(type, H5T_CSET_UTF8));
  check(H5Tset_strpad(type, H5T_STR_NULLPAD));
  return type;
}

void write_attribute(hid_t object, const char* name, hid_t file_type, hid_t memory_type,
                     const void* value) {
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle attribute(H5Acreate2(object, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose);
  check(H5Awrite(attribute, memory_type, value));
}

void write_cells(hid_t group, const std::string& name, std::size_t rows, hid_t file_type,
                 hid_t memory_type, const void* cells) {
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  check(H5Pset_obj_track_times(properties, false));
  const hsize_t shape = rows;
  const Handle space(H5Screate_simple(1, &shape, nullptr), H5Sclose);
  const Handle set(
      H5Dcreate2(group, name.c_str(), file_type, space, H5P_DEFAULT, properties, H5P_DEFAULT),
      H5Dclose);
  if (rows > 0) check(H5Dwrite(set, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, cells));
}

void write_column(hid_t group, const TableColumn& column) {
  if (const auto* numbers = std::get_if<std::vector<double>>(&column.cells)) {
    write_cells(group, column.name, numbers->size(), H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE,
                numbers->data());
    return;
  }
  const auto& texts = std::get<std::vector<std::string>>(column.cells);
  std::size_t length = 1;
  for (const std::string& text : texts) length = std::max(length, text.size());
  std::string cells(length * texts.size(), '\0');
  for (std::size_t i = 0; i < texts.size(); ++i) texts[i].copy(&cells[i * length], length);
  const Handle type = text_type(length);
  write_cells(group, column.name, texts.size(), type, type, cells.data());
}

Handle empty_file() {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  check(H5Pset_fapl_core(access, memory_step, false));
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  return Handle(H5Fcreate("tables", H5F_ACC_TRUNC, creation, access), H5Fclose);
}

void write_table(hid_t file, const NamedTable& table) {
  const Handle properties(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
  check(H5Pset_obj_track_times(properties, false));
  check(H5Pset_link_creation_order(properties, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED));
  const Handle group(H5Gcreate2(file, table.name.c_str(), H5P_DEFAULT, properties, H5P_DEFAULT),
                     H5Gclose);
  for (const TableColumn& column : table.columns) {
    ensure(column.rows() == table.columns.front().rows(), "columns of a table are equally long");
    write_column(group, column);
  }
}

}  // namespace

std::size_t TableColumn::rows() const {
  return std::visit([](const auto& all) { return all.size(); }, cells);
}

std::string table_file(const std::string& format, const std::vector<NamedTable>& tables) {
  try {
    const Handle file = empty_file();
    const Handle type = text_type(format.size());
    write_attribute(file, "format", type, type, format.data());
    write_attribute(file, "format_version", H5T_STD_I64LE, H5T_NATIVE_INT64, &table_file_version);
    for (const NamedTable& table : tables) write_table(file, table);
    check(H5Fflush(file, H5F_SCOPE_LOCAL));
    std::string bytes(static_cast<std::size_t>(check(H5Fget_file_image(file, nullptr, 0))), '\0');
    check(H5Fget_file_image(file, bytes.data(), bytes.size()));
    return bytes;
  } catch (const hdf5::Failure& failure) {
    throw Error(fmt::format("cannot make a table: {}", failure.what()));
  }
}

}  // namespace starling
