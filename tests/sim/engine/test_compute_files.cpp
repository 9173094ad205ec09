// Durations out of files: published distributions have the figures of their papers, traces are
// replayed as they were recorded.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/engine/compute_samples.hpp"
#include "tests/sim/engine/compute_fixture.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/relative.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_compute_files {
namespace {

using test::compute;
using test::Keys;
using test::Moments;
using test::moments;
using test::TemporaryFile;

constexpr NodeId nodes = 8;
constexpr Step steps = 10'000;

ComputeTime published(const std::string& name) {
  return compute({{"distribution", "published"}, {"name", name}}, nodes);
}

/// Share of all draws that are not longer.
double share(const ComputeTime& time, double seconds) {
  int below = 0;
  for (NodeId i = 0; i < nodes; ++i) {
    for (Step k = 0; k < steps; ++k) below += to_seconds(time.duration(i, k)) <= seconds;
  }
  return below / static_cast<double>(nodes * steps);
}

double seconds(const ComputeTime& time, NodeId node, Step step) {
  return to_seconds(time.duration(node, step));
}

}  // namespace

// A share f of 80,000 draws has a standard error of sqrt(f (1 - f) / 80,000) <= 0.0018; a mean one of
// deviation / 283.

TEST_CASE("published: Transformer batches of WAGMA-SGD, figure 6") {
  // Quartiles 0.193, 0.261, 0.364 s, mean 0.293 s, deviation 0.135 s, 1 % below 0.0899 s and 99 %
  // below 0.6566 s. The box was drawn with a pencil of 0.003 s, a share of 0.006 at the quartiles.
  const ComputeTime time = published("transformer_wmt17");
  CHECK(std::abs(share(time, 0.193) - 0.25) < 4 * 0.0018 + 0.006);
  CHECK(std::abs(share(time, 0.261) - 0.50) < 4 * 0.0018 + 0.006);
  CHECK(std::abs(share(time, 0.364) - 0.75) < 4 * 0.0018 + 0.006);
  CHECK(std::abs(share(time, 0.0899) - 0.01) < 0.002);
  CHECK(std::abs(share(time, 0.6566) - 0.99) < 0.002);
  const Moments found = moments(time, nodes, steps);
  CHECK(std::abs(found.mean - 0.293) < 4 * 0.135 / 283 + 0.0005);
  CHECK(found.deviation == test::relative(0.135, 0.02));
}

TEST_CASE("published: iterations of reinforcement learning of WAGMA-SGD, figure 9") {
  // Box 1.78, 1.81, 1.896 s, mean 2.10 s; clusters of 95.2 %, 3.2 % and 1.6 %; the longest 43.5 s.
  // Deviation 1.45 s.
  const ComputeTime time = published("rl_habitat");
  CHECK(std::abs(share(time, 1.7800) - 0.25) < 4 * 0.0018 + 0.02);  // dense: 0.02 in 1.3 ms
  CHECK(std::abs(share(time, 1.8105) - 0.50) < 4 * 0.0018 + 0.005);
  CHECK(std::abs(share(time, 1.8966) - 0.75) < 4 * 0.0018 + 0.005);
  CHECK(std::abs(share(time, 3) - 0.952) < 4 * 0.0008);
  CHECK(std::abs(share(time, 7) - 0.984) < 4 * 0.0005);
  CHECK(share(time, 43.4) < 1);
  CHECK(share(time, 43.5) == 1);
  CHECK(std::abs(moments(time, nodes, steps).mean - 2.10) < 4 * 1.45 / 283);
}

TEST_CASE("published: the three workloads of eager-SGD, figures 2b, 3 and 4") {
  // Mean and deviation of the papers' text. The histograms' bins are 0.1, 0.05 and 0.05 s wide, and
  // their middles move the mean by less than a tenth of that, deviations by 2 %.
  struct Case {
    const char* name;
    double mean, deviation, bin, least, most;
  };
  for (const Case& one : {Case{"ucf101_lstm", 1.235, 0.706, 0.1, 0.15, 3.45},
                          Case{"transformer_wmt16", 0.475, 0.144, 0.05, 0.175, 3.525},
                          Case{"resnet50_cloud", 0.454, 0.116, 0.05, 0.375, 1.925}}) {
    CAPTURE(one.name);
    const ComputeTime time = published(one.name);
    const Moments found = moments(time, nodes, steps);
    CHECK(std::abs(found.mean - one.mean) < 0.1 * one.bin + 4 * one.deviation / 283);
    CHECK(found.deviation == test::relative(one.deviation, 0.04));
    CHECK(found.least >= one.least);
    CHECK(share(time, one.most) == 1);
  }
}

TEST_CASE("published distributions can be scaled to another machine") {
  const ComputeTime time = compute(
      {{"distribution", "published"}, {"name", "rl_habitat"}, {"gradient", "210 ms"}}, nodes);
  const ComputeTime own = published("rl_habitat");
  CHECK(to_seconds(time.mean()) == doctest::Approx(0.21));
  CHECK(seconds(time, 3, 14) ==
        doctest::Approx(seconds(own, 3, 14) * 0.21 / to_seconds(own.mean())).epsilon(1e-9));
}

TEST_CASE("a trace is replayed step by step, and starts over") {
  const TemporaryFile file("a,b\n1, 2\n3, 4\n5, 6\n");
  const ComputeTime time = compute({{"distribution", "trace"}, {"trace", file.path()}}, 5);
  CHECK(to_seconds(time.mean()) == doctest::Approx(3.4));  // nodes 0, 2 and 4 are a's, 1 and 3 b's
  const auto mean_of = [&](NodeId count, const char* gradient) {
    const test::Keys keys{
        {"distribution", "trace"}, {"trace", file.path()}, {"gradient", gradient}};
    const ComputeTime some = compute(keys, count);
    return std::pair(to_seconds(some.mean()), seconds(some, 0, 0));
  };
  CHECK(mean_of(1, "0 s").first == doctest::Approx(3));  // b's do not count
  CHECK(mean_of(4, "0 s").first == doctest::Approx(3.5));
  CHECK(mean_of(1, "6 s").first == doctest::Approx(6));
  CHECK(mean_of(1, "6 s").second == doctest::Approx(2));
  CHECK(seconds(time, 0, 0) == 1);
  CHECK(seconds(time, 1, 2) == 6);
  CHECK(seconds(time, 0, 3) == 1);
  CHECK(seconds(time, 0, 3 * 1'000'000 + 1) == 3);
  CHECK(seconds(time, 4, 1) == 3);  // node 4 of 2 recorded ones: the first
}

TEST_CASE("nodes beyond the recorded ones begin trace_shift steps later, each time around") {
  const TemporaryFile file("1,2\n3,4\n5,6\n");
  const ComputeTime time =
      compute({{"distribution", "trace"}, {"trace", file.path()}, {"trace_shift", "1"}}, 6);
  CHECK(seconds(time, 1, 0) == 2);
  CHECK(seconds(time, 3, 0) == 4);
  CHECK(seconds(time, 5, 0) == 6);
  CHECK(seconds(time, 5, 1) == 2);
}

TEST_CASE("a trace may be shifted as far as 64 bits hold for all nodes") {
  const TemporaryFile file("1\n2\n3\n");
  const Step shift = 576'460'752'303'423'487;  // 2^59 - 1
  const ComputeTime time = compute(
      {{"distribution", "trace"}, {"trace", file.path()}, {"trace_shift", std::to_string(shift)}});
  for (NodeId i = 0; i < 8; ++i) CHECK(seconds(time, i, 4) == 1 + (4 + i * (shift % 3)) % 3);
}

TEST_CASE("a trace may come as a list, in any order, with nodes of different length") {
  const TemporaryFile file("node, step, seconds\n1,0,5\n0,1,2\n0,0,1\n0,2,3\n");
  const ComputeTime time =
      compute({{"distribution", "trace"}, {"trace", file.path()}, {"gradient", "5500 ms"}}, 2);
  CHECK(seconds(time, 0, 2) == 6);  // mean 2.75 s, scaled to twice that
  CHECK(seconds(time, 1, 7) == 10);
  CHECK(seconds(time, 0, 4) == 4);
}

TEST_CASE("behind the end of a trace that must not repeat there is an error") {
  const TemporaryFile file("0.1,0.2\n0.3,0.4\n");
  const ComputeTime time =
      compute({{"distribution", "trace"}, {"trace", file.path()}, {"trace_end", "fail"}}, 3);
  CHECK(seconds(time, 2, 1) == 0.3);
  CHECK_THROWS_WITH_AS(time.duration(2, 2),
                       doctest::Contains((file.path() + ": expected a duration for node 2 at step "
                                                        "2, found 2 steps of recorded node 0")
                                             .c_str()),
                       Error);
}

TEST_CASE("numbers of nodes or steps in a trace are not taken for seconds") {
  const auto refusal = [](const std::string& text) {
    const TemporaryFile file(text);
    return test::behind("test.ini:7: compute.trace " + file.path(),
                        test::message_of<ScenarioError>([&] {
                          compute({{"distribution", "trace"}, {"trace", file.path()}});
                        }));
  };
  CHECK(refusal("0,1,2\n0.1,0.2,0.1\n") ==
        ":1: expected seconds, or a header that names nodes by letters, such as n0,n1, got "
        "\"0,1,2\"");
  CHECK(refusal("number,n0,n1\n0,0.1,0.2\n1,0.1,0.2\n") ==
        ": expected seconds in every column, found numbers of steps, 0, 1, .., in the first");
  CHECK(refusal("0,1,3\n0.1,0.2,0.1\n") == "no error");
  CHECK(refusal("n0,n1\n0,0.1\n2,0.1\n") == "no error");
  CHECK(refusal("0\n1\n2\n") == "no error");
}

TEST_CASE("a wrong trace is an error that names file and place") {
  const auto expect = [](const std::string& text, const std::string& message) {
    const TemporaryFile file(text);
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(compute({{"distribution", "trace"}, {"trace", file.path()}}),
                         doctest::Contains(("compute.trace " + file.path() + message).c_str()),
                         ScenarioError);
  };
  expect("", ": expected at least one duration, found none");
  expect("a,b\n", ": expected at least one duration, found none");
  expect("0.1,0.2\n0.3\n", ":2: expected 2 numbers, one per node, got \"0.3\"");
  expect("0.1\n-0.3\n", ":2: expected numbers of seconds, not negative");
  expect("0.1\nfast\n", ":2: expected numbers of seconds, got \"fast\"");
  expect("node,step,seconds\n0,0\n", ":2: expected node,step,seconds, none of them negative");
  expect("node,step,seconds\n0,0.5,1\n", ":2: expected node,step,seconds");
  expect("node,step,seconds\n0,0,1\n0,0,2\n",
         ": expected one duration for node 0 at step 0, found several");
  expect("node,step,seconds\n0,0,1\n0,2,2\n",
         ": expected one duration for node 0 at step 1, found none");
  expect("node,step,seconds\n0,0,1\n2,0,2\n",
         ": expected a duration for node 1 at step 0, found none");
  expect("node,step,seconds\n0,1,1\n", ": expected a duration for node 0 at step 0, found none");
  for (const std::string header :
       {"step,node,seconds,loss", "Node,Step,Seconds,loss", "step,rank,step_time",
        "Rank,iter,time_s"})  // no columns of nodes
    expect(header + "\n1,0,0.1,2\n",
           ":1: expected the header node,step,seconds, or of columns that are nodes, none of "
           "steps, got \"" +
               header);
  expect("n0_ms,n1_ms\n12,13\n", ":1: expected the header of times in seconds, got \"n0_ms,n1_ms");
  CHECK_THROWS_WITH_AS(
      compute({{"distribution", "trace"}, {"trace", "/nowhere/trace.csv"}}),
      doctest::Contains("test.ini:7: compute.trace /nowhere/trace.csv: cannot open"),
      ScenarioError);
}

TEST_CASE("a trace of delays comes on top of any duration and of other delays") {
  const TemporaryFile file("0,0.010\n0,0\n");  // node 1 is late by 10 ms at every other step
  const ComputeTime time = compute({{"gradient", "4 ms"},
                                    {"slow_nodes", "1"},
                                    {"slowdown", "5"},
                                    {"delay", "1 ms"},
                                    {"delay_probability", "1"},
                                    {"delay_trace", file.path()}},
                                   2);
  for (const Step k : {0, 1, 2, 3}) CHECK(time.duration(0, k) == Duration{21'000'000'000});
  for (const Step k : {0, 2}) CHECK(time.duration(1, k) == Duration{15'000'000'000});
  for (const Step k : {1, 3}) CHECK(time.duration(1, k) == Duration{5'000'000'000});
  CHECK(time.delay(1, 0) == Duration{11'000'000'000});
  // (20 + 4) / 2 ms, 1 ms, and 10 ms in a quarter of the steps.
  CHECK(to_seconds(time.mean()) == doctest::Approx(0.0155).epsilon(1e-12));
  // Beside recorded durations, too; of another file.
  const TemporaryFile durations("0.1\n");
  const ComputeTime recorded = compute(
      {{"distribution", "trace"}, {"trace", durations.path()}, {"delay_trace", file.path()}}, 2);
  CHECK(recorded.duration(1, 0) == Duration{110'000'000'000});
  CHECK_THROWS_WITH_AS(compute({{"gradient", "1 ms"}, {"delay_trace", "/nowhere/d.csv"}}),
                       "test.ini:7: compute.delay_trace /nowhere/d.csv: cannot open the trace of "
                       "compute.delay_trace: No such file or directory",
                       ScenarioError);
  const TemporaryFile negative("0.1,-0.1\n");
  CHECK_THROWS_WITH_AS(compute({{"gradient", "1 ms"}, {"delay_trace", negative.path()}}),
                       doctest::Contains("file.csv:1: expected numbers of seconds, not negative"),
                       ScenarioError);
}

}  // namespace starling::test_compute_files
