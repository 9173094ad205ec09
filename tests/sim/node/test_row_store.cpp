// Rows of floats: when they are free again, who gets them next, and that threads change nothing but places.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "kernels/cpu_backend.hpp"
#include "sim/node/row_store.hpp"

namespace starling::test_row_store {
namespace {

struct Rows {
  CpuBackend backend;
  RowStore store{backend};
  Rows() { store.fit(1000); }

  float* make(RowStore::ValueId value, std::uint32_t size, std::uint32_t readers,
              bool dies = true) {
    store.expect(value, size, readers, dies);
    return store.make(value);
  }
};

}  // namespace

TEST_CASE("a row is free with the last reader of a value that dies, and is the next to be taken") {
  Rows rows;
  float* const one = rows.make(1, 37, 2);
  float* const two = rows.make(2, 37, 1, false);
  CHECK(one != two);
  rows.store.drop(1);
  rows.store.drop(2);
  CHECK(rows.make(3, 37, 1) != one);
  rows.store.drop(1);
  CHECK(rows.store.at(1) == nullptr);
  CHECK(rows.make(4, 48, 1) == one);  // 37 and 48 floats take three cache lines each
  CHECK(rows.store.at(2) == two);
  CHECK(rows.store.peak_bytes() == 3 * 48 * 4);
}

TEST_CASE("the last reader of a value may take its row over, if it fits") {
  Rows rows;
  float* const row = rows.make(1, 20, 2);
  rows.make(2, 20, 1, false);
  rows.make(3, 21, 1);
  for (const RowStore::ValueId result : {5, 6}) rows.store.expect(result, 20, 1, true);
  CHECK(rows.store.take_over(5, 1, 1) == nullptr);  // another still reads it
  CHECK(rows.store.take_over(5, 2, 1) == nullptr);  // lives on
  CHECK(rows.store.take_over(5, 3, 1) == nullptr);  // longer
  rows.store.drop(1);
  CHECK(rows.store.take_over(5, 1, 1) == row);
  CHECK(rows.store.take_over(6, 1, 1) == nullptr);  // gone
  rows.store.drop(1);
  CHECK(rows.store.at(5) == row);
  CHECK(rows.make(7, 20, 0) != row);
  rows.store.release_unread(7);
  CHECK(rows.store.at(7) == nullptr);
}

TEST_CASE("rows lie one after another in ever larger slabs, which begin huge pages") {
  constexpr std::size_t row =
      109'392;  // of case A: four rows do not fill the first huge page, five are more
  constexpr std::uintptr_t huge_page = 2 << 20;
  Rows rows;
  int slabs = 0;
  float* next = nullptr;
  for (RowStore::ValueId i = 0; i < 200; ++i) {
    float* const values = rows.make(i, 109'386, 1, false);
    if (values != next) {
      ++slabs;
      CHECK(reinterpret_cast<std::uintptr_t>(values) % huge_page == 0);
    }
    next = values + row;
  }
  CHECK(slabs <= 6);  // of 9, 9, 19, 38, 76 and 153 rows
}

TEST_CASE("many threads take and free rows at once; what was in use does not depend on them") {
  constexpr int values = 900;
  std::set<std::int64_t> peaks;
  const int all_threads = omp_get_max_threads();
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    Rows rows;
    for (RowStore::ValueId v = 0; v < values; ++v) {
      rows.store.expect(v, v % 9 == 0 ? 100 : 60, v % 2 == 0 ? 3 : 1, true);
    }
    int wrong = 0;
    {
      const RowStore::Lanes lanes(rows.store, 60);
#pragma omp parallel for schedule(dynamic, 4) reduction(+ : wrong)
      for (int v = 0; v < values; ++v) {
        const auto value = static_cast<RowStore::ValueId>(v);
        float* const row = rows.store.make(value);
        for (std::size_t i = 0; i < 60; ++i) row[i] = static_cast<float>(v);
        for (std::size_t i = 0; i < 60; ++i) wrong += row[i] != static_cast<float>(v);
        rows.store.drop(value);  // two readers of the even ones are not done yet
      }
    }
    CHECK(wrong == 0);
    for (RowStore::ValueId v = 0; v < values; v += 2) {
      CHECK(rows.store.at(v)[59] == static_cast<float>(v));
    }
    peaks.insert(rows.store.peak_bytes());
  }
  omp_set_num_threads(all_threads);
  CHECK(peaks == std::set<std::int64_t>{400 * 64 * 4 + 50 * 112 * 4});
}

TEST_CASE(
    "results take the rows of models that are used up, whichever thread was the last to read "
    "them") {
  constexpr RowStore::ValueId ring = 600;
  constexpr std::uint32_t size = 60, readers = 4;  // both neighbors, and itself twice
  const int all_threads = omp_get_max_threads();
  omp_set_num_threads(4);
  Rows rows;
  rows.store.fit(2 * ring);
  for (RowStore::ValueId i = 0; i < ring; ++i) {
    std::fill_n(rows.make(i, size, readers), size, static_cast<float>(i));
  }
  int wrong = 0;
  for (RowStore::ValueId round = 0; round < 6; ++round) {
    const RowStore::ValueId in = round % 2 * ring, out = ring - in;
    for (RowStore::ValueId i = 0; i < ring; ++i) rows.store.expect(out + i, size, readers, true);
    const RowStore::Lanes lanes(rows.store, size);
#pragma omp parallel for schedule(dynamic, 8) reduction(+ : wrong)
    for (RowStore::ValueId i = 0; i < ring; ++i) {
      const RowStore::ValueId x = in + i, left = in + (i + ring - 1) % ring,
                              right = in + (i + 1) % ring;
      const float own = rows.store.at(x)[9];
      const float others = rows.store.at(left)[9] + rows.store.at(right)[9];
      float* row = rows.store.take_over(out + i, x, 2);
      if (row == nullptr) row = rows.store.take_over(out + i, left, 1);
      if (row == nullptr) row = rows.store.make(out + i);
      std::fill_n(row, size, own);
      const bool is_inside = i > 0 && i + 1 < ring;
      wrong += own != static_cast<float>(i) || (is_inside && others != 2 * own);
      rows.store.drop(left);
      rows.store.drop(right);
      rows.store.drop(x, 2);
    }
  }
  omp_set_num_threads(all_threads);
  CHECK(wrong == 0);
  CHECK(rows.store.peak_bytes() == ring * 64 * 4);
  for (RowStore::ValueId i = 0; i < ring; ++i) {
    CHECK(rows.store.at(i)[59] == static_cast<float>(i));
    CHECK(rows.store.at(ring + i) == nullptr);
  }
}

}  // namespace starling::test_row_store
