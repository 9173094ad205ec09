// LQSGD beside allreduce SGD: what its lattice codes lose, wrong decodes that are seen, and what it sends.
#include <cmath>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_lqsgd {
namespace {

const std::string lqsgd = "kind = lqsgd\nlearning_rate = 0.05\n";
const std::string allreduce = "kind = allreduce\nlearning_rate = 0.05\n";

Recorder run(int nodes, int steps, const std::string& algorithm,
             const std::vector<std::string>& overrides = {}) {
  return test::run(test::quadratic_scenario(nodes, steps, "ring", algorithm), overrides);
}

struct Sums {
  std::int64_t messages = 0, bytes = 0;
  double wrong_codes = 0;
};

Sums sums_of(const Recorder& recorder) {
  Sums sums;
  for (const NodeTotals& node : recorder.nodes) {
    sums.messages += node.messages_sent;
    sums.bytes += node.bytes_sent;
  }
  // A row per step; nodes without children tell nothing.
  for (std::size_t k = 0; k < recorder.steps.rows("wrong_codes"); ++k) {
    for (std::size_t i = 0; i < recorder.nodes.size(); ++i) {
      const double wrong = recorder.steps.value("wrong_codes", k, i);
      if (!std::isnan(wrong)) sums.wrong_codes += wrong;
    }
  }
  return sums;
}

}  // namespace

TEST_CASE("LQSGD on one node is SGD, to the bit") {
  CHECK(run(1, 30, lqsgd).models == run(1, 30, allreduce).models);
}

TEST_CASE("LQSGD with many bits is allreduce SGD, over a star and over a tree, turned or not") {
  // Gradients differ by less than 3, so bounds stay below 3 * 3 * 1.5 and cells below 2^-11 (16 bits). An estimate
  // is off by half a cell per level at most, and what a step is off fades: 0.05 * (1 + 0.95 + ..) = 1 / curvature.
  for (const int nodes : {2, 5, 8}) {
    const Recorder exact = run(nodes, 40, allreduce + "momentum = 0.5\n");
    for (const std::string route : {"star", "tree"}) {
      for (const std::string rotation : {"none", "hadamard"}) {
        const Recorder recorder =
            run(nodes, 40,
                lqsgd + "momentum = 0.5\nbits = 16\nroute = " + route + "\nrotation = " + rotation);
        CHECK(test::largest_difference(recorder, exact) < 2e-3);
        CHECK(recorder.models != exact.models);
        CHECK(test::nodes_agree(recorder));
      }
    }
  }
}

TEST_CASE("LQSGD sends b bits per entry and way, a hash upwards, and at first whole vectors") {
  // Four nodes, three edges, up and down: 4 * 1000 bytes upwards in the first step, then 1000 b / 8 + 4; 1000 b / 8 downwards.
  for (const int bits : {4, 8}) {
    for (const std::string route : {"star", "tree"}) {
      const Recorder recorder =
          run(4, 10, lqsgd + "bits = " + std::to_string(bits) + "\nroute = " + route,
              {"workload.dimension=1000"});
      const Sums sums = sums_of(recorder);
      CHECK(sums.wrong_codes == 0);
      CHECK(sums.messages == 10 * 3 * 2);
      const std::int64_t code = 1000 * bits / 8;
      CHECK(sums.bytes == 3 * (4000 + 9 * (code + 4) + 10 * code));
    }
  }
}

TEST_CASE("wrong decodes are seen and sent again, uncompressed: all models stay equal") {
  // f_i = a / 2 |x - b_i|^2 with learning rate 11 / a: x - mean(b) grows tenfold per step. Curvatures differ, so gradients move
  // apart by as much, past the bound of 3 times the last radius.
  const std::vector<std::string> settings{"workload.dimension=20"};
  for (const std::string route : {"star", "tree"}) {
    const std::string diverging = "learning_rate = 8\n";
    const Recorder recorder =
        run(6, 8, "kind = lqsgd\nbits = 12\nroute = " + route + "\n" + diverging, settings);
    const Recorder exact = run(6, 8, "kind = allreduce\n" + diverging, settings);
    const Sums sums = sums_of(recorder);
    CHECK(sums.wrong_codes > 5);
    // 5 edges. A wrong code costs a request and a vector of 20 floats.
    const auto wrong = static_cast<std::int64_t>(sums.wrong_codes);
    CHECK(sums.messages == 8 * 5 * 2 + 2 * wrong);
    CHECK(sums.bytes == 5 * (80 + 7 * (30 + 4) + 8 * 30) + wrong * (16 + 80));
    double largest = 0;
    for (std::size_t k = 0; k < 20; ++k)
      largest = std::fmax(largest, std::abs(test::model(exact, 0, k)));
    CHECK(largest > 1e4);
    CHECK(test::largest_difference(recorder, exact) < 0.01 * largest);
    CHECK(test::nodes_agree(recorder));
    const Recorder doubled =
        run(6, 8, "kind = lqsgd\nbits = 12\nroute = " + route + "\n" + diverging,
            {"workload.dimension=20", "failures.duplicate=1"});
    CHECK(sums_of(doubled).messages ==
          sums.messages);  // a request that comes twice is answered once
    CHECK(doubled.models == recorder.models);
  }
}

TEST_CASE("the mean comes down a deep tree right to whoever is farthest, without a margin") {
  // The bound of the mean's code is twice the radius of the tree, over all its levels: each child's own radius counts. One
  // that read the mean wrong would be apart from the others.
  for (const int nodes : {7, 15, 31}) {
    const Recorder recorder =
        run(nodes, 12, lqsgd + "route = tree\nmargin = 1\nbits = 6",
            {"workload.dimension=30", "workload.noise=1", "workload.centers=index"});
    CHECK(test::nodes_agree(recorder));
  }
}

TEST_CASE(
    "the leader of LQSGD is drawn for every step, and a node far from all others leads well, too") {
  // Of eight nodes the first is 70 from the others, so 7 / 8 of that from the mean: further than what comes from below.
  const std::vector<std::string> far{"workload.curvature_min=1", "workload.curvature_max=1",
                                     "workload.centers=list",
                                     "workload.center_values=70, 0, 0, 0, 0, 0, 0, 0"};
  for (const std::string route : {"star", "tree"}) {
    const std::string algorithm = lqsgd + "margin = 1\nbits = 6\nroute = " + route;
    const Recorder recorder = run(8, 60, algorithm, far);
    CHECK(test::nodes_agree(recorder));
    CHECK(sums_of(recorder).wrong_codes == 0);
    // A node of a star sends one message to its leader, and the leader seven.
    if (route == "tree") continue;
    for (const NodeTotals& node : recorder.nodes) CHECK(node.messages_sent > 60);
  }
}

TEST_CASE("gradients of LQSGD that stay as they are are read right, without a margin") {
  // A code is off by half a cell, so two gradients may be further apart than what was read of them: the bound knows.
  for (const int nodes : {2, 4}) {
    const Recorder recorder =
        run(nodes, 100, "kind = lqsgd\nlearning_rate = 1e-30\nmargin = 1\nbits = 4",
            {"workload.dimension=1", "workload.centers=index"});
    CHECK(sums_of(recorder).wrong_codes == 0);
  }
}

TEST_CASE("the error of LQSGD does not grow with the gradients, only with their differences") {
  // From x = 1000 gradients are near 1000 in every entry and differ by a few: levels in ratio to the norm lose more than
  // cells in ratio to the differences.
  const std::vector<std::string> far{"workload.start=1000", "workload.dimension=200",
                                     "workload.curvature_min=1", "workload.curvature_max=1"};
  const Recorder exact = run(8, 10, allreduce, far);
  const double lattice = test::largest_difference(run(8, 10, lqsgd, far), exact);
  const double levels = test::largest_difference(
      run(8, 10, allreduce + "compression = levels\nlevels = 127\nerror_feedback = no", far),
      exact);
  CHECK(lattice < 0.1);
  CHECK(levels > 20 * lattice);
}

TEST_CASE("the mean of LQSGD's models over many seeds is allreduce's: its codes are unbiased") {
  // 3 bits: y is about 3 times a radius of at most 1, cells 0.9 wide; 3 steps are off by 3 * 0.05 * 0.9 / sqrt 12 = 0.04
  // or so, of the mean of 400 runs 0.002; 5 sigma.
  const Recorder exact = run(4, 3, allreduce);
  std::vector<double> sum(5);
  double largest = 0;
  for (int seed = 1; seed <= 400; ++seed) {
    const Recorder recorder = run(4, 3, lqsgd + "bits = 3",
                                  {"run.seed=" + std::to_string(seed), "workload.centers=index",
                                   "workload.curvature_min=1", "workload.curvature_max=1"});
    for (std::size_t k = 0; k < 5; ++k) {
      const double x = test::model(recorder, 0, k);
      sum[k] += x / 400;
      largest = std::fmax(largest, std::abs(x - test::model(recorder, 0, 0)));
    }
  }
  // f_i = 1/2 (x - i)^2: x after 3 steps from 0 is 1.5 (1 - 0.95^3).
  for (const double x : sum) CHECK(std::abs(x - 1.5 * (1 - std::pow(0.95, 3))) < 0.01);
  CHECK(largest > 0.02);
}

TEST_CASE("LQSGD refuses so few bits that its bound would grow for ever") {
  CHECK_THROWS_WITH_AS(run(4, 3, lqsgd + "bits = 2"),
                       doctest::Contains("bits must be more: the errors of 2 bits over 1 level"),
                       ScenarioError);
  CHECK_THROWS_WITH_AS(
      run(64, 3, lqsgd + "bits = 4\nroute = tree"),
      doctest::Contains("algorithm.bits must be more: the errors of 4 bits over 6 level(s), 3 "
                        "times enlarged, make the bound grow for ever"),
      ScenarioError);
  run(16, 3, lqsgd + "bits = 4\nroute = tree");
}

}  // namespace starling::test_lqsgd
