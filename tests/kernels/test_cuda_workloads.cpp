// Workloads on a GPU against the same on the CPU, bit for bit: gradients, losses, evaluations; in one block or layer by
// layer, in one batch or in pieces. Here on the emulated device.
#include <algorithm>
#include <limits>
#include <utility>

#include <doctest/doctest.h>

#include "kernels/cuda/cuda_mlp.hpp"
#include "kernels/cuda/cuda_quadratic.hpp"
#include "sim/base/random.hpp"
#include "tests/kernels/cnn_problems.hpp"
#include "tests/kernels/cuda_comparison.hpp"

namespace starling::test_cuda_workloads {
using test::compare;
using test::DeviceRow;
using test::model_of;
using test::nodes;
using test::noise;

namespace {

using Values = std::vector<float>;
constexpr CudaMlp::Limits one_block{};
constexpr CudaMlp::Limits by_layers{.shared_bytes = 0};
constexpr CudaMlp::Limits of_threads(unsigned threads) { return {.threads = threads}; }
/// So little scratch memory that every task is computed by itself.
constexpr CudaMlp::Limits one_by_one{.scratch_bytes = 1, .shared_bytes = 0};

struct Sizes {
  std::size_t features;
  std::vector<std::size_t> hidden;
  int classes;
  std::int64_t batch;
  std::size_t test_samples = 65;
};

Mlp make(const Sizes& sizes, float scale = 1) {
  Mlp::Problem problem;
  problem.hidden = sizes.hidden;
  problem.data.train = noise(43, sizes.features, sizes.classes, 1);
  for (float& value : problem.data.train.x) value *= scale;
  problem.data.test = noise(sizes.test_samples, sizes.features, sizes.classes, 2);
  problem.batch_size = sizes.batch;
  problem.parts.resize(nodes);
  for (std::int32_t s = 0; s < 43; ++s)
    problem.parts[static_cast<std::size_t>(s) % nodes].push_back(s);
  return Mlp(std::move(problem));
}

/// Asks the fast mode for what the strict one gives, and says how far away its gradient is, as a share of that.
double distance_of_fast(cuda::Device& device, const Mlp& mlp, const CudaMlp::Limits& limits) {
  const CudaMlp strict(mlp, device, Precision::strict, limits);
  const CudaMlp fast(mlp, device, Precision::fast, limits);
  const std::size_t size = mlp.facts().parameters;
  const DeviceRow x(device, model_of(mlp, 1, 0.01));
  const DeviceRow exact(device, Values(size, -7)), near(device, Values(size, -8));
  GradientRequest asked{.node = 1, .x = x.row().data(), .gradient = exact.row().data()};
  GradientRequest fast_asked = asked;
  fast_asked.gradient = near.row().data();
  strict.gradients({&asked, 1});
  fast.gradients({&fast_asked, 1});
  CHECK(fast_asked.loss == doctest::Approx(asked.loss).epsilon(2e-3));
  EvaluationRequest judged{.x = x.row().data()}, fast_judged = judged;
  strict.evaluate({&judged, 1});
  fast.evaluate({&fast_judged, 1});
  CHECK(fast_judged.loss == doctest::Approx(judged.loss).epsilon(2e-3));
  const Values a = exact.values(), b = near.values();
  double away = 0, all = 0;
  for (std::size_t i = 0; i < size; ++i) {
    away += std::pow(double{a[i]} - double{b[i]}, 2);
    all += std::pow(double{a[i]}, 2);
  }
  return std::sqrt(away / all);
}

}  // namespace

TEST_CASE("cuda: gradients and evaluations of an MLP are the CPU's, bit for bit") {
  const auto device = test::open_device();
  // Around octets of inputs, groups of 4 samples, tiles of 32 rows, panels of 32 and tiles of 16 and 64 columns; softmax
  // regression; evaluations of one block of 64 samples, of less and of more; whole tiles of 32 and of 64 rows, quads of
  // floats that begin at multiples of 16 bytes, and sums of whole pieces of 16; few outputs of whole pieces of 32 and 64
  // inputs and of parts of them, with losses in the same block and, of more than 64 samples, in another one.
  const Sizes all[] = {{1, {}, 2, 1},         {7, {}, 10, 5, 1},      {9, {1}, 2, 4, 64},
                       {8, {5}, 3, 33},       {33, {31}, 17, 16},     {64, {32}, 10, 16, 200},
                       {40, {33, 8}, 33, 3},  {16, {64, 65}, 64, 2},  {5, {100, 3, 70}, 40, 35},
                       {80, {96}, 20, 32},    {64, {64}, 20, 64},     {80, {66}, 40, 36},
                       {20, {68, 4}, 12, 64}, {12, {70, 16}, 13, 65}, {4, {33, 20}, 16, 130}};
  for (const Sizes& sizes : all) {
    const Mlp mlp = make(sizes);
    CAPTURE(mlp.facts().description);
    CAPTURE(sizes.batch);
    for (const CudaMlp::Limits& limits : {of_threads(32), of_threads(64), of_threads(128),
                                          of_threads(256), by_layers, one_by_one}) {
      const CudaMlp moved(mlp, *device, Precision::strict, limits);
      CHECK(moved.is_small() == (limits.shared_bytes > 0));
      compare(*device, mlp, moved);
    }
  }
}

TEST_CASE("cuda: mini-batches drawn on the device have the CPU's samples") {
  const auto device = test::open_device();
  constexpr std::int32_t samples = 700;
  for (const char* sampling : {"epochs", "uniform"}) {
    Mlp::Problem problem;
    problem.data.train = noise(samples, 3, 2, 1);
    problem.batch_size = 50;  // within an epoch, over the end of one, and over the ends of many
    problem.sampling = sampling;
    std::int32_t next = 0;
    for (const std::int32_t size : {1, 2, 3, 63, 64, 65, 66, 128, 129, 179}) {
      problem.parts.emplace_back();
      for (std::int32_t s = 0; s < size; ++s) problem.parts.back().push_back(samples - 1 - next++);
    }
    const Mlp mlp(std::move(problem));
    const CudaMlp moved(mlp, *device, Precision::strict);
    const std::size_t size = mlp.facts().parameters, count = 10 * 12;
    const Values x = model_of(mlp, 1, 0.1);
    const DeviceRow dx(*device, x), dg(*device, Values(count * size, -7));
    Values g(count * size, -7);
    std::vector<GradientRequest> here, there;
    for (std::size_t r = 0; r < count; ++r) {
      const auto k = static_cast<Step>(r / 10);
      const GradientRequest request{.node = static_cast<NodeId>(r % 10),
                                    .draw = k < 10 ? k : (Step{1} << 32) * k + 3};
      here.push_back(request), there.push_back(request);
      here.back().x = x.data(), here.back().gradient = g.data() + r * size;
      there.back().x = dx.row().data(), there.back().gradient = dg.row().data() + r * size;
    }
    mlp.gradients(here);
    moved.gradients(there);
    CAPTURE(sampling);
    CHECK(test::first_difference(g, dg.values()) == count * size);
  }
}

TEST_CASE("cuda: sums in the place of gradients are the CPU's, bit for bit") {
  const auto device = test::open_device();
  for (const Sizes& sizes :
       {Sizes{9, {}, 3, 4}, Sizes{20, {33, 7}, 10, 16}, Sizes{68, {72}, 36, 20}}) {
    const Mlp mlp = make(sizes);
    const std::size_t size = mlp.facts().parameters;
    const auto length = static_cast<std::uint32_t>(size);
    for (const CudaMlp::Limits& limits : {one_block, by_layers}) {
      const CudaMlp moved(mlp, *device, Precision::strict, limits);
      REQUIRE(moved.folds_sums());
      // m <- 0.9 m + g, in the place of m; y <- 2 z - 0.1 m; x <- x + 0.5 y - 0.25 g, in the place of x; zeros.
      Values x = model_of(mlp, 1, 0.1), m = model_of(mlp, 2, 1), z = model_of(mlp, 3, 1);
      Values y(size, -7), nothing(size, -7);
      const DeviceRow dx(*device, x), dm(*device, m), dz(*device, z), dy(*device, y);
      const DeviceRow dnothing(*device, nothing);
      const auto ask = [&](const Workload& workload, float* x, float* m, const float* z, float* y,
                           float* nothing) {
        const LinearTerm terms[] = {{m, 0.9F}, {nullptr, 1}, {z, 2},           {m, -0.1F},
                                    {x, 1},    {y, 0.5F},    {nullptr, -0.25F}};
        const LinearJob sums[] = {
            {m, length, 0, 2}, {y, length, 2, 2}, {x, length, 4, 3}, {nothing, length, 7, 0}};
        GradientRequest request{.node = 1, .draw = 2, .x = x, .sums = sums, .terms = terms};
        workload.gradients({&request, 1});
        return request.loss;
      };
      const double here = ask(mlp, x.data(), m.data(), z.data(), y.data(), nothing.data());
      const double there = ask(moved, dx.row().data(), dm.row().data(), dz.row().data(),
                               dy.row().data(), dnothing.row().data());
      CHECK(test::same_bits(here, there));
      for (const auto& [host, row] :
           {std::pair(&x, &dx), {&m, &dm}, {&y, &dy}, {&nothing, &dnothing}}) {
        CHECK(test::first_difference(*host, row->values()) == size);
      }
    }
  }
}

TEST_CASE("cuda: more gradients than are queued at once are the same gradients") {
  const auto device = test::open_device();
  const Mlp mlp = make({2, {}, 2, 3});  // 6 parameters
  const std::size_t size = mlp.facts().parameters;
  constexpr std::size_t count = 4096 + 3;
  const Values x = model_of(mlp, 1, 1);
  Values gradients(count * size, -7);
  const DeviceRow model(*device, x), out(*device, gradients);
  std::vector<GradientRequest> here, there;
  for (std::size_t i = 0; i < count; ++i) {
    const GradientRequest request{.node = static_cast<NodeId>(i % nodes),
                                  .draw = static_cast<Step>(i / nodes)};
    here.push_back(request);
    here.back().x = x.data();
    here.back().gradient = &gradients[i * size];
    there.push_back(request);
    there.back().x = model.row().data();
    there.back().gradient = &out.row()[i * size];
  }
  mlp.gradients(here);
  CudaMlp(mlp, *device, Precision::strict).gradients(there);
  CHECK(test::first_difference(gradients, out.values()) == count * size);
  for (std::size_t i = 0; i < count; ++i) {
    if (!test::same_bits(here[i].loss, there[i].loss)) FAIL_CHECK("loss " << i);
  }
}

TEST_CASE("cuda: an MLP that overflows does so as on the CPU") {
  const auto device = test::open_device();
  const Mlp mlp = make({20, {33}, 10, 16});
  for (const double move : {1e3, 1e18, 1e38}) {
    CAPTURE(move);
    for (const CudaMlp::Limits& limits : {one_block, by_layers})
      compare(*device, mlp, CudaMlp(mlp, *device, Precision::strict, limits), move);
  }
}

TEST_CASE("cuda: a gradient of an MLP that is not finite makes the loss NaN, stored or summed") {
  const auto device = test::open_device();
  for (const Sizes& sizes :
       {Sizes{9, {5}, 3, 4}, Sizes{68, {72}, 36, 20}, Sizes{150, {100}, 10, 15}}) {
    const Mlp mlp = make(sizes, 1e30F);
    const std::size_t size = mlp.facts().parameters, second = mlp.layers()[1].weights;
    // Hidden numbers and what is subtracted from logits stay near 1 and 1e12, and so does the loss; those of the first
    // weights' gradient are some 1e30 1e12.
    const auto change = [&](Values& x) {
      for (std::size_t i = 0; i < size; ++i)
        x[i] *= i < mlp.layers()[0].bias ? 1e-30F : i < second ? 1 : 1e12F;
    };
    Values x = model_of(mlp, 1, 0.1);
    change(x);
    const DeviceRow model(*device, x), out(*device, x);
    const LinearTerm terms[] = {{model.row().data(), 1}, {nullptr, -1e-44F}};
    const LinearJob job{out.row().data(), static_cast<std::uint32_t>(size), 0, 2};
    for (const CudaMlp::Limits& limits : {one_block, by_layers}) {
      const CudaMlp strict(mlp, *device, Precision::strict, limits);
      CHECK(compare(*device, mlp, strict, 0.1, change) == nodes);
      GradientRequest summed{.node = 1, .x = model.row().data(), .sums = {&job, 1}, .terms = terms};
      strict.gradients({&summed, 1});
      CHECK(std::isnan(summed.loss));
    }
    const CudaMlp fast(mlp, *device, Precision::fast, by_layers);
    GradientRequest stored{.node = 1, .x = model.row().data(), .gradient = out.row().data()};
    fast.gradients({&stored, 1});
    CHECK(std::isnan(stored.loss));
  }
}

TEST_CASE("cuda: a model too large for a block's shared memory runs layer by layer") {
  const auto device = test::open_device();
  // Case A of the measurements: 109,386 parameters are 437,544 bytes, no block has more than 232,448.
  const Mlp large = make({784, {128, 64}, 10, 4});
  const CudaMlp moved(large, *device, Precision::strict);
  CHECK(!moved.is_small());
  compare(*device, large, moved);
}

TEST_CASE("cuda: a step of more floats than 32 bits count does not fit into a block") {
  const auto device = test::open_device();
  // Inputs and outputs, two losses and a label of each sample, and the model: 2^32 + 14,056 of them.
  const Mlp mlp = make({4088, {}, 2, 1'047'808});
  CHECK(!CudaMlp(mlp, *device, Precision::strict).is_small());
}

TEST_CASE("cuda: two blocks of a step share a multiprocessor") {
  // An H100 has 228 KiB for all blocks of a multiprocessor, of which 1 KiB per block is the system's.
  constexpr CudaMlp::Limits limits;
  CHECK(limits.shared_bytes == 113 * 1024);
  // With 269 inputs and the most sums and terms a block takes 115,768 bytes, which leaves no room for a second one; with 268,
  // 115,256.
  const auto device = test::open_device();
  CHECK(!CudaMlp(make({269, {96}, 10, 4}), *device, Precision::strict).is_small());
  const bool fits = device->facts().shared_bytes >= limits.shared_bytes;  // not before 9.0
  CHECK(CudaMlp(make({268, {96}, 10, 4}), *device, Precision::strict).is_small() == fits);
}

TEST_CASE("cuda: quadratics are the CPU's, bit for bit") {
  const auto device = test::open_device();
  for (const std::size_t dimension : {1, 5, 1023, 1024, 2500}) {
    for (const double noise : {0.0, 0.3}) {
      CAPTURE(dimension);
      CAPTURE(noise);
      Quadratic::Problem problem{.nodes = nodes, .dimension = dimension, .noise = noise, .seed = 4};
      Random random(6, "quadratic");
      for (std::size_t i = 0; i < nodes * dimension; ++i) {
        problem.curvature.push_back(static_cast<float>(random.uniform()));
        problem.center.push_back(static_cast<float>(random.normal()));
      }
      problem.start.assign(dimension, 0.5F);
      const Quadratic quadratic(problem);
      compare(*device, quadratic, CudaQuadratic(quadratic, *device));
    }
  }
}

TEST_CASE("cuda: the fast mode is within 2e-3 of the strict one, beside units that switch") {
  const auto device = test::open_device();
  // TF32 rounds factors to 10 bits of mantissa, so by 2^-11 = 4.9e-4 at most, and two of them by about 1e-3; summed with
  // random signs less remains. 100 columns are three panels and a narrow one; 15 samples, so that no pair is whole.
  const Mlp regression = make({150, {}, 100, 15});
  const Mlp many_samples = make({150, {}, 100, 130});  // cuBLAS multiplies forward
  // A unit whose input rounds across zero is on in one mode and off in the other: rare, and worth some 1e-3 of a gradient.
  const Mlp units = make({150, {100, 132, 65}, 10, 15});
  for (const CudaMlp::Limits& limits : {by_layers, one_by_one}) {
    for (const auto& bounded :
         {std::pair{&regression, 2e-3}, {&many_samples, 2e-3}, {&units, 2e-2}}) {
      CAPTURE(bounded.second);
      const auto& [mlp, most] = bounded;
      const double away = distance_of_fast(*device, *mlp, limits);
      CHECK(away < most);
      CHECK(away > 0);  // it is another way of computing
    }
  }
}

TEST_CASE("cuda: the fast mode leaves layers that cuBLAS would find misaligned to the strict one") {
  const auto device = test::open_device();
  // Only the last layer is large, and begins at 130 (100 + 1) or 132 (100 + 1) floats.
  CHECK(distance_of_fast(*device, make({100, {130, 65}, 10, 16}), by_layers) == 0);
  CHECK(distance_of_fast(*device, make({100, {132, 65}, 10, 16}), by_layers) > 0);
}

TEST_CASE(
    "cuda: the fast mode is the strict one where a step runs in one block, evaluations, too") {
  const auto device = test::open_device();
  const Mlp mlp = make({128, {64}, 10, 4});
  const CudaMlp moved(mlp, *device, Precision::fast, one_block);
  CHECK(moved.is_small());
  CHECK(precision_of(moved) == Precision::strict);
  compare(*device, mlp, moved);
  CHECK(precision_of(CudaMlp(mlp, *device, Precision::fast, by_layers)) == Precision::fast);
}

}  // namespace starling::test_cuda_workloads
