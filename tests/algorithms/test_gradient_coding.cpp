// Gradient coding: which nodes decode the sum, the steps of allreduce SGD, and what redundant work costs.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include <doctest/doctest.h>

#include "algorithms/gradient_code.hpp"
#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_gradient_coding {
using algorithms::GradientCode;
using Form = GradientCode::Form;
using namespace std::chrono_literals;

namespace {

/// Largest difference from one, over the parts, of what the decoder makes of the nodes in `mask`.
double decoding_error(const GradientCode& code, std::size_t nodes, unsigned mask) {
  std::vector<std::size_t> arrived;
  for (std::size_t i = 0; i < nodes; ++i) {
    if ((mask >> i & 1) != 0) arrived.push_back(i);
  }
  const std::vector<double> factors = code.decode(arrived);
  if (factors.empty()) return HUGE_VAL;
  std::vector<double> sum(nodes);
  for (std::size_t a = 0; a < factors.size(); ++a) {
    for (const auto& term : code.terms(arrived[a])) sum[term.part] += factors[a] * term.factor;
  }
  double error = 0;
  for (const double x : sum) error = std::fmax(error, std::abs(x - 1));
  return error;
}

/// What GradientCode::decode() gives for a cyclic code and the first n - s of `arrived`, by reflections of whole columns.
std::vector<double> decode_densely(const GradientCode& code, std::size_t nodes,
                                   const std::vector<std::size_t>& arrived) {
  std::vector<std::vector<double>> a;
  for (const std::size_t node : arrived) {
    a.emplace_back(nodes);
    for (const auto& term : code.terms(node)) a.back()[term.part] = term.factor;
  }
  std::vector<double> b(nodes, 1.0);
  for (std::size_t c = 0; c < a.size(); ++c) {
    std::vector<double> v(nodes);
    double norm = 0;
    for (std::size_t r = c; r < nodes; ++r) norm = std::fma(a[c][r], a[c][r], norm);
    for (std::size_t r = c; r < nodes; ++r) v[r] = a[c][r];
    v[c] += a[c][c] > 0 ? std::sqrt(norm) : -std::sqrt(norm);
    double square = 0;
    for (const double x : v) square = std::fma(x, x, square);
    const auto reflect = [&](std::vector<double>& y) {
      double along = 0;
      for (std::size_t r = c; r < nodes; ++r) along = std::fma(v[r], y[r], along);
      for (std::size_t r = c; r < nodes; ++r) y[r] -= 2 * along / square * v[r];
    };
    for (std::size_t other = c; other < a.size(); ++other) reflect(a[other]);
    reflect(b);
  }
  std::vector<double> x(a.size());
  for (std::size_t c = x.size(); c-- > 0;) {
    double rest = b[c];
    for (std::size_t other = c + 1; other < x.size(); ++other) rest -= a[other][c] * x[other];
    x[c] = rest / a[c][c];
  }
  return x;
}

Recorder run(const std::string& algorithm, std::vector<std::string> overrides = {}) {
  return test::run(test::quadratic_scenario(6, 40, "ring",
                                            algorithm + "\nlearning_rate = 0.05\nmomentum = 0.5\n"),
                   overrides);
}

}  // namespace

TEST_CASE("any n - s nodes decode the sum over all parts, fewer do not") {
  struct Case {
    Form form;
    std::size_t nodes, stragglers;
  };
  for (const Case& c :
       {Case{Form::cyclic, 7, 2}, Case{Form::cyclic, 6, 0}, Case{Form::cyclic, 5, 4},
        Case{Form::cyclic, 10, 3}, Case{Form::repetition, 6, 2}, Case{Form::repetition, 8, 1}}) {
    CAPTURE(c.form);
    CAPTURE(c.nodes);
    const GradientCode code(c.form, c.nodes, c.stragglers, Random(3, "test"));
    for (std::size_t i = 0; i < c.nodes; ++i) {
      CHECK(code.terms(i).size() == c.stragglers + 1);
      CHECK(code.terms(i)[0].factor == 1);
    }
    for (unsigned mask = 0; mask < 1u << c.nodes; ++mask) {
      const auto present = static_cast<std::size_t>(std::popcount(mask));
      if (present + c.stragglers == c.nodes) CHECK(decoding_error(code, c.nodes, mask) < 1e-9);
      if (present + c.stragglers > c.nodes) CHECK(decoding_error(code, c.nodes, mask) < 1e-9);
    }
    CHECK((decoding_error(code, c.nodes, 1u) < 1e-9) == (c.nodes == c.stragglers + 1));
  }
}

TEST_CASE("decoding that leaves out zeros has the bits of decoding with them") {
  Random random(5, "test");
  for (std::size_t nodes = 2; nodes <= 24; ++nodes) {
    for (std::size_t stragglers = 0; stragglers < std::min<std::size_t>(nodes, 6); ++stragglers) {
      CAPTURE(nodes);
      CAPTURE(stragglers);
      const GradientCode code(Form::cyclic, nodes, stragglers, Random(3, "test"));
      std::vector<std::size_t> arrived(nodes);
      std::iota(arrived.begin(), arrived.end(), std::size_t{0});
      for (std::size_t lost = 0; lost < stragglers; ++lost) {
        arrived.erase(arrived.begin() + static_cast<std::ptrdiff_t>(random.below(arrived.size())));
      }
      CHECK(code.decode(arrived) == decode_densely(code, nodes, arrived));
    }
  }
}

TEST_CASE("gradient coding takes the steps of allreduce SGD, whoever is slow") {
  const std::vector<std::string> noise{"workload.noise=0.1", "compute.distribution=lognormal",
                                       "compute.sigma=0.5"};
  const Recorder exact = run("kind = allreduce", noise);
  CHECK(test::largest_difference(run("kind = gradient_coding\nstragglers = 0", noise), exact) <
        3e-6);
  for (const std::string code : {"cyclic", "repetition"}) {
    for (const std::string stragglers : {"1", "2"}) {
      const Recorder coded =
          run("kind = gradient_coding\ncode = " + code + "\nstragglers = " + stragglers, noise);
      CHECK(test::largest_difference(coded, exact) < 1e-4);
      CHECK(test::nodes_agree(coded));
    }
  }
}

TEST_CASE("two slow nodes cost nothing but the redundant work, which they abandon") {
  // Gradients of 1 ms, messages of 10 us. With s = 2 every step takes three gradients and a round trip, 3.02
  // ms, though nodes 0 and 1 take 10 ms for a gradient. They give it up when the next model comes, and have computed all
  // along. Node 0, the server, sends to itself at once.
  const std::vector<std::string> slow{"compute.slow_nodes=2", "compute.slowdown=10"};
  for (const std::string code : {"cyclic", "repetition"}) {
    CAPTURE(code);
    const Recorder coded = run("kind = gradient_coding\nstragglers = 2\ncode = " + code, slow);
    CHECK(to_seconds(coded.nodes[3].finished) == doctest::Approx(40 * 3.02e-3).epsilon(1e-6));
    CHECK(coded.nodes[1].finished == coded.nodes[3].finished);
    CHECK(coded.nodes[1].compute == coded.nodes[1].finished.time_since_epoch());
    CHECK(coded.nodes[3].compute == 120ms);
    CHECK(coded.nodes[0].finished == coded.nodes[3].finished - 10us);
    CHECK(to_seconds(run("kind = parameter_server", slow).nodes[3].finished) > 40 * 10e-3);
  }
}

TEST_CASE("gradient coding without redundancy is the parameter server, to the time") {
  const Recorder coded = run("kind = gradient_coding\nstragglers = 0");
  const Recorder plain = run("kind = parameter_server");
  CHECK(coded.nodes == plain.nodes);
  CHECK(test::largest_difference(coded, plain) < 1e-6);
  for (std::size_t k = 0; k < 40; ++k) CHECK(coded.steps.value("answers", k, 0) == 6);
}

TEST_CASE("a batch of uneven samples takes the same time on every node that computes with it") {
  // Every node computes all four batches of a step, in another order: all end together, at 1 us per token of them.
  const std::string text =
      "[run]\nnodes = 4\nsteps = 3\n[network]\nkind = constant\nlatency = 0 s\n"
      "[compute]\ngradient = 0 s\nper_token = 1 us\n"
      "[workload]\nkind = timing\nparameters = 10\nbatching = padded\n"
      "[algorithm]\nlearning_rate = 0.1\nkind = ";
  const Recorder coded = test::run(text + "gradient_coding\nstragglers = 3\ncode = repetition\n");
  const Recorder own = test::run(text + "local_sgd\nperiod = 100\n");
  Duration all{};
  for (const NodeTotals& node : own.nodes) all += node.compute;
  for (const NodeTotals& node : coded.nodes) CHECK(node.compute == all);
}

TEST_CASE("a repetition code needs even groups") {
  CHECK_THROWS_WITH_AS(
      run("kind = gradient_coding\ncode = repetition\nstragglers = 3"),
      doctest::Contains(
          "algorithm.stragglers plus one must divide the 6 nodes for a repetition code, got 3"),
      ScenarioError);
  CHECK_THROWS_WITH_AS(run("kind = gradient_coding\nstragglers = 6"),
                       doctest::Contains("algorithm.stragglers must be from 0 to 5, got 6"),
                       ScenarioError);
}

TEST_CASE("a code for -1 stragglers that the kind does not read is refused, not divided by") {
  // Which other kinds have the keys is found by asking all of them.
  CHECK_THROWS_WITH_AS(run("kind = dpsgd\ncode = repetition\nstragglers = -1"),
                       doctest::Contains("kind = gc_dc, gradient_coding have it"), ScenarioError);
}

}  // namespace starling::test_gradient_coding
