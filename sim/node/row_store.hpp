// RowStore: the numbers of a graph's values, one row of floats each, from slabs of the backend. A row is free again
// when the last operation that reads it has run; free rows are handed out last come, first served, so that a new
// result takes a place that is still in the cache.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "sim/base/prefetch.hpp"
#include "sim/node/backend.hpp"

namespace starling {

class RowStore {
 public:
  using ValueId = std::uint32_t;

  /// Floats of the row of a value: whole cache lines.
  static std::size_t row_floats(std::size_t size);

  explicit RowStore(Backend& backend) : backend_(backend) {}
  ~RowStore();
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  /// Room for values below `count`.
  void fit(std::size_t count) {
    if (rows_.size() < count) rows_.resize(count);
  }
  /// What comes of a value: `readers` will be done with it, and with the last of them the row is free if it `dies`.
  void expect(ValueId value, std::uint32_t size, std::uint32_t readers, bool dies);

  float* at(ValueId value) const { return rows_[value].floats; }
  /// Gives a value a row of `size` floats, or the one it has.
  float* allocate(ValueId value, std::size_t size);
  void release(ValueId value) { give_back(rows_[value]); }

  // --- Also by all threads of an OpenMP team at once, while a Lanes lives --------------------------------------

  /// Gives an expected value its row.
  float* make(ValueId value);
  /// Gives `value` the row of `from`, unless somebody else reads that or its size is another; `uses` are those of the
  /// one reader that makes `value`. Null: it did not.
  float* take_over(ValueId value, ValueId from, std::uint32_t uses);
  /// The numbers of a value that got its row with make() or take_over() are there.
  void publish(ValueId value) {
    std::atomic_ref(rows_[value].is_made).store(true, std::memory_order_release);
  }
  /// Whether the numbers of a value are there.
  bool is_made(ValueId value) {
    return std::atomic_ref(rows_[value].is_made).load(std::memory_order_acquire);
  }
  /// One reader of a value is done, or `uses` of them.
  void drop(ValueId value, std::uint32_t uses = 1);
  /// Asks for what the others of these will look at.
  void fetch(ValueId value) const { prefetch(&rows_[value], sizeof(Row)); }
  /// All readers of a value are done, or it had none.
  void release_unread(ValueId value);

  /// Lets every thread keep rows of this size at hand: what it frees is what it takes next. For teams as large as
  /// omp_get_max_threads() says.
  class Lanes {
   public:
    Lanes(RowStore& store, std::size_t size);
    ~Lanes();
    Lanes(const Lanes&) = delete;
    Lanes& operator=(const Lanes&) = delete;

   private:
    RowStore& store_;
  };

  /// Most bytes of rows in use, as seen when no Lanes lives: that does not depend on threads.
  std::int64_t peak_bytes() const { return peak_bytes_; }

 private:
  struct Row {
    float* floats = nullptr;
    std::uint32_t size = 0;
    std::uint32_t readers = 0;  // that have not run yet
    bool dies = false;          // with the last of them
    bool is_made = false;       // its numbers are there
  };

  struct Slab {
    float* floats;
    std::size_t size;
  };
  /// Rows of one (rounded) size.
  struct Shelf {
    std::vector<float*> free;
    std::vector<Slab> slabs;
    std::size_t size = 0;  // floats of all slabs
  };

  struct alignas(64) Lane {
    std::vector<float*> free;
    std::int64_t taken = 0;  // rows, less those given back
  };

  static std::uint32_t left(Row& row) {
    return std::atomic_ref(row.readers).load(std::memory_order_acquire);
  }
  float* take(std::size_t size);
  float* take_from_shelf(std::size_t count);
  void give_back(Row& row);
  std::unique_lock<std::mutex> lock_shelves();
  void count_bytes(std::int64_t bytes);
  Lane& own_lane();

  Backend& backend_;
  std::vector<Row> rows_;  // by value
  std::map<std::size_t, Shelf> shelves_;
  std::int64_t live_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;

  std::size_t lane_floats_ = 0;  // of a row; 0: there are no lanes
  std::vector<Lane> lanes_;      // by thread
  std::mutex shelf_mutex_;       // while there are
};

}  // namespace starling
