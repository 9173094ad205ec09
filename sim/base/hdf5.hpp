// What every user of the HDF5 library (hdf5.h) needs: its objects closed, its errors as exceptions, its printing off.
// Declared without hdf5.h, which only the files that read or write such files include.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace starling::hdf5 {

using Id = std::int64_t;  // the library's hid_t; negative if there is no object

/// What the library or the content of a file says is wrong. Whoever knows the path adds it, in an Error.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] void throw_library_failure();

/// Passes the result of a library call on; throws Failure with the library's words if it is negative.
template <class Result>
Result check(Result result) {
  if (result < 0) throw_library_failure();
  return result;
}

/// An open object and the call that closes it.
class Handle {
 public:
  /// Throws Failure if the call that gave `id` failed.
  Handle(Id id, int (*close)(Id)) : id_(check(id)), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  operator Id() const { return id_; }

 private:
  Id id_;
  int (*close_)(Id);
};

/// The file at `path` without a lock on it, which some network file systems refuse. Throws Failure.
Handle open_to_read(const std::string& path);

/// Keeps the library from printing while it lives. Nor may the library close itself at the end of the program, where it
/// has nothing of ours left to write and complains about files that it found damaged.
class Silence {
 public:
  Silence();
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
  ~Silence();

 private:
  int (*print_)(Id, void*) = nullptr;
  void* data_ = nullptr;
};

/// True if `stored` bytes, compressed at best, can hold values of `bytes_per_value` in this shape. A shape is believed
/// only then: one that was declared but never written, or damaged, would otherwise ask for any amount of memory.
bool can_hold(std::uint64_t stored, std::span<const unsigned long long> shape,
              std::uint64_t bytes_per_value);

}  // namespace starling::hdf5
