// Checks that a run which cannot fit into memory is refused before it begins, with the arithmetic, and that a long one does
// not grow.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <omp.h>
#include <sys/prctl.h>

#include "scenarios/assemble.hpp"
#include "scenarios/memory.hpp"
#include "scenarios/run.hpp"
#include "scenarios/scenario.hpp"
#include "sim/base/error.hpp"
#include "sim/base/frame_pool.hpp"
#include "tests/support/message_of.hpp"

namespace starling::test_memory {
namespace {

/// Two nodes with this workload, on so many hosts.
Assembly assembled(const std::string& workload, int hosts = 1, const std::string& device = "cpu") {
  const std::string text = fmt::format(
      "[run]\nnodes = 2\nsteps = 1\ndevice = {}\n[topology]\nkind = complete\n[network]\nkind = "
      "constant\n"
      "latency = 1 us\nbandwidth = 1 GB/s\n[compute]\ngradient = 1 ms\n[workload]\n{}\n"
      "[algorithm]\nkind = allreduce\nlearning_rate = 0.1\n",
      device, workload);
  return assemble(Scenario::parse(text, "large.ini"), hosts);
}

/// Why they cannot run: an Error or a ScenarioError.
std::string refusal(const std::string& workload, int hosts = 1) {
  return test::message_of<std::runtime_error>([&] { assembled(workload, hosts); });
}

std::string threads() {
  const int count = std::min(2, omp_get_max_threads());
  return count == 1 ? "1 thread" : fmt::format("{} threads", count);
}

TEST_CASE("runs at once share what the window takes by itself") {
  const auto window = [](const char* jobs) {
    setenv("STARLING_JOBS", jobs, 1);
    return assembled("kind = timing\nparameters = 10").settings.window_bytes;
  };
  const std::int64_t alone = window("1");
  CHECK(alone > 0);
  CHECK(window("16") < alone / 4);  // what is free changes, too
  CHECK_THROWS_WITH_AS(window("0"), doctest::Contains("STARLING_JOBS: expected whole runs"), Error);
  unsetenv("STARLING_JOBS");
}

TEST_CASE("a mini-batch whose numbers between the layers cannot fit is refused") {
  // Rows of 65,536 numbers take 65,552 floats; beside one row of 64 floats there are eight of them, eight of 16 (seven
  // layers and the logits), and for the way back those of the hidden layers once more.
  const std::string wide = "65536, 16, 65536, 16, 65536, 16, 65536, 16, ";
  const std::string mlp = refusal(
      "kind = mlp\ndataset = blobs\nfeatures = 64\nclasses = 10\nsamples = 100\nbatch_size = "
      "1048576\nhidden = " +
      wide + wide.substr(0, wide.size() - 6));
  const std::size_t floats = (64 + 8 * 65552 + 8 * 16 + 8 * 65552 + 7 * 16) * std::size_t{1048576};
  CHECK_MESSAGE(mlp.find(fmt::format("the models alone need 2 nodes * 20054138 parameters * 4 B, "
                                     "and what lies between the layers {} * {} floats * 4 B = ",
                                     threads(), floats)) != mlp.npos,
                mlp);
  CHECK_MESSAGE(mlp.find(" GiB of memory are free") != mlp.npos, mlp);
}

TEST_CASE("so are those of convolutions and of attention") {
  const std::string cnn = refusal(
      "kind = cnn\nlayers = conv 512 3x3, relu, conv 512 3x3, relu\ndataset = blobs\nfeatures = "
      "4096\nsamples = 100\nbatch_size = 1048576");
  CHECK_MESSAGE(cnn.find("what lies between the layers " + threads()) != cnn.npos, cnn);
  const std::string transformer =
      refusal("kind = transformer\nlayers = 1000\nbatch_size = 1048576");
  CHECK_MESSAGE(transformer.find("what lies between the layers " + threads()) != transformer.npos,
                transformer);
}

TEST_CASE("models that cannot fit by themselves are refused with nothing else counted") {
  // 2 * 10^6 + 10^6 + 10^12 + 10^6 + 2 * 10^6 + 2 parameters.
  const std::string mlp = refusal(
      "kind = mlp\ndataset = blobs\nfeatures = 2\nclasses = 2\nsamples = 100\n"
      "hidden = 1000000, 1000000");
  CHECK_MESSAGE(
      mlp.find("the models alone need 2 nodes * 1000006000002 parameters * 4 B = ") != mlp.npos,
      mlp);
}

TEST_CASE("vectors have fewer than 2^31 floats, so models do") {
  // 2 * 46340 + 46340 + 46340^2 + 46340 + 2 * 46340 + 2. Where 17 GB are not free that is said first.
  const std::string mlp = refusal(
      "kind = mlp\ndataset = blobs\nfeatures = 2\nclasses = 2\nsamples = 100\n"
      "hidden = 46340, 46340\nbatch_size = 1");
  const bool is_told = mlp.find("at most 2147483647 parameters, got 2147673642") != mlp.npos;
  CHECK_MESSAGE((is_told || mlp.find("memory are free") != mlp.npos), mlp);
}

TEST_CASE(
    "on a GPU or, without one, on the processor: its memory is asked for when that is known") {
  Assembly parts = assembled(
      "kind = mlp\ndataset = blobs\nfeatures = 2\nclasses = 2\nsamples = 100\n"
      "hidden = 40000, 40000\nbatch_size = 1",
      1, "auto");
  parts.settings.nodes = 1000;  // 6 TB
  Run run(std::move(parts), Run::Hooks{});
  CHECK_THROWS_WITH_AS(run.simulate(), doctest::Contains("the models alone need 1000 nodes * "),
                       Error);
}

TEST_CASE("hosts share the models") {
  const std::string workload =
      "kind = mlp\ndataset = blobs\nfeatures = 2\nclasses = 2\nsamples = 100\nhidden = 1000000, "
      "1000000";
  const std::string two = refusal(workload, 2);
  CHECK_MESSAGE(two.find("1000006000002 parameters * 4 B / 2 hosts = ") != two.npos, two);
  const double all = std::stod(refusal(workload).substr(refusal(workload).find(" = ") + 3));
  CHECK(std::stod(two.substr(two.find(" = ") + 3)) == doctest::Approx(all / 2).epsilon(1e-3));
}

TEST_CASE("memory is described with the data and what lies between the layers, not models alone") {
  const Assembly cnn = assembled(
      "kind = cnn\ndataset = blobs\nfeatures = 4096\nsamples = 1000\ntest_samples = 500\n"
      "batch_size = 64");
  const WorkloadFacts& facts = cnn.workload->facts();
  const std::string text = describe_memory(cnn.settings, facts);
  CHECK_MESSAGE(text.find(fmt::format(", {} * {} floats * 4 B = ", threads(),
                                      facts.scratch_floats)) != text.npos,
                text);
  CHECK_MESSAGE(text.find(", 24.58 MB of data, ") != text.npos, text);  // 1500 * 4097 * 4 B
  CHECK_MESSAGE(text.find(", 1 row * 2 nodes * 32 B = ") != text.npos, text);
  // For each of 4096 pixels there are 1 + 8 + 8 / 4 + 16 / 4 + 16 / 16 numbers at least.
  const double scratch = 64.0 * 16 * 4096 * 4;
  CHECK(4.0 * static_cast<double>(facts.scratch_floats) > scratch);
}

TEST_CASE("averages over steps take as much memory as the models") {
  const Assembly parts = assembled("kind = softmax\ndataset = digits\nbatch_size = 1");
  RunSettings settings = parts.settings;
  WorkloadFacts facts = parts.workload->facts();
  settings.nodes = 8;
  facts.parameters = std::size_t{1} << 28;  // 1 GiB
  const auto sum = [&] {
    const std::string text = describe_memory(settings, facts);
    const std::string before = " of all else: ";
    return std::stod(text.substr(text.find(before) + before.size()));
  };
  const double without = sum();
  CHECK(without > 8);
  settings.swa_start = 1;
  CHECK(sum() == doctest::Approx(without + 8).epsilon(2e-3));
}

TEST_CASE("every workload with numbers tells how much its data are, and its scratch") {
  for (const char* kind : {"softmax", "mlp", "cnn", "auc", "transformer", "navigation"}) {
    CAPTURE(kind);
    const Assembly parts = assembled(fmt::format("kind = {}", kind));
    CHECK(parts.workload->facts().data_bytes > 4096);
    CHECK(parts.workload->facts().scratch_floats > 0);
  }
  CHECK(assembled("kind = quadratic\ndimension = 7").workload->facts().data_bytes == 2 * 7 * 2 * 4);
  // The statistics of batch normalization are measured on 256 samples of 8 channels of 64 x 64, however small the mini-batch.
  const Assembly normalized = assembled(
      "kind = cnn\ndataset = blobs\nfeatures = 4096\nsamples = 1000\nlayers = conv 8 3x3 same, "
      "batchnorm\nbatch_size = 1");
  CHECK(normalized.workload->facts().scratch_floats > 256 * 8 * 4096);
  // 64 nodes' worth of ways to the goal of 20 x 20 cells.
  const Assembly wide = assembled("kind = navigation\nside = 20\nenvironments = 64");
  CHECK(wide.workload->facts().scratch_floats > 64 * 400);
  // And what a layer of 512 makes of every move.
  const Assembly policy = assembled("kind = navigation\nhidden = 512");
  CHECK(static_cast<double>(policy.workload->facts().scratch_floats) >
        512 * policy.workload->facts().batch_size);
}

TEST_CASE("what fits is not refused") {
  CHECK(refusal("kind = mlp\ndataset = blobs\nsamples = 100\nbatch_size = 1024") == "no error");
  CHECK(refusal("kind = transformer\nbatch_size = 1024") == "no error");
}

/// By how much of itself the process grows in the last four fifths of a run's steps.
double growth(const std::string& text) {
  std::int64_t early = 0, late = 0;
  Run::Hooks hooks;
  hooks.progress = [&](const Standing& standing) {
    if (static_cast<double>(standing.steps) < 0.2 * standing.all_steps) return;
    late = resident_memory();
    if (early == 0) early = late;
  };
  hooks.saves = false;
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);  // one more huge page would be a tenth of all
  Run run(assemble(Scenario::parse(text, "long.ini")), hooks);
  run.simulate();
  prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
  CHECK(early > 0);
  return static_cast<double>(late) / static_cast<double>(early) - 1;
}

// The address sanitizer keeps what is given back.
TEST_CASE("memory stays flat over a long run of nodes that never act together" *
          doctest::skip(STARLING_SANITIZES_ADDRESSES)) {
  // A byte kept of each of the million steps between the two looks would be 1 MB, where some 20 MB are in use.
  CHECK(growth("[run]\nnodes = 64\nsteps = 20000\nrecord_every = 20000\nevaluate_every = 20000\n"
               "window = 1 MiB\n[topology]\nkind = ring\n[network]\nkind = loggp\npreset = 10gbe\n"
               "[compute]\ngradient = 1 ms\ndistribution = lognormal\nsigma = 0.4\n"
               "[workload]\nkind = softmax\ndataset = blobs\nsamples = 1000\nbatch_size = 1\n"
               "[algorithm]\nkind = adpsgd\nlearning_rate = 0.01\n") < 0.02);
}

TEST_CASE("memory stays flat over many evaluations" * doctest::skip(STARLING_SANITIZES_ADDRESSES)) {
  // 8 bytes kept of each node at each of the evaluations between the two looks would be a fifth of what is in use.
  for (const char* workload :
       {"kind = timing\nparameters = 1000\n",
        "kind = softmax\ndataset = blobs\nsamples = 1000\nbatch_size = 1\n"}) {
    CAPTURE(workload);
    CHECK(growth(fmt::format("[run]\nnodes = 1000\nsteps = 1000\nrecord_every = "
                             "1000\nevaluate_every = 1\nwindow = 1 MiB\n"
                             "[topology]\nkind = ring\n[network]\nkind = loggp\npreset = 10gbe\n"
                             "[compute]\ngradient = 1 ms\n[workload]\n{}[algorithm]\nkind = "
                             "dpsgd\nlearning_rate = 0.01\n",
                             workload)) < 0.05);
  }
}

}  // namespace
}  // namespace starling::test_memory
