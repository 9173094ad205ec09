// Streaming DiLoCo beside DiLoCo's recursion: fragments, codes of them, and exchanges hidden behind local steps.
#include <doctest/doctest.h>

#include "tests/algorithms/block_averaging.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_streaming_diloco {
namespace {

const char* const streaming = "kind = streaming_diloco\nlearning_rate = 0.05\nperiod = 6";

}  // namespace

TEST_CASE("streaming DiLoCo with one fragment and no overlap is DiLoCo, to the bit") {
  const Recorder whole =
      test::run(test::quadratic_scenario(6, 60, "ring", streaming),
                {"algorithm.fragments=1", "algorithm.delay=0", "algorithm.local_share=0"});
  const Recorder diloco = test::run(
      test::quadratic_scenario(6, 60, "ring", "kind = diloco\nlearning_rate = 0.05\nperiod = 6"));
  CHECK(whole.models == diloco.models);
}

TEST_CASE("a program that waits for its exchange spends its time as one that exchanges") {
  // Messages of 20 ms, gradients that differ, sums around a ring: nobody's first message is under way when the others wait.
  const std::vector<std::string> slow{"algorithm.collective=ring", "network.bandwidth=2 kB/s",
                                      "compute.distribution=gamma", "compute.shape=4",
                                      "compute.gradient=20 ms"};
  const auto with = [&slow](std::vector<std::string> more) {
    more.insert(more.end(), slow.begin(), slow.end());
    return more;
  };
  const Recorder whole =
      test::run(test::quadratic_scenario(6, 60, "ring", streaming),
                with({"algorithm.fragments=1", "algorithm.delay=0", "algorithm.local_share=0"}));
  const Recorder diloco = test::run(
      test::quadratic_scenario(6, 60, "ring", "kind = diloco\nlearning_rate = 0.05\nperiod = 6"),
      with({}));
  CHECK(to_seconds(diloco.nodes[0].communicate) > 0.05);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(whole.nodes[i].communicate == diloco.nodes[i].communicate);
    CHECK(whole.nodes[i].wait == diloco.nodes[i].wait);
    CHECK(whole.nodes[i].finished == diloco.nodes[i].finished);
  }
}

TEST_CASE("every fragment goes through DiLoCo's recursion at its own offset") {
  // One node, f = 1/2 (x - 1)^2 from 0 in 6 dimensions, q = 0.9: coordinates do not see each other.
  // 3 fragments of 2 coordinates, period 6: fragment p is due after steps 2 (p + 1), 2 (p + 1) + 6,
  // ..; merged one step later, a quarter of the own model kept.
  const Recorder recorder =
      test::run(test::quadratic_scenario(1, 25, "ring",
                                         "kind = streaming_diloco\nlearning_rate = 0.1\nperiod = "
                                         "6\nfragments = 3\nlocal_share = 0.25"),
                {"workload.centers=list", "workload.center_values=1", "workload.dimension=6"});
  for (int p = 0; p < 3; ++p) {
    double x = 0;
    double theta = 0;
    double m = 0;
    double d = 0;
    for (int k = 1; k <= 25; ++k) {
      x = 1 + 0.9 * (x - 1);
      if (k > 1 && (k - 1 - 2 * (p + 1)) % 6 == 0 && k - 1 >= 2 * (p + 1)) {
        m = 0.9 * m + d;
        theta -= 0.7 * (d + 0.9 * m);
        x = 0.25 * x + 0.75 * theta;
      }
      if ((k - 2 * (p + 1)) % 6 == 0) d = theta - x;
    }
    for (std::size_t c = 0; c < 2; ++c) {
      CHECK(test::model(recorder, 0, 2 * static_cast<std::size_t>(p) + c) ==
            doctest::Approx(x).epsilon(1e-5));
    }
  }
}

TEST_CASE("fragments together carry every parameter once per period") {
  // Ring allreduce of m floats over 5 nodes sends 8 chunks of m / 5 from each node; fragments of 10
  // floats, 4 of them, 3 periods: 3 * 4 * 8 * 2 floats. One fragment sends the same bytes at once.
  const std::string text = test::quadratic_scenario(
      5, 24, "ring",
      "kind = streaming_diloco\nlearning_rate = 0.05\nperiod = 8\ncollective = ring");
  for (const std::string fragments : {"1", "4"}) {
    const Recorder recorder =
        test::run(text, {"workload.dimension=40", "algorithm.fragments=" + fragments});
    for (const NodeTotals& node : recorder.nodes) CHECK(node.bytes_sent == 3 * 4 * 8 * 2 * 4);
  }
}

TEST_CASE("outer gradients of four bits: half a byte per parameter, a scale per fragment") {
  // Fragments of 10 floats: 4 + 5 bytes to each of 4 others, 4 fragments, 3 periods.
  const std::string text = test::quadratic_scenario(
      5, 24, "ring",
      "kind = streaming_diloco\nlearning_rate = 0.05\nperiod = 8\ncompression = float4");
  const Recorder recorder = test::run(text, {"workload.dimension=40"});
  for (const NodeTotals& node : recorder.nodes) CHECK(node.bytes_sent == 4 * 9 * 4 * 3);
}

TEST_CASE("one step at a time, without momentum, coded outer gradients are coded gradients") {
  // theta - (theta - l g) = l g, but for rounding.
  const std::vector<std::string> spread{"workload.start_spread=1", "workload.dimension=40"};
  const Recorder outer = test::run(
      test::quadratic_scenario(4, 20, "ring",
                               "kind = streaming_diloco\nlearning_rate = 0.05\nperiod = 1\n"
                               "fragments = 1\ndelay = 0\nlocal_share = 0\nouter_momentum = "
                               "0\nouter_learning_rate = 1\ncompression = float4"),
      spread);
  const std::string allreduce = "kind = allreduce\nlearning_rate = 0.05\n";
  const Recorder coded =
      test::run(test::quadratic_scenario(4, 20, "ring",
                                         allreduce + "compression = float4\nerror_feedback = no"),
                spread);
  const Recorder exact = test::run(test::quadratic_scenario(4, 20, "ring", allreduce), spread);
  CHECK(test::largest_difference(outer, coded) < 1e-5);
  CHECK(test::largest_difference(outer, exact) > 1e-2);
}

TEST_CASE("without own share and delay, streaming does not move the fixed point of local SGD") {
  // A fragment is set to a common value once per period, so each coordinate sees blocks of `period`
  // local steps.
  const std::string text = test::quadratic_scenario(
      5, 1800, "ring", std::string(streaming) + "\nfragments = 3\ndelay = 0\nlocal_share = 0");
  // The final model is taken after step 1800, when only the last fragment has just been exchanged
  // (due after step 6 m).
  const Recorder recorder = test::run(text);
  const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
  const auto& problem = dynamic_cast<const Quadratic&>(*parts.workload);
  for (const std::size_t k : {3, 4}) {  // fragment 2 of 3: coordinates [10/3, 5)
    CHECK(test::model(recorder, 2, k) ==
          doctest::Approx(test::local_fixed_point(problem, 5, k, 0.05, 6)).epsilon(1e-4));
  }
}

TEST_CASE("exchanges that are ready in time are hidden behind local steps") {
  // 2 nodes, latency 0.4 ms, an exchange takes 0.8 ms of a step's 1 ms. With one step of delay
  // the last step ends after 24 ms; without, all 8 exchanges are waited for: 24 + 8 * 0.8 ms.
  const std::string text =
      test::quadratic_scenario(2, 24, "ring", std::string(streaming) + "\nfragments = 2");
  CHECK(to_seconds(test::run(text, {"network.latency=0.4 ms"}).nodes[1].finished) ==
        doctest::Approx(0.024).epsilon(1e-6));
  CHECK(to_seconds(
            test::run(text, {"network.latency=0.4 ms", "algorithm.delay=0"}).nodes[1].finished) ==
        doctest::Approx(0.0304).epsilon(1e-6));
}

TEST_CASE("in one fragment without overlap, momentum fares as in DiLoCo, to the bit") {
  const std::vector<std::string> whole{"algorithm.fragments=1", "algorithm.delay=0",
                                       "algorithm.local_share=0"};
  for (const std::string policy : {"keep", "average", "reset"}) {
    for (const std::string rule : {"momentum = 0.8", "optimizer = adam\nclip_norm = 0.5"}) {
      const auto text = [&](const std::string& kind) {
        return test::quadratic_scenario(6, 40, "ring",
                                        "kind = " + kind + "\nlearning_rate = 0.05\nperiod = 4\n" +
                                            rule + "\nmomentum_policy = " + policy);
      };
      const Recorder streamed = test::run(text("streaming_diloco"), whole);
      const Recorder diloco = test::run(text("diloco"));
      CHECK(streamed.models == diloco.models);
      CHECK(streamed.nodes[1].bytes_sent == diloco.nodes[1].bytes_sent);
    }
  }
}

TEST_CASE("fragments' momentum is kept, merged late with the model, or forgotten then") {
  // 2 nodes, f_i = 1/2 (x - i)^2 from 0 in 4 dimensions, rate 0.1, momentum 0.5. 2 fragments, period 6: fragment p is due
  // after steps 3 (p + 1), 3 (p + 1) + 6, ..; merged one step later, a quarter of one's own kept.
  for (const std::string policy : {"keep", "average", "reset"}) {
    CAPTURE(policy);
    const Recorder recorder =
        test::run(test::quadratic_scenario(
                      2, 25, "complete",
                      "kind = streaming_diloco\nlearning_rate = 0.1\nmomentum = 0.5\nperiod = "
                      "6\nfragments = 2\nlocal_share = 0.25\nmomentum_policy = " +
                          policy),
                  {"workload.centers=index", "workload.dimension=4"});
    for (int p = 0; p < 2; ++p) {
      double x[2] = {0, 0};
      double m[2] = {0, 0};
      double theta = 0;
      double velocity = 0;
      double d = 0;
      double mean = 0;  // of the momenta
      for (int k = 1; k <= 25; ++k) {
        for (int i = 0; i < 2; ++i) {
          m[i] = 0.5 * m[i] + (x[i] - i);
          x[i] -= 0.1 * m[i];
        }
        if (k > 3 * (p + 1) && (k - 1 - 3 * (p + 1)) % 6 == 0) {
          velocity = 0.9 * velocity + d;
          theta -= 0.7 * (d + 0.9 * velocity);
          for (int i = 0; i < 2; ++i) {
            x[i] = 0.25 * x[i] + 0.75 * theta;
            if (policy == "average") m[i] = 0.25 * m[i] + 0.75 * mean;
            if (policy == "reset") m[i] = 0;
          }
        }
        if ((k - 3 * (p + 1)) % 6 == 0) {
          d = theta - (x[0] + x[1]) / 2;
          mean = (m[0] + m[1]) / 2;
        }
      }
      for (NodeId i = 0; i < 2; ++i) {
        for (std::size_t c = 0; c < 2; ++c) {
          CHECK(test::model(recorder, i, 2 * static_cast<std::size_t>(p) + c) ==
                doctest::Approx(x[i]).epsilon(1e-5));
        }
      }
    }
  }
}

TEST_CASE("a model has no more fragments than parameters, however long the period") {
  // 5 parameters. 2^32 + 1 fragments were one, as 32 bits count.
  const std::string text = test::quadratic_scenario(
      2, 4, "ring", "kind = streaming_diloco\nlearning_rate = 0.05\nperiod = 10000000000");
  for (const std::string fragments : {"6", "4294967297"}) {
    CHECK_THROWS_WITH_AS(
        test::run(text, {"algorithm.fragments=" + fragments}),
        doctest::Contains("must be from 1 to 5, no more than period and the parameters"),
        ScenarioError);
  }
  // Fragment p of 5 is due after p + 1 fifths of a period.
  const Recorder recorder =
      test::run(text, {"algorithm.fragments=5", "algorithm.period=9223372036854775807"});
  CHECK(recorder.nodes[0].messages_sent == 0);
  CHECK(test::run(text, {"workload.dimension=2"}).nodes[0].steps == 4);  // in two fragments
}

}  // namespace starling::test_streaming_diloco
