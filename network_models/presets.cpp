#include "network_models/presets.hpp"

#include <algorithm>
#include <iterator>

namespace starling::network_models {
namespace {

struct PresetRow {
  std::string_view name;
  std::string_view latency, overhead, gap, bandwidth, overhead_per_byte, hop;
};

// Half a round trip of a small message is L + 2 o. What MPI reaches on such machines is published
// and named below; how it parts into L, o and g is recalled, except slingshot's. Calibrate before
// trusting the parts.
constexpr PresetRow rows[] = {
    // Cray Aries (XC series, WP-Aries01-1112: about 100 ns per router). The operators of Piz Daint expect
    // 1.30 us for 8 bytes and 9.6 GB/s: reframe-hpc/reframe, cscs-checks/microbenchmarks/mpi/osu/osu_tests.py.
    {"aries", "0.9 us", "0.2 us", "0.3 us", "10 GB/s", "0 s", "0.1 us"},
    // InfiniBand EDR, 100 Gbit/s: 24.3 GB/s both ways together in hpc-cofc/generic-benchmarks,
    // network/README.md. Latency of 1.1 us, of a switch 90 ns, from memory.
    {"edr", "0.8 us", "0.15 us", "0.1 us", "12.2 GB/s", "0 s", "0.09 us"},
    // InfiniBand HDR, 200 Gbit/s: twice HDR100's 12.3 GB/s each way (openucx/ucx, issue 7245).
    // Latency of 1.0 us, of a switch 130 ns, from memory.
    {"hdr", "0.7 us", "0.15 us", "0.1 us", "24.5 GB/s", "0 s", "0.13 us"},
    // HPE Slingshot of CSCS Alps with NCCL: scripts/configs/lgs_ai_config.yaml of ATLAHS. Of a switch 350 ns:
    // De Sensi et al., "An in-depth analysis of the Slingshot interconnect", arXiv 2008.08886.
    {"slingshot", "3.7 us", "0.2 us", "5 ns", "25 GB/s", "0 s", "0.35 us"},
    // 10 Gbit/s Ethernet with TCP. From memory.
    {"10gbe", "15 us", "5 us", "5 us", "1.18 GB/s", "0.2 ns", "1 us"},
    // A 1 Gbit/s path between cities, 50 ms one way (20 to 100 ms are usual). From memory.
    {"wan", "50 ms", "10 us", "10 us", "117.6 MB/s", "0.2 ns", "25 ms"},
};

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const PresetRow& row : rows) names.emplace_back(row.name);
  return names;
}

std::optional<Preset> read_preset(const Section& section, const std::vector<std::string>& names) {
  std::vector<std::string> choices = {"none"};
  choices.insert(choices.end(), names.begin(), names.end());
  const std::string name = section.choice(
      "preset", choices, "none", "a machine whose numbers are the defaults of the keys below");
  const auto row = std::ranges::find(rows, name, &PresetRow::name);
  if (row == std::end(rows)) return std::nullopt;
  return Preset{.latency = parse_duration(row->latency),
                .overhead = parse_duration(row->overhead),
                .gap = parse_duration(row->gap),
                .bandwidth = parse_bandwidth(row->bandwidth),
                .overhead_per_byte = parse_duration(row->overhead_per_byte),
                .hop = parse_duration(row->hop)};
}

}  // namespace starling::network_models
