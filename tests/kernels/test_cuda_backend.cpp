// The GPU backend against the CPU's, bit for bit: every verb, transform and measure, over sizes around every tile. Here
// on the emulated device (tests/kernels/cuda/emulated.cpp), which runs the kernels' own source.
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <numeric>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "kernels/cpu_backend.hpp"
#include "kernels/cuda/cuda_backend.hpp"
#include "kernels/cuda/panels.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/kernels/cuda_rig.hpp"
#include "tests/kernels/floats.hpp"
#include "tests/support/message_of.hpp"

namespace starling::test_cuda_backend {
using namespace transforms;
using test::DeviceRow;
using test::random_floats;

namespace {

using Values = std::vector<float>;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Few magnitudes, so that many are equal; zeros of both signs, subnormals.
Values coarse_values(std::size_t size, std::uint64_t seed) {
  constexpr float choice[] = {0.0F, -0.0F, 1.0F, -1.0F, 0.5F, -2.0F, 1e-40F, -3e-39F, 65519.0F};
  Random random(seed, "coarse values");
  Values values(size);
  for (float& v : values) v = choice[random.below(std::size(choice))];
  return values;
}

/// Some entries not finite.
Values wild_values(std::size_t size, std::uint64_t seed) {
  Values values = random_floats(size, seed);
  Random random(seed, "wild values");
  for (const float wild : {infinity, -infinity, nan, 3e38F}) values[random.below(size)] = wild;
  return values;
}

struct Rig {
  std::unique_ptr<cuda::Device> device = test::open_device();
  CudaBackend gpu{*device};
  CpuBackend cpu;

  /// Both backends' result of one transform must be the same. The first input begins `offset` floats after an aligned address.
  void check(const Transform& transform, const std::vector<Values>& inputs,
             std::size_t offset = 0) {
    std::vector<std::size_t> sizes;
    for (const Values& input : inputs) sizes.push_back(input.size());
    const std::size_t size = result_size(transform, sizes);
    Values expected(size, -7);
    TransformJob job{.transform = &transform, .inputs = {}, .out = expected};
    for (std::size_t i = 0; i < inputs.size(); ++i) job.inputs[i] = inputs[i];
    cpu.transform({&job, 1});

    std::deque<DeviceRow> rows;
    const DeviceRow out(*device, Values(size, -8));
    job.out = out.row();
    for (std::size_t i = 0; i < inputs.size(); ++i)
      job.inputs[i] = rows.emplace_back(*device, inputs[i], i == 0 ? offset : 0).row();
    gpu.transform({&job, 1});
    const Values found = out.values();
    const std::size_t at = test::first_difference(expected, found);
    CAPTURE(transform.index());
    CAPTURE(inputs[0].size());
    CAPTURE(at);
    CHECK(at == size);
  }

  /// What the CPU makes of one vector.
  Values code(const Transform& transform, const Values& v) {
    const std::size_t sizes[] = {v.size()};
    Values out(result_size(transform, sizes), -7);
    const TransformJob job{.transform = &transform, .inputs = {v}, .out = out};
    cpu.transform({&job, 1});
    return out;
  }

  void check(const Measure& measure, const std::vector<Values>& inputs) {
    double expected = -7, found = -8;
    MeasureJob job{.measure = &measure, .inputs = {}, .out = &expected};
    for (std::size_t i = 0; i < inputs.size(); ++i) job.inputs[i] = inputs[i];
    cpu.measure({&job, 1});
    std::deque<DeviceRow> rows;
    job.out = &found;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      job.inputs[i] = rows.emplace_back(*device, inputs[i]).row();
    gpu.measure({&job, 1});
    CAPTURE(measure.index());
    CAPTURE(inputs[0].size());
    CHECK(test::same_bits(expected, found));
  }
};

}  // namespace

TEST_CASE("cuda: linear combinations are the CPU's, bit for bit") {
  Rig rig;
  // Around a quad of floats, a block's threads, and a tile (4096); rows at and off multiples of 16 bytes; uneven jobs
  // in one call; results in the place of a term.
  struct Case {
    std::size_t length, terms, offset;
    bool in_place;
  };
  std::vector<Case> cases;
  for (const std::size_t length : {1, 3, 4, 5, 255, 1024, 4095, 4096, 4099, 9001}) {
    for (const std::size_t terms : {0, 1, 2, 3, 6, 9}) {
      cases.push_back({length, terms, 0, terms > 2});
      cases.push_back({length, terms, 1 + terms % 3, terms == 2});
    }
  }
  std::deque<DeviceRow> rows;
  std::deque<Values> host;
  std::vector<LinearJob> gpu_jobs, cpu_jobs;
  std::vector<LinearTerm> gpu_terms, cpu_terms;
  std::vector<std::pair<const DeviceRow*, const Values*>> results;
  Random random(3, "factors");
  for (const Case& c : cases) {
    const auto first = static_cast<std::uint32_t>(gpu_terms.size());
    for (std::size_t t = 0; t < c.terms; ++t) {
      const auto factor = static_cast<float>(random.normal());
      host.push_back(random_floats(c.length, 100 + t));
      rows.emplace_back(*rig.device, host.back(), c.offset);
      gpu_terms.push_back({rows.back().row().data(), factor});
      cpu_terms.push_back({host.back().data(), factor});
    }
    if (!c.in_place) {
      host.emplace_back(c.length, -7);
      rows.emplace_back(*rig.device, host.back(), c.offset);
    }
    gpu_jobs.push_back({rows.back().row().data(), static_cast<std::uint32_t>(c.length), first,
                        static_cast<std::uint32_t>(c.terms)});
    cpu_jobs.push_back({host.back().data(), static_cast<std::uint32_t>(c.length), first,
                        static_cast<std::uint32_t>(c.terms)});
    results.emplace_back(&rows.back(), &host.back());
  }
  rig.cpu.linear(cpu_jobs, cpu_terms);
  rig.gpu.linear(gpu_jobs, gpu_terms);
  for (std::size_t j = 0; j < results.size(); ++j) {
    CAPTURE(cases[j].length);
    CAPTURE(cases[j].terms);
    CHECK(test::first_difference(*results[j].second, results[j].first->values()) ==
          cases[j].length);
  }
}

TEST_CASE("cuda: one term with factor one is copied bit for bit, codes that look like NaNs, too") {
  Rig rig;
  const std::uint32_t patterns[] = {0xff80'0001, 0x7fb7'ffdb, 0xffff'ffff, 0x003c'003c,
                                    0x8000'0000};
  for (const std::size_t length : {3, 1024, 4099}) {
    Values words(length);
    for (std::size_t i = 0; i < length; ++i) words[i] = std::bit_cast<float>(patterns[i % 5]);
    const DeviceRow from(*rig.device, words);
    const DeviceRow to(*rig.device, Values(length, -7));
    const LinearTerm term{from.row().data(), 1};
    const LinearJob job{to.row().data(), static_cast<std::uint32_t>(length), 0, 1};
    rig.gpu.linear({&job, 1}, {&term, 1});
    const Values found = to.values();
    CHECK(std::memcmp(found.data(), words.data(), length * sizeof(float)) == 0);
  }
}

TEST_CASE("cuda: distances are the CPU's, bit for bit") {
  Rig rig;
  for (const std::size_t size : {1, 15, 16, 17, 255, 1023, 1024, 1025, 2048, 2049, 10000}) {
    const Values a = random_floats(size, 1), b = coarse_values(size, 2);
    const DeviceRow p(*rig.device, a), q(*rig.device, b, 3);
    double expected = -1, first = -2, second = -2;
    const DistanceJob job{a.data(), b.data(), &expected, static_cast<std::uint32_t>(size)};
    rig.cpu.squared_distances({&job, 1});
    const DistanceJob jobs[] = {
        {p.row().data(), q.row().data(), &first, static_cast<std::uint32_t>(size)},
        {p.row().data(), p.row().data(), &second, static_cast<std::uint32_t>(size)}};
    rig.gpu.squared_distances(jobs);
    CHECK(test::same_bits(expected, first));
    CHECK(second == 0);
  }
}

TEST_CASE("cuda: every transform and measure is the CPU's, bit for bit") {
  Rig rig;
  std::set<std::size_t> transforms_seen, measures_seen;
  Random stream(7, "test");
  for (int words = 0; words < 3; ++words) stream();  // in the middle of a block of four words
  for (const std::size_t size : {1, 2, 31, 33, 257, 2049, 5000}) {
    const auto d = static_cast<std::uint32_t>(size);
    for (const Values& v : {random_floats(size, 1), coarse_values(size, 2), wild_values(size, 3)}) {
      const Values mask = coarse_values(size, 4), other = random_floats(size, 5);
      const auto check = [&](const Transform& transform, const std::vector<Values>& inputs) {
        transforms_seen.insert(transform.index());
        rig.check(transform, inputs);
      };
      const auto code = [&](const Transform& transform) { return rig.code(transform, v); };
      for (const std::uint32_t count : {0U, 1U, d / 10, d / 2, d - 1, d}) {
        check(KeepLargest{count}, {v});
        check(Scatter{d}, {code(KeepLargest{count})});
        check(KeepLargest{count, 70}, {v});
        check(SignedPositions{}, {code(KeepLargest{count})});
        const Values words = rig.code(SignedPositions{}, code(KeepLargest{count}));
        check(ScatterSigns{d, 0.25F}, {words});
        Values quantized{1.5F, 0.5F};
        quantized.insert(quantized.end(), words.begin(), words.end());
        check(ScatterSigns{d, 0}, {quantized});
        check(GatherRandom{count, stream}, {v});
        check(ScatterRandom{d, 1.5F, stream}, {code(GatherRandom{count, stream})});
      }
      check(KeepAbove{0.5F}, {v});
      check(Signs{}, {v});
      check(ClearWhere{}, {v, mask});
      for (const bool yes : {false, true}) {
        check(ToHalf{yes}, {v});
        check(FromHalf{yes, d}, {code(ToHalf{yes})});
        for (const std::uint32_t bucket : {1U, 100U, d}) {
          check(ToSigns{yes, bucket}, {v});
          check(FromSigns{yes, bucket, d}, {code(ToSigns{yes, bucket})});
        }
        check(KeepSide{yes}, {v});
        check(Rotate{stream, yes}, {v});
        for (const std::uint32_t bits : {1U, 5U, 8U, 24U}) {
          check(ToColors{0.01, bits, yes, stream}, {v});
          check(FromColors{0.01, bits, yes, stream},
                {code(ToColors{0.01, bits, yes, stream}), other});
        }
        for (const std::uint32_t levels : {1U, 4U, 255U, 100000U}) {
          for (const std::uint32_t bucket : {7U, 512U, 100000U}) {
            check(ToLevels{levels, bucket, yes, stream}, {v});
            check(FromLevels{levels, bucket, 0.75F, d},
                  {code(ToLevels{levels, bucket, yes, stream})});
          }
        }
      }
      for (const std::uint32_t bucket : {7U, 512U, 100000U}) {
        check(ToFloat4{bucket}, {v});
        check(FromFloat4{bucket, d}, {code(ToFloat4{bucket})});
      }
      check(Hash{}, {v});
      for (const std::uint32_t bits : {1U, 2U, 5U, 24U}) {
        Values whole(v.size());
        for (std::size_t i = 0; i < v.size(); ++i) whole[i] = std::nearbyint(3 * v[i]);
        check(ToIntegers{bits}, {whole});
        check(FromIntegers{bits, d}, {code(ToIntegers{bits})});
      }
      check(Ternarize{stream}, {v, {1.5F}});
      check(ClipDeviations{1.5F}, {v});
      check(ScaleBy{0.3F}, {v, {-0.7F}});
      check(LargestMagnitude{}, {v});
      check(Larger{}, {v, other});
      check(ClipNorm{0.1F}, {v});
      check(ClipNorm{1e9F}, {v});
      check(AddSquare{0.9F, 0.1F}, {v, other});
      check(DivideByRoot{-0.1F, 1.5F, 1e-8F}, {other, v});
      check(SideMeans{}, {v});
      check(ShiftSides{}, {v, {0.1F, 0.2F}, {0.3F, 0.05F}});
      for (const Measure& measure :
           {Measure(CountNonzero{}), Measure(LeastMagnitude{}), Measure(LargestDifference{})}) {
        measures_seen.insert(measure.index());
        std::vector<Values> inputs{v};
        if (std::holds_alternative<LargestDifference>(measure)) inputs.push_back(other);
        rig.check(measure, inputs);
      }
    }
  }
  // Matrices of 1, one panel, a bit more, several panels.
  for (const auto& [rows, columns] : {std::pair{1U, 1U}, {3U, 32U}, {70U, 33U}, {9U, 100U}}) {
    const Values a = random_floats(rows * columns, 8), b = random_floats(rows * columns, 9);
    for (const Transform& transform :
         {Transform(PanelsToRows{rows, columns}), Transform(RowsToPanels{rows, columns}),
          Transform(PanelsToRows{rows, columns, true}),
          Transform(RowsToPanels{rows, columns, true}), Transform(Orthonormalize{rows, columns}),
          Transform(Orthonormalize{columns, rows})}) {
      transforms_seen.insert(transform.index());
      rig.check(transform, {a});
    }
    transforms_seen.insert(Transform(MatrixProduct{}).index());
    rig.check(MatrixProduct{rows, columns, rows, false, true}, {a, b});
    rig.check(MatrixProduct{columns, rows, columns, true, false}, {a, b});
    rig.check(MatrixProduct{1, rows * columns, 1}, {a, b});
    rig.check(MatrixProduct{columns, rows, 1, true, true}, {a, random_floats(rows, 10)});
    for (const float delta : {0.0F, 0.3F, 1.0F, 3.0F, 100.0F}) {
      const ProjectStep project{.rows = rows,
                                .columns = columns,
                                .delta = delta,
                                .epsilon = 1e-8F,
                                .decay = 0.3F,
                                .projected_decay = 0.03F};
      transforms_seen.insert(Transform(project).index());
      rig.check(project, {a, b, random_floats(a.size(), 11)}, 1);
      rig.check(project, {a, coarse_values(a.size(), 12), coarse_values(a.size(), 13)});
      rig.check(project, {wild_values(a.size(), 14), b, Values(a.size(), 0.0F)});
      rig.check(project, {a, wild_values(a.size(), 15), b});
    }
  }
  CHECK(transforms_seen.size() == std::variant_size_v<Transform>);
  CHECK(measures_seen.size() == std::variant_size_v<Measure>);
}

TEST_CASE("cuda: weights are found in panels of any size") {
  const auto place = [](std::uint32_t inputs, std::uint32_t outputs, std::uint32_t index) {
    const cuda::Place found = cuda::place_of(inputs, outputs, index);
    CHECK(cuda::weight_at(inputs, outputs, found.input, found.output) == index);
    return std::pair(found.input, found.output);
  };
  CHECK(place(70, 33, 70 * 32 + 5) == std::pair(5U, 32U));
  // 32 rows of so many inputs are 2^32 floats or more.
  CHECK(place(150'000'000, 8, 600'000'000) == std::pair(75'000'000U, 0U));
  CHECK(place(1U << 27, 8, (1U << 30) - 8) == std::pair((1U << 27) - 1, 0U));
}

TEST_CASE("cuda: many transforms of one call, of all kinds, do not meet") {
  Rig rig;
  constexpr std::size_t size = 300;
  const Transform kinds[] = {KeepLargest{20}, GatherRandom{15, Random(1, "a")},
                             Orthonormalize{30, 10}, KeepAbove{0.3F},
                             GatherRandom{15, Random(2, "b")}};
  std::deque<DeviceRow> inputs, outs;
  std::deque<Values> host, expected;
  std::vector<TransformJob> gpu_jobs, cpu_jobs;
  for (std::size_t j = 0; j < 40; ++j) {
    const Transform& transform = kinds[j % std::size(kinds)];
    host.push_back(random_floats(size, j));
    const std::size_t sizes[] = {size};
    expected.emplace_back(result_size(transform, sizes), -7);
    cpu_jobs.push_back({.transform = &transform, .inputs = {host.back()}, .out = expected.back()});
    inputs.emplace_back(*rig.device, host.back());
    outs.emplace_back(*rig.device, expected.back());
    gpu_jobs.push_back(
        {.transform = &transform, .inputs = {inputs.back().row()}, .out = outs.back().row()});
  }
  rig.cpu.transform(cpu_jobs);
  rig.gpu.transform(gpu_jobs);
  for (std::size_t j = 0; j < outs.size(); ++j) {
    CAPTURE(j);
    CHECK(test::first_difference(expected[j], outs[j].values()) == expected[j].size());
  }
}

TEST_CASE("cuda: the largest of rows of any length in one call, cut into pieces") {
  Rig rig;
  constexpr std::size_t piece = cuda::LargestKernel::piece;
  constexpr std::size_t shared =
      piece * cuda::LargestKernel::together;  // by the pieces of one block
  const std::size_t sizes[] = {1, piece - 1, piece, piece + 1, shared - 5, shared + 3};
  std::deque<Transform> transforms;
  std::deque<DeviceRow> inputs, outs;
  std::deque<Values> host, expected;
  std::vector<TransformJob> gpu_jobs, cpu_jobs;
  for (const std::size_t size : sizes) {
    const auto d = static_cast<std::uint32_t>(size);
    // What is listed: a little, all of a few magnitudes, all of the row.
    for (const Values& v : {random_floats(size, 1), coarse_values(size, 2), Values(size, -2.5F)}) {
      for (const std::uint32_t count : {d / 100, d - d / 3}) {
        const std::size_t j = host.size();
        transforms.emplace_back(KeepLargest{count, 3});
        host.push_back(v);
        expected.emplace_back(2 * count, -7);
        inputs.emplace_back(*rig.device, v, j % 3);
        outs.emplace_back(*rig.device, expected.back());
        cpu_jobs.push_back(
            {.transform = &transforms.back(), .inputs = {host.back()}, .out = expected.back()});
        gpu_jobs.push_back({.transform = &transforms.back(),
                            .inputs = {inputs.back().row()},
                            .out = outs.back().row()});
      }
    }
  }
  rig.cpu.transform(cpu_jobs);
  rig.gpu.transform(gpu_jobs);
  for (std::size_t j = 0; j < outs.size(); ++j) {
    CAPTURE(j);
    CAPTURE(host[j].size());
    CHECK(test::first_difference(expected[j], outs[j].values()) == expected[j].size());
  }
}

TEST_CASE("cuda: levels and floats of four bits, of rows cut into pieces") {
  Rig rig;
  constexpr std::size_t piece = cuda::EncodeKernel::most;
  Random fresh(7, "test"), begun = fresh;
  begun();
  for (const std::size_t size : {piece - 1, piece, piece + 1, 2 * piece + 77}) {
    for (const Values& v : {random_floats(size, 1), wild_values(size, 3)}) {
      // Of a bucket: a number, a power of two, whole buckets in shorter pieces, buckets that pieces cut, all.
      for (const std::uint32_t bucket : {1U, 512U, 1000U, 1001U, 20000U}) {
        for (const std::uint32_t levels : {1U, 7U, 127U, 255U, 32767U}) {  // fields of 2 to 16 bits
          const bool is_max = levels % 2 != bucket % 2;
          rig.check(ToLevels{levels, bucket, is_max, fresh}, {v}, levels % 3);
          rig.check(ToLevels{levels, bucket, !is_max, begun}, {v});
        }
        rig.check(ToFloat4{bucket}, {v}, bucket % 4);
      }
    }
  }
}

TEST_CASE("cuda: signs and their means, of rows around the tiles that they are added up by") {
  Rig rig;
  constexpr std::size_t tile = cuda::lane_tile;
  for (const std::size_t size : {tile - 1, tile, tile + 1, 3 * tile + 33}) {
    const auto d = static_cast<std::uint32_t>(size);
    for (const Values& v : {random_floats(size, 1), coarse_values(size, 2), wild_values(size, 3)}) {
      for (const bool is_symmetric : {false, true}) {
        rig.check(ToSigns{is_symmetric, d}, {v}, 1);
        rig.check(ToSigns{is_symmetric, d / 2}, {v});
      }
      rig.check(SideMeans{}, {v}, 2);
    }
  }
}

TEST_CASE("cuda: numbers of 16 bits begin at any float") {
  Rig rig;
  const Values v = wild_values(2 * cuda::MapKernel::tile + 3, 1);
  for (const bool is_bfloat : {false, true}) {
    for (const std::size_t offset : {1, 2}) rig.check(ToHalf{is_bfloat}, {v}, offset);
  }
}

TEST_CASE("cuda: what is written is read back, in pieces of the staging memory") {
  Rig rig;
  const Values from = random_floats((std::size_t{20} << 20) / sizeof(float) + 5, 1);  // 2.5 pieces
  float* row = rig.gpu.allocate(from.size());
  rig.gpu.write(row, from);
  Values to(from.size());
  rig.gpu.read(to, row);
  CHECK(to == from);
  rig.gpu.release(row, from.size());
}

TEST_CASE("cuda: tables that were made one after the other are copied together") {
  const auto device = test::open_device();
  device->begin(3 * cuda::Device::room_of<double>(1));
  const auto letters = device->twin<char>(3);
  const auto none = device->twin<float>(0);
  const auto numbers = device->twin<double>(1);
  std::memcpy(letters.host, "abc", letters.count);
  *numbers.host = 0.25;
  device->upload(letters, none, numbers);
  char letter = 0;
  double number = 0;
  device->read(&letter, letters.device + 2, sizeof letter);
  device->read(&number, numbers.device, sizeof number);
  CHECK(letter == 'c');
  CHECK(number == 0.25);
}

TEST_CASE("cuda: out of memory is a sentence with the arithmetic, and nothing is lost") {
  // 1,000 floats are 4,000 bytes, in pages of 4,096; of 1,000,000 bytes the rest cannot hold 300,000 floats.
  const test::Environment limit("STARLING_EMULATED_BYTES", "1000000");
  Rig rig;
  if (!test::is_emulated(*rig.device)) return;
  float* block = rig.gpu.allocate(1000);
  CHECK(test::message_of([&] { rig.gpu.allocate(300000); }) ==
        "emulated device: asked for 1200000 bytes for vectors, got none (no memory left "
        "(emulated)); 4000 are in use by this process, 995904 free, 1000000 in all: take a smaller "
        "run.window, fewer nodes or a smaller model, end what else uses the GPU, or set "
        "run.device = cpu");
  rig.gpu.release(block, 1000);
  rig.gpu.release(rig.gpu.allocate(240000), 240000);
}

TEST_CASE("cuda: whatever is missing is named in one sentence") {
  const auto refusal = [] { return test::message_of([] { test::open_device(); }); };
  if (refusal() != "no error" || !test::is_emulated(*test::open_device())) return;
  {
    const test::Environment fault("STARLING_EMULATED_FAULT", "driver");
    CHECK(refusal() == "no GPU can be used: no NVIDIA driver (emulated)");
  }
  {
    const test::Environment fault("STARLING_EMULATED_FAULT", "version");
    CHECK(refusal().find(".so was built from other sources (") != std::string::npos);
  }
  {
    const test::Environment elsewhere("STARLING_CUDA_PLUGIN", "/nowhere/starling_cuda.so");
    CHECK(refusal().starts_with("the GPU plug-in cannot be loaded: /nowhere/starling_cuda.so"));
  }
  CHECK(refusal() == "no error");  // open_device() names the emulated one again
}

}  // namespace starling::test_cuda_backend
