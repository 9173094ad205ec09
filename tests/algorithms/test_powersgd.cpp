// PowerSGD: what it loses and what error feedback brings back, and what it sends.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/support/small_run.hpp"

namespace starling::test_powersgd {
namespace {

/// Digits on so many nodes; `workload` gives the kind of model.
Recorder run(int nodes, int steps, const std::string& workload, const std::string& algorithm,
             std::vector<std::string> overrides = {}) {
  return test::run(
      fmt::format("[run]\nnodes = {}\nsteps = {}\n[topology]\nkind = complete\n[network]\nkind = "
                  "constant\nlatency = 10 us\n[compute]\ngradient = 1 ms\n[workload]\n{}\ndataset "
                  "= digits\n[algorithm]\n{}\nlearning_rate = 0.1\n",
                  nodes, steps, workload, algorithm),
      overrides);
}

const std::string mlp = "kind = mlp\nhidden = 32";

}  // namespace

TEST_CASE("PowerSGD of full rank is allreduce SGD with the same momentum") {
  const std::string settings = "momentum = 0.9\nweight_decay = 0.001";
  const Recorder recorder = run(4, 15, mlp, "kind = powersgd\nrank = 32\n" + settings);
  CHECK(test::largest_difference(recorder, run(4, 15, mlp, "kind = allreduce\n" + settings)) <
        1e-4);
  CHECK(test::nodes_agree(recorder));
}

TEST_CASE("PowerSGD learns a model that begins as zero") {
  // One row of weights has rank one: nothing is lost, but by rounding.
  const auto run_by = [](const std::string& kind) {
    return test::run(
        "[run]\nnodes = 4\nsteps = 50\n[topology]\nkind = complete\n[network]\nkind = constant\n"
        "latency = 10 us\n[compute]\ngradient = 1 ms\n[workload]\nkind = linear\n[algorithm]\n"
        "kind = " +
        kind + "\nlearning_rate = 0.05\n");
  };
  const Recorder exact = run_by("allreduce");
  CHECK(test::largest_difference(run_by("powersgd"), exact) < 1e-4);
  double largest = 0;
  for (std::size_t k = 0; k < exact.models[0].size(); ++k)
    largest = std::max(largest, std::abs(test::model(exact, 0, k)));
  CHECK(largest > 0.1);
}

TEST_CASE("PowerSGD loses nothing of a mean gradient whose rank is not larger than its own") {
  // The gradient of softmax regression at one sample is an outer product: two nodes with one sample each have
  // a mean of rank two. True of a Q in general position, as the first is; later ones see the classes of the
  // last samples.
  const std::string softmax = "kind = softmax\nbatch_size = 1";
  const Recorder exact = run(2, 1, softmax, "kind = allreduce\n");
  CHECK(test::largest_difference(run(2, 1, softmax, "kind = powersgd\nrank = 2\n"), exact) < 1e-6);
  CHECK(test::largest_difference(run(2, 1, softmax, "kind = powersgd\nrank = 1\n"), exact) > 1e-3);
}

TEST_CASE(
    "PowerSGD sends rank (m + q) floats of a matrix and vectors as they are, in two allreduces") {
  // 64-32-10 at rank 2: first 2 * 64 + 32 and 2 * 32 + 10, then 2 * 32 and 2 * 10 floats; recursive doubling of 4
  // nodes sends everything twice.
  const Recorder recorder =
      run(4, 5, mlp, "kind = powersgd\nrank = 2\ncollective = recursive_doubling");
  for (const NodeTotals& node : recorder.nodes) {
    CHECK(node.messages_sent == 5 * 2 * 2);
    CHECK(node.bytes_sent == 5 * 2 * 4 * (128 + 32 + 64 + 10 + 64 + 20));
  }
}

TEST_CASE("the rank of a matrix is at most the number of its rows, and of its columns") {
  // 64-4-10 at rank 8, of which a matrix 64 x 4 and one 4 x 10 have four: first 4 * 64 + 4 and 4 * 4 + 10 floats, then 4 * 4 and
  // 4 * 10; nothing is lost of them.
  const std::string narrow = "kind = mlp\nhidden = 4";
  const Recorder recorder =
      run(4, 5, narrow, "kind = powersgd\nrank = 8\ncollective = recursive_doubling");
  for (const NodeTotals& node : recorder.nodes)
    CHECK(node.bytes_sent == 5 * 2 * 4 * (256 + 4 + 16 + 10 + 16 + 40));
  CHECK(test::largest_difference(recorder, run(4, 5, narrow, "kind = allreduce")) < 1e-5);
}

TEST_CASE(
    "alternating sides send one thin matrix a step, and get to the others' subspace in turn") {
  // 64-32-10 at rank 2: P of 128 and 64 floats, then Q of 64 and 20, beside 42 of vectors; one allreduce a step.
  const std::string alternating = "kind = powersgd\nsides = alternating\n";
  for (const int exact : {0, 1}) {
    const Recorder recorder = run(
        4, 5, mlp,
        alternating + "collective = recursive_doubling\nexact_steps = " + std::to_string(exact));
    const std::int64_t floats = exact == 0 ? 3 * 192 + 2 * 84 : 2410 - 42 + 2 * 192 + 2 * 84;
    for (const NodeTotals& node : recorder.nodes) {
      CHECK(node.messages_sent == 5 * 2);
      CHECK(node.bytes_sent == 2 * 4 * (floats + 5 * 42));
    }
    CHECK(test::nodes_agree(recorder));
  }
  // At full rank Q spans all there is (both matrices have fewer columns than rows), P only what the last gradient had: the first
  // step loses nothing, the second does.
  const std::string full = alternating + "rank = 32\n";
  const auto lost = [&](int steps) {
    return test::largest_difference(run(4, steps, mlp, full),
                                    run(4, steps, mlp, "kind = allreduce"));
  };
  CHECK(lost(1) < 1e-6);
  CHECK(lost(2) > 1e-4);
}

TEST_CASE("matrices that gain too little travel as vectors do") {
  // 64-32-10 at rank 2: 2048 numbers become 192, 10.7 times fewer, and 320 become 84, 3.8 times fewer.
  const auto bytes = [](const std::string& gain) {
    return run(4, 5, mlp, "kind = powersgd\ncollective = recursive_doubling\nleast_gain = " + gain)
        .nodes[0]
        .bytes_sent;
  };
  CHECK(bytes("3.8") == 5 * 2 * 4 * (192 + 32 + 84 + 10));
  CHECK(bytes("3.9") == 5 * 2 * 4 * (192 + 32 + 320 + 10));
  const std::string none = "kind = powersgd\nleast_gain = 11";
  CHECK(run(4, 5, mlp, none).models == run(4, 5, mlp, "kind = allreduce").models);
}

TEST_CASE("PowerSGD that begins late is allreduce SGD until then") {
  const std::string late = "kind = powersgd\nrank = 1\nexact_steps = 4";
  CHECK(run(4, 4, mlp, late).models == run(4, 4, mlp, "kind = allreduce").models);
  CHECK(run(4, 5, mlp, late).models != run(4, 5, mlp, "kind = allreduce").models);
  // One exchange in exact steps, two in the others, of three messages each: 8 nodes.
  const Recorder recorder = run(8, 6, mlp, late + "\ncollective = recursive_doubling");
  for (const NodeTotals& node : recorder.nodes) CHECK(node.messages_sent == 3 * (4 + 2 * 2));
}

TEST_CASE("models without matrices travel as they are") {
  const std::string text = test::quadratic_scenario(4, 20, "complete", "learning_rate = 0.05\n");
  CHECK(test::run(text, {"algorithm.kind=powersgd"}).models ==
        test::run(text, {"algorithm.kind=allreduce"}).models);
}

TEST_CASE("error feedback lets rank one learn the digits") {
  for (const std::string sides : {"both", "alternating"}) {
    const Recorder recorder =
        run(4, 300, mlp, "kind = powersgd\nrank = 1\nmomentum = 0.5\nsides = " + sides);
    const std::size_t last = recorder.evaluation.rows() - 1;
    CHECK(recorder.evaluation.value("test_accuracy", last) > 0.9);
  }
}

TEST_CASE(
    "what PowerSGD loses of a step comes back: updates and residuals add up to the gradients") {
  // At a learning rate of 1e-4 the model hardly moves and the gradients of all samples stay as they are, g: after T steps it
  // has moved by 1e-4 (T g - mean e), and e stays bounded. So what a step loses on average falls like 1 / T.
  const std::string softmax = "kind = softmax\nbatch_size = 718";
  const std::vector<std::string> small{"algorithm.learning_rate=1e-4"};
  for (const std::string residual :
       {"local", "mean", "local\nsides = alternating", "mean\nsides = alternating"}) {
    const auto lost = [&](int steps) {
      const Recorder exact = run(2, steps, softmax, "kind = allreduce\n", small);
      const Recorder coded =
          run(2, steps, softmax, "kind = powersgd\nrank = 4\nresidual = " + residual, small);
      return test::largest_difference(coded, exact) / steps;
    };
    const double early = lost(5);
    CHECK(early > 1e-7);
    CHECK(lost(100) < 0.25 * early);
  }
}

TEST_CASE("PowerSGD's two residuals are the same on one node, and differ with other nodes' data") {
  const auto run_by = [](int nodes, const std::string& residual) {
    return run(nodes, 10, mlp, "kind = powersgd\nrank = 2\nresidual = " + residual).models;
  };
  CHECK(run_by(1, "local") == run_by(1, "mean"));
  CHECK(run_by(4, "local") != run_by(4, "mean"));
}

TEST_CASE("well-known models shrink as published") {
  // Vogels, Karimireddy, Jaggi, NeurIPS 2019, Tables 4 and 5 (data sent per epoch: 243, 136 and 72 times less, ..).
  const struct {
    const char* model;
    double times[3];  // of rank 1, 2, 4
  } published[] = {{"resnet18", {243, 136, 72}}, {"lstm_wikitext2", {310, 203, 120}}};
  for (const auto& [model, times] : published) {
    const auto sent = [&, name = std::string(model)](const std::string& algorithm) {
      return static_cast<double>(
          test::run(
              "[run]\nnodes = 2\nsteps = 1\n[network]\nkind = constant\nlatency = 1 us\n[compute]\n"
              "gradient = 1 ms\n[workload]\nkind = timing\nmodel = " +
              name + "\n[algorithm]\ncollective = recursive_doubling\nkind = " + algorithm)
              .nodes[0]
              .bytes_sent);
    };
    const double whole = sent("allreduce");
    for (int i = 0; i < 3; ++i) {
      const int rank = 1 << i;
      CAPTURE(rank);
      CHECK(std::round(whole / sent(fmt::format("powersgd\nrank = {}", rank))) == times[i]);
    }
  }
}

}  // namespace starling::test_powersgd
