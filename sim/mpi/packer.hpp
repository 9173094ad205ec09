// Packer and Unpacker: plain values as bytes, between ranks. All ranks run on machines of one kind.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "sim/base/error.hpp"

namespace starling {

/// Plain values one after the other; read back in the order they were put.
class Packer {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  /// Without their number.
  template <class T>
  void put_all(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  void put_text(std::string_view text) {
    put(text.size());
    bytes_.append(text);
  }
  const std::string& bytes() const& { return bytes_; }
  std::string bytes() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    return value;
  }
  template <class T>
  void take_all(std::span<T> values) {
    if (values.empty()) return;
    std::memcpy(values.data(), take_bytes(values.size_bytes()).data(), values.size_bytes());
  }
  std::string_view take_text() { return take_bytes(take<std::size_t>()); }
  bool is_empty() const { return bytes_.empty(); }

 private:
  std::string_view take_bytes(std::size_t size) {
    ensure(size <= bytes_.size(), "a rank told less than was read");
    const std::string_view piece = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return piece;
  }

  std::string_view bytes_;
};

}  // namespace starling
