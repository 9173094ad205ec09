// Eager-SGD: who is in time, what becomes of late gradients, and models that drift apart until they are synchronized.
#include <cmath>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "algorithms/partial_allreduce.hpp"
#include "scenarios/run.hpp"
#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_eager {
namespace {

const std::string eager = "kind = eager\nlearning_rate = 0.1\n";
const std::vector<std::string> uneven{"compute.distribution=lognormal", "compute.sigma=0.6"};

std::vector<std::string> operator+(std::vector<std::string> settings, const std::string& one_more) {
  settings.push_back(one_more);
  return settings;
}

double late_share(const Recorder& recorder) {
  double late = 0;
  double all = 0;
  for (std::size_t row = 0; row < recorder.steps.rows("is_late"); ++row) {
    for (std::size_t i = 0; i < recorder.nodes.size(); ++i, ++all)
      late += recorder.steps.value("is_late", row, i);
  }
  return late / all;
}

/// What all nodes of a run of partial allreduces contributed and got.
struct Account {
  algorithms::ActivationPolicy activation;
  algorithms::LatePolicy late;
  NodeId initiators = 1;
  double contributed = 0;
  std::map<Step, Vector> sums{};  // of each operation
  int disagreements = 0;          // of nodes about the sum of an operation
  int late_entries = 0;
};

/// Node i enters operation t with (8 t + i + 1) times the initial model, after a gradient's time;
/// before the last operation everybody waits so long that all are in time, and whatever was missed
/// before must be taken. The final model is the sum of the sums.
Task<> contribute(Node& node, Account* account) {
  Vector x = node.initial_model();
  algorithms::PartialAllreduce::Settings settings;
  settings.activation = account->activation;
  settings.initiators = account->initiators;
  settings.late = account->late;
  settings.steps = node.steps();
  settings.has_operation = [](Step) { return true; };
  settings.bits = [](Step) { return std::vector<int>{0, 1, 2}; };
  algorithms::PartialAllreduce partial(node, settings, node.zeros(x.size()));
  partial.begin();
  for (Step t = 0; t < node.steps(); ++t) {
    const Gradient g = co_await node.gradient(x);
    if (t + 1 == node.steps()) co_await node.sleep(from_seconds(1) - node.now().time_since_epoch());
    const double factor = static_cast<double>(8 * t + node.id() + 1);
    Vector v = x;
    v.scale(factor);
    account->contributed += factor;
    const std::vector<algorithms::PartialAllreduce::Result> pieces = co_await partial.enter(t, v);
    const algorithms::PartialAllreduce::Result& r = pieces.front();
    if (r.is_included) {
      const auto [place, is_new] = account->sums.emplace(t, r.sum);
      if (!is_new && squared_distance(place->second, r.sum).value() != 0) ++account->disagreements;
    } else {
      ++account->late_entries;
    }
    node.end_step(t, x);
  }
  co_await partial.finish();
  co_await node.sleep(from_seconds(1));
  Vector total = node.zeros(x.size());
  for (const auto& [t, sum] : account->sums) total.add(sum);
  node.set_final_model(total);
  co_await node.sleep(from_seconds(1));
  account->sums.clear();  // while the graph that owns the numbers is there
}

/// Sum over all operations of what they summed.
double applied(Account& account, const std::vector<std::string>& compute) {
  std::vector<std::string> overrides = compute;
  for (const char* setting :
       {"run.save_models=yes", "workload.start=1", "algorithm.learning_rate=1"})
    overrides.emplace_back(setting);
  Assembly parts = assemble(Scenario::parse(
      test::quadratic_scenario(8, 40, "ring", "kind = allreduce"), "test.ini", overrides));
  Account* const shared = &account;
  parts.program = [shared](Node& node) { return contribute(node, shared); };
  Run::Hooks hooks;
  hooks.saves = false;
  Run run(std::move(parts), std::move(hooks));
  run.simulate();
  return test::model(run.recorder(), 3, 2);
}

}  // namespace

TEST_CASE("eager-SGD with everybody in time is allreduce SGD to the bit") {
  // Shares g / 8 are exact, and sums combine in the order of recursive doubling.
  const Recorder exact = test::run(
      test::quadratic_scenario(
          8, 40, "ring",
          "kind = allreduce\nlearning_rate = 0.1\nmomentum = 0.5\ncollective = recursive_doubling"),
      uneven);
  const Recorder full = test::run(
      test::quadratic_scenario(8, 40, "ring",
                               eager + "activation = full\nmomentum = 0.5\nsynchronize_every = 0"),
      uneven);
  const Recorder even = test::run(test::quadratic_scenario(
      8, 40, "ring", eager + "activation = solo\nmomentum = 0.5\nsynchronize_every = 0"));
  CHECK(full.models == exact.models);
  CHECK(even.models == exact.models);
  CHECK(late_share(even) == 0);
}

TEST_CASE("accumulated gradients are all applied, and all nodes see the same sums") {
  // Multiples of 1 below 2^24: exact. Node 0, six times slower, and lognormal times for all make
  // many entries late.
  for (const NodeId initiators : {0, 1, 2}) {
    Account account{
        initiators == 0 ? algorithms::ActivationPolicy::solo : algorithms::ActivationPolicy::chain,
        algorithms::LatePolicy::accumulate, initiators};
    const double sum = applied(account, uneven + "compute.slow_nodes=1" + "compute.slowdown=6");
    CHECK(account.contributed == 40 * 36 + 8 * 8 * (39 * 40 / 2));
    CHECK(sum == account.contributed);
    CHECK(account.disagreements == 0);
    CHECK(account.late_entries > 40);
  }
}

TEST_CASE("dropped gradients are not all applied") {
  // A node that misses an operation and is back before the next one starts replaces what it missed.
  Account account{algorithms::ActivationPolicy::chain, algorithms::LatePolicy::drop};
  const double sum = applied(account, uneven);
  CHECK(account.late_entries > 0);
  CHECK(sum < account.contributed);
  CHECK(sum > 0.5 * account.contributed);
}

TEST_CASE("a slow node delays nobody in solo eager-SGD") {
  // Seven nodes take 1 ms a step; 8 rounds of 10 us messages beside. Node 0 takes 10 ms, and is
  // late ever after its first step.
  const Recorder recorder =
      test::run(test::quadratic_scenario(8, 50, "ring", eager + "synchronize_every = 0"),
                {"compute.slow_nodes=1", "compute.slowdown=10"});
  const Table& steps = recorder.steps;
  for (std::size_t i = 1; i < 8; ++i) CHECK(steps.value("time", steps.rows("time") - 1, i) < 0.055);
  for (std::size_t row = 0; row < steps.rows("is_late"); ++row)
    CHECK(steps.value("is_late", row, 0) == 1);
}

TEST_CASE("waiting for a random node makes fewer entries late than waiting for the first") {
  // One initiator among 16 in random order: on the mean 7.5 of 16 come after it, with a deviation of
  // 0.29 a step, 0.029 over 100. The first leaves all others late.
  const std::string text =
      test::quadratic_scenario(16, 100, "ring", eager + "synchronize_every = 1");
  const double solo = late_share(test::run(text, uneven));
  const double majority = late_share(test::run(text, uneven + "algorithm.activation=majority"));
  const double full = late_share(test::run(text, uneven + "algorithm.activation=full"));
  CHECK(solo > 0.8);  // 15/16, but for those who come within the 40 us of the activation
  CHECK(std::abs(majority - 7.5 / 16) < 3 * 0.029);
  CHECK(full == 0);
}

TEST_CASE("a chain of m initiators lets in time whoever comes before the last of them") {
  // Of the other n - m nodes a share of 1 / (m + 1) comes after all m, in random order; a deviation below 0.3 a step, 0.03
  // over 100. Messages along the chain (10 us each, of 1 ms) let some more in.
  const std::string text =
      test::quadratic_scenario(16, 100, "ring", eager + "synchronize_every = 1");
  const std::vector<std::string> chain = uneven + "algorithm.activation=chain";
  for (const int m : {2, 4, 8}) {
    const Recorder recorder =
        test::run(text, chain + ("algorithm.initiators=" + std::to_string(m)));
    CHECK(std::abs(late_share(recorder) - (16. - m) / 16 / (m + 1)) < 3 * 0.03);
  }
  const Recorder all = test::run(text, chain + "algorithm.initiators=16");
  CHECK(late_share(all) == 0);
  CHECK(all.models == test::run(text, uneven + "algorithm.activation=full").models);
  // What comes twice along the chain lets nobody in who has not come.
  const Recorder twice =
      test::run(text, chain + "algorithm.initiators=16" + "failures.duplicate=0.5");
  CHECK(late_share(twice) == 0);
  CHECK(twice.models == all.models);
  // One initiator is the majority's.
  const Recorder one = test::run(text, chain + "algorithm.initiators=1");
  const Recorder majority = test::run(text, uneven + "algorithm.activation=majority");
  CHECK(one.models == majority.models);
  CHECK(one.nodes[0].finished == majority.nodes[0].finished);
  const auto refuses = [&](const std::string& wrong, const std::string& sentence) {
    CHECK_THROWS_WITH_AS(test::run(text, chain + ("algorithm.initiators=" + wrong)),
                         ("command line: algorithm.initiators must be " + sentence).c_str(),
                         ScenarioError);
  };
  refuses("0", "from 1 to 16, got 0");
  refuses("17", "from 1 to 16, got 17");
  refuses("2.5", "an integer, got 2.5");
}

TEST_CASE("two initiators are any pair at an odd distance, all equally often") {
  // 8 nodes begin each step together and come in their order, 1 ms apart: late are those after the later one m of the two initiators. Of
  // 16 pairs at an odd distance 1, 1, 2, 2, 3, 3 and 4 have m = 1 .. 7: on the mean 7 - 78 / 16 late ones, with a deviation of
  // sqrt(434 / 16 - (78 / 16)^2) = 1.83 a step, 0.058 over 1000. Of neighbors alone they were 7 - 35 / 8.
  const Recorder recorder =
      test::run(test::quadratic_scenario(8, 1000, "ring", eager + "synchronize_every = 1"),
                {"algorithm.activation=chain", "algorithm.initiators=2", "network.latency=1 us",
                 "compute.gradient=8 ms", "compute.speeds=8, 4, 2.667, 2, 1.6, 1.333, 1.143, 1"});
  CHECK(std::abs(8 * late_share(recorder) - (7 - 78. / 16)) < 4 * 0.058);
}

TEST_CASE("models of eager-SGD drift apart and are equal after each synchronization") {
  const std::string text = test::quadratic_scenario(8, 40, "ring", eager);
  const std::vector<std::string> slow = uneven + "compute.slow_nodes=1" + "compute.slowdown=3";
  CHECK(test::run(text, slow + "algorithm.synchronize_every=0").models[0] !=
        test::run(text, slow + "algorithm.synchronize_every=0").models[1]);
  for (const std::string way : {"average", "broadcast"}) {
    const Recorder recorder =
        test::run(text, slow + "algorithm.synchronize_every=20" + ("algorithm.synchronize=" + way));
    CHECK(test::nodes_agree(recorder));
  }
}

TEST_CASE("a broadcast spreads the model of node 0, an average keeps the mean") {
  // Both run alike until their only synchronization, after the last of 20 steps.
  const std::string text = test::quadratic_scenario(8, 20, "ring", eager);
  const Recorder apart = test::run(text, uneven + "algorithm.synchronize_every=0");
  const Recorder copied = test::run(
      text, uneven + "algorithm.synchronize_every=20" + "algorithm.synchronize=broadcast");
  const Recorder averaged = test::run(text, uneven + "algorithm.synchronize_every=20");
  for (NodeId i = 0; i < 8; ++i) {
    CHECK(copied.models[static_cast<std::size_t>(i)] == apart.models[0]);
    CHECK(test::model(averaged, i, 1) == doctest::Approx(test::mean_model(apart, 1)).epsilon(1e-5));
  }
}

TEST_CASE("eager-SGD refuses a number of nodes that is no power of two") {
  CHECK_THROWS_WITH_AS(test::run(test::quadratic_scenario(6, 3, "ring", eager)),
                       doctest::Contains("power of two, got 6"), ScenarioError);
}

TEST_CASE("how models are summed, which a broadcast does not do, is refused beside it") {
  const std::string text = test::quadratic_scenario(4, 3, "ring", eager) + "collective = ring\n";
  CHECK_NOTHROW(test::run(text));
  CHECK_THROWS_WITH_AS(test::run(text, {"algorithm.synchronize=broadcast"}),
                       doctest::Contains("algorithm.collective is not a key here"), ScenarioError);
}

}  // namespace starling::test_eager
