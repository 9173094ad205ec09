#include "sim/record/hdf5_file.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <type_traits>

#include <fmt/core.h>
#include <hdf5.h>

#include "sim/base/error.hpp"
#include "sim/record/recorder.hpp"

namespace starling::hdf5 {
namespace {

constexpr std::size_t memory_step = std::size_t{1} << 20;
constexpr std::size_t least_compressed_bytes = 32 << 10;
constexpr hsize_t chunk_cells = 64 << 10;

/// How values of a type lie in memory and in the file.
struct Type {
  hid_t memory;
  hid_t file;
};

template <class T>
Type type_of();
template <>
Type type_of<double>() {
  return {H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE};
}
template <>
Type type_of<float>() {
  return {H5T_NATIVE_FLOAT, H5T_IEEE_F32LE};
}
template <>
Type type_of<std::int64_t>() {
  return {H5T_NATIVE_INT64, H5T_STD_I64LE};
}
template <>
Type type_of<std::int32_t>() {
  return {H5T_NATIVE_INT32, H5T_STD_I32LE};
}
template <>
Type type_of<std::uint64_t>() {
  return {H5T_NATIVE_UINT64, H5T_STD_U64LE};
}
template <>
Type type_of<std::uint8_t>() {
  return {H5T_NATIVE_UINT8, H5T_STD_U8LE};
}

Handle text_type(std::size_t length, H5T_str_t padding) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  check(H5Tset_size(type, length));
  check(H5Tset_cset(type, H5T_CSET_UTF8));
  check(H5Tset_strpad(type, padding));
  return type;
}

/// For one text: it ends in NUL, so that its length is exact.
Handle type_for(const std::string& text) { return text_type(text.size() + 1, H5T_STR_NULLTERM); }

Handle space_of(const Shape& shape) {
  return {H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose};
}

Handle core_access() {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  check(H5Pset_fapl_core(access, memory_step, /*backing_store=*/false));
  check(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG));
  // From 1.8 on: checked metadata, and attributes of any length.
  check(H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST));
  return access;
}

Handle empty_file(hid_t access) {
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  check(H5Pset_obj_track_times(creation, false));
  return {H5Fcreate("in memory", H5F_ACC_TRUNC, creation, access), H5Fclose};
}

/// Calls pass(i, memory) for each row of a matrix, with `space` at that row.
template <class Pass>
void each_row(hid_t space, const Shape& shape, const Pass& pass) {
  const Shape count{1, shape[1]};
  const Handle memory = space_of(count);
  for (std::size_t i = 0; i < shape[0] && shape[1] > 0; ++i) {
    const Shape offset{i, 0};
    check(
        H5Sselect_hyperslab(space, H5S_SELECT_SET, offset.data(), nullptr, count.data(), nullptr));
    pass(i, static_cast<hid_t>(memory));
  }
}

template <class Get>
std::vector<std::string> names(hsize_t count, const Get& get) {
  std::vector<std::string> found;
  for (hsize_t i = 0; i < count; ++i) {
    const auto length = static_cast<std::size_t>(check(get(i, nullptr, 0)));
    std::string name(length + 1, '\0');
    check(get(i, name.data(), name.size()));
    name.resize(length);
    found.push_back(std::move(name));
  }
  return found;
}

void expect_numbers(const std::string& place, hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  if (kind != H5T_INTEGER && kind != H5T_FLOAT && kind != H5T_ENUM) {
    throw Failure(place + " does not hold numbers");
  }
}

bool is_fixed_text(hid_t type) {
  return H5Tget_class(type) == H5T_STRING && check(H5Tis_variable_str(type)) == 0;
}

}  // namespace

// --- Writing -------------------------------------------------------------------------------------

Writer::Writer() : access_(core_access()), file_(empty_file(access_)) {}

void Writer::group(const std::string& path, Order order) {
  const Handle properties(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
  check(H5Pset_obj_track_times(properties, false));
  if (order == Order::as_made) {
    check(H5Pset_link_creation_order(properties, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED));
  }
  Handle(H5Gcreate2(file_, path.c_str(), H5P_DEFAULT, properties, H5P_DEFAULT), H5Gclose);
}

void Writer::attribute(const std::string& object, const std::string& name,
                       const std::string& text) {
  const Handle type = type_for(text);
  write_attribute(object, name, type, type, text.c_str());
}

template <class T>
void Writer::attribute(const std::string& object, const std::string& name, T value) {
  write_attribute(object, name, type_of<T>().file, type_of<T>().memory, &value);
}
template void Writer::attribute(const std::string&, const std::string&, std::int64_t);
template void Writer::attribute(const std::string&, const std::string&, double);

void Writer::text(const std::string& path, const std::string& text) {
  const Handle type = type_for(text);
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle set = data_set(path, type, space, {}, 0);
  check(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.c_str()));
}

template <class T>
void Writer::numbers(const std::string& path, const std::vector<T>& values, const Shape& shape) {
  cells(path, shape, type_of<T>().file, type_of<T>().memory, values.data(),
        values.size() * sizeof(T));
  const std::string_view unit = unit_of(std::string_view(path).substr(path.rfind('/') + 1));
  if (!unit.empty()) attribute(path, "unit", std::string(unit));
}
template void Writer::numbers(const std::string&, const std::vector<double>&, const Shape&);
template void Writer::numbers(const std::string&, const std::vector<std::int64_t>&, const Shape&);
template void Writer::numbers(const std::string&, const std::vector<std::int32_t>&, const Shape&);
template void Writer::numbers(const std::string&, const std::vector<std::uint64_t>&, const Shape&);
template void Writer::numbers(const std::string&, const std::vector<std::uint8_t>&, const Shape&);

void Writer::choices(const std::string& path, const std::vector<std::uint8_t>& values,
                     std::span<const std::string_view> names) {
  const Handle type(H5Tenum_create(H5T_STD_U8LE), H5Tclose);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto value = static_cast<std::uint8_t>(i);
    check(H5Tenum_insert(type, std::string(names[i]).c_str(), &value));
  }
  cells(path, {values.size()}, type, type, values.data(), values.size());
}

void Writer::texts(const std::string& path, const std::vector<std::string>& texts) {
  std::size_t length = 1;
  for (const std::string& text : texts) length = std::max(length, text.size());
  std::string all(length * texts.size(), '\0');
  for (std::size_t i = 0; i < texts.size(); ++i) texts[i].copy(&all[i * length], length);
  const Handle type = text_type(length, H5T_STR_NULLPAD);
  cells(path, {texts.size()}, type, type, all.data(), all.size());
}

void Writer::rows(const std::string& path, const std::vector<std::vector<float>>& rows) {
  std::size_t columns = 0;
  for (const auto& row : rows) columns = std::max(columns, row.size());
  const std::vector<float> unknown(columns, std::nanf(""));
  const Shape shape{rows.size(), columns};
  const Handle space = space_of(shape);
  const Handle set = data_set(path, type_of<float>().file, space, {}, 0);
  each_row(space, shape, [&](std::size_t i, hid_t memory) {
    ensure(rows[i].empty() || rows[i].size() == columns, "rows of a matrix are equally long");
    const float* values = rows[i].empty() ? unknown.data() : rows[i].data();
    check(H5Dwrite(set, type_of<float>().memory, memory, space, H5P_DEFAULT, values));
  });
}

std::span<const std::byte> Writer::bytes() {
  check(H5Fflush(file_, H5F_SCOPE_GLOBAL));
  const auto size = static_cast<std::size_t>(check(H5Fget_file_image(file_, nullptr, 0)));
  void* image = nullptr;  // of the core driver: where its pointer to the file in memory is
  check(H5Fget_vfd_handle(file_, access_, &image));
  return {*static_cast<const std::byte* const*>(image), size};
}

void Writer::write_attribute(const std::string& object, const std::string& name, Id file_type,
                             Id memory_type, const void* value) {
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle attribute(H5Acreate_by_name(file_, object.c_str(), name.c_str(), file_type, space,
                                           H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose);
  check(H5Awrite(attribute, memory_type, value));
}

Handle Writer::data_set(const std::string& path, Id type, Id space, const Shape& shape,
                        std::size_t bytes) {
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  check(H5Pset_obj_track_times(properties, false));
  if (bytes >= least_compressed_bytes) {
    Shape chunk = shape;
    const hsize_t width = shape.size() == 2 ? shape[1] : 1;
    if (shape.size() == 2) chunk[1] = std::min(width, chunk_cells);
    chunk[0] = std::min<hsize_t>(shape[0], std::max<hsize_t>(1, chunk_cells / width));
    check(H5Pset_chunk(properties, static_cast<int>(chunk.size()), chunk.data()));
    check(H5Pset_shuffle(properties));
    check(H5Pset_deflate(properties, 2));
  }
  return {H5Dcreate2(file_, path.c_str(), type, space, H5P_DEFAULT, properties, H5P_DEFAULT),
          H5Dclose};
}

void Writer::cells(const std::string& path, const Shape& shape, Id file_type, Id memory_type,
                   const void* values, std::size_t bytes) {
  const Handle space = space_of(shape);
  const Handle set = data_set(path, file_type, space, shape, bytes);
  if (bytes > 0) check(H5Dwrite(set, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
}

// --- Reading -------------------------------------------------------------------------------------

Reader::Reader(const std::string& path, std::uint64_t bytes)
    : file_bytes_(bytes), file_(open_to_read(path)) {}

bool Reader::has(const std::string& path) const {
  return check(H5Lexists(file_, path.c_str(), H5P_DEFAULT)) > 0;
}

bool Reader::has_attribute(const std::string& object, const std::string& name) const {
  return check(H5Aexists_by_name(file_, object.c_str(), name.c_str(), H5P_DEFAULT)) > 0;
}

std::vector<std::string> Reader::attribute_names(const std::string& object) const {
  const Handle owner(H5Oopen(file_, object.c_str(), H5P_DEFAULT), H5Oclose);
  const int count = check(H5Aget_num_attrs(owner));
  return names(static_cast<hsize_t>(count), [&](hsize_t i, char* buffer, std::size_t size) {
    return H5Aget_name_by_idx(owner, ".", H5_INDEX_NAME, H5_ITER_INC, i, buffer, size, H5P_DEFAULT);
  });
}

std::vector<std::string> Reader::member_names(const std::string& path) const {
  const Handle group(H5Gopen2(file_, path.c_str(), H5P_DEFAULT), H5Gclose);
  H5G_info_t info;
  check(H5Gget_info(group, &info));
  return names(info.nlinks, [&](hsize_t i, char* buffer, std::size_t size) {
    return H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, buffer, size, H5P_DEFAULT);
  });
}

template <class T>
T Reader::attribute(const std::string& object, const std::string& name) const {
  const Handle attribute(
      H5Aopen_by_name(file_, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  const Handle type(H5Aget_type(attribute), H5Tclose);
  const Handle space(H5Aget_space(attribute), H5Sclose);
  const std::string place = fmt::format("attribute {} of {}", name, object);
  if constexpr (std::is_same_v<T, std::string>) {
    return text_of(place, type, space, [&](void* to) { return H5Aread(attribute, type, to); });
  } else {
    expect_numbers(place, type);
    if (check(H5Sget_simple_extent_npoints(space)) != 1)
      throw Failure(place + " is not one number");
    T value{};
    check(H5Aread(attribute, type_of<T>().memory, &value));
    return value;
  }
}
template std::int64_t Reader::attribute(const std::string&, const std::string&) const;
template double Reader::attribute(const std::string&, const std::string&) const;
template std::string Reader::attribute(const std::string&, const std::string&) const;

std::string Reader::text(const std::string& path) const {
  const Handle set(H5Dopen2(file_, path.c_str(), H5P_DEFAULT), H5Dclose);
  const Handle type(H5Dget_type(set), H5Tclose);
  const Handle space(H5Dget_space(set), H5Sclose);
  return text_of(path, type, space,
                 [&](void* to) { return H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, to); });
}

template <class T>
std::pair<std::vector<T>, Shape> Reader::numbers(const std::string& path, int dimensions) const {
  const Handle set(H5Dopen2(file_, path.c_str(), H5P_DEFAULT), H5Dclose);
  const Shape shape = shape_of(set, path, dimensions, sizeof(T));
  std::vector<T> values(
      std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>()));
  if (!values.empty())
    check(H5Dread(set, type_of<T>().memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  return {std::move(values), shape};
}
template std::pair<std::vector<double>, Shape> Reader::numbers(const std::string&, int) const;
template std::pair<std::vector<std::int64_t>, Shape> Reader::numbers(const std::string&, int) const;
template std::pair<std::vector<std::int32_t>, Shape> Reader::numbers(const std::string&, int) const;
template std::pair<std::vector<std::uint64_t>, Shape> Reader::numbers(const std::string&,
                                                                      int) const;
template std::pair<std::vector<std::uint8_t>, Shape> Reader::numbers(const std::string&, int) const;

std::vector<std::string> Reader::texts(const std::string& path) const {
  const Handle set(H5Dopen2(file_, path.c_str(), H5P_DEFAULT), H5Dclose);
  const Handle type(H5Dget_type(set), H5Tclose);
  const Handle space(H5Dget_space(set), H5Sclose);
  if (!is_fixed_text(type) || check(H5Sget_simple_extent_ndims(space)) != 1) {
    throw Failure(path + " is not a column of texts of fixed length");
  }
  const std::size_t length = H5Tget_size(type);
  const auto count = static_cast<std::size_t>(check(H5Sget_simple_extent_npoints(space)));
  const std::uint64_t stored = std::min<std::uint64_t>(file_bytes_, H5Dget_storage_size(set));
  if (!can_hold(stored, Shape{count}, length)) {
    throw Failure(fmt::format("{}: fewer bytes than its shape needs", path));
  }
  std::string cells(length * count, '\0');
  if (count > 0) check(H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, cells.data()));
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) {
    std::string text = cells.substr(i * length, length);
    texts.push_back(text.substr(0, text.find('\0')));
  }
  return texts;
}

std::vector<std::vector<float>> Reader::rows(const std::string& path) const {
  const Handle set(H5Dopen2(file_, path.c_str(), H5P_DEFAULT), H5Dclose);
  const Shape shape = shape_of(set, path, 2, sizeof(float));
  const Handle space(H5Dget_space(set), H5Sclose);
  std::vector<std::vector<float>> rows(shape[0], std::vector<float>(shape[1]));
  each_row(space, shape, [&](std::size_t i, hid_t memory) {
    check(H5Dread(set, type_of<float>().memory, memory, space, H5P_DEFAULT, rows[i].data()));
  });
  return rows;
}

Shape Reader::shape_of(Id set, const std::string& path, int dimensions,
                       std::size_t bytes_per_value) const {
  const Handle type(H5Dget_type(set), H5Tclose);
  expect_numbers(path, type);
  const Handle space(H5Dget_space(set), H5Sclose);
  const int found = check(H5Sget_simple_extent_ndims(space));
  if (found != dimensions) {
    throw Failure(fmt::format("{}: expected {} dimension(s), found {}", path, dimensions, found));
  }
  Shape shape(static_cast<std::size_t>(dimensions));
  check(H5Sget_simple_extent_dims(space, shape.data(), nullptr));
  const bool is_empty = std::ranges::count(shape, hsize_t{0}) > 0;
  const std::uint64_t bytes =
      is_empty ? file_bytes_ : std::min<std::uint64_t>(file_bytes_, H5Dget_storage_size(set));
  if (!can_hold(bytes, shape, bytes_per_value)) {
    throw Failure(fmt::format("{}: fewer bytes than its shape needs", path));
  }
  return shape;
}

void Reader::expect_length(const std::string& path, std::size_t expected, std::size_t found) {
  if (found != expected)
    throw Failure(fmt::format("{}: expected {} values, found {}", path, expected, found));
}

template <class Read>
std::string Reader::text_of(const std::string& place, Id type, Id space, const Read& read) const {
  if (!is_fixed_text(type) || check(H5Sget_simple_extent_npoints(space)) != 1) {
    throw Failure(place + " is not one text of fixed length");
  }
  const std::size_t size = H5Tget_size(type);
  if (size > file_bytes_) throw Failure(place + " is longer than the file");
  std::string text(size, '\0');
  check(read(text.data()));
  if (H5Tget_strpad(type) == H5T_STR_NULLTERM) text.pop_back();
  return text;
}

}  // namespace starling::hdf5
