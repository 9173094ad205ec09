// Machines whose numbers are known: network.preset.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/section.hpp"
#include "sim/base/units.hpp"

namespace starling::network_models {

/// What a machine's network costs, in the parameters of LogGOPS, and the part of them that a fabric's links have.
struct Preset {
  Duration latency;            // L: of a message over one switch
  Duration overhead;           // o: of its sender, and of its receiver
  Duration gap;                // g: between messages of a port
  Bandwidth bandwidth;         // 1 / G: of a port, payload
  Duration overhead_per_byte;  // O
  Duration hop;  // the part of L that a link takes, with the switch at its end; at most L / 2

  /// What is left of the way of a message over one switch, L + 2 o, beside its two links.
  Duration beside_links() const { return latency + 2 * overhead - 2 * hop; }
};

std::vector<std::string> preset_names();

/// Reads `preset`: none, or one of `names`, each of which must be one of preset_names().
std::optional<Preset> read_preset(const Section& section, const std::vector<std::string>& names);

/// Reads a key that may be missing where a preset has its number.
template <class T>
T read_unless_preset(const Section& section, std::string_view key,
                     const std::optional<Preset>& preset, T Preset::*field, std::string_view help) {
  return preset ? section.optional<T>(key, (*preset).*field, help) : section.required<T>(key, help);
}

}  // namespace starling::network_models
