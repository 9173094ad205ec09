// One simulation shared by several processes, against the same simulation by one: every algorithm of the catalog, in
// step and out of step. Started by mpirun; every rank runs every case, rank 0 compares.

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "algorithms/registry.hpp"
#include "scenarios/run.hpp"
#include "sim/base/error.hpp"
#include "sim/mpi/mpi_session.hpp"
#include "tests/support/difference_of.hpp"
#include "tests/support/small_run.hpp"
#include "tests/support/temporary_directory.hpp"

namespace {

using namespace starling;

MpiSession* session = nullptr;

Assembly parts_of(const std::string& text, std::vector<std::string> settings) {
  settings.insert(settings.begin(), {"run.save_models=yes", "run.record_every=1"});
  return assemble(Scenario::parse(text, "test.ini", settings));
}

/// Runs the scenario shared by all ranks, and on rank 0 alone, too; both must record the same. Returns, on rank 0, the
/// part of the vectors of a process alone that it held at most.
double compare(const std::string& text, const std::vector<std::string>& settings = {}) {
  Run::Hooks hooks;
  hooks.saves = false;
  Run shared(parts_of(text, settings), hooks);
  shared.share(*session);
  CHECK(shared.recorder().machine.at("processes") == std::to_string(session->ranks()));
  if (session->rank() != 0) return 0;
  Run alone(parts_of(text, settings), hooks);
  alone.simulate();
  CHECK(test::difference_of(alone.recorder(), shared.recorder()) == "");
  // What the machinery did is the same, too, but for the memory that it took.
  auto expected = alone.recorder().statistics;
  auto found = shared.recorder().statistics;
  const double part = found.at("graph.peak_bytes") / expected.at("graph.peak_bytes");
  for (auto* statistics : {&expected, &found}) {
    CHECK(statistics->erase("graph.peak_bytes") == 1);
  }
  CHECK(expected == found);
  CHECK(shared.recorder().models.size() == alone.recorder().nodes.size());
  CHECK(!shared.recorder().models.back().empty());
  return part;
}

/// One folder for all ranks.
class SharedFolder {
 public:
  SharedFolder() {
    if (session->rank() == 0) own_.emplace();
    path_ = session->broadcast(own_ ? own_->path("run.h5") : "");
  }
  ~SharedFolder() { session->barrier(); }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  const std::string& results() const { return path_; }

 private:
  std::optional<test::TemporaryDirectory> own_;
  std::string path_;
};

/// Begins a run, or goes on with it, by all ranks or by rank 0 alone. Asks it to end at the given pulse behind the start
/// or the end of the replay, on the last rank; whether it came to its end.
bool go_on(const std::string& text, const std::vector<std::string>& settings,
           const std::string& results, bool is_shared, int pulses, Recorder* outcome) {
  std::unique_ptr<CheckpointFile> from;
  session->barrier();
  if (std::filesystem::exists(results + ".checkpoint")) from = find_checkpoint(results).file;
  session->barrier();
  bool is_complete = true;
  if (is_shared || session->rank() == 0) {
    if (from) pulses += static_cast<int>(from->content().legs.back().events / 256);
    Run::Hooks hooks;
    hooks.saves = false;
    const bool asks = !is_shared || session->rank() == session->ranks() - 1;
    hooks.interruption = [left = pulses, asks]() mutable {
      return asks && left-- <= 0 ? SIGTERM : 0;
    };
    Run run(parts_of(text, settings), hooks);
    try {
      if (is_shared) {
        run.share(*session, std::move(from));
      } else if (from) {
        run.resume(std::move(from));
      } else {
        run.simulate();
      }
      if (outcome != nullptr) *outcome = run.recorder();
    } catch (const Interrupted&) {
      is_complete = false;
    }
  }
  return session->broadcast(is_complete ? "yes" : "") == "yes";
}

/// Learning on real data, hidden layer and all.
const std::vector<std::string> digits{"workload.kind=mlp", "workload.dataset=digits",
                                      "workload.hidden=8", "workload.batch_size=4"};

std::string without_quadratic(std::string text) {
  const std::string quadratic = "kind = quadratic\ndimension = 5\n";
  return text.erase(text.find(quadratic), quadratic.size());
}

/// A run without end in which process 1 fails, in a way of its own.
int fail_alone(std::string_view mode) {
  Run::Hooks hooks;
  hooks.saves = false;
  if (session->rank() == 1) {
    if (mode == "interrupted") {
      hooks.interruption = [looks = 0]() mutable { return ++looks > 1000 ? SIGTERM : 0; };
    } else {
      hooks.progress = [mode](const Standing&) {  // from the thread of the timeline
        if (mode == "out-of-memory") throw std::bad_alloc();
        throw Error("no space on the disk of process 1");
      };
    }
  }
  std::string text = test::quadratic_scenario(8, 100'000'000, "ring", test::section_of("dpsgd"));
  Run run(parts_of(text, {"run.save_models=no", "run.window=64 KiB"}), hooks);
  try {
    run.share(*session);
  } catch (const std::exception& error) {
    std::printf("process %d ends: %s\n", session->rank(), error.what());
    std::fflush(stdout);
    session->fail();
    return 1;
  }
  return 0;
}

}  // namespace

TEST_CASE("every algorithm in step: the same content") {
  for (const auto& entry : algorithms::catalog()) {
    CAPTURE(entry.name);
    compare(test::quadratic_scenario(8, 12, "ring", test::section_of(entry.name)),
            {"run.evaluate_every=3", "workload.noise=0.1"});
  }
}

TEST_CASE("every algorithm out of step, in small windows: the same content") {
  for (const auto& entry : algorithms::catalog()) {
    CAPTURE(entry.name);
    compare(
        test::quadratic_scenario(8, 12, "hypercube", test::section_of(entry.name)),
        {"run.evaluate_every=5", "workload.noise=0.1", "compute.distribution=lognormal",
         "compute.sigma=0.5", "compute.slow_nodes=1", "compute.slowdown=3", "run.window=2 KiB"});
  }
}

TEST_CASE(
    "real gradients, in blocks of uneven size and on a topology of several phases: the same "
    "content") {
  const auto learn = [](const char* algorithm, const char* topology, const char* nodes) {
    CAPTURE(algorithm);
    CAPTURE(topology);
    std::vector<std::string> settings = digits;
    settings.insert(settings.end(), {std::string("run.nodes=") + nodes, "run.evaluate_every=2"});
    compare(
        without_quadratic(test::quadratic_scenario(13, 10, topology, test::section_of(algorithm))),
        settings);
  };
  for (const char* algorithm : {"dpsgd", "adpsgd", "choco", "allreduce"}) {
    learn(algorithm, "ring", "13");
  }
  learn("dpsgd", "one_peer_exponential", "16");
  learn("sgp", "one_peer_exponential", "16");
}

TEST_CASE("gradients that wait for the next window stay with their process") {
  // 40 steps of 48 nodes close windows of 16 gradients per node twice, when every node holds a gradient. A process has
  // half of the models or fewer, and those of neighbors in other processes.
  std::vector<std::string> settings = digits;
  settings.insert(settings.end(), {"run.record_every=40", "run.evaluate_every=40",
                                   "compute.distribution=lognormal", "compute.sigma=0.1"});
  const double part = compare(
      without_quadratic(test::quadratic_scenario(48, 40, "ring", test::section_of("dpsgd"))),
      settings);
  CHECK(part < 0.75);
}

TEST_CASE("collectives in closed form: sums over all nodes pass through the processes") {
  for (const char* algorithm : {"allreduce", "local_sgd", "wagma", "eager"}) {
    CAPTURE(algorithm);
    const std::string text = test::quadratic_scenario(32, 10, "ring", test::section_of(algorithm));
    compare(text, {"network.collectives=analytic", "compute.distribution=lognormal",
                   "compute.sigma=0.3"});
  }
}

TEST_CASE(
    "every algorithm goes on from checkpoints, by all processes or by one, to the same bits") {
  for (const auto& entry : algorithms::catalog()) {
    CAPTURE(entry.name);
    const std::string text = test::quadratic_scenario(8, 200, "ring", test::section_of(entry.name));
    const SharedFolder folder;
    const std::vector<std::string> settings{"run.output=" + folder.results(),
                                            "run.checkpoint=1000000 steps",
                                            "run.window=8 KiB",
                                            "run.evaluate_every=20",
                                            "workload.noise=0.1",
                                            "compute.distribution=lognormal",
                                            "compute.sigma=0.5"};
    constexpr int never = 1'000'000'000;
    Recorder undisturbed;
    REQUIRE(go_on(text, settings, folder.results(), false, never, &undisturbed));
    Recorder outcome;
    CHECK(!go_on(text, settings, folder.results(), true, 1, nullptr));
    CHECK(!go_on(text, settings, folder.results(), true, 1, nullptr));
    CHECK(!go_on(text, settings, folder.results(), false, 1, nullptr));
    REQUIRE(go_on(text, settings, folder.results(), true, never, &outcome));
    if (session->rank() != 0) continue;
    CHECK(std::filesystem::exists(folder.results() + ".checkpoint.previous"));
    CHECK(test::difference_of(undisturbed, outcome) == "");
    CHECK(outcome.models.size() == 8);
  }
}

TEST_CASE("a node that pauses: the same content") {
  const std::string text = test::quadratic_scenario(8, 12, "ring", test::section_of("adpsgd")) +
                           "[failures]\npause = 3 @ 4 ms for 5 ms\n";
  compare(text);
}

int main(int count, char** arguments) {
  MpiSession the_session;
  session = &the_session;
  if (count > 1 && arguments[1][0] != '-') return fail_alone(arguments[1]);
  doctest::Context context(count, arguments);
  context.setOption("no-colors", true);
  context.setOption("minimal", the_session.rank() != 0);
  return context.run();
}
