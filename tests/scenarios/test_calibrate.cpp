// What is made of measured times of messages: lines through them, doubts, and the network that is written.
#include <array>
#include <string>

#include <doctest/doctest.h>

#include "scenarios/calibrate.hpp"
#include "tests/support/relative.hpp"

namespace starling::test_calibrate {
namespace {

Calibration calibration(const Rounds& worst) {
  const LinkFigures figures{.latency = 1e-6,
                            .awake = 1e-6,
                            .overhead = 1e-6,
                            .gap = 1e-6,
                            .gap_per_byte = 1e-9,
                            .shared_per_byte = 1e-9,
                            .worst = worst};
  return {
      .ranks = 2, .hosts = 1, .host_of = {0, 0}, .within = figures, .between = {}, .gradients = {}};
}

}  // namespace

TEST_CASE("calibrate: G is the slope of a line to which each size comes as near for its length") {
  // 10 us + 1 ns per byte.
  const std::array<Rounds, 3> exact{Rounds{4, 0, 10.004e-6, 0}, Rounds{1000, 0, 11e-6, 0},
                                    Rounds{9000, 0, 19e-6, 0}};
  CHECK(seconds_per_byte(exact) == test::relative(1e-9));
  // A long message that took a tenth more than the short ones tell makes the slope its own.
  const std::array<Rounds, 3> late{Rounds{4, 0, 10e-6, 0}, Rounds{1000, 0, 11e-6, 0},
                                   Rounds{1e9, 0, 1.1, 0}};
  CHECK(seconds_per_byte(late) == test::relative(1.1e-9, 0.01));
  // Misses count by the time that a message takes: one of 8 MB that took twice as long weighs 1/256 of one of 1 MB.
  const std::array<Rounds, 3> slow{Rounds{1e6, 0, 1e-3, 0}, Rounds{2e6, 0, 2e-3, 0},
                                   Rounds{8e6, 0, 16e-3, 0}};
  CHECK(seconds_per_byte(slow) == test::relative(190e-9 / 122));
}

TEST_CASE("calibrate: small messages that took longer than large ones leave no negative time") {
  // No slope: what the last took, 1 ms for 5 MB.
  const std::array<Rounds, 2> falling{Rounds{1e6, 0, 5e-3, 0}, Rounds{5e6, 0, 1e-3, 0}};
  CHECK(seconds_per_byte(falling) == test::relative(2e-10));
}

TEST_CASE("calibrate: rounds that lie far apart make a doubt that the file keeps") {
  const Calibration quiet = calibration({4, 26e-6, 38e-6, 45e-6});
  CHECK(quiet.doubts().empty());
  CHECK(to_scenario_text(quiet).find("Beware") == std::string::npos);

  const Calibration busy = calibration({4, 3.5e-6, 306e-6, 963e-6});
  REQUIRE(busy.doubts().size() == 1);
  CHECK(busy.doubts()[0] ==
        "the figures within a host are too noisy to be believed: of the rounds that moved 4 B a "
        "quarter took less than "
        "3.5 us, and a quarter more than 963 us; measure again while nothing else runs");
  CHECK(to_scenario_text(busy).find("# Beware: " + busy.doubts()[0] + ".\n") != std::string::npos);
}

TEST_CASE("calibrate: times are written in the unit that suits them") {
  Calibration measured = calibration({4, 26e-6, 38e-6, 45e-6});
  measured.gradients = {0.0181234, 0.0181234};
  measured.within->latency = 0.0000123;
  measured.within->overhead = 0;
  measured.within->gap = 3.21987e-7;
  const std::string text = to_scenario_text(measured);
  CAPTURE(text);
  CHECK(text.find("\ngradient = 18.12 ms\n") != std::string::npos);
  CHECK(text.find(" L 12.3 us, o 0 s, g 322 ns, 1/G 1 GB/s; 1 us to a rank that is awake\n") !=
        std::string::npos);
  CHECK(text.find("\nlatency = 6.15 us\n") != std::string::npos);
}

TEST_CASE("calibrate: connections of TCP share what was measured, which holds their own costs") {
  const Calibration measured = calibration({4, 26e-6, 38e-6, 45e-6});
  const std::string fluid = to_scenario_text(measured), tcp = to_scenario_text(measured, true);
  CHECK(fluid.find("\nkind = fluid\nfabric = crossbar\n") != std::string::npos);
  CHECK(fluid.find("window") == std::string::npos);
  CHECK(tcp.find("\nkind = tcp\nfabric = crossbar\n") != std::string::npos);
  CHECK(tcp.find("\nlatency_factor = 1\nbandwidth_factor = 1\nwindow = 0 B\n") !=
        std::string::npos);
}

}  // namespace starling::test_calibrate
