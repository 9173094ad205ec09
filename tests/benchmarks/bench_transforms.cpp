// How fast are the transforms that compression is made of? Prints, for rows of case A's length (109,386 floats) and one
// thread, nanoseconds per entry of each, and how many times a pass over the same rows (the mean of two) that takes.
//
//   bench_transforms [rows] [seconds per figure]

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <omp.h>

#include "kernels/cpu_backend.hpp"
#include "kernels/dense/dense.hpp"
#include "sim/base/random.hpp"
#include "tests/benchmarks/measure.hpp"

namespace {

using namespace starling;
using namespace starling::bench;
namespace tr = starling::transforms;

constexpr std::size_t parameters = 109'386;
constexpr std::size_t row = (parameters + 15) / 16 * 16;

/// Rows of inputs, of codes and of results.
struct Rows {
  explicit Rows(std::size_t count) : rows(count) {
    memory = backend.allocate(4 * count * row);
    Random random(1, "bench");
    for (std::size_t i = 0; i < 4 * count * row; ++i)
      memory[i] = static_cast<float>(0.01 * random.normal());
  }
  float* at(std::size_t kind, std::size_t r) { return memory + (kind * rows + r) * row; }

  CpuBackend backend;
  std::size_t rows;
  float* memory;
};

double pass_seconds(Rows& rows, double budget) {
  return best_seconds(
      budget, rows.rows, 1,
      [&](std::size_t r, std::size_t) {
        const LinearTerm terms[] = {{rows.at(0, r), 0.5F}, {rows.at(1, r), 0.5F}};
        const LinearJob jobs[] = {{rows.at(2, r), parameters, 0, 2}};
        rows.backend.linear(jobs, terms);
      },
      [] {});
}

/// Seconds of one transform of each row, from row kind `from` (and the reference in row 1) to row kind `to`.
double seconds_of(Rows& rows, double budget, const Transform& transform, std::size_t from,
                  std::size_t inputs, std::size_t to) {
  const std::size_t sizes[] = {inputs, parameters};
  const bool has_reference = std::holds_alternative<tr::FromColors>(transform);
  const std::size_t size = result_size(transform, std::span(sizes).first(has_reference ? 2 : 1));
  return best_seconds(
      budget, rows.rows, 1,
      [&](std::size_t r, std::size_t) {
        const TransformJob job{&transform,
                               {std::span<const float>(rows.at(from, r), inputs),
                                has_reference ? std::span<const float>(rows.at(1, r), parameters)
                                              : std::span<const float>(),
                                {}},
                               {rows.at(to, r), size}};
        rows.backend.transform({&job, 1});
      },
      [] {});
}

}  // namespace

int main(int count, char** words) {
  const std::size_t count_of_rows = count > 1 ? std::strtoul(words[1], nullptr, 10) : 16;
  const double budget = count > 2 ? std::strtod(words[2], nullptr) : 0.5;
  omp_set_num_threads(1);
  Rows rows(count_of_rows);
  const double pass = pass_seconds(rows, budget);
  const auto entries = static_cast<double>(parameters * rows.rows);
  fmt::print("kernels {}, mean of two rows {:6.2f} ns an entry\n", dense::kernels().name,
             1e9 * pass / entries);
  const auto print = [&](const char* name, const Transform& transform, std::size_t from = 0,
                         std::size_t inputs = parameters, std::size_t to = 2) {
    const double seconds = seconds_of(rows, budget, transform, from, inputs, to);
    fmt::print("{:<28}{:8.2f} ns an entry, {:6.1f} passes\n", name, 1e9 * seconds / entries,
               seconds / pass);
    std::fflush(stdout);
  };
  const Random random(1, "code", 0, 0);
  constexpr auto size = static_cast<std::uint32_t>(parameters);
  const auto words_of = [](const Transform& transform) {
    const std::size_t sizes[] = {parameters};
    return result_size(transform, sizes);
  };
  const auto both = [&](const char* name, const Transform& to, const Transform& from) {
    print(name, to);
    print("  and back", from, 2, words_of(to), 3);
  };
  both("half precision", tr::ToHalf{false}, tr::FromHalf{false, size});
  both("bfloat16", tr::ToHalf{true}, tr::FromHalf{true, size});
  both("levels, 7, Euclidean", tr::ToLevels{7, 512, false, random},
       tr::FromLevels{7, 512, 1, size});
  both("levels, 127, largest", tr::ToLevels{127, 512, true, random},
       tr::FromLevels{127, 512, 1, size});
  both("float4", tr::ToFloat4{512}, tr::FromFloat4{512, size});
  both("signs", tr::ToSigns{false, size}, tr::FromSigns{false, size, size});
  both("lattice, 8 bits", tr::ToColors{0.001, 8, true, random},
       tr::FromColors{0.001, 8, true, random});
  both("lattice, 4 bits, unshifted", tr::ToColors{0.001, 4, false, random},
       tr::FromColors{0.001, 4, false, random});
  both("integers, 8 bits", tr::ToIntegers{8}, tr::FromIntegers{8, size});
  both("largest 1 %", tr::KeepLargest{size / 100}, tr::Scatter{size});
  both("random 1 %", tr::GatherRandom{size / 100, random}, tr::ScatterRandom{size, 1, random});
  print("rotation", tr::Rotate{random, false});
  print("hash", tr::Hash{});
  print("norm clipped", tr::ClipNorm{1});
  print("deviations clipped", tr::ClipDeviations{2.5F});
  print("largest magnitude", tr::LargestMagnitude{});
  print("means of sides", tr::SideMeans{});
  print("above a threshold", tr::KeepAbove{0.01F});
}
