// The keys of [network] kind = loggp, and the machines whose numbers are known; the model itself is in
// loggp_ports.hpp.

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "network_models/loggp_ports.hpp"
#include "network_models/overrides.hpp"
#include "network_models/registry.hpp"

namespace starling::network_models {
namespace {

struct Preset {
  std::string_view name;
  std::string_view latency, overhead, gap, bandwidth, overhead_per_byte;
};

// Half a round trip of a small message is L + 2 o. What MPI reaches on such machines is published
// and named below; how it parts into L, o and g is recalled, except slingshot's. Calibrate before
// trusting the parts.
constexpr Preset presets[] = {
    // Cray Aries (XC series, WP-Aries01-1112). The operators of Piz Daint expect 1.30 us for 8 bytes
    // and 9.6 GB/s: reframe-hpc/reframe, cscs-checks/microbenchmarks/mpi/osu/osu_tests.py.
    {"aries", "0.9 us", "0.2 us", "0.3 us", "10 GB/s", "0 s"},
    // InfiniBand EDR, 100 Gbit/s: 24.3 GB/s both ways together in hpc-cofc/generic-benchmarks,
    // network/README.md. Latency of 1.1 us from memory.
    {"edr", "0.8 us", "0.15 us", "0.1 us", "12.2 GB/s", "0 s"},
    // InfiniBand HDR, 200 Gbit/s: twice HDR100's 12.3 GB/s each way (openucx/ucx, issue 7245).
    // Latency of 1.0 us from memory.
    {"hdr", "0.7 us", "0.15 us", "0.1 us", "24.5 GB/s", "0 s"},
    // HPE Slingshot of CSCS Alps with NCCL: scripts/configs/lgs_ai_config.yaml of ATLAHS.
    {"slingshot", "3.7 us", "0.2 us", "5 ns", "25 GB/s", "0 s"},
    // 10 Gbit/s Ethernet with TCP. From memory.
    {"10gbe", "15 us", "5 us", "5 us", "1.18 GB/s", "0.2 ns"},
    // A 1 Gbit/s path between cities, 50 ms one way (20 to 100 ms are usual). From memory.
    {"wan", "50 ms", "10 us", "10 us", "117.6 MB/s", "0.2 ns"},
};

double parse_slowdown(const std::string& text) {
  double factor = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error != std::errc() || rest != text.data() + text.size() || !(factor > 0 && factor <= 1e6)) {
    throw std::invalid_argument("must be factors above 0 and up to 1e6, got \"" + text + "\"");
  }
  return factor;
}

}  // namespace

std::unique_ptr<NetworkModel> loggp(const Section& section, NodeId nodes, std::uint64_t) {
  std::vector<std::string> names = {"none"};
  for (const Preset& preset : presets) names.emplace_back(preset.name);
  const std::string name = section.choice(
      "preset", names, "none", "a machine whose numbers are the defaults of the keys below");
  const auto preset = std::ranges::find(presets, name, &Preset::name);
  const bool has_preset = preset != std::end(presets);

  const auto duration = [&](std::string_view key, std::string_view Preset::*field,
                            std::string_view help) {
    return has_preset ? section.optional<Duration>(key, parse_duration((*preset).*field), help)
                      : section.required<Duration>(key, help);
  };
  constexpr std::string_view bandwidth_help = "1 / G: of a port, sending or receiving";
  LogGPCosts costs{};
  costs.latency = duration("latency", &Preset::latency, "L: the way of a byte through the network");
  costs.overhead =
      duration("overhead", &Preset::overhead, "o: processor time per message, at each end");
  costs.gap =
      section.optional<Duration>("gap", has_preset ? parse_duration(preset->gap) : Duration{0},
                                 "g: shortest time between messages of one port");
  const auto bandwidth = has_preset
                             ? section.optional<Bandwidth>(
                                   "bandwidth", parse_bandwidth(preset->bandwidth), bandwidth_help)
                             : section.required<Bandwidth>("bandwidth", bandwidth_help);
  const auto overhead_per_byte = section.optional<Duration>(
      "overhead_per_byte", has_preset ? parse_duration(preset->overhead_per_byte) : Duration{0},
      "O: processor time per byte, at each end");
  costs.gap_per_byte = 1e12 / bandwidth.bytes_per_second;
  costs.overhead_per_byte = static_cast<double>(overhead_per_byte.count());
  const auto slow = read_ranges(
      section, "slowdowns", nodes, parse_slowdown,
      "of single nodes: their overheads and gaps times so much, such as 3: 2, 8-11: 1.5");
  section.finish();
  std::vector<double> slowdown(slow.empty() ? 0 : static_cast<std::size_t>(nodes), 1.0);
  for (const auto& [first, last, factor] : slow) {
    std::fill(slowdown.begin() + first, slowdown.begin() + last + 1, factor);
  }
  return std::make_unique<LogGP>(costs, nodes, std::move(slowdown));
}

}  // namespace starling::network_models
