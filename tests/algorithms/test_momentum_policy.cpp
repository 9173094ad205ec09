// What happens to momentum when models are averaged or mixed: keep, average, reset, mix.

#include <utility>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "tests/support/mixing_matrix.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_momentum_policy {
namespace {

const std::vector<std::string> policies{"keep", "average", "reset"};

Recorder run_blocks(const std::string& algorithm, const std::string& policy,
                    const std::string& optimizer) {
  return test::run(test::quadratic_scenario(6, 40, "ring",
                                            algorithm + "\nlearning_rate = 0.05\nperiod = 4\n" +
                                                optimizer + "\nmomentum_policy = " + policy));
}

/// Two nodes, centers 0 and 1, curvature 1, rate 0.1, momentum 0.5, from 0.
struct TwoNodes {
  double x[2] = {0, 0};
  double m[2] = {0, 0};

  void step() {
    for (int i = 0; i < 2; ++i) m[i] = 0.5 * m[i] + (x[i] - i);
    for (int i = 0; i < 2; ++i) x[i] -= 0.1 * m[i];
  }
  void apply(const std::string& policy) {
    const double mean = (m[0] + m[1]) / 2;
    for (double& momentum : m)
      momentum = policy == "keep" ? momentum : policy == "reset" ? 0 : mean;
  }
};

Recorder run_two(const std::string& algorithm, int steps) {
  return test::run(test::quadratic_scenario(2, steps, "complete",
                                            algorithm + "\nlearning_rate = 0.1\nmomentum = 0.5"),
                   {"workload.centers=index"});
}

}  // namespace

TEST_CASE(
    "WAGMA-SGD without groups is local SGD, whatever becomes of momentum at its global steps") {
  const auto run = [](const std::string& algorithm, const std::string& policy) {
    return test::run(test::quadratic_scenario(
        4, 22, "ring",
        algorithm + "\nlearning_rate = 0.05\nmomentum = 0.8\nmomentum_policy = " + policy));
  };
  for (const std::string& policy : policies) {
    CAPTURE(policy);
    const Recorder local = run("kind = local_sgd\nperiod = 4", policy);
    CHECK(test::largest_difference(run("kind = wagma\ngroup_size = 1\ntau = 4", policy), local) <
          2e-6);
  }
  const Recorder grouped =
      run("kind = wagma\ngroup_size = 2\ntau = 4\nactivation = full", "average");
  CHECK(test::largest_difference(
            grouped, run("kind = wagma\ngroup_size = 2\ntau = 4\nactivation = full", "keep")) >
        1e-3);
}

TEST_CASE(
    "with outer rules that change nothing every averager is local SGD, whatever becomes of "
    "momentum") {
  for (const std::string optimizer : {"momentum = 0.8", "optimizer = adam"}) {
    for (const std::string& policy : policies) {
      CAPTURE(policy);
      const Recorder local = run_blocks("kind = local_sgd", policy, optimizer);
      for (const std::string algorithm :
           {"kind = bmuf\nblock_momentum = 0",
            "kind = diloco\nouter_learning_rate = 1\nouter_momentum = 0",
            "kind = adaptive_period\nsampling_steps = 40",
            "kind = dasgd\ndelay = 0\nlocal_share = 0", "kind = slowmo\nslow_momentum = 0"}) {
        CAPTURE(algorithm);
        CHECK(test::largest_difference(run_blocks(algorithm, policy, optimizer), local) < 2e-5);
      }
      for (const std::string& other : policies) {
        const Recorder recorder = run_blocks("kind = local_sgd", other, optimizer);
        CHECK((test::largest_difference(recorder, local) > 1e-3) == (other != policy));
      }
    }
  }
}

TEST_CASE("groups of local SGD treat momentum as all nodes do") {
  // Four nodes, centers 0 to 3, groups of two after every 2 steps, all after 4.
  for (const std::string& policy : policies) {
    double x[4] = {1, 1, 1, 1};
    double m[4] = {};
    const auto mean = [](double* values, int i, int size) {
      double sum = 0;
      for (int j = i / size * size; j < i / size * size + size; ++j) sum += values[j] / size;
      return sum;
    };
    for (int k = 1; k <= 7; ++k) {
      for (int i = 0; i < 4; ++i) m[i] = 0.5 * m[i] + (x[i] - i);
      for (int i = 0; i < 4; ++i) x[i] -= 0.1 * m[i];
      if (k % 2 == 1) continue;
      const int size = k % 4 == 0 ? 4 : 2;
      for (int i = 0; i < 4; i += size) {
        const double of_x = mean(x, i, size);
        const double of_m = mean(m, i, size);
        for (int j = i; j < i + size; ++j) {
          x[j] = of_x;
          if (policy != "keep") m[j] = policy == "reset" ? 0 : of_m;
        }
      }
    }
    const Recorder recorder =
        test::run(test::quadratic_scenario(4, 7, "ring",
                                           "kind = local_sgd\nlearning_rate = 0.1\nmomentum = 0.5\n"
                                           "period = 4\ngroup_sizes = 2\ngroup_periods = 2\n"
                                           "momentum_policy = " +
                                               policy),
                  {"workload.centers=index", "workload.start=1"});
    for (NodeId i = 0; i < 4; ++i)
      CHECK(test::model(recorder, i, 0) == doctest::Approx(x[i]).epsilon(1e-5));
  }
}

TEST_CASE("averaged momentum travels behind the model: twice the bytes, three times for Adam") {
  const auto bytes = [](const std::string& algorithm, const std::string& policy,
                        const std::string& optimizer) {
    return run_blocks(algorithm, policy, optimizer).nodes[1].bytes_sent;
  };
  for (const std::string algorithm :
       {"kind = bmuf", "kind = diloco", "kind = dasgd", "kind = easgd"}) {
    CAPTURE(algorithm);
    const auto models = bytes(algorithm, "keep", "momentum = 0.8");
    CHECK(bytes(algorithm, "reset", "momentum = 0.8") == models);
    CHECK(bytes(algorithm, "average", "momentum = 0.8") == 2 * models);
    CHECK(bytes(algorithm, "average", "optimizer = adam") == 3 * models);
  }
}

TEST_CASE("a late average is merged with momentum as with models") {
  // Of every 3 steps a snapshot is taken after the third, merged after the next one with a share of
  // 1/4 of one's own.
  TwoNodes nodes;
  double x = 0;
  double m = 0;
  for (int k = 1; k <= 10; ++k) {
    nodes.step();
    if (k > 3 && k % 3 == 1) {
      for (double& model : nodes.x) model = 0.25 * model + 0.75 * x;
      for (double& momentum : nodes.m) momentum = 0.25 * momentum + 0.75 * m;
    }
    if (k % 3 == 0) {
      x = (nodes.x[0] + nodes.x[1]) / 2;
      m = (nodes.m[0] + nodes.m[1]) / 2;
    }
  }
  const Recorder recorder =
      run_two("kind = dasgd\nperiod = 3\ndelay = 1\nmomentum_policy = average", 10);
  for (NodeId i = 0; i < 2; ++i)
    CHECK(test::model(recorder, i, 0) == doctest::Approx(nodes.x[i]).epsilon(1e-5));
  CHECK_THROWS_WITH_AS(
      run_two("kind = dasgd\nmerge = delta\nmomentum_policy = average", 10),
      doctest::Contains("algorithm.momentum_policy must be one of keep, reset, got average"),
      ScenarioError);
}

TEST_CASE("elastic averaging follows its recursion with kept, averaged and forgotten momentum") {
  for (const std::string& policy : policies) {
    TwoNodes nodes;
    double z = 0;
    for (int k = 1; k <= 9; ++k) {
      nodes.step();
      if (k % 2 == 1) continue;
      const double sum = nodes.x[0] + nodes.x[1];
      for (double& x : nodes.x) x = 0.7 * x + 0.3 * z;
      z = 0.4 * z + 0.3 * sum;
      nodes.apply(policy);
    }
    const std::string easgd = "kind = easgd\nperiod = 2\nelasticity = 0.3\nmomentum_policy = ";
    const Recorder recorder = run_two(easgd + policy, 9);
    for (NodeId i = 0; i < 2; ++i)
      CHECK(test::model(recorder, i, 0) == doctest::Approx(nodes.x[i]).epsilon(1e-5));
  }
  CHECK_THROWS_WITH_AS(
      run_two("kind = easgd\norder = asynchronous\nmomentum_policy = average", 9),
      doctest::Contains("algorithm.momentum_policy must be one of keep, reset, got average"),
      ScenarioError);
}

TEST_CASE("mixed momentum follows its recursion in both orders of D-PSGD") {
  // A path of star weights: f_i = 1/2 (x - i)^2 on 4 nodes, W of the star, rate 0.1, momentum 0.7.
  for (const bool adapts_first : {true, false}) {
    const std::string text = test::quadratic_scenario(
        4, 7, "star",
        std::string(
            "kind = dpsgd\nlearning_rate = 0.1\nmomentum = 0.7\nmomentum_policy = mix\norder = ") +
            (adapts_first ? "adapt_then_combine" : "combine_while_adapt"));
    const std::vector<std::string> centers{"workload.centers=index"};
    const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
    const std::vector<double> w = test::mixing_matrix(*parts.topology);
    using Values = std::vector<double>;
    const auto mixed = [&w](const Values& v) {
      Values result(4, 0);
      for (std::size_t i = 0; i < 4; ++i) {
        for (std::size_t j = 0; j < 4; ++j) result[i] += w[4 * i + j] * v[j];
      }
      return result;
    };
    Values x(4, 0);
    Values m(4, 0);
    for (int k = 0; k < 7; ++k) {
      Values next = adapts_first ? x : mixed(x);
      if (!adapts_first) m = mixed(m);
      for (std::size_t i = 0; i < 4; ++i) {
        m[i] = 0.7 * m[i] + x[i] - static_cast<double>(i);
        next[i] -= 0.1 * m[i];
      }
      if (adapts_first) m = mixed(m);
      x = adapts_first ? mixed(next) : next;
    }
    const Recorder recorder = test::run(text, centers);
    for (NodeId i = 0; i < 4; ++i) {
      CHECK(test::model(recorder, i, 0) ==
            doctest::Approx(x[static_cast<std::size_t>(i)]).epsilon(1e-5));
    }
    // The star's center sends x and m to three others at each of 7 steps; m(0) = 0 does not travel first.
    const int momenta = adapts_first ? 7 : 6;
    CHECK(recorder.nodes[0].bytes_sent == (7 + momenta) * 3 * 5 * 4);
    std::vector<std::string> keep = centers;
    keep.emplace_back("algorithm.momentum_policy=keep");
    CHECK(test::largest_difference(test::run(text, keep), recorder) > 1e-3);
  }
}

TEST_CASE(
    "local gossip of one step that mixes momentum is DmSGD, and the mean follows momentum SGD") {
  const std::string mix = "\nlearning_rate = 0.1\nmomentum = 0.7\nmomentum_policy = mix";
  const Recorder gossip =
      test::run(test::quadratic_scenario(6, 20, "ring", "kind = local_gossip" + mix),
                {"workload.centers=index"});
  const Recorder dmsgd = test::run(
      test::quadratic_scenario(6, 20, "ring", "kind = dpsgd\norder = adapt_then_combine" + mix),
      {"workload.centers=index"});
  CHECK(gossip.models == dmsgd.models);
  double x = 0;
  double m = 0;
  for (int k = 0; k < 20; ++k) {
    m = 0.7 * m + x - 2.5;
    x -= 0.1 * m;
  }
  CHECK(test::mean_model(gossip, 0) == doctest::Approx(x).epsilon(1e-5));
}

TEST_CASE(
    "second moments, which must stay positive, are not mixed by codes that lose some of them") {
  // In half precision Adam's second moments of the digits came out near zero or negative, and its steps without bound.
  for (const std::string kind : {"dpsgd", "local_gossip"}) {
    const std::string text = test::quadratic_scenario(
        4, 3, "ring", "kind = " + kind + "\nlearning_rate = 0.1\nmomentum_policy = mix");
    const std::string half = "algorithm.compression=half";
    CHECK_NOTHROW(
        test::run(text, {"algorithm.momentum=0.5", half}));  // first moments may be negative
    for (const std::string rule : {"adam", "adamw", "adamp", "adagrad"}) {
      const std::string optimizer = "algorithm.optimizer=" + rule;
      CHECK_NOTHROW(test::run(text, {optimizer}));
      CHECK_THROWS_WITH_AS(test::run(text, {optimizer, half}),
                           doctest::Contains("= mix of second moments needs compression = none"),
                           ScenarioError);
    }
  }
}

TEST_CASE("momentum that is mixed with complete weights after H steps is averaged momentum") {
  const std::string settings = "\nlearning_rate = 0.05\nmomentum = 0.8\nmomentum_policy = ";
  for (const std::string policy : {"mix", "reset", "keep"}) {
    const Recorder gossip = test::run(test::quadratic_scenario(
        6, 40, "complete", "kind = local_gossip\nlocal_steps = 4" + settings + policy));
    const Recorder local = test::run(test::quadratic_scenario(
        6, 40, "complete",
        "kind = local_sgd\nperiod = 4" + settings + (policy == "mix" ? "average" : policy)));
    CHECK(test::largest_difference(gossip, local) < 2e-5);
  }
  CHECK_THROWS_WITH_AS(
      test::run(test::quadratic_scenario(
          6, 4, "complete", "kind = local_gossip\nmixing = random_matching" + settings + "mix")),
      doctest::Contains("= mix needs mixing = topology"), ScenarioError);
}

TEST_CASE("a momentum policy without momentum, which changed nothing, is refused") {
  const std::pair<const char*, const char*> cases[] = {
      {"adaptive_period", "average"}, {"bmuf", "average"},      {"dasgd", "reset"},
      {"diloco", "average"},          {"dpsgd", "mix"},         {"easgd", "reset"},
      {"local_gossip", "reset"},      {"local_sgd", "average"}, {"slowmo", "keep"},
      {"streaming_diloco", "average"}};
  for (const auto& [kind, policy] : cases) {
    const std::string algorithm =
        fmt::format("kind = {}\nlearning_rate = 0.1\nmomentum_policy = {}", kind, policy);
    CAPTURE(algorithm);
    const std::string text = test::quadratic_scenario(2, 4, "ring", algorithm);
    std::vector<std::string> settings;
    if (std::string(kind) == "local_sgd") settings.emplace_back("algorithm.period=2");
    CHECK_THROWS_WITH_AS(test::run(text, settings),
                         doctest::Contains("momentum_policy needs momentum > 0"), ScenarioError);
    settings.emplace_back("algorithm.optimizer=adagrad");
    CHECK_NOTHROW(test::run(text, settings));
    settings.back() = "algorithm.momentum=0.5";
    CHECK_NOTHROW(test::run(text, settings));
  }
}

}  // namespace starling::test_momentum_policy
