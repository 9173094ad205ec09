// allreduce with `compression`: codes around a ring in place of sums, or sums of numbers of two bytes.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_compressed_allreduce {
namespace {

const std::string allreduce = "kind = allreduce\nlearning_rate = 0.05\n";

/// 4 nodes, 32 parameters, 20 steps.
Recorder run(const std::string& algorithm, const std::vector<std::string>& overrides = {}) {
  return test::run_complete(20, 32, allreduce + algorithm, overrides);
}

/// `v` in half precision, or with the 8 bits of bfloat16.
float rounded(float v, bool is_bfloat) {
  if (v == 0) return 0;
  const int exponent = std::max(std::ilogb(v), is_bfloat ? -126 : -14);
  const double unit = std::ldexp(1.0, exponent - (is_bfloat ? 7 : 10));
  return static_cast<float>(std::nearbyint(static_cast<double>(v) / unit) * unit);
}

using Sum = std::function<float(float, float)>;

/// Entry k of the sum of all nodes' values as a collective over five nodes adds them up.
float added_up(const std::vector<std::vector<float>>& values, std::size_t k,
               const std::string& collective, const Sum& sum) {
  const auto x = [&](std::size_t i) { return values[i % 5][k]; };
  if (collective != "ring") return sum(sum(sum(x(0), x(1)), x(2)), sum(x(3), x(4)));
  std::size_t chunk = 0;
  while (k >= (chunk + 1) * values[0].size() / 5) ++chunk;
  float total = x(chunk);
  for (std::size_t s = 1; s < 5; ++s) total = sum(total, x(chunk + s));
  return total;
}

}  // namespace

TEST_CASE("sums of half precision are rounded wherever a message begins") {
  // One step with rate 1 from 0 leaves minus a node's gradient, or minus the mean of all.
  const std::vector<std::string> noise{"workload.dimension=32", "workload.curvature_min=0",
                                       "workload.curvature_max=0", "workload.noise=3"};
  const auto step = [&](const std::string& algorithm, std::vector<std::string> more = {}) {
    more.insert(more.end(), noise.begin(), noise.end());
    return test::run(test::quadratic_scenario(5, 1, "complete", algorithm + "learning_rate = 1\n"),
                     more);
  };
  const Recorder alone = step("kind = local_sgd\nperiod = 10\n");
  for (const std::string collective :
       {"ring", "recursive_doubling", "rabenseifner", "tree", "by_size"}) {
    for (const bool is_bfloat : {false, true}) {
      CAPTURE(collective);
      CAPTURE(is_bfloat);
      const auto round = [is_bfloat](float v) { return rounded(v, is_bfloat); };
      std::vector<std::vector<float>> values(5, std::vector<float>(32));
      for (std::size_t i = 0; i < 5; ++i) {
        for (std::size_t k = 0; k < 32; ++k) {
          const double gradient = -test::model(alone, static_cast<NodeId>(i), k);
          values[i][k] = round(static_cast<float>(gradient) * static_cast<float>(1.0 / 5));
        }
      }
      const std::string text =
          "kind = allreduce\nerror_feedback = no\ncode_route = sums\ncollective = " + collective +
          "\ncompression = " + (is_bfloat ? "bfloat\n" : "half\n");
      const Recorder summed = step(text);
      CHECK(test::nodes_agree(summed));
      std::size_t wrong = 0;
      for (std::size_t k = 0; k < 32; ++k) {
        const float total =
            added_up(values, k, collective, [&](float a, float b) { return round(a + b); });
        wrong += test::model(summed, 0, k) == -static_cast<double>(total) ? 0 : 1;
      }
      CHECK(wrong == 0);
      const Recorder analytic = step(text, {"network.collectives=analytic"});
      CHECK(analytic.models == summed.models);
      if (collective != "by_size")
        CHECK(analytic.nodes[3].bytes_sent == summed.nodes[3].bytes_sent);
    }
  }
}

TEST_CASE("sums of half precision are half of what sums are, around rings of two levels, too") {
  const std::string sums = "compression = half\ncode_route = sums\n";
  for (const std::string collective :
       {"ring", "rabenseifner", "hierarchical\ncollective_group = 2"}) {
    CAPTURE(collective);
    const std::string by = "collective = " + collective + "\n";
    const Recorder exact = run(by);
    const Recorder half = run(by + sums + "error_feedback = no\n");
    const Recorder fed_back = run(by + sums);
    CHECK(test::nodes_agree(half));
    CHECK(2 * half.nodes[2].bytes_sent == exact.nodes[2].bytes_sent);
    CHECK(half.nodes[2].messages_sent == exact.nodes[2].messages_sent);
    CHECK(run(by + sums, {"network.collectives=analytic"}).models == fed_back.models);
    // A step moves by some tenths, of which a sum loses up to 2^-12 at each of three additions and once before.
    CHECK(test::largest_difference(half, exact) < 20 * 4 * 0.1 / 4096);
    CHECK(test::largest_difference(half, exact) > 1e-6);
    CHECK(test::largest_difference(half, fed_back) > 1e-6);
  }
  // Fewer parameters than nodes: some chunks are empty.
  for (const std::string collectives : {"expanded", "analytic"}) {
    const Recorder few = test::run_complete(3, 2, allreduce + sums + "collective = ring\n",
                                            {"network.collectives=" + collectives});
    CHECK(test::nodes_agree(few));
  }
  CHECK_THROWS_WITH_AS(run("compression = sign\ncode_route = sums\n"),
                       doctest::Contains("algorithm.code_route = sums adds up numbers of half "
                                         "precision, not codes of compression = sign"),
                       ScenarioError);
}

TEST_CASE("keeping every entry is allreduce, with and without error feedback and momentum") {
  const std::string momentum = "momentum = 0.8\nweight_decay = 0.01\n";
  const Recorder exact = run(momentum);
  for (const std::string compression :
       {"compression = top_k\nkeep = 1\n", "compression = random_k\nkeep = 1\n",
        "compression = top_k\nkeep = 1\nerror_feedback = no\n",
        "compression = random_k\nkeep = 1\nunbiased = yes\nerror_feedback = yes\n"}) {
    const Recorder recorder = run(momentum + compression);
    CHECK(test::largest_difference(recorder, exact) < 2e-6);
    CHECK(test::nodes_agree(recorder));
  }
}

TEST_CASE(
    "compressed allreduce sends every code to everybody: n - 1 times its bytes per node and step") {
  // 32 floats: half 64 bytes; top-2 of them 16; random-2 8; 7 levels 4 + 32 * 4 bits = 20; ternary 4 + 8; sign 4 + 4;
  // one bit 8 + 4. A threshold that all entries pass sends 8 bytes of each.
  const std::pair<const char*, std::int64_t> codecs[] = {
      {"half", 64},
      {"bfloat", 64},
      {"top_k\nkeep = 0.0625", 16},
      {"random_k\nkeep = 0.0625", 8},
      {"levels", 20},
      {"ternary", 12},
      {"sign", 8},
      {"one_bit", 12},
      {"threshold\nthreshold = 1e-30\nkeep = 1\nerror_feedback = no", 256}};
  for (const auto& entry : codecs) {
    CAPTURE(entry.first);
    const auto& [codec, bytes] = entry;
    const std::string text = "compression = " + std::string(codec) + "\n";
    const Recorder recorder = run(text);
    for (const NodeTotals& node : recorder.nodes) {
      CHECK(node.messages_sent == 20 * 3);
      CHECK(node.bytes_sent == 20 * 3 * bytes);
    }
    CHECK(test::nodes_agree(recorder));
    // The closed form: same bits, same bytes, same time. A step is 1 ms and three messages of 10 us.
    const Recorder analytic = run(text, {"network.collectives=analytic"});
    CHECK(analytic.models == recorder.models);
    CHECK(analytic.nodes == recorder.nodes);
    CHECK(to_seconds(analytic.nodes[0].finished) == doctest::Approx(20 * 1.03e-3));
  }
}

TEST_CASE("with error feedback nothing is lost, without it something is") {
  // No curvature: gradients are their noise. The learning rate vanishes after 20 of 60 steps, so residuals drain.
  const std::string settings =
      "kind = allreduce\nlearning_rate = 0.1\nschedule = step\ndecay_steps = 20\ndecay_factor = "
      "1e-30\n";
  const std::vector<std::string> noise{"workload.dimension=32", "workload.curvature_min=0",
                                       "workload.curvature_max=0", "workload.noise=1"};
  const auto moved = [&](const std::string& compression) {
    return test::run(test::quadratic_scenario(4, 60, "ring", settings + compression), noise);
  };
  const Recorder exact = moved("");
  CHECK(test::largest_difference(moved("compression = top_k\nkeep = 0.0625\n"), exact) < 2e-6);
  CHECK(test::largest_difference(moved("compression = top_k\nkeep = 0.0625\nerror_feedback = no\n"),
                                 exact) > 0.1);
  CHECK(test::largest_difference(moved("compression = half\n"), exact) < 2e-6);
  CHECK(test::largest_difference(moved("compression = half\nerror_feedback = no\n"), exact) > 1e-5);
}

TEST_CASE("stochastic levels are right on the mean") {
  // With curvature 1, center 1 and one step from 0, x = 0.05 * mean_i Q(g_i), g = -1 in all 32 entries: norm
  // sqrt(32), so with one level Q(g) is -sqrt(32) with probability 1 / sqrt(32). Mean over 64 nodes and 32
  // entries: -1 with a standard deviation of sqrt((sqrt(32) - 1) / 2048) = 0.048; five of them are allowed.
  const Recorder recorder =
      test::run(test::quadratic_scenario(
                    64, 1, "ring", allreduce + "compression = levels\nlevels = 1\nbucket = 0\n"),
                {"workload.dimension=32", "workload.centers=list", "workload.center_values=1"});
  double sum = 0;
  for (std::size_t k = 0; k < 32; ++k) sum += test::model(recorder, 0, k) / 0.05 / 32;
  CHECK(std::abs(sum - 1) < 5 * 0.048);
  CHECK(std::abs(sum - 1) > 1e-6);
}

TEST_CASE(
    "compressed allreduce: a codec that needs a reference is refused, and collective beside "
    "codes") {
  CHECK_THROWS_WITH_AS(run("compression = lattice\ncell = 1\n"),
                       doctest::Contains("algorithm.compression must be one of none, half,"),
                       ScenarioError);
  CHECK_THROWS_WITH_AS(run("compression = sign\ncollective = ring\n"),
                       doctest::Contains("algorithm.collective is not a key here"), ScenarioError);
}

}  // namespace starling::test_compressed_allreduce
