// A parameter server with codes in both directions: nothing is lost, the counterexample of the thesis, and what it sends.
#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_compressed_parameter_server {
namespace {

const std::string compressed = "kind = compressed_parameter_server\n";

/// Zou's counterexample: scenarios/papers/zou_counterexample.ini with a row of each metric per step.
Recorder counterexample(std::vector<std::string> overrides,
                        const std::string& start = "scenarios/data/zou_start.txt") {
  std::ifstream file("scenarios/papers/zou_counterexample.ini");
  std::stringstream read;
  read << file.rdbuf();
  std::string text = read.str();
  if (overrides.at(0) == "algorithm.direction=downlink") {  // which has no uplink codec
    const std::string uplink = "compression = top_k\nkeep = 0.01\n";
    text.erase(text.find(uplink), uplink.size());
  }
  overrides.emplace_back("workload.start_file=" + start);
  overrides.emplace_back("run.evaluate_every=1");
  overrides.emplace_back("run.record_every=1");
  return test::run(text, overrides);
}

struct Reference {
  std::string direction;
  Step step;
  double objective;
};

/// F after so many steps, from the authors' notebook done again in double precision.
std::vector<Reference> references() {
  std::ifstream file("tests/algorithms/reference/zou_counterexample.csv");
  std::vector<Reference> rows;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    Reference row;
    std::getline(cells, row.direction, ',');
    char comma = 0;
    cells >> row.step >> comma >> row.objective;
    rows.push_back(row);
  }
  REQUIRE(rows.size() == 64);
  return rows;
}

double objective(const Recorder& recorder, Step finished) {
  return recorder.evaluation.value("test_loss", static_cast<std::size_t>(finished - 1));
}

/// Compares the run with the rows of a direction up to a step, to the three decimals that they have.
void check_counterexample(const Recorder& recorder, const std::string& direction, Step last) {
  for (const Reference& row : references()) {
    if (row.direction != direction || row.step == 0 || row.step > last) continue;
    CAPTURE(direction);
    CAPTURE(row.step);
    CHECK(std::abs(objective(recorder, row.step) - row.objective) < 1e-6 * row.objective);
  }
}

}  // namespace

TEST_CASE("compressing nothing is allreduce SGD, in every direction") {
  const std::string settings = "\nlearning_rate = 0.05\nmomentum = 0.8\nweight_decay = 0.01";
  const Recorder exact =
      test::run(test::quadratic_scenario(6, 40, "ring", "kind = allreduce" + settings));
  for (const std::string direction : {"uplink", "downlink", "both"}) {
    std::vector<std::string> overrides{"algorithm.direction=" + direction};
    if (direction != "downlink") overrides.emplace_back("algorithm.keep=1");
    if (direction != "uplink") overrides.emplace_back("algorithm.downlink_keep=1");
    const Recorder recorder =
        test::run(test::quadratic_scenario(6, 40, "ring", compressed + settings), overrides);
    CHECK(test::largest_difference(recorder, exact) < 3e-6);
    CHECK(test::nodes_agree(recorder));
  }
}

TEST_CASE(
    "nothing is lost: residuals that are sent at last leave x_0 - sum learning_rate * mean g") {
  // Without curvature a gradient is its noise, whatever the model, so both runs have the same. After 40 steps the
  // learning rate is 1e-30 of itself: what follows is the residuals, an entry of 20 per node and step. The nodes'
  // need 20 steps, the server's at most 20 more.
  const std::string settings = "learning_rate = 0.1\n";
  const std::vector<std::string> noise =
      test::gradients_until(40, {"workload.dimension=20", "workload.curvature_min=0",
                                 "workload.curvature_max=0", "workload.noise=1"});
  const auto run = [&](const std::string& kind, std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), noise.begin(), noise.end());
    return test::run(test::quadratic_scenario(5, 85, "ring", kind + settings), overrides);
  };
  const Recorder exact = run("kind = allreduce\n", {});
  const std::vector<std::vector<std::string>> variants{
      {"algorithm.keep=0.05"},
      {"algorithm.direction=both", "algorithm.keep=0.05", "algorithm.downlink_keep=0.05"},
      {"algorithm.direction=downlink", "algorithm.downlink_keep=0.05"},
      {"algorithm.direction=both", "algorithm.keep=0.05", "algorithm.downlink_keep=0.1",
       "algorithm.downlink_strict=yes"}};
  for (const auto& variant : variants) {
    const Recorder recorder = run(compressed, variant);
    CHECK(test::largest_difference(recorder, exact) < 2e-6);
    CHECK(test::nodes_agree(recorder));
  }
  // 60 of the 85 steps are not enough: the difference is the residuals that are still there.
  const Recorder early = test::run(
      test::quadratic_scenario(5, 45, "ring", compressed + settings + "keep = 0.05\n"), noise);
  CHECK(test::largest_difference(early, exact) > 1e-2);
}

TEST_CASE("the counterexample's objective is that of the thesis, in all directions") {
  const std::vector<std::string> downlink{"algorithm.downlink_keep=0.01"};
  const Recorder uplink = counterexample({"algorithm.direction=uplink"});
  check_counterexample(uplink, "uplink", 1000);
  const Recorder down = counterexample({"algorithm.direction=downlink", downlink[0]});
  check_counterexample(down, "downlink", 1000);
  const Recorder plain =
      counterexample({"algorithm.direction=downlink", "algorithm.downlink_compression=none"});
  check_counterexample(plain, "sgd", 1000);
  const Recorder bidirectional = counterexample({"algorithm.direction=both", downlink[0]});
  // Single precision decides otherwise than double once: at step 433 the two largest magnitudes of node 2's
  // vector, entries 75 and 76, differ by 4e-7 of themselves. What follows parts by 625 and is a run as good
  // as the other.
  check_counterexample(bidirectional, "both", 600);

  // Mean of F - F* over the last 200 steps: 22.39, 15.06 in double precision, 16.43 +- 1.26 over 50 starts.
  const auto excess = [](const Recorder& recorder) {
    double sum = 0;
    for (Step k = 801; k <= 1000; ++k) sum += objective(recorder, k);
    return sum / 200 - 6100.0 / 9;
  };
  CHECK(excess(uplink) == doctest::Approx(22.3861).epsilon(1e-4));
  CHECK(std::abs(excess(bidirectional) - 16.43) < 3 * 1.26);
  CHECK(excess(down) < 1e-4);
}

TEST_CASE(
    "from a start written down, the counterexample has the same objectives in all directions") {
  // x_j = 20 + (((37 j) mod 100) - 49.5) / 25, j = 0 .. 99. F after 200, 300, 500 and 1,000 steps, in double precision by
  // numpy, and its mean over the last 200 steps.
  std::string numbers;
  for (int j = 0; j < 100; ++j) numbers += fmt::format("{}\n", (37 * j % 100 - 49.5) / 25);
  const test::TemporaryFile start(numbers);
  struct Case {
    std::vector<std::string> overrides;
    std::array<double, 4> objectives;
    double mean;
  };
  const Case cases[] = {{{"algorithm.direction=uplink"}, {703.51, 701.66, 698.12, 698.18}, 700.6},
                        {{"algorithm.direction=both", "algorithm.downlink_keep=0.01"},
                         {691.27, 695.14, 689.29, 693.16},
                         694.4},
                        {{"algorithm.direction=downlink", "algorithm.downlink_keep=0.01"},
                         {679.83, 677.80, 677.78, 677.78},
                         677.78}};
  for (const auto& [overrides, objectives, mean] : cases) {
    const Recorder recorder = counterexample(overrides, start.path());
    const Step after[] = {200, 300, 500, 1000};
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(std::abs(objective(recorder, after[i]) - objectives[i]) < 0.006);
    double sum = 0;
    for (Step k = 801; k <= 1000; ++k) sum += objective(recorder, k);
    CHECK(std::abs(sum / 200 - mean) < 0.06);
  }
}

TEST_CASE("the counterexample's gap to the top-k of what was meant is that of the thesis") {
  // compression_gap is relative to learning_rate * || mean g ||, and mean g = x - 16/3, of norm sqrt(2 (F -
  // F*)). Mean norm of the gap itself over steps 200 to 999, double precision: 2.3268; with both directions
  // 2.0427 until the runs part (see above), so within the spread of windows there.
  const auto gap = [](std::vector<std::string> overrides) {
    overrides.emplace_back("algorithm.gap_period=1");
    const Recorder recorder = counterexample(overrides);
    double sum = 0;
    int rows = 0;
    for (Step k = 200; k < 1000; ++k, ++rows) {
      sum += recorder.steps.value("compression_gap", static_cast<std::size_t>(k), 0) * 0.01 *
             std::sqrt(2 * (objective(recorder, k) - 6100.0 / 9));
    }
    return sum / rows;
  };
  CHECK(gap({"algorithm.direction=uplink"}) == doctest::Approx(2.3268).epsilon(0.02));
  CHECK(gap({"algorithm.direction=both", "algorithm.downlink_keep=0.01"}) ==
        doctest::Approx(2.0427).epsilon(0.05));
  CHECK(gap({"algorithm.direction=downlink", "algorithm.downlink_keep=0.01"}) == 0);
}

TEST_CASE("messages are charged 8 bytes per entry, downlink as many as the union has") {
  // 20 parameters, a tenth kept: 16 bytes up. Node 0 is the server; what it sends to itself does not travel.
  const std::string text =
      test::quadratic_scenario(4, 30, "ring", compressed + "keep = 0.1\nlearning_rate = 0.1");
  const Recorder uplink = test::run(text, {"workload.dimension=20"});
  for (NodeId i = 1; i < 4; ++i)
    CHECK(uplink.nodes[static_cast<std::size_t>(i)].bytes_sent == 30 * 16);
  double entries = 0;
  for (std::size_t k = 0; k < 30; ++k) {
    const double in_union = uplink.steps.value("uplink_union", k, 0);
    CHECK(in_union >= 2);
    CHECK(in_union <= 8);
    CHECK(uplink.steps.value("downlink_per_uplink", k, 0) == in_union / 2);
    entries += in_union;
  }
  CHECK(uplink.nodes[0].bytes_sent == 3 * 8 * static_cast<std::int64_t>(entries));

  // Strict: one entry less than three tenths of 20.
  const Recorder strict =
      test::run(text, {"workload.dimension=20", "algorithm.direction=both",
                       "algorithm.downlink_keep=0.3", "algorithm.downlink_strict=yes"});
  CHECK(strict.nodes[0].bytes_sent == 30 * 3 * 8 * 5);
  CHECK(strict.steps.value("downlink_per_uplink", 7, 0) == 2.5);

  // Measuring the gap changes neither what is charged nor the result.
  const Recorder measured = test::run(text, {"workload.dimension=20", "algorithm.gap_period=3"});
  CHECK(measured.models == uplink.models);
  CHECK(measured.nodes[0].bytes_sent == uplink.nodes[0].bytes_sent);
  CHECK(measured.nodes[1].bytes_sent == uplink.nodes[1].bytes_sent);
  // Nor where no entry reaches a threshold: a message without a vector.
  const Recorder silent =
      test::run(test::quadratic_scenario(4, 30, "ring",
                                         "kind = compressed_parameter_server\nlearning_rate = 0.1\n"
                                         "compression = threshold\nthreshold = 1e6\nkeep = 1\n"),
                {"algorithm.gap_period=3"});
  CHECK(silent.nodes[1].bytes_sent == 30 * 16);
}

TEST_CASE(
    "without numbers no two nodes choose alike: the downlink has n times the uplink's entries") {
  std::string text =
      test::quadratic_scenario(4, 10, "ring", compressed + "keep = 0.01\nlearning_rate = 0.1");
  const std::string quadratic = "kind = quadratic\ndimension = 5";
  text.replace(text.find(quadratic), quadratic.size(), "kind = timing\nmodel = resnet50");
  const Recorder recorder = test::run(text);
  CHECK(recorder.nodes[1].bytes_sent == 10 * 8 * 255'591);  // a hundredth of 25,559,081
  CHECK(recorder.nodes[0].bytes_sent == 10 * 3 * 4 * 8 * 255'591);
}

TEST_CASE("without numbers a code of few words may still say something of every entry") {
  // What the server sends is the union of what four codes say of 1,000 entries, 8 bytes each, or the whole model.
  const std::vector<std::pair<std::string, std::int64_t>> codecs{
      {"sign", 4 * 1000},
      {"levels", 4 * 1000},
      {"half", 4 * 1000},
      {"random_k\nkeep = 0.02", 8 * 4 * 20},
      {"threshold_quantization\nthreshold = 1\nkeep = 0.02", 8 * 4 * 20},
      {"adaptive_quantization\nkeep = 0.02", 8 * 4 * 20},
      {"top_k\nkeep = 0.02", 8 * 4 * 20},
      {"top_k\nkeep = 0.3", 4 * 1000}};
  for (const auto& entry : codecs) {
    CAPTURE(entry.first);
    std::string text = test::quadratic_scenario(
        4, 3, "ring", compressed + "learning_rate = 0.1\ncompression = " + entry.first);
    const std::string quadratic = "kind = quadratic\ndimension = 5";
    text.replace(text.find(quadratic), quadratic.size(), "kind = timing\nparameters = 1000");
    CHECK(test::run(text).nodes[0].bytes_sent == 3 * 3 * entry.second);
  }
}

TEST_CASE("compressed parameter server: a codec that needs a reference is refused") {
  CHECK_THROWS_WITH_AS(
      test::run(test::quadratic_scenario(4, 10, "ring", compressed + "learning_rate = 1"),
                {"algorithm.compression=lattice", "algorithm.cell=1"}),
      doctest::Contains("algorithm.compression must be one of none, half,"), ScenarioError);
}

}  // namespace starling::test_compressed_parameter_server
