#include "scenarios/host_keys.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "network_models/byte_cost.hpp"
#include "sim/base/units.hpp"

namespace starling {
namespace {

struct Preset {
  std::string_view name;
  std::string_view staging_latency, staging_bandwidth, reduction_bandwidth;
  std::string_view cache, cached_reduction_bandwidth, copy_bandwidth, operator_bandwidth,
      operation_entry;
};

constexpr Preset presets[] = {
    {"none", "0 s", "infinite", "infinite", "0 B", "infinite", "infinite", "infinite", "0 s"},
    // Cray XC50 (Piz Daint): 12-core Xeon E5-2690 v3, P100 on PCIe 3.
    //   staging_latency     a copy call and its synchronization; from memory, 10 us is usual
    //   staging_bandwidth   what PCIe 3 x16 leaves of 15.8 GB/s for pinned memory; from memory
    //   reduction_bandwidth, operator_bandwidth   fitted to WAGMA-SGD, Fig. 4: additions within collectives, and loops of
    //                       the released operators, which are compiled without optimization (their build sets no type)
    //   copy_bandwidth      memcpy by one core; from memory
    //   cache               sourced: 30 MB of L3, Intel's data sheet
    //   cache_bandwidth, operation_entry   read off eager-SGD, Fig. 9: 32 processes sum 4 MiB in five rounds of 1.9 ms, of
    //                       which the wire takes 0.42 ms; a late process gets its result after 0.25 ms
    {"xc50", "10 us", "10 GB/s", "2.3 GB/s", "30 MB", "3.3 GB/s", "6 GB/s", "1.62 GB/s", "0.25 ms"},
};

constexpr struct {
  const char* key;
  bool HostUses::*use;
  const char* nothing;
} paid_by[] = {
    {"staging_latency", &HostUses::staging, "no message has a model"},
    {"staging_bandwidth", &HostUses::staging, "no message has a model"},
    {"reduction_bandwidth", &HostUses::reduction, "no collective or synchronous server adds up"},
    {"copy_bandwidth", &HostUses::copying, "no tensors are gathered in buckets of an allreduce"},
    {"operator_bandwidth", &HostUses::operation, "the algorithm has no loops that are counted"},
    {"encoding_bandwidth", &HostUses::encoding, "no vector is compressed"},
    {"decoding_bandwidth", &HostUses::decoding, "no vector is compressed"},
    {"operation_entry", &HostUses::entry, "no operation goes to a communication thread"},
};

/// Who takes a cost of the preset away means that nobody pays it.
bool costs_nothing(const KeyUse& cost) {
  return cost.type == "duration" ? parse_duration(cost.value) == Duration{}
                                 : cost.value == "infinite";
}

/// What adds up models in the cache says little without what adds up the others: it would cost nothing.
void check_cache(const Section& network, std::int64_t cache) {
  network.expect(!network.has("cache_bandwidth") || network.has("cache"), "cache_bandwidth",
                 "needs cache, which says up to which size models are added up at it");
  if (cache == 0) return;
  for (const char* key : {"reduction_bandwidth", "cache_bandwidth"}) {
    network.expect(network.has(key), "cache",
                   "needs {}, without which adding up {} models costs nothing", key,
                   std::string_view(key) == "cache_bandwidth" ? "such" : "larger");
  }
}

}  // namespace

HostCosts HostSettings::costs_for(std::int64_t model_bytes) const {
  HostCosts result = costs;
  if (model_bytes <= cache) result.reduction_seconds_per_byte = cached_reduction_seconds_per_byte;
  return result;
}

HostSettings read_host(const Section& network) {
  std::vector<std::string> names;
  for (const Preset& preset : presets) names.emplace_back(preset.name);
  const std::string name =
      network.choice("host", names, "none",
                     "a node whose numbers are the defaults of the keys up to operation_entry");
  const Preset& preset = *std::ranges::find(presets, name, &Preset::name);

  HostSettings host;
  host.costs.staging_latency = network.optional<Duration>(
      "staging_latency", parse_duration(preset.staging_latency),
      "of a copy between device and host memory, before sending and after receiving");
  host.costs.staging_seconds_per_byte = network_models::read_seconds_per_byte(
      network, "staging_bandwidth", preset.staging_bandwidth,
      "of such copies, one at a time per node and direction; infinite: bytes cost nothing");
  host.costs.reduction_seconds_per_byte = network_models::read_seconds_per_byte(
      network, "reduction_bandwidth", preset.reduction_bandwidth,
      "adding up what a collective, or a synchronous parameter server, received; infinite: costs "
      "nothing");
  host.cache = network
                   .optional<Bytes>("cache", parse_bytes(preset.cache),
                                    "models up to this size are added up in the processor's cache")
                   .count;
  host.cached_reduction_seconds_per_byte = network_models::read_seconds_per_byte(
      network, "cache_bandwidth", preset.cached_reduction_bandwidth,
      "in place of reduction_bandwidth for those");
  if (name == "none") check_cache(network, host.cache);
  host.costs.copy_seconds_per_byte = network_models::read_seconds_per_byte(
      network, "copy_bandwidth", preset.copy_bandwidth,
      "copying the tensors of an allreduce's bucket into one buffer, and out of it again; "
      "infinite: costs nothing");
  host.costs.operator_seconds_per_byte = network_models::read_seconds_per_byte(
      network, "operator_bandwidth", preset.operator_bandwidth,
      "each array that an algorithm's own loops read or write; infinite: costs nothing");
  host.costs.entry =
      network.optional<Duration>("operation_entry", parse_duration(preset.operation_entry),
                                 "handing an operation to the communication thread (eager, wagma)");
  host.costs.encoding_seconds_per_byte = network_models::read_seconds_per_byte(
      network, "encoding_bandwidth", "infinite",
      "compressing a vector, in bytes of it as it was; infinite: costs nothing");
  host.costs.decoding_seconds_per_byte = network_models::read_seconds_per_byte(
      network, "decoding_bandwidth", "infinite",
      "reading a code, in bytes of the vector it stands for, of each that comes; "
      "infinite: costs nothing");
  return host;
}

std::vector<HostCostWarning> host_cost_warnings(const Section& network) {
  std::vector<HostCostWarning> warnings;
  for (const auto& [key, use, nothing] : paid_by) {
    const auto read = std::ranges::find(network.uses(), key, &KeyUse::key);
    if (!network.has(key) || read->value == read->fallback || costs_nothing(*read)) continue;
    warnings.push_back(
        {use, network.located(key, fmt::format("has changed nothing: {}", nothing))});
  }
  return warnings;
}

}  // namespace starling
