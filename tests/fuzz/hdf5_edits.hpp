// Changes to a well-formed HDF5 file, chosen by any bytes. The library itself makes them, so what is fuzzed are our
// expectations of a file (names, types, shapes, values), not the library's reading of damage: 1.10.8 crashes on some.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <hdf5.h>

#include "sim/base/hdf5.hpp"

namespace starling::test {

/// Reads choices off the fuzzer's bytes; all are 0 when these are used up.
class Choices {
 public:
  explicit Choices(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  bool is_empty() const { return bytes_.empty(); }
  std::size_t below(std::size_t bound) { return byte() % bound; }
  std::span<const std::uint8_t> take(std::size_t count) {
    const auto taken = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  /// Small more often than not.
  std::uint64_t number() {
    const std::uint8_t kind = byte();
    if (kind < 192) return kind % 16;
    std::uint64_t number = 0;
    const auto bytes = take(1 + kind % 8);
    std::memcpy(&number, bytes.data(), bytes.size());
    return number;
  }

 private:
  std::uint8_t byte() {
    const auto taken = take(1);
    return taken.empty() ? 0 : taken[0];
  }

  std::span<const std::uint8_t> bytes_;
};

/// Paths of all groups and data sets of an open file.
inline std::vector<std::string> object_paths(hid_t file) {
  std::vector<std::string> paths;
  hdf5::check(H5Lvisit_by_name(
      file, "/", H5_INDEX_NAME, H5_ITER_INC,
      [](hid_t, const char* name, const H5L_info_t*, void* all) -> herr_t {
        static_cast<std::vector<std::string>*>(all)->push_back(std::string("/") + name);
        return 0;
      },
      &paths, H5P_DEFAULT));
  return paths;
}

inline std::vector<std::string> attribute_names(hid_t object) {
  std::vector<std::string> names;
  hdf5::check(H5Aiterate2(
      object, H5_INDEX_NAME, H5_ITER_INC, nullptr,
      [](hid_t, const char* name, const H5A_info_t*, void* all) -> herr_t {
        static_cast<std::vector<std::string>*>(all)->push_back(name);
        return 0;
      },
      &names));
  return names;
}

inline hdf5::Handle any_type(Choices& choices) {
  const std::array<hid_t, 12> plain{H5T_STD_I64LE,  H5T_IEEE_F64LE,  H5T_STD_U8LE,   H5T_STD_I32LE,
                                    H5T_IEEE_F32LE, H5T_STD_U64LE,   H5T_STD_I64BE,  H5T_IEEE_F32BE,
                                    H5T_STD_B8LE,   H5T_STD_REF_OBJ, H5T_UNIX_D32LE, H5T_STD_I8LE};
  const std::size_t kind = choices.below(plain.size() + 4);
  if (kind < plain.size()) return {H5Tcopy(plain[kind]), H5Tclose};
  if (kind == plain.size()) {
    hdf5::Handle text(H5Tcopy(H5T_C_S1), H5Tclose);
    hdf5::check(H5Tset_size(text, 1 + choices.below(64)));
    hdf5::check(H5Tset_strpad(text, static_cast<H5T_str_t>(choices.below(3))));
    return text;
  }
  if (kind == plain.size() + 1) {
    hdf5::Handle text(H5Tcopy(H5T_C_S1), H5Tclose);
    hdf5::check(H5Tset_size(text, H5T_VARIABLE));
    return text;
  }
  if (kind == plain.size() + 2) return {H5Tcreate(H5T_OPAQUE, 1 + choices.below(32)), H5Tclose};
  hdf5::Handle compound(H5Tcreate(H5T_COMPOUND, 8), H5Tclose);
  hdf5::check(H5Tinsert(compound, "part", 0, H5T_STD_I64LE));
  return compound;
}

/// Nothing, one value, or up to three dimensions, of any extents if `is_virtual`: then nobody will write the values.
inline hdf5::Handle any_space(Choices& choices, bool is_virtual) {
  const std::size_t kind = choices.below(8);
  if (kind == 0) return {H5Screate(H5S_NULL), H5Sclose};
  if (kind == 1) return {H5Screate(H5S_SCALAR), H5Sclose};
  std::array<hsize_t, 3> shape{};
  const std::size_t dimensions = kind < 5 ? 1 : kind < 7 ? 2 : 3;
  for (std::size_t i = 0; i < dimensions; ++i) {
    shape[i] = is_virtual ? choices.number() : choices.below(24);
  }
  return {H5Screate_simple(static_cast<int>(dimensions), shape.data(), nullptr), H5Sclose};
}

/// Cells for `count` values: some of the bytes, repeated.
inline std::vector<std::uint8_t> any_cells(Choices& choices, std::size_t bytes) {
  const auto pattern = choices.take(1 + choices.below(32));
  std::vector<std::uint8_t> cells(bytes + 64);
  for (std::size_t i = 0; i < cells.size() && !pattern.empty(); ++i)
    cells[i] = pattern[i % pattern.size()];
  return cells;
}

/// Whether values of this type are bytes that may be anything; others are addresses.
inline bool can_be_any_bytes(hid_t type) {
  return H5Tis_variable_str(type) <= 0 && H5Tget_class(type) != H5T_REFERENCE;
}

inline void replace_data_set(hid_t file, const std::string& path, Choices& choices) {
  const std::size_t layout =
      choices.below(4);  // 0, 1: as it is, 2: chunks compressed, 3: declared, never written
  const hdf5::Handle type = any_type(choices);
  const hdf5::Handle space = any_space(choices, layout == 3);
  const hdf5::Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  std::array<hsize_t, 3> shape{};
  const int dimensions = hdf5::check(H5Sget_simple_extent_dims(space, shape.data(), nullptr));
  if (layout >= 2 && dimensions > 0) {
    for (hsize_t& extent : shape) extent = std::clamp<hsize_t>(extent, 1, 16);
    hdf5::check(H5Pset_chunk(properties, dimensions, shape.data()));
    if (layout == 2) hdf5::check(H5Pset_deflate(properties, 1));
  }
  hdf5::check(H5Ldelete(file, path.c_str(), H5P_DEFAULT));
  const hdf5::Handle set(
      H5Dcreate2(file, path.c_str(), type, space, H5P_DEFAULT, properties, H5P_DEFAULT), H5Dclose);
  if (layout == 3 || !can_be_any_bytes(type)) return;
  const auto values = static_cast<std::size_t>(hdf5::check(H5Sget_simple_extent_npoints(space)));
  const auto cells = any_cells(choices, values * H5Tget_size(type));
  if (values > 0) hdf5::check(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, cells.data()));
}

/// Other values in a data set as it is.
inline void overwrite_data_set(hid_t file, const std::string& path, Choices& choices) {
  const hdf5::Handle set(H5Dopen2(file, path.c_str(), H5P_DEFAULT), H5Dclose);
  const hdf5::Handle type(H5Dget_type(set), H5Tclose);
  const hdf5::Handle space(H5Dget_space(set), H5Sclose);
  if (!can_be_any_bytes(type)) return;
  const auto values = static_cast<std::size_t>(hdf5::check(H5Sget_simple_extent_npoints(space)));
  if (values == 0 || values > 100'000) return;
  std::vector<std::uint8_t> cells(values * H5Tget_size(type));
  hdf5::check(H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, cells.data()));
  const std::size_t at = choices.number() % cells.size();
  const auto bytes = choices.take(std::min<std::size_t>(1 + choices.below(32), cells.size() - at));
  std::ranges::copy(bytes, cells.begin() + static_cast<std::ptrdiff_t>(at));
  hdf5::check(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, cells.data()));
}

inline void change_attribute(hid_t file, const std::string& path, Choices& choices) {
  const hdf5::Handle object(H5Oopen(file, path.c_str(), H5P_DEFAULT), H5Oclose);
  std::vector<std::string> names = attribute_names(object);
  names.emplace_back("other");
  const std::string& name = names[choices.below(names.size())];
  if (name != "other") hdf5::check(H5Adelete(object, name.c_str()));
  if (choices.below(4) == 0) return;
  const hdf5::Handle type = any_type(choices);
  const hdf5::Handle space = any_space(choices, false);
  const hdf5::Handle attribute(
      H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (!can_be_any_bytes(type)) return;
  const auto values = static_cast<std::size_t>(hdf5::check(H5Sget_simple_extent_npoints(space)));
  const auto cells = any_cells(choices, values * H5Tget_size(type));
  if (values > 0) hdf5::check(H5Awrite(attribute, type, cells.data()));
}

/// One change of the file, to one of its objects; throws hdf5::Failure where the library refuses it.
inline void edit(hid_t file, Choices& choices) {
  std::vector<std::string> paths = object_paths(file);
  paths.emplace_back("/");
  const std::string path = paths[choices.number() % paths.size()];
  switch (choices.below(5)) {
    case 0:
      return replace_data_set(file, path, choices);
    case 1:
      return overwrite_data_set(file, path, choices);
    case 2:
      return change_attribute(file, path, choices);
    case 3:
      hdf5::check(H5Ldelete(file, path.c_str(), H5P_DEFAULT));
      return;
    default: {
      const std::string other = paths[choices.number() % paths.size()] + "/renamed";
      hdf5::check(H5Lmove(file, path.c_str(), file, other.c_str(), H5P_DEFAULT, H5P_DEFAULT));
    }
  }
}

/// Edits the file at `path` until the choices are used up, at most eight times.
inline void edit_hdf5(const std::string& path, Choices& choices) {
  const hdf5::Silence silence;
  const hdf5::Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
  for (int i = 0; i < 8 && !choices.is_empty(); ++i) {
    try {
      edit(file, choices);
    } catch (const hdf5::Failure&) {  // what the library refuses changes nothing
    }
  }
}

}  // namespace starling::test
