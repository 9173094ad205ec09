// Copies of a results file with something in them that does not belong there. The library makes them: a byte that is changed
// alone would not fit its checksums.
#pragma once

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <hdf5.h>

#include "sim/base/hdf5.hpp"

namespace starling::test {

using Change = std::function<void(hid_t file)>;

/// `path`.1, `path`.2 ..: a copy of `path` with the change.
inline std::string changed_copy(const std::string& path, const Change& change) {
  std::string copy;
  for (int n = 1; copy.empty() || std::filesystem::exists(copy); ++n)
    copy = path + "." + std::to_string(n);
  std::filesystem::copy_file(path, copy);
  const hdf5::Handle file(H5Fopen(copy.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
  change(file);
  return copy;
}

inline hdf5::Handle space_of(const std::vector<hsize_t>& shape) {
  if (shape.empty()) return {H5Screate(H5S_SCALAR), H5Sclose};
  return {H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose};
}

inline Change remove_attribute(std::string object, std::string name) {
  return [=](hid_t file) {
    hdf5::check(H5Adelete_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT));
  };
}

/// An attribute in place of the one that may be there; no shape: of one value.
inline Change set_attribute(std::string object, std::string name, hid_t type,
                            std::vector<hsize_t> shape, std::vector<std::int64_t> values) {
  return [=](hid_t file) {
    if (hdf5::check(H5Aexists_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT)) > 0)
      remove_attribute(object, name)(file);
    const hdf5::Handle attribute(
        H5Acreate_by_name(file, object.c_str(), name.c_str(), type, space_of(shape), H5P_DEFAULT,
                          H5P_DEFAULT, H5P_DEFAULT),
        H5Aclose);
    hdf5::check(H5Awrite(attribute, type, values.data()));
  };
}

inline Change set_attribute(std::string object, std::string name, std::int64_t value) {
  return set_attribute(std::move(object), std::move(name), H5T_NATIVE_INT64, {}, {value});
}

/// One value of a column of numbers, or of their names.
inline Change set_cell(std::string path, std::size_t index, std::int64_t value) {
  return [=](hid_t file) {
    const hdf5::Handle set(H5Dopen2(file, path.c_str(), H5P_DEFAULT), H5Dclose);
    const hdf5::Handle type(H5Dget_type(set), H5Tclose);
    const hdf5::Handle number(H5Tget_class(type) == H5T_ENUM ? H5Tget_super(type) : H5Tcopy(type),
                              H5Tclose);
    const std::size_t size = hdf5::check(H5Tget_size(type));
    const hdf5::Handle space(H5Dget_space(set), H5Sclose);
    std::vector<char> cells(
        size * static_cast<std::size_t>(hdf5::check(H5Sget_simple_extent_npoints(space))));
    hdf5::check(H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, cells.data()));
    std::int64_t bytes = value;
    hdf5::check(H5Tconvert(H5T_NATIVE_INT64, number, 1, &bytes, nullptr, H5P_DEFAULT));
    std::memcpy(&cells.at(index * size), &bytes, size);
    hdf5::check(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, cells.data()));
  };
}

/// Another data set in place of one; no values: declared, and never written.
inline Change replace_set(std::string path, hid_t type, std::vector<hsize_t> shape,
                          std::vector<std::int64_t> values) {
  return [=](hid_t file) {
    hdf5::check(H5Ldelete(file, path.c_str(), H5P_DEFAULT));
    const hdf5::Handle set(H5Dcreate2(file, path.c_str(), type, space_of(shape), H5P_DEFAULT,
                                      H5P_DEFAULT, H5P_DEFAULT),
                           H5Dclose);
    if (!values.empty())
      hdf5::check(H5Dwrite(set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  };
}

}  // namespace starling::test
