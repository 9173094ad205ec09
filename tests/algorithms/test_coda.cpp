// CODA beside primal-dual SGD on one machine, stages and all, and what it sends.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_coda {
namespace {

/// AUC of a linear score on digits: 64 weights, a bias, a, b, alpha.
std::string scenario(int nodes, int steps, const std::string& algorithm) {
  return fmt::format(
      "[run]\nnodes = {}\nsteps = {}\n[topology]\nkind = complete\n[network]\nkind = constant\n"
      "latency = 10 us\n[compute]\ngradient = 1 ms\n[workload]\nkind = auc\npositive_share = 0.05\n"
      "batch_size = 32\n[algorithm]\n{}\n",
      nodes, steps, algorithm);
}

}  // namespace

TEST_CASE("CODA that averages every step is parallel primal-dual SGD") {
  // One stage without a pull: the mean of the models moves by the mean gradient, in which alpha ascends.
  const Recorder coda =
      test::run(scenario(6, 40, "kind = coda\nlearning_rate = 0.05\nperiod = 1\ngamma = 0"));
  const Recorder parallel = test::run(scenario(6, 40, "kind = allreduce\nlearning_rate = 0.05"));
  CHECK(test::largest_difference(coda, parallel) < 1e-5);
  const std::size_t last = parallel.evaluation.rows("test_auc") - 1;
  CHECK(parallel.evaluation.value("test_auc", last) > 0.9);
}

TEST_CASE("CODA on one node is the single-machine method, stages and all") {
  // By hand on the workload's own gradients: T = 5, 15, .., rates l, l / 3, .., pull with gamma = 2; at the end of a
  // stage a fresh mini-batch sets alpha, then the center moves. Weight decay is of v alone.
  double decay = 0;
  double clip = 0;
  int batches = 1;
  SUBCASE("without weight decay") {}
  SUBCASE("with three mini-batches for alpha") { batches = 3; }
  SUBCASE("with weight decay") { decay = 0.5; }
  SUBCASE("with gradients that are cut, and a pull that is not") { clip = 0.05; }
  const std::string text = scenario(
      1, 30,
      "kind = coda\nlearning_rate = 0.06\nstage_steps = 5\ngamma = 2\nperiod = 4\nweight_decay = " +
          std::to_string(decay) + "\nclip_norm = " + std::to_string(clip) +
          "\ndual_batches = " + std::to_string(batches));
  const Recorder recorder = test::run(text);
  const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
  const Workload& workload = *parts.workload;
  std::vector<float> x(workload.facts().parameters), g(x.size());
  workload.initial_model(x);
  std::vector<float> center = x;
  const std::size_t alpha = x.size() - 1;
  Step draw = 0;
  const auto gradient = [&] {
    GradientRequest request{.node = 0, .draw = draw++, .x = x.data(), .gradient = g.data()};
    workload.gradients({&request, 1});
  };
  double rate = 0.06;
  Step end = 5, length = 5;
  for (Step k = 0; k < 30; ++k) {
    gradient();
    double square = 0;
    for (const float entry : g) square += double{entry} * double{entry};
    const double kept = clip > 0 ? std::min(1.0, clip / std::sqrt(square)) : 1;
    for (std::size_t c = 0; c < x.size(); ++c) {
      const double pull =
          c == alpha ? 0 : (double{x[c]} - double{center[c]}) / 2 + decay * double{x[c]};
      x[c] = static_cast<float>(x[c] - rate * (kept * g[c] + pull));
    }
    if (k + 1 != end) continue;
    float sum = 0;
    for (int batch = 0; batch < batches; ++batch) {
      gradient();
      sum += g[alpha];
    }
    x[alpha] -= sum / static_cast<float>(batches * workload.facts().dual_curvature);
    center = x;
    rate /= 3;
    length *= 3;
    end += length;
  }
  CHECK(draw == 30 + 2 * batches);  // two stages ended
  for (std::size_t c = 0; c < x.size(); ++c) {
    CHECK(test::model(recorder, 0, c) == doctest::Approx(double{x[c]}).epsilon(1e-4));
  }
}

TEST_CASE("without a dual part CODA is local SGD with a proximal pull, in stages") {
  // One stage without pull is local SGD; with gamma, one node and f = 1/2 (x - 1)^2 from 0, each step is
  // x <- x - l ((x - 1) + (x - v0) / gamma).
  const std::string local = "\nlearning_rate = 0.05\nperiod = 4";
  CHECK(
      test::run(test::quadratic_scenario(5, 20, "ring", "kind = coda\ngamma = 0" + local)).models ==
      test::run(test::quadratic_scenario(5, 20, "ring", "kind = local_sgd" + local)).models);
  // A limit cuts x - 1 alone: with gamma = 0.02 the first stage overshoots v0 again and again, so that the pull is far longer.
  for (const double limit : {0.0, 0.05}) {
    const double gamma = limit > 0 ? 0.02 : 0.5;
    double x = 0, center = 0, rate = 0.1;
    for (int k = 0; k < 16; ++k) {
      const double g = limit > 0 ? std::clamp(x - 1, -limit, limit) : x - 1;
      x -= rate * (g + (x - center) / gamma);
      if (k + 1 == 4) {
        center = x;
        rate /= 3;
      }
    }
    const Recorder recorder = test::run(
        test::quadratic_scenario(1, 16, "ring",
                                 "kind = coda\nlearning_rate = 0.1\nstage_steps = 4"),
        {"workload.centers=list", "workload.center_values=1", "workload.dimension=1",
         fmt::format("algorithm.gamma={}", gamma), fmt::format("algorithm.clip_norm={}", limit)});
    CHECK(test::model(recorder, 0, 0) == doctest::Approx(x).epsilon(1e-5));
  }
}

TEST_CASE("CODA sends the whole model per period, and one number per stage") {
  // Recursive doubling, four nodes: two messages per averaging. 12 steps in stages of 3 and 9: averagings after steps
  // 2, 3 (the stage), 5, 7, 9, 11, 12 (the stage), each of 68 floats; two dual averagings of one float, which stays one
  // where the model stands for a larger one.
  const std::string text =
      scenario(4, 12,
               "kind = coda\nlearning_rate = 0.01\nstage_steps = 3\nperiod = 2\ncollective = "
               "recursive_doubling");
  for (const std::int64_t parameters : {68, 68000}) {
    const Recorder recorder =
        test::run(text, {"workload.wire_parameters=" + std::to_string(parameters)});
    for (const NodeTotals& node : recorder.nodes) {
      CHECK(node.messages_sent == 2 * (7 + 2));
      CHECK(node.bytes_sent == 2 * 4 * (7 * parameters + 2));
    }
    CHECK(test::nodes_agree(recorder));
  }
}

TEST_CASE("the stages of CODA set the learning rate, and nothing else may") {
  CHECK_THROWS_WITH_AS(
      test::run(scenario(2, 3, "kind = coda\nlearning_rate = 0.1\nschedule = cosine")),
      doctest::Contains("schedule must be constant"), ScenarioError);
  // Stages that shrink would never end.
  CHECK_THROWS_WITH_AS(test::run(scenario(2, 3, "kind = coda\nlearning_rate = 0.1\ndecay = 0.5")),
                       doctest::Contains("decay must be at least 1, got 0.5"), ScenarioError);
}

TEST_CASE("the gradient at a stage's end does not move the training losses of later steps") {
  // Without a learning rate to speak of only alpha moves, after steps 3 and 6, by mini-batches 3 and 7 of the node.
  const std::string text =
      scenario(1, 9, "kind = coda\nlearning_rate = 1e-30\nstage_steps = 3\ndecay = 1");
  const Recorder recorder = test::run(text);
  const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
  const Workload& workload = *parts.workload;
  std::vector<float> x(workload.facts().parameters), g(x.size());
  workload.initial_model(x);
  Step draw = 0;
  for (std::size_t k = 0; k < 9; ++k) {
    GradientRequest request{.node = 0, .draw = draw++, .x = x.data(), .gradient = g.data()};
    workload.gradients({&request, 1});
    CHECK(recorder.steps.value("train_loss", k, 0) == doctest::Approx(request.loss));
    if (k % 3 != 2) continue;
    request.draw = draw++;
    workload.gradients({&request, 1});
    x.back() -= g.back() / static_cast<float>(workload.facts().dual_curvature);
  }
}

}  // namespace starling::test_coda
