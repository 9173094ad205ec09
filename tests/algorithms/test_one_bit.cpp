// 1-bit SGD: its code, its two phases beside allreduce SGD, nothing that is lost, and what it sends.
#include <cmath>
#include <memory>

#include <doctest/doctest.h>

#include "kernels/dense/dense.hpp"
#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_one_bit {
namespace {

Recorder run(int steps, const std::string& algorithm, std::vector<std::string> overrides = {}) {
  overrides.emplace_back("workload.dimension=32");
  return test::run(
      test::quadratic_scenario(4, steps, "complete", algorithm + "\nlearning_rate = 0.05\n"),
      overrides);
}

using Floats = std::vector<float>;

/// 3 nodes learn digits with an MLP of matrices 64 x 40 and 40 x 10.
const std::string digits =
    "[run]\nnodes = 3\nsteps = 2\n[topology]\nkind = complete\n[network]\nkind = constant\nlatency "
    "= 10 us\n"
    "[compute]\ngradient = 1 ms\n[workload]\nkind = mlp\ndataset = digits\nhidden = 40\nbatch_size "
    "= 16\n"
    "[algorithm]\nkind = one_bit\n";

/// Where the entries of that model lie, column by column of its matrices; one list per column or bias.
std::vector<std::vector<std::size_t>> columns_of_digits() {
  std::vector<std::vector<std::size_t>> columns;
  std::size_t at = 0;
  for (const auto& [inputs, outputs] : {std::pair<std::size_t, std::size_t>{64, 40}, {40, 10}}) {
    for (std::size_t o = 0; o < outputs; ++o) {
      columns.emplace_back();
      for (std::size_t i = 0; i < inputs; ++i)
        columns.back().push_back(at + dense::weight_index(inputs, outputs, i, o));
    }
    at += inputs * outputs;
    columns.emplace_back();
    for (std::size_t o = 0; o < outputs; ++o) columns.back().push_back(at + o);
    at += outputs;
  }
  return columns;
}

/// What a code says of v[begin, end): the mean of either sign, of every column's part in there.
Floats one_bit_code(const Floats& v, std::size_t begin, std::size_t end) {
  Floats decoded(v.size());
  std::size_t column_begin = 0;
  for (const auto& column : columns_of_digits()) {
    const std::size_t first = std::max(begin, column_begin);
    const std::size_t last = std::min(end, column_begin + column.size());
    double sum[2] = {0, 0};
    int count[2] = {0, 0};
    for (std::size_t i = first; i < last; ++i) {
      sum[v[i] < 0] += v[i];
      ++count[v[i] < 0];
    }
    for (std::size_t i = first; i < last; ++i)
      decoded[i] = static_cast<float>(sum[v[i] < 0] / count[v[i] < 0]);
    column_begin += column.size();
  }
  return decoded;
}

/// Two steps of 1-bit SGD with AdaGrad at the owners, learning rate 0.05, epsilon 0.01 and weight decay 0.01; all vectors in
/// column order. Pixels that are dark everywhere have residuals that are rounding errors from the third step on.
Floats slow_one_bit() {
  const Assembly parts = assemble(Scenario::parse(
      digits + "learning_rate = 0.05\noptimizer = adagrad\nepsilon = 0.01\n", "test.ini"));
  const Workload& workload = *parts.workload;
  const std::size_t d = workload.facts().parameters;
  std::vector<std::size_t> order;
  for (const auto& column : columns_of_digits())
    order.insert(order.end(), column.begin(), column.end());
  Floats x(d);
  workload.initial_model(x);
  std::vector<Floats> e(3, Floats(d));
  Floats f(d);
  Floats squares(d);
  for (Step k = 0; k < 2; ++k) {
    Floats average(d);
    for (NodeId i = 0; i < 3; ++i) {
      Floats g(d);
      GradientRequest request{.node = i, .draw = k, .x = x.data(), .gradient = g.data()};
      workload.gradients({&request, 1});
      Floats& p = e[static_cast<std::size_t>(i)];
      for (std::size_t c = 0; c < d; ++c) p[c] += g[order[c]];
      for (std::size_t s = 0; s < 3; ++s) {
        const Floats sent = one_bit_code(p, s * d / 3, (s + 1) * d / 3);
        for (std::size_t c = s * d / 3; c < (s + 1) * d / 3; ++c) {
          average[c] = std::fma(1.0F / 3, sent[c], average[c]);
          p[c] -= sent[c];
        }
      }
    }
    for (std::size_t c = 0; c < d; ++c) {
      const float g = std::fma(0.01F, x[order[c]], average[c]);
      squares[c] = static_cast<float>(double{squares[c]} + double{g} * g);
      const auto d_c = static_cast<float>(g / (std::sqrt(double{squares[c]}) + 0.01));
      f[c] = std::fma(0.05F, d_c, f[c]);
    }
    for (std::size_t s = 0; s < 3; ++s) {
      const Floats sent = one_bit_code(f, s * d / 3, (s + 1) * d / 3);
      for (std::size_t c = s * d / 3; c < (s + 1) * d / 3; ++c) {
        x[order[c]] -= sent[c];
        f[c] -= sent[c];
      }
    }
  }
  return x;
}

}  // namespace

TEST_CASE("one bit per entry, two values per column, AdaGrad between the phases") {
  const Recorder recorder = test::run(
      digits + "learning_rate = 0.05\noptimizer = adagrad\nepsilon = 0.01\nweight_decay = 0.01\n");
  const Floats expected = slow_one_bit();
  double largest = 0;
  for (std::size_t c = 0; c < expected.size(); ++c)
    largest = std::max(largest, std::abs(test::model(recorder, 1, c) - double{expected[c]}));
  CHECK(largest < 1e-5);
  CHECK(test::nodes_agree(recorder));
  // 3010 floats in pieces of 1003, 1003 and 1004. Columns in them: 15 of 64, 43 of one; 21, 15 of 64, 22; 42, 8 of 64, the bias of
  // 40, 10 of 40, the bias of 10. 8 bytes for each, beside 126 of signs; a node sends the others theirs, and its own to two.
  const std::size_t values[] = {16, 17, 21};
  const std::size_t d = expected.size();
  CHECK(d == 3010);
  std::size_t all = 0;
  for (const std::size_t v : values) all += 8 * v + 126;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t own = 8 * values[i] + 126;
    CHECK(recorder.nodes[i].bytes_sent == static_cast<std::int64_t>(2 * (all - own + 2 * own)));
  }
}

TEST_CASE("who takes the steps matters to momentum, but not without compression") {
  const std::string exact = "kind = one_bit\ncompression = none\nmomentum = 0.8\nsteps_by = ";
  CHECK(test::largest_difference(run(30, exact + "owners\n"), run(30, exact + "nodes\n")) < 2e-6);
  const std::string coded = "kind = one_bit\nmomentum = 0.8\nsteps_by = ";
  CHECK(test::largest_difference(run(30, coded + "owners\n"), run(30, coded + "nodes\n")) > 1e-4);
  CHECK_THROWS_WITH_AS(run(1, coded + "owners\nclip_norm = 1\n"),
                       doctest::Contains("needs the whole gradient"), ScenarioError);
  CHECK_NOTHROW(run(1, coded + "nodes\nclip_norm = 1\n"));
}

TEST_CASE("two phases without compression are allreduce SGD") {
  const std::string settings = "momentum = 0.8\nweight_decay = 0.01\n";
  const Recorder recorder = run(30, "kind = one_bit\ncompression = none\n" + settings);
  CHECK(test::largest_difference(recorder, run(30, "kind = allreduce\n" + settings)) < 2e-6);
  CHECK(test::nodes_agree(recorder));
}

TEST_CASE("before compression begins steps are exact, and cost as much") {
  // 10 steps: 6 messages of 8 floats each; then 6 of 9 bytes.
  const Recorder start = run(10, "kind = one_bit\nexact_steps = 10\n");
  CHECK(test::largest_difference(start, run(10, "kind = allreduce\n")) < 2e-6);
  const Recorder whole = run(30, "kind = one_bit\nexact_steps = 10\n");
  for (const NodeTotals& node : whole.nodes) {
    CHECK(node.bytes_sent == 10 * 6 * 32 + 20 * 6 * 9);
  }
  CHECK_THROWS_WITH_AS(run(1, "kind = one_bit\nexact_steps = -1\n"),
                       doctest::Contains("algorithm.exact_steps must not be negative, got -1"),
                       ScenarioError);
}

TEST_CASE("one bit per entry is exact where all entries of a piece are equal") {
  const std::vector<std::string> equal{"workload.centers=list", "workload.center_values=3",
                                       "workload.curvature_min=1", "workload.curvature_max=1"};
  CHECK(test::largest_difference(run(30, "kind = one_bit\n", equal),
                                 run(30, "kind = allreduce\n", equal)) < 2e-6);
}

TEST_CASE("a node sends two bits per entry and four values per piece, less its own piece") {
  // 4 nodes own 8 entries each: a code is 8 + 1 bytes, three of either phase.
  const Recorder recorder = run(30, "kind = one_bit\n");
  for (const NodeTotals& node : recorder.nodes) {
    CHECK(node.bytes_sent == 30 * 6 * 9);
    CHECK(node.messages_sent == 30 * 6);
  }
  CHECK(test::nodes_agree(recorder));
}

TEST_CASE("nothing is lost in either phase") {
  // Gradients are noise; the learning rate vanishes after 20 steps. Of 8 entries of a piece 2 go per step: all
  // residuals have drained 4 steps after that in phase 1, 4 more in phase 2.
  const std::vector<std::string> noise = test::gradients_until(
      20, {"workload.curvature_min=0", "workload.curvature_max=0", "workload.noise=1"});
  const std::string top_k = "kind = one_bit\ncompression = top_k\nkeep = 0.25\nsteps_by = ";
  const Recorder exact = run(40, "kind = allreduce\n", noise);
  for (const std::string by : {"nodes\n", "owners\n"}) {
    CHECK(test::largest_difference(run(40, top_k + by, noise), exact) < 2e-6);
    CHECK(test::largest_difference(run(20, top_k + by, noise), exact) > 1e-2);
  }
  // As published, a residual of phase 1 is a gradient, which takes the learning rate of the step that sends it.
  const Recorder published = run(40, top_k + "owners\nrescale_residual = no\n", noise);
  CHECK(test::largest_difference(published, exact) > 1e-2);
}

TEST_CASE("one bit SGD solves its problems although it rounds") {
  const std::vector<std::string> centers{"workload.centers=index", "workload.curvature_min=1",
                                         "workload.curvature_max=1"};
  // x* = mean of 0 .. 3.
  const Recorder recorder = run(400, "kind = one_bit\n", centers);
  for (std::size_t k = 0; k < 32; ++k)
    CHECK(test::model(recorder, 0, k) == doctest::Approx(1.5).epsilon(0.02));
}

TEST_CASE("what is lost of one owner's piece at a learning rate of 0 is not added to another's") {
  // 32 entries among three owners, of 10, 11 and 11; half of each piece is sent, and every fourth step has a rate of 0.
  const Recorder recorder = run(12, "kind = one_bit\ncompression = top_k\nkeep = 0.5",
                                {"run.nodes=3", "algorithm.schedule=cyclic",
                                 "algorithm.cycle_steps=4", "algorithm.cycle_floor=0"});
  CHECK(test::nodes_agree(recorder));
  CHECK(recorder.nodes[2].steps == 12);
}

TEST_CASE("codes of pieces that wait for their receivers go as soon as both are there") {
  // Each message takes 1 ms. Eight nodes that ask for pieces and results one after the other, in order of sender, would wait 7 ms
  // for the ones and 7 for the others.
  const std::string text =
      "[run]\nnodes = 8\nsteps = 1\n[network]\nkind = constant\nlatency = 1 "
      "ms\n[compute]\ngradient "
      "= 1 ms\n[workload]\nkind = timing\nbytes = 100 kB\n[algorithm]\nkind = one_bit\n";
  for (const std::string eager : {"network.eager_limit=1 GB", "network.eager_limit=0 B"}) {
    CAPTURE(eager);
    for (const NodeTotals& node : test::run(text, {eager}).nodes)
      CHECK(1e3 * to_seconds(node.finished) == doctest::Approx(1 + 1 + 1));
  }
}

TEST_CASE("an allreduce by owners of pieces is 1-bit SGD whose nodes step, to the bit") {
  const std::string steps = "\nmomentum = 0.9\ncompression = ";
  const auto by_owners_and_one_bit = [&](const std::string& allreduce, const std::string& codec) {
    return std::pair(run(20, "kind = allreduce\n" + allreduce + steps + codec),
                     run(20, "kind = one_bit\nsteps_by = nodes" + steps + codec));
  };
  // Without a code they are sums in different orders.
  const auto exact = by_owners_and_one_bit("", "none");
  CHECK(test::nodes_agree(exact.first));
  CHECK(test::model(exact.first, 0, 3) ==
        doctest::Approx(test::model(exact.second, 0, 3)).epsilon(1e-5));
  for (const std::string codec :
       {"half", "sign", "top_k\nkeep = 0.2", "ternary", "levels\nlevels = 3"}) {
    CAPTURE(codec);
    const auto runs = by_owners_and_one_bit("code_route = owners\nerror_feedback = yes", codec);
    const Recorder& by_owners = runs.first;
    const Recorder& owners_mean = runs.second;
    CHECK(test::nodes_agree(by_owners));
    CHECK(by_owners.models == owners_mean.models);
    CHECK(by_owners.nodes[1].bytes_sent == owners_mean.nodes[1].bytes_sent);
    CHECK(by_owners.nodes[1].finished == owners_mean.nodes[1].finished);
  }
}

}  // namespace starling::test_one_bit
