// A run that is ended anywhere and resumed records what an undisturbed one does, to the bit: every algorithm of the
// catalog, codecs, failures, contention, evaluations, windows of any size, threads.

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <omp.h>

#include "algorithms/registry.hpp"
#include "scenarios/run.hpp"
#include "sim/base/error.hpp"
#include "tests/kernels/cuda_rig.hpp"
#include "tests/support/difference_of.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/small_run.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_checkpoint {
namespace {

const std::string blobs =
    test::blobs_scenario(60, "save_models = yes\ncheckpoint = 1000000 steps\n");

using Overrides = std::vector<std::string>;

/// Runs of one scenario, with a folder for their checkpoints.
struct Resumable {
  explicit Resumable(std::string scenario, Overrides settings = {})
      : text(std::move(scenario)), overrides(std::move(settings)) {
    overrides.push_back("run.output=" + results());
  }

  std::string results() const { return directory.path("run.h5"); }
  std::string newest() const { return results() + ".checkpoint"; }
  std::string previous() const { return newest() + ".previous"; }

  /// Runs from the beginning, or from the newest checkpoint, for `pulses` pulses (256 events each) behind the place
  /// where computing begins; whether it came to the end.
  bool go_on(int pulses, const std::string& version = "7") {
    FoundCheckpoint found;
    if (std::filesystem::exists(newest()) || std::filesystem::exists(previous()))
      found = find_checkpoint(results());
    warning = found.warning;
    int left = pulses;
    Run::Hooks hooks;
    hooks.saves = false;
    hooks.code_version = version;
    hooks.interruption = [&] { return left-- > 0 ? 0 : SIGTERM; };
    Run run(assemble(Scenario::parse(text, "test.ini", overrides)), std::move(hooks));
    try {
      if (found.file) {
        // The replay's pulses do not count.
        left += static_cast<int>(found.file->content().legs.back().events / 256);
        run.resume(std::move(found.file));
      } else {
        run.simulate();
      }
    } catch (const Interrupted&) {
      return false;
    }
    outcome = run.recorder();
    return true;
  }

  test::TemporaryDirectory directory;
  std::string text;
  Overrides overrides;
  std::string warning;
  Recorder outcome;
};

/// Ends the run every `pulses` pulses until it is through; how often that was.
int run_in_pieces(Resumable& run, int pulses) {
  int pieces = 1;
  while (!run.go_on(pulses)) ++pieces;
  return pieces;
}

/// Checks that a scenario in `wanted` pieces, or one or two more, records what it does as a whole.
void check_pieces(const std::string& text, const Overrides& overrides, int wanted) {
  Resumable whole(text, overrides);
  REQUIRE(whole.go_on(1'000'000));
  CHECK(whole.outcome.models.size() == whole.outcome.nodes.size());
  const auto pulses = static_cast<int>(whole.outcome.statistics.at("engine.events") / 256);
  REQUIRE(pulses >= wanted);

  Resumable run(text, overrides);
  // A piece ends at the pulse behind those that it is given.
  const int pieces = run_in_pieces(run, pulses / wanted - 1);
  CHECK(pieces >= wanted);
  whole.outcome.facts["scenario"] = run.outcome.facts["scenario"];  // other folders
  CHECK(test::difference_of(run.outcome, whole.outcome) == "");
}

std::string refusal(Resumable& run, const std::string& version = "7") {
  return test::message_of<std::exception>([&] { run.go_on(1'000'000, version); });
}

void damage(const std::string& path, std::size_t from_end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-static_cast<std::streamoff>(from_end), std::ios::end);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(-static_cast<std::streamoff>(from_end), std::ios::end);
  file.put(byte);
}

}  // namespace

TEST_CASE("every algorithm of the catalog goes on from a checkpoint to the same bits") {
  for (const auto& entry : algorithms::catalog()) {
    const std::string name(entry.name);
    CAPTURE(name);
    std::string text = test::quadratic_scenario(8, 400, "ring", test::section_of(entry.name));
    text.replace(text.find("steps"), 5, "save_models = yes\ncheckpoint = 1000000 steps\nsteps");
    check_pieces(text, {"compute.distribution=lognormal", "compute.sigma=0.5"}, 3);
  }
}

TEST_CASE(
    "a run in pieces equals a whole one: synchronous and asynchronous, eager and compressed") {
  const std::map<std::string, Overrides> cases{
      {"dpsgd", {"algorithm.kind=dpsgd"}},
      {"adpsgd", {"algorithm.kind=adpsgd"}},
      {"wagma", {"algorithm.kind=wagma"}},
      {"allreduce in closed form",
       {"algorithm.kind=allreduce", "network.collectives=analytic", "run.steps=200"}},
      {"eager", {"algorithm.kind=eager"}},
      {"adaptive period", {"algorithm.kind=adaptive_period", "run.steps=200"}},
      {"a code whose size follows from values", {"algorithm.kind=dgc"}},
      {"a target that is reached late",
       {"algorithm.kind=adpsgd", "run.until_target=test_accuracy 0.9"}},
      {"a target that is never reached",
       {"algorithm.kind=adpsgd", "run.until_target=test_loss 1e-9", "run.evaluate_interval=7 ms"}},
  };
  for (const auto& entry : cases) {
    CAPTURE(entry.first);
    const auto& [name, overrides] = entry;
    for (const int pieces : {2, 4}) check_pieces(blobs, overrides, pieces);
  }
}

TEST_CASE("windows of one operation, of 1 MiB and without limit go on alike") {
  for (const char* window : {"1 B", "1 MiB", "1000 GiB"}) {
    CAPTURE(window);
    check_pieces(blobs, {"algorithm.kind=adpsgd", fmt::format("run.window={}", window)}, 4);
  }
}

TEST_CASE("a run goes on with another number of threads") {
  Resumable run(blobs, {"algorithm.kind=adpsgd"});
  omp_set_num_threads(1);
  REQUIRE(!run.go_on(6));
  omp_set_num_threads(2);
  REQUIRE(run.go_on(1'000'000));
  Resumable whole(blobs, {"algorithm.kind=adpsgd"});
  REQUIRE(whole.go_on(1'000'000));
  whole.outcome.facts["scenario"] = run.outcome.facts["scenario"];
  CHECK(test::difference_of(run.outcome, whole.outcome) == "");
}

TEST_CASE("cuda: a run on a device goes on there") {
  test::name_plugin();
  for (const char* algorithm :
       {"algorithm.kind=dpsgd", "algorithm.kind=adpsgd", "algorithm.kind=choco"}) {
    CAPTURE(algorithm);
    for (const char* window : {"run.window=0 B", "run.window=64 KiB"}) {
      check_pieces(blobs, {algorithm, "run.device=cuda", window}, 3);
    }
  }
  CHECK_THROWS_WITH_AS(
      assemble(Scenario::parse(blobs, "test.ini", {"algorithm.kind=dpsgd", "run.device=auto"})),
      doctest::Contains("run.checkpoint must be never unless run.device is cpu or cuda"),
      ScenarioError);
}

TEST_CASE("a run with failures goes on: nodes that stop, pause and join, messages that are lost") {
  const std::string text = blobs +
                           "[failures]\nstop = 3 @ 40 ms\npause = 5 @ 30 ms for 20 ms\n"
                           "join = 6 @ 10 ms\nlose = 0.02\n";
  check_pieces(text, {"algorithm.kind=adpsgd", "algorithm.patience=5 ms"}, 3);
}

TEST_CASE(
    "the last two checkpoints are kept, and the older one is used when the newest is damaged") {
  Resumable run(blobs, {"algorithm.kind=adpsgd"});
  REQUIRE(!run.go_on(3));
  CHECK(!std::filesystem::exists(run.previous()));
  REQUIRE(!run.go_on(3));
  REQUIRE(std::filesystem::exists(run.previous()));
  const auto place = [](const std::string& path) {
    return CheckpointFile(path).content().legs.back().events;
  };
  // A run that is asked to end at its pulse n + 1 has seen (n + 1) * 256 events.
  CHECK(place(run.previous()) == 4 * 256);
  CHECK(place(run.newest()) == 8 * 256);

  damage(run.newest(), 100);
  CHECK(find_checkpoint(run.results()).warning ==
        run.newest() +
            ": damaged or cut short: the checksum of section DATA is wrong; going on from "
            "the one before it");
  const auto older = std::filesystem::file_size(run.previous());
  REQUIRE(!run.go_on(3));  // from the older one, which must stay until a newer one is whole
  CHECK(std::filesystem::file_size(run.previous()) == older);
  CHECK(place(run.newest()) == 8 * 256);
  REQUIRE(run.go_on(1'000'000));
  Resumable whole(blobs, {"algorithm.kind=adpsgd"});
  REQUIRE(whole.go_on(1'000'000));
  whole.outcome.facts["scenario"] = run.outcome.facts["scenario"];
  CHECK(test::difference_of(run.outcome, whole.outcome) == "");
}

TEST_CASE("a run that writes one checkpoint after the other keeps the last two") {
  Resumable run(blobs, {"algorithm.kind=adpsgd", "run.checkpoint=5 steps"});
  REQUIRE(!run.go_on(7));
  REQUIRE(std::filesystem::exists(run.previous()));
  const auto legs = [](const std::string& path) { return CheckpointFile(path).content().legs; };
  const auto newest = legs(run.newest()), previous = legs(run.previous());
  CHECK(newest.size() > 3);
  CHECK(previous.size() == newest.size() - 1);
  CHECK(previous.back().events == newest[previous.size() - 1].events);
  CHECK(newest.back().events == 8 * 256);
}

TEST_CASE("checkpoints of another run are replaced, never fallen back on") {
  Resumable run(blobs, {"algorithm.kind=adpsgd"});
  REQUIRE(!run.go_on(3));
  REQUIRE(!run.go_on(3));
  // Begun anew: the first checkpoint takes the newest's place, and the older one must not survive it.
  Run::Hooks hooks;
  hooks.saves = false;
  hooks.code_version = "7";
  hooks.interruption = [left = 2]() mutable { return left-- > 0 ? 0 : SIGTERM; };
  Run fresh(assemble(Scenario::parse(run.text, "test.ini", run.overrides)), std::move(hooks));
  CHECK_THROWS_AS(fresh.simulate(), Interrupted);
  CHECK(!std::filesystem::exists(run.previous()));
  CHECK(CheckpointFile(run.newest()).content().legs.back().events == 3 * 256);
}

TEST_CASE("a complete run leaves no checkpoint of an earlier one, nor the beginning of one") {
  Resumable run(blobs, {"algorithm.kind=adpsgd"});
  REQUIRE(!run.go_on(3));
  REQUIRE(!run.go_on(3));
  std::ofstream(run.newest() + ".partial") << "killed here";
  Run::Hooks hooks;
  hooks.code_version = "7";
  run.overrides.emplace_back("run.checkpoint=never");
  Run(assemble(Scenario::parse(run.text, "test.ini", run.overrides)), std::move(hooks)).simulate();
  CHECK(std::filesystem::exists(run.results()));
  for (const std::string& path : {run.newest(), run.previous(), run.newest() + ".partial"})
    CHECK(!std::filesystem::exists(path));
}

TEST_CASE("the newest checkpoint is there at any moment from the first one on") {
  Resumable run(blobs, {"algorithm.kind=adpsgd", "run.steps=300", "run.checkpoint=1 steps"});
  std::atomic<bool> is_over = false;
  int missing = 0;
  std::thread watcher([&] {
    while (!is_over && !std::filesystem::exists(run.newest())) continue;
    while (!is_over) missing += std::filesystem::exists(run.newest()) ? 0 : 1;
  });
  const bool is_whole = run.go_on(20);
  is_over = true;
  watcher.join();
  CHECK(!is_whole);
  CHECK(std::filesystem::exists(run.previous()));
  CHECK(missing == 0);
}

TEST_CASE("a checkpoint of another program, another scenario or other data is refused") {
  Resumable run(blobs, {"algorithm.kind=adpsgd"});
  REQUIRE(!run.go_on(3));
  CHECK(refusal(run, "8") ==
        run.newest() +
            ": was written by version 7 of the program, this is 8: a run goes on "
            "with the program that began it");
  run.overrides.emplace_back("algorithm.learning_rate=0.2");
  CHECK(refusal(run) == run.newest() +
                            ": is of another scenario (`learning_rate = 0.1` there, "
                            "`learning_rate = 0.2` here)");
}

TEST_CASE("a run goes on whose results and checkpoints lie beside the batches of CIFAR-10") {
  std::string text = blobs;
  const std::size_t workload = text.find("[workload]");
  text.replace(workload, text.find("[algorithm]") - workload,
               "[workload]\nkind = softmax\ndataset = cifar10\nbatch_size = 1\n");
  Resumable run(text, {"algorithm.kind=adpsgd"});
  std::string samples;
  for (int i = 0; i < 20; ++i)
    samples += std::string(1, static_cast<char>(i % 10)) + std::string(3072, 'x');
  for (const char* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                           "data_batch_5", "test_batch"})
    run.directory.write(fmt::format("{}.bin", name), samples);
  run.overrides.push_back("workload.directory=" + run.directory.path(""));
  REQUIRE(!run.go_on(3));
  run.directory.write("notes.txt", "half way");
  CHECK(refusal(run) == "no error");
}

TEST_CASE("a run whose data have changed, be it where the timeline does not show it, is refused") {
  test::TemporaryDirectory data;
  // As many samples of the same classes take the same time.
  const auto write_digits = [&](int first) {
    std::string lines;
    for (int i = 0; i < 80; ++i) {
      for (int pixel = 0; pixel < 64; ++pixel)
        lines += fmt::format("{},", (first + i + pixel) % 17);
      lines += fmt::format("{}\n", i % 10);
    }
    return data.write("digits.csv", lines);
  };
  const std::string path = write_digits(0);
  std::string text = blobs;
  const std::size_t workload = text.find("[workload]");
  text.replace(
      workload, text.find("[algorithm]") - workload,
      "[workload]\nkind = softmax\ndataset = digits\nbatch_size = 4\npath = " + path + "\n");
  Resumable run(text, {"algorithm.kind=adpsgd"});
  REQUIRE(!run.go_on(3));
  write_digits(1);
  CHECK(refusal(run) == run.newest() + ": " + path + " has changed since it was written");
  write_digits(0);
  CHECK(run.go_on(1'000'000));
}

TEST_CASE("a replay that takes another way than the run is found out") {
  // Files that the scenario does not name have no checksum in the checkpoint.
  test::TemporaryDirectory data;
  const auto write_times = [&](const char* seconds) {
    return data.write("times_rl_habitat.csv", seconds);
  };
  const std::string path = write_times("seconds\n0.001\n0.002\n0.003\n");
  const std::string directory = path.substr(0, path.rfind('/'));
  const test::Environment shipped("STARLING_DATA", directory.c_str());
  Resumable run(blobs, {"algorithm.kind=adpsgd", "compute.distribution=published",
                        "compute.name=rl_habitat"});
  std::string& text = run.text;
  text.erase(text.find("sigma"), 12);
  text.erase(text.find("gradient"), 16);
  REQUIRE(!run.go_on(6));
  write_times("seconds\n0.001\n0.004\n0.009\n");
  CHECK(refusal(run).find("did not come to the checkpoint's place") != std::string::npos);
}

TEST_CASE("the wall time of a run is that of all its pieces together") {
  Resumable run(blobs, {"algorithm.kind=adpsgd"});
  REQUIRE(!run.go_on(3));
  {  // as if the first piece had taken long
    const CheckpointFile file(run.newest());
    Checkpoint checkpoint = file.content();
    checkpoint.facts["wall_seconds"] = "1000.000";
    const auto fetch = [&](std::size_t i, std::span<float> to) {
      std::ranges::copy(file.vector(i), to.begin());
    };
    save(checkpoint, fetch, run.newest(), {});
  }
  REQUIRE(!run.go_on(3));
  CHECK(std::stod(CheckpointFile(run.newest()).content().facts.at("wall_seconds")) >= 1000);
  REQUIRE(run.go_on(1'000'000));
  CHECK(std::stod(run.outcome.machine.at("wall_seconds")) >= 1000);
}

TEST_CASE("a file that is there packed alone has the checksum of that") {
  const test::TemporaryDirectory directory;
  directory.write("images.gz", "packed");
  CHECK(checksum_of_file(directory.path("images")) ==
        checksum_of_file(directory.path("images.gz")));
  directory.write("images", "plain");
  CHECK(checksum_of_file(directory.path("images")) !=
        checksum_of_file(directory.path("images.gz")));
  CHECK(checksum_of_file(directory.path("labels")).empty());
}

TEST_CASE("a file cut short or changed anywhere is no checkpoint") {
  Resumable run(blobs, {"algorithm.kind=adpsgd"});
  REQUIRE(!run.go_on(3));
  std::ifstream stream(run.newest(), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(stream)), {});
  const std::string path = run.directory.path("changed");
  const auto is_refused = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return test::message_of([&] { CheckpointFile file(path); }) != "no error";
  };
  CHECK(!is_refused(whole));
  const std::size_t step = whole.size() / 97;
  for (std::size_t at = 0; at < whole.size(); at += at < 600 ? 1 : step) {
    CAPTURE(at);
    CHECK(is_refused(whole.substr(0, at)));
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    CHECK(is_refused(changed));
  }
  std::string changed = whole;
  changed.back() = 0x10;  // behind the last checksum
  CHECK(is_refused(changed));
  CHECK(is_refused(whole + '\0'));
}

TEST_CASE("run.checkpoint is a time, a number of steps or never") {
  const auto read = [](const char* text) {
    return read_checkpoint(Section("run", "test.ini:1", {{"checkpoint", text, "test.ini:2"}}));
  };
  CHECK(read("10 min").wall == std::chrono::minutes(10));
  CHECK(read("500 steps").steps == 500);
  CHECK(!read("never").is_on());
  for (const char* wrong : {"10", "0 s", "-3 steps", "steps", "often", "1 ps"}) {
    CHECK_THROWS_WITH_AS(
        read(wrong),
        (std::string("test.ini:2: run.checkpoint must be a time as 10 min, a number "
                     "of steps as 500 steps, or never, got ") +
         wrong)
            .c_str(),
        ScenarioError);
  }
}

}  // namespace starling::test_checkpoint
