// The keys of [network] kind = loggp; the model itself is in loggp_ports.hpp.

#include <algorithm>
#include <string>
#include <vector>

#include "network_models/loggp_ports.hpp"
#include "network_models/overrides.hpp"
#include "network_models/presets.hpp"
#include "network_models/registry.hpp"
#include "network_models/size_factor.hpp"
#include "sim/base/exact_duration.hpp"

namespace starling::network_models {

std::unique_ptr<NetworkModel> loggp(const Section& section, NodeId nodes, std::uint64_t) {
  const auto preset = read_preset(section, preset_names());
  const Preset fallback = preset.value_or(Preset{});
  LogGPCosts costs{};
  costs.latency = read_unless_preset(section, "latency", preset, &Preset::latency,
                                     "L: the way of a byte through the network");
  costs.overhead =
      read_unless_preset(section, "overhead", preset, &Preset::overhead,
                         "o: processor time per message, at each end; the receiving processor is "
                         "also busy while the bytes come, and sends nothing meanwhile");
  costs.gap = section.optional<Duration>("gap", fallback.gap,
                                         "g: shortest time between messages of one port");
  const auto bandwidth = read_unless_preset(section, "bandwidth", preset, &Preset::bandwidth,
                                            "1 / G: of a port, sending or receiving");
  const auto overhead_per_byte = section.optional<ExactDuration>(
      "overhead_per_byte", fallback.overhead_per_byte, "O: processor time per byte, at each end");
  costs.gap_per_byte = 1e12 / bandwidth.bytes_per_second;
  costs.overhead_per_byte = overhead_per_byte.count();
  const auto slow = read_ranges(
      section, "slowdowns", nodes, [](const std::string& text) { return parse_factor(text, 1e6); },
      "of single nodes: their overheads and gaps times so much, such as 3: 2, 8-11: 1.5");
  section.finish();
  std::vector<double> slowdown(slow.empty() ? 0 : static_cast<std::size_t>(nodes), 1.0);
  for (const auto& [first, last, factor] : slow) {
    std::fill(slowdown.begin() + first, slowdown.begin() + last + 1, factor);
  }
  return std::make_unique<LogGP>(costs, nodes, std::move(slowdown));
}

}  // namespace starling::network_models
