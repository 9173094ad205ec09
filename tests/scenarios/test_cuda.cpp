// run.device = cuda: whole runs give the bits of the CPU's, for every algorithm. On the emulated device, or on the GPU that
// tools/gpu_check names; what can be emulated only is left out there.
#include <string>

#include <doctest/doctest.h>

#include "algorithms/registry.hpp"
#include "sim/base/error.hpp"
#include "tests/kernels/cuda_rig.hpp"
#include "tests/support/difference_of.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_cuda {
namespace {

const std::string quadratic = "kind = quadratic\ndimension = 5";
const std::string blobs =
    "dataset = blobs\nclasses = 3\nfeatures = 6\nsamples = 96\ntest_samples = 70\nspread = "
    "0.5\nbatch_size = 5";

std::string with_workload(std::string text, const std::string& workload) {
  return text.replace(text.find(quadratic), quadratic.size(), workload);
}

std::vector<std::string> on_cuda(std::vector<std::string> overrides) {
  test::name_plugin();
  overrides.emplace_back("run.device=cuda");
  return overrides;
}

/// Models at the end and all that was recorded on the way.
void check_same(const std::string& text, const std::vector<std::string>& overrides) {
  Recorder cpu = test::run(text, overrides);
  const Recorder gpu = test::run(text, on_cuda(overrides));
  cpu.facts["scenario"] = gpu.facts.at("scenario");  // they differ in device, as they should
  CHECK(cpu.models == gpu.models);
  CHECK(test::difference_of(cpu, gpu) == "");
  CHECK(gpu.machine.at("device").starts_with(test::open_device()->description()));
}

bool is_emulated() { return test::is_emulated(*test::open_device()); }

}  // namespace

TEST_CASE("cuda: every algorithm ends with the models that it has on the CPU") {
  for (const auto& entry : algorithms::catalog()) {
    CAPTURE(entry.name);
    const std::string text = test::quadratic_scenario(8, 12, "ring", test::section_of(entry.name));
    check_same(text, {"compute.distribution=lognormal", "compute.sigma=0.4", "workload.noise=0.1"});
  }
}

TEST_CASE(
    "cuda: every algorithm trains an MLP as on the CPU, with coded messages where it has codes") {
  for (const auto& entry : algorithms::catalog()) {
    CAPTURE(entry.name);
    const std::string section = test::section_of(entry.name);
    const std::string text = with_workload(test::quadratic_scenario(8, 4, "ring", section),
                                           "kind = mlp\nhidden = 7\n" + blobs);
    std::vector<std::string> overrides = {"compute.distribution=lognormal", "compute.sigma=0.4"};
    if (test::has_key(entry, "compression")) overrides.emplace_back("algorithm.compression=levels");
    if (test::has_key(entry, "consensus_rate"))
      overrides.emplace_back("algorithm.consensus_rate=0.3");
    check_same(text, overrides);
  }
}

TEST_CASE("cuda: classifiers train and are judged as on the CPU, also in small windows") {
  const std::string text =
      test::quadratic_scenario(8, 12, "ring", "kind = dpsgd\nlearning_rate = 0.1\nmomentum = 0.9");
  const std::string cnn =
      "kind = cnn\nimage = 2x3x1\nlayers = conv 3 2x2, batchnorm, relu, dropout 0.25\n";
  for (const std::string& kind :
       {std::string("kind = softmax\n"), std::string("kind = mlp\nhidden = 7, 40\n"), cnn}) {
    for (const std::string window : {"0 B", "64 B"}) {
      CAPTURE(kind);
      CAPTURE(window);
      check_same(with_workload(text, kind + blobs),
                 {"run.evaluate_every=3", "run.window=" + window, "compute.distribution=lognormal",
                  "compute.sigma=0.4"});
    }
  }
}

TEST_CASE("cuda: a workload that has no kernels is computed on the CPU") {
  const std::string text =
      test::quadratic_scenario(4, 6, "ring", "kind = dpsgd\nlearning_rate = 0.1");
  const std::vector<std::string> overrides{"run.evaluate_every=2"};
  const std::string auc = with_workload(text, "kind = auc\n" + blobs);
  check_same(auc, overrides);
  CHECK(test::run(auc, on_cuda(overrides)).machine.at("device").find(", gradients on the CPU") !=
        std::string::npos);
}

TEST_CASE("cuda: gradients take longer for each episode, as on the CPU") {
  const std::string text = with_workload(
      test::quadratic_scenario(4, 6, "ring", "kind = dpsgd\nlearning_rate = 0.1"),
      "kind = navigation\nmaps = 3\nhorizon = 8\ntest_episodes = 5\nrollout_steps = 16");
  check_same(text, {"compute.per_episode=30 ms"});
  // Else the comparison would say nothing.
  CHECK(test::run(text, {"compute.per_episode=30 ms"}).evaluation.value("time", 0) !=
        test::run(text).evaluation.value("time", 0));
}

TEST_CASE("cuda: a GPU that is not there is an error, or with auto the CPU") {
  if (!is_emulated()) return;
  const std::string text =
      test::quadratic_scenario(4, 3, "ring", "kind = dpsgd\nlearning_rate = 0.1");
  const test::Environment fault("STARLING_EMULATED_FAULT", "driver");
  CHECK_THROWS_WITH_AS(test::run(text, on_cuda({})),
                       "run.device = cuda: no GPU can be used: no NVIDIA driver (emulated)", Error);
  CHECK(test::run(text, {"run.device=auto"}).machine.at("device") ==
        "CPU (no GPU can be used: no NVIDIA driver (emulated))");
}

TEST_CASE("cuda: memory that is out before the run has begun is told, or with auto the CPU's") {
  if (!is_emulated()) return;
  // The data fit into a million bytes, the 8 MiB of tables that copy them do not.
  const std::string text =
      test::quadratic_scenario(4, 3, "ring", "kind = dpsgd\nlearning_rate = 0.1");
  const std::vector<std::string> overrides = on_cuda({});
  const test::Environment limit("STARLING_EMULATED_BYTES", "1000000");
  for (const std::string& workload :
       {quadratic, "kind = mlp\nhidden = 7\n" + blobs,
        "kind = cnn\nimage = 2x3x1\nlayers = conv 3 2x2, relu\n" + blobs}) {
    CAPTURE(workload);
    CHECK_THROWS_WITH_AS(test::run(with_workload(text, workload), overrides),
                         doctest::Contains("asked for 8388608 bytes for job tables"), Error);
    const Recorder elsewhere = test::run(with_workload(text, workload), {"run.device=auto"});
    CHECK(elsewhere.machine.at("device").starts_with("CPU ("));
    CHECK(elsewhere.machine.at("device").find("bytes for job tables") != std::string::npos);
  }
}

TEST_CASE("cuda: models that do not fit are refused with the arithmetic") {
  if (!is_emulated()) return;
  // 4 nodes * 100,000 parameters * 4 B are 1.6 million bytes of a million.
  const std::string text =
      with_workload(test::quadratic_scenario(4, 3, "ring", "kind = dpsgd\nlearning_rate = 0.1"),
                    "kind = quadratic\ndimension = 100000");
  const std::vector<std::string> overrides = on_cuda({});
  const test::Environment limit("STARLING_EMULATED_BYTES", "1000000");
  CHECK_THROWS_WITH_AS(test::run(text, overrides),
                       "run.device = cuda: the models alone need 4 nodes * 100000 parameters * 4 B "
                       "= 0.0 GiB, but 0.0 GiB of emulated device, 0.0 GiB are free",
                       Error);
}

TEST_CASE("cuda: what is asked to be fast on the CPU is refused, on a GPU it is strict if small") {
  const std::string text =
      test::quadratic_scenario(4, 3, "ring", "kind = dpsgd\nlearning_rate = 0.1");
  CHECK_THROWS_WITH_AS(test::run(text, {"run.precision=fast"}),
                       doctest::Contains("must be strict with device = cpu"), ScenarioError);
  CHECK(test::run(text, on_cuda({"run.precision=fast"})).machine.at("device") ==
        test::open_device()->description() + ", strict");
}

}  // namespace starling::test_cuda
