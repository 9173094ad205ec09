// The CPU backend's verbs against obvious loops, bit for bit, for every build, any size, any number
// of threads.
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "kernels/cpu_backend.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/support/message_of.hpp"

namespace starling::test_cpu_backend {
namespace {

using dense::runnable_kernels;

std::vector<std::vector<float>> random_rows(std::size_t rows, std::size_t length,
                                            std::uint64_t seed) {
  Random random(seed, "rows");
  std::vector<std::vector<float>> all(rows, std::vector<float>(length));
  for (auto& row : all) {
    for (float& value : row) value = static_cast<float>(random.normal());
  }
  return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
  }
  return a.size() == b.size();
}

/// The specification in backend.hpp.
std::vector<float> combined(const std::vector<LinearTerm>& terms, std::size_t length) {
  std::vector<float> out(length);
  for (std::size_t i = 0; i < length; ++i) {
    float sum = terms.empty() ? 0.0f : terms[0].factor * terms[0].values[i];
    for (std::size_t t = 1; t < terms.size(); ++t) {
      sum = std::fmaf(terms[t].factor, terms[t].values[i], sum);
    }
    out[i] = sum;
  }
  return out;
}

/// Sets the number of OpenMP threads for a scope.
struct Threads {
  explicit Threads(int count) : before(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~Threads() { omp_set_num_threads(before); }
  int before;
};

TEST_CASE(
    "linear is one fused multiply-add per term in order, for any number of terms and any length") {
  for (const auto* kernels : runnable_kernels()) {
    CAPTURE(kernels->name);
    CpuBackend backend(*kernels);
    for (const std::size_t length : {1, 2, 15, 16, 17, 33, 100, 1000, 1024, 1025, 5000}) {
      for (const std::size_t count : {0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 31}) {
        const auto rows = random_rows(count, length, length * 100 + count);
        std::vector<LinearTerm> terms;
        for (std::size_t t = 0; t < count; ++t) {
          terms.push_back({rows[t].data(), 0.3f + static_cast<float>(t) / 7});
        }
        std::vector<float> out(length + 1, 77.0f);
        const LinearJob job{out.data(), static_cast<std::uint32_t>(length), 0,
                            static_cast<std::uint32_t>(count)};
        backend.linear({&job, 1}, terms);
        CHECK(out.back() == 77.0f);  // nothing is written past the end
        out.pop_back();
        CHECK(same_bits(out, combined(terms, length)));
      }
    }
  }
}

TEST_CASE("one term with factor one is copied bit for bit, codes that look like NaNs, too") {
  // Signalling and quiet NaNs, infinity, subnormal numbers, both zeros.
  const std::uint32_t patterns[] = {0xff80'0001, 0x7fb7'ffdb, 0xffff'ffff,
                                    0x7fc0'0000, 0xff80'0000, 0x003c'003c,
                                    0x8000'0001, 0x8000'0000, 0};
  for (const auto* kernels : runnable_kernels()) {
    CAPTURE(kernels->name);
    CpuBackend backend(*kernels);
    for (const std::size_t length : {1, 7, 16, 33, 1025}) {
      std::vector<float> words(length), out(length);
      for (std::size_t i = 0; i < length; ++i)
        words[i] = std::bit_cast<float>(patterns[i % std::size(patterns)]);
      const LinearTerm term{words.data(), 1};
      const LinearJob job{out.data(), static_cast<std::uint32_t>(length), 0, 1};
      backend.linear({&job, 1}, {&term, 1});
      CHECK(same_bits(out, words));
    }
  }
}

TEST_CASE("the result may take the place of any one term") {
  for (const auto* kernels : runnable_kernels()) {
    CAPTURE(kernels->name);
    CpuBackend backend(*kernels);
    for (const std::size_t count : {1, 3, 5, 6, 13, 16}) {
      for (std::size_t place = 0; place < count; ++place) {
        auto rows = random_rows(count, 2500, place);
        std::vector<LinearTerm> terms;
        for (std::size_t t = 0; t < count; ++t) {
          terms.push_back({rows[t].data(), 1.0f / static_cast<float>(t + 3)});
        }
        const auto expected = combined(terms, 2500);
        const LinearJob job{rows[place].data(), 2500, 0, static_cast<std::uint32_t>(count)};
        backend.linear({&job, 1}, terms);
        CHECK(same_bits(rows[place], expected));
      }
    }
  }
}

TEST_CASE("results that go past the cache have the same bits, wherever they lie") {
  for (const auto* kernels : runnable_kernels()) {
    CAPTURE(kernels->name);
    for (const std::size_t count : {0, 1, 3, 9, 10, 20}) {
      const std::size_t length = 1500, begin = 64;
      auto rows = random_rows(count + 1, length, count);
      std::vector<LinearTerm> terms;
      for (std::size_t t = 0; t < count; ++t) terms.push_back({rows[t].data(), 0.7f});
      const auto expected = combined(terms, length);
      const auto check = [&](float* out) {
        const std::vector<float> before(out, out + begin);
        kernels->linear(out, terms.data(), count, begin, length, true);
        CHECK(same_bits({out, out + begin}, before));
        CHECK(same_bits({out + begin, out + length}, {expected.begin() + begin, expected.end()}));
      };
      CpuBackend backend(*kernels);
      float* aligned = backend.allocate(length + 1);
      std::fill_n(aligned, length + 1, 77.0f);
      check(aligned);
      check(aligned + 1);
      backend.release(aligned, length + 1);
      if (count > 0) check(rows[count / 2].data());  // in the place of a term
    }
  }
}

TEST_CASE("a chain of two-term sums gives the bits of one sum of all") {
  const auto rows = random_rows(4, 777, 3);
  const std::vector<LinearTerm> all = {{rows[0].data(), 0.1f},
                                       {rows[1].data(), 0.2f},
                                       {rows[2].data(), 0.3f},
                                       {rows[3].data(), 0.4f}};
  CpuBackend backend;
  std::vector<float> chain(777);
  const LinearJob start{chain.data(), 777, 0, 1};
  backend.linear({&start, 1}, all);
  for (std::uint32_t t = 1; t < 4; ++t) {
    const std::vector<LinearTerm> step = {{chain.data(), 1.0f}, all[t]};
    const LinearJob job{chain.data(), 777, 0, 2};
    backend.linear({&job, 1}, step);
  }
  CHECK(same_bits(chain, combined(all, 777)));
}

TEST_CASE("many jobs, of equal or uneven lengths, give the same bits on one thread and on three") {
  for (const bool uneven : {false, true}) {
    for (const std::size_t jobs_count : {1, 2, 70, 600}) {
      const std::size_t longest = jobs_count < 10 ? 100001 : 3001;
      const auto rows = random_rows(jobs_count, longest, jobs_count);
      std::vector<LinearTerm> terms;
      std::vector<LinearJob> jobs;
      std::vector<std::vector<float>> out(jobs_count);
      for (std::size_t j = 0; j < jobs_count; ++j) {  // each job reads its own and two others' rows
        const std::size_t length = uneven ? longest / (1 + j % 5) : longest;
        out[j].resize(length);
        jobs.push_back({out[j].data(), static_cast<std::uint32_t>(length),
                        static_cast<std::uint32_t>(terms.size()), 3});
        terms.push_back({rows[j].data(), 0.5f});
        terms.push_back({rows[(j + 1) % jobs_count].data(), 0.3f});
        terms.push_back({rows[(j * 7 + 3) % jobs_count].data(), 0.2f});
      }
      for (const int threads : {1, 3}) {
        const Threads scope(threads);
        for (auto& row : out) row.assign(row.size(), 77.0f);
        CpuBackend().linear(jobs, terms);
        std::size_t wrong = 0;
        for (std::size_t j = 0; j < jobs_count; ++j) {
          const auto expected = combined({terms.begin() + static_cast<std::ptrdiff_t>(3 * j),
                                          terms.begin() + static_cast<std::ptrdiff_t>(3 * j + 3)},
                                         out[j].size());
          wrong += !same_bits(out[j], expected);
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("a sum of thousands of terms is right") {
  const std::size_t count = 3000;
  const auto rows = random_rows(count, 130, 9);
  std::vector<LinearTerm> terms;
  for (const auto& row : rows) terms.push_back({row.data(), 1.0f / static_cast<float>(count)});
  std::vector<float> out(130);
  const LinearJob job{out.data(), 130, 0, static_cast<std::uint32_t>(count)};
  CpuBackend().linear({&job, 1}, terms);
  CHECK(same_bits(out, combined(terms, 130)));
}

TEST_CASE("squared distances sum in 16 double lanes that fold in halves, in every build") {
  for (const auto* kernels : runnable_kernels()) {
    CAPTURE(kernels->name);
    for (const std::size_t length : {0, 1, 7, 8, 15, 16, 17, 31, 100, 4099}) {
      const auto rows = random_rows(2, length, length);
      double lanes[16] = {};
      for (std::size_t i = 0; i < length; ++i) {
        const double d = static_cast<double>(rows[0][i]) - static_cast<double>(rows[1][i]);
        lanes[i % 16] = std::fma(d, d, lanes[i % 16]);
      }
      for (int half : {8, 4, 2, 1}) {
        for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
      }
      double out = -1;
      const DistanceJob job{rows[0].data(), rows[1].data(), &out,
                            static_cast<std::uint32_t>(length)};
      CpuBackend(*kernels).squared_distances({&job, 1});
      CHECK(out == lanes[0]);
    }
  }
  // (1-4)^2 + (2-6)^2 = 9 + 16
  const std::vector<float> a = {1, 2}, b = {4, 6};
  double out = 0;
  const DistanceJob job{a.data(), b.data(), &out, 2};
  CpuBackend().squared_distances({&job, 1});
  CHECK(out == 25.0);
}

TEST_CASE("blocks are aligned to cache lines, large ones to huge pages, and hold what is written") {
  CpuBackend backend;
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
    float* block = backend.allocate(count);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % 64 == 0);
    if (count == std::size_t{1} << 20) {
      CHECK(reinterpret_cast<std::uintptr_t>(block) % (2 << 20) == 0);
    }
    std::vector<float> from(count), to(count, 5.0f);
    for (std::size_t i = 0; i < count; ++i) from[i] = static_cast<float>(i);
    backend.write(block, from);
    backend.read(to, block);
    CHECK(to == from);
    backend.release(block, count);
  }
}

TEST_CASE("running out of memory says how much was asked and how much is in use") {
  CpuBackend backend;
  float* block = backend.allocate(1000);  // 4000 bytes are 62.5 cache lines of 64, hence 4032
  for (const std::size_t count : {std::size_t{1} << 58, std::numeric_limits<std::size_t>::max()}) {
    const std::string text = test::message_of([&] { backend.allocate(count); });
    CHECK(text.find("asked for " + std::to_string(count)) != std::string::npos);
    CHECK(text.find("4032 bytes in use") != std::string::npos);
  }
  backend.release(block, 1000);
}

}  // namespace

}  // namespace starling::test_cpu_backend
