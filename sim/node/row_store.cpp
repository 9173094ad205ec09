#include "sim/node/row_store.hpp"

#include <algorithm>
#include <utility>

#include <omp.h>

#include "sim/base/make_room.hpp"

namespace starling {
namespace {

constexpr std::size_t row_granularity = 16;  // floats: rows begin on cache lines

std::int64_t bytes_of(std::size_t floats) {
  return static_cast<std::int64_t>(floats * sizeof(float));
}

/// Floats of the next slab for rows of `row` floats, where there are slabs of `before` floats: as much again, but of some
/// rows, so that little is left over, and in whole huge pages if it is larger than one. Large rows are alone.
std::size_t slab_floats(std::size_t row, std::size_t before) {
  constexpr std::size_t rows = 8;
  constexpr std::size_t huge_page = std::size_t{1} << 19;  // 2 MiB
  constexpr std::size_t most = 64 * huge_page;
  const std::size_t wanted = rows * row > most ? row : std::clamp(before, rows * row, most);
  return wanted < huge_page ? wanted : (wanted + huge_page - 1) / huge_page * huge_page;
}

}  // namespace

std::size_t RowStore::row_floats(std::size_t size) {
  return std::max<std::size_t>(1, (size + row_granularity - 1) / row_granularity) * row_granularity;
}

RowStore::~RowStore() {
  for (const auto& [row, shelf] : shelves_) {
    for (const Slab& slab : shelf.slabs) backend_.release(slab.floats, slab.size);
  }
}

void RowStore::expect(ValueId value, std::uint32_t size, std::uint32_t readers, bool dies) {
  Row& row = rows_[value];
  row.size = size;
  row.readers = readers;
  row.dies = dies;
  row.is_made = row.floats != nullptr;
}

float* RowStore::allocate(ValueId value, std::size_t size) {
  fit(value + 1);
  Row& row = rows_[value];
  if (row.floats == nullptr) row.floats = take(size);
  row.size = static_cast<std::uint32_t>(size);
  row.is_made = true;
  return row.floats;
}

float* RowStore::make(ValueId value) {
  Row& row = rows_[value];
  return row.floats = take(row.size);
}

float* RowStore::take_over(ValueId value, ValueId from, std::uint32_t uses) {
  Row& row = rows_[from];
  // Nobody becomes a reader meanwhile: if only the caller is left, the row is the caller's.
  if (!row.dies || row.floats == nullptr || row.size != rows_[value].size || left(row) != uses)
    return nullptr;
  return rows_[value].floats = std::exchange(row.floats, nullptr);
}

void RowStore::drop(ValueId value, std::uint32_t uses) {
  Row& row = rows_[value];
  if (!row.dies) return;
  if (left(row) != uses) {  // else nobody else is left, and no lock is needed
    const std::atomic_ref readers(row.readers);
    if (readers.fetch_sub(uses, std::memory_order_acq_rel) != uses) return;
  } else {
    row.readers = 0;
  }
  if (row.floats != nullptr) give_back(row);
}

void RowStore::release_unread(ValueId value) {
  Row& row = rows_[value];
  if (row.dies && row.floats != nullptr && left(row) == 0) give_back(row);
}

float* RowStore::take_from_shelf(std::size_t count) {
  Shelf& shelf = shelves_[count];
  if (shelf.free.empty()) {
    const std::size_t size = slab_floats(count, shelf.size);
    make_room(shelf.slabs, shelf.slabs.size() + 1);
    make_room(shelf.free, (shelf.size + size) / count);  // all rows, when they come back
    float* const slab = backend_.allocate(size);
    shelf.slabs.push_back({slab, size});
    shelf.size += size;
    for (std::size_t i = size / count; i > 0; --i) shelf.free.push_back(slab + (i - 1) * count);
  }
  float* row = shelf.free.back();
  shelf.free.pop_back();
  return row;
}

std::unique_lock<std::mutex> RowStore::lock_shelves() {
  if (lane_floats_ == 0) return {};
  return std::unique_lock(shelf_mutex_);
}

float* RowStore::take(std::size_t size) {
  const std::size_t count = row_floats(size);
  if (count != lane_floats_) {
    const auto lock = lock_shelves();
    float* row = take_from_shelf(count);
    count_bytes(bytes_of(count));
    return row;
  }
  Lane& lane = own_lane();
  float* row;
  if (lane.free.empty()) {
    const auto lock = lock_shelves();
    row = take_from_shelf(count);
  } else {
    row = lane.free.back();
    lane.free.pop_back();
  }
  ++lane.taken;
  return row;
}

void RowStore::give_back(Row& row) {
  const std::size_t count = row_floats(row.size);
  float* floats = std::exchange(row.floats, nullptr);
  if (count == lane_floats_) {
    Lane& lane = own_lane();
    lane.free.push_back(floats);
    --lane.taken;
    return;
  }
  const auto lock = lock_shelves();
  shelves_[count].free.push_back(floats);
  count_bytes(-bytes_of(count));
}

void RowStore::count_bytes(std::int64_t bytes) {
  live_bytes_ += bytes;
  if (lane_floats_ == 0) peak_bytes_ = std::max(peak_bytes_, live_bytes_);
}

RowStore::Lane& RowStore::own_lane() {
  return lanes_[static_cast<std::size_t>(omp_get_thread_num())];
}

RowStore::Lanes::Lanes(RowStore& store, std::size_t size) : store_(store) {
  store_.lanes_.resize(static_cast<std::size_t>(omp_get_max_threads()));
  store_.shelves_.try_emplace(row_floats(size));  // where the rows go in the end
  store_.lane_floats_ = row_floats(size);
}

RowStore::Lanes::~Lanes() {
  const std::size_t count = std::exchange(store_.lane_floats_, 0);
  std::vector<float*>& shelf = store_.shelves_[count].free;
  std::int64_t taken = 0;
  for (Lane& lane : store_.lanes_) {
    shelf.insert(shelf.end(), lane.free.begin(), lane.free.end());
    lane.free.clear();
    taken += std::exchange(lane.taken, 0);
  }
  store_.count_bytes(taken * bytes_of(count));
}

}  // namespace starling
