// A checkpoint: what a simulation needs to go on where it was (DESIGN.md). Coroutines cannot be saved, but the timeline
// repeats itself, so it is replayed without computing up to the checkpoint's place; the numbers that it asks for on
// the way come from the journal, and at the place the values alive there are loaded.
//
// The file, version 1; all numbers little-endian. It begins with the 20 characters "starling checkpoint\n" and the
// version (uint32). Then the sections, in this order, each as
//
//   name (4 characters), 0 (uint32), bytes of content (uint64), content, filled up with 0 to 8 bytes,
//   CRC-32C of all these (uint32), 0 (uint32)
//
//   FACT   texts in pairs, name and value, each ended by 0: code_version, scenario, scenario_name, "file PATH" of each
//          file that the scenario names (CRC-32C of its content, in hexadecimal), ..
//   LEGS   (events, window in bytes) as int64 pairs: where the graph was flushed for a checkpoint, and how many bytes
//          its windows have from there on; the first begins at event 0, the last is the place of this checkpoint
//   COUN   int64, the compute graph's counters
//   JOUR   float64, every number that the timeline or the records took from the graph, in order
//   SCAL   (slot as uint64, float64): numbers that handles name
//   VECS   (value, size) as uint32 pairs: vectors that handles name, by value
//   DATA   float32, their numbers, one after the other
//   DONE   nothing
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace starling {

/// What a checkpoint holds. The spans belong to whoever made it.
struct Checkpoint {
  struct Leg {
    std::int64_t events;
    std::int64_t window_bytes;
    friend bool operator==(const Leg&, const Leg&) = default;
  };
  struct Number {
    std::uint64_t slot;
    double number;
  };
  struct Vector {
    std::uint32_t value;
    std::uint32_t size;
    friend bool operator==(const Vector&, const Vector&) = default;
  };

  std::map<std::string, std::string> facts;
  std::vector<Leg> legs;
  std::vector<std::int64_t> counters;
  std::span<const double> journal;
  std::vector<Number> numbers;
  std::vector<Vector> vectors;
};

/// Fetches the numbers of vectors[index] into `to`, which has that size.
using FetchVector = std::function<void(std::size_t index, std::span<float> to)>;

/// Writes `checkpoint` beside `path`, and when it is whole and on the disk calls `make_way`, then puts it in place
/// (PartialFile). Vectors are fetched one by one. Throws Error; the old file is untouched then.
void save(const Checkpoint& checkpoint, const FetchVector& fetch, const std::string& path,
          const std::function<void()>& make_way = {});

/// A checkpoint's file, checked from end to end. Its numbers stay on the disk and are read where they are used.
class CheckpointFile {
 public:
  /// Throws Error: there is no file, it is no checkpoint, of a newer format, or damaged (and where).
  explicit CheckpointFile(const std::string& path);
  CheckpointFile(const CheckpointFile&) = delete;
  CheckpointFile& operator=(const CheckpointFile&) = delete;
  ~CheckpointFile();

  const std::string& path() const { return path_; }
  const Checkpoint& content() const { return content_; }
  /// Numbers of vectors[index].
  std::span<const float> vector(std::size_t index) const;

 private:
  void map();
  void read();
  /// The content of the section `name`, which comes next.
  std::span<const std::byte> take(const char* name);
  [[noreturn]] void fail(const std::string& words) const;

  std::string path_;
  std::span<const std::byte> bytes_;  // the whole file
  std::size_t at_ = 0;
  Checkpoint content_;
  std::vector<std::size_t> begins_;  // of vectors, in data_
  std::span<const float> data_;
};

}  // namespace starling
