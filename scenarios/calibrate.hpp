// Calibration: what a machine's network and kernels really take, measured over our own MPI transport, so with everything
// that an algorithm's message meets on its way. The result is two sections that a scenario includes.
//
// Between two ranks, after Netgauge (Hoefler, Mehlan, Lumsdaine, Rehm, "Netgauge: a network performance measurement
// framework", HPCC 2007): PRTT(n, d, k) is the time from the first of n messages of k bytes, sent d apart, to the reply
// that follows the last.
//
//   o           (PRTT(n, d, 1) - PRTT(1, 0, 1)) / (n - 1) - d,   d longer than a round trip
//   g           (PRTT(n, 0, 1) - PRTT(1, 0, 1)) / (n - 1)
//   L + 2 o     RTT(1) / 2
//   G           slope of RTT(k) / 2 over long messages
//
// RTT(k) is that of k bytes there and, from a server that rests in between, k bytes back, without the rest. Netgauge takes
// PRTT(1, 0, k), whose messages find the other end awake and all in its caches. Those of training come after a gradient, and
// take longer: within a host 4 B took 2 us the one way and 100 us the other, most of it a nap, 1 MB 60 and 290.
//
// What all ranks of a host can move at once is measured with every rank sending to the next one. Of every quantity the
// median over the rounds counts. Where the rounds of one lie far apart, because others use the machine, the median is one
// of chance, and doubts() says so.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/node/workload.hpp"

namespace starling {

class MpiSession;

/// Seconds of the rounds that measured messages of so many bytes.
struct Rounds {
  double bytes = 0;
  double lower = 0;  // a quarter of the rounds took less,
  double median = 0;
  double upper = 0;  // and a quarter more

  /// How far they lie apart.
  double scatter() const { return upper / lower; }
};

/// The slope of a line through the medians by least squares of the relative errors. If a busy machine shows none, the seconds
/// per byte of the last and largest, for the slope cannot be more. Positive whatever was measured.
double seconds_per_byte(std::span<const Rounds> by_size);

/// LogGP parameters of one kind of way; seconds, and seconds per byte.
struct LinkFigures {
  double latency = 0;          // L
  double awake = 0;            // L + 2 o of messages that are waited for without a nap
  double overhead = 0;         // o
  double gap = 0;              // g
  double gap_per_byte = 0;     // G, alone
  double shared_per_byte = 0;  // the same per byte of all messages, when every rank of a host sends
  Rounds worst{};              // those that lie farthest apart
};

struct Calibration {
  int ranks = 0;
  int hosts = 0;
  std::vector<int> host_of;            // (ranks), counted from 0
  std::optional<LinkFigures> within;   // a host; none if no host has two ranks
  std::optional<LinkFigures> between;  // hosts; none if there is one host
  std::vector<double> gradients;       // seconds, of all ranks at once; empty without a workload

  /// Of the simulation, whose hosts are all alike.
  int nodes_per_host() const { return (ranks + hosts - 1) / hosts; }
  /// A sentence for each kind of way whose figures are too noisy to be believed, and one if ranks do not fill alike hosts one
  /// after the other.
  std::vector<std::string> doubts() const;
};

/// Is told what is measured next, and which share of the work is done.
using CalibrationProgress = std::function<void(double share, const std::string& what)>;

/// Measures; all ranks of `session` (two at least) call it together and rank 0 gets the figures, and calls `show` between
/// measurements. `workload` may be null: then no gradients are timed. Takes about five seconds. Throws Error.
Calibration calibrate(MpiSession& session, const Workload* workload,
                      const CalibrationProgress& show);

/// With what to_scenario_text() begins.
constexpr std::string_view calibration_head = "# Measured by starling calibrate";

/// The sections [network] and, if gradients were timed, [compute], with what was measured as comments. With `over_tcp`
/// messages share links as connections of TCP do: by round-trip time, with acknowledgements on the way back.
std::string to_scenario_text(const Calibration& calibration, bool over_tcp = false);

}  // namespace starling
