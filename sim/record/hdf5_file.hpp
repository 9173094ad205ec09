// An HDF5 file as groups, attributes, columns and matrices, without hdf5.h: what the formats of this folder are made of.
// The library must be kept quiet (hdf5::Silence) while a Writer or Reader lives; both throw hdf5::Failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/hdf5.hpp"

namespace starling::hdf5 {

using Shape = std::vector<unsigned long long>;

/// A file in the making, in memory, so that a full disk never meets the library, which cannot close a file that it failed
/// to write. Numbers are double, float, int64, int32, uint64 or uint8; sets of 32 KiB and more are compressed; no time is
/// noted, so equal content gives equal bytes.
class Writer {
 public:
  Writer();

  enum class Order { by_name, as_made };
  /// Readers list its members in this order.
  void group(const std::string& path, Order order = Order::by_name);
  void attribute(const std::string& object, const std::string& name, const std::string& text);
  template <class T>
  void attribute(const std::string& object, const std::string& name, T value);
  void text(const std::string& path, const std::string& text);
  /// With an attribute `unit` where a quantity of this name has one.
  template <class T>
  void numbers(const std::string& path, const std::vector<T>& values, const Shape& shape);
  template <class T>
  void column(const std::string& path, const std::vector<T>& values) {
    numbers(path, values, {values.size()});
  }
  /// A column of an enumeration whose values are named in order, from 0 on.
  void choices(const std::string& path, const std::vector<std::uint8_t>& values,
               std::span<const std::string_view> names);
  /// Texts of one length, the longest's; shorter ones are filled up with NUL.
  void texts(const std::string& path, const std::vector<std::string>& texts);
  /// A matrix, whose rows need not be put together in memory. They are equally long, or empty: then NaN.
  void rows(const std::string& path, const std::vector<std::vector<float>>& rows);

  /// The whole file, while the writer lives and nothing is added.
  std::span<const std::byte> bytes();

 private:
  void write_attribute(const std::string& object, const std::string& name, Id file_type,
                       Id memory_type, const void* value);
  Handle data_set(const std::string& path, Id type, Id space, const Shape& shape,
                  std::size_t bytes);
  void cells(const std::string& path, const Shape& shape, Id file_type, Id memory_type,
             const void* values, std::size_t bytes);

  Handle access_, file_;
};

/// A file that is there. Nothing in it is believed: a shape, for example, only if the file stores enough bytes for it, so
/// that damage cannot ask for any memory.
class Reader {
 public:
  /// `bytes`: the size of the file.
  Reader(const std::string& path, std::uint64_t bytes);

  bool has(const std::string& path) const;
  bool has_attribute(const std::string& object, const std::string& name) const;
  std::vector<std::string> attribute_names(const std::string& object) const;
  std::vector<std::string> member_names(const std::string& path) const;
  /// A number, or a std::string.
  template <class T>
  T attribute(const std::string& object, const std::string& name) const;
  std::string text(const std::string& path) const;
  /// Values and shape of a data set, which must have `dimensions`.
  template <class T>
  std::pair<std::vector<T>, Shape> numbers(const std::string& path, int dimensions) const;
  template <class T>
  std::vector<T> column(const std::string& path) const {
    return numbers<T>(path, 1).first;
  }
  /// A column of known length.
  template <class T>
  std::vector<T> column(const std::string& path, std::size_t length) const {
    std::vector<T> values = column<T>(path);
    expect_length(path, length, values.size());
    return values;
  }
  /// Texts of one length each, in one column.
  std::vector<std::string> texts(const std::string& path) const;
  std::vector<std::vector<float>> rows(const std::string& path) const;

 private:
  Shape shape_of(Id set, const std::string& path, int dimensions,
                 std::size_t bytes_per_value) const;
  static void expect_length(const std::string& path, std::size_t expected, std::size_t found);
  template <class Read>
  std::string text_of(const std::string& place, Id type, Id space, const Read& read) const;

  std::uint64_t file_bytes_;
  Handle file_;
};

}  // namespace starling::hdf5
