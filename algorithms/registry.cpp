// The table of algorithms: catalog.inc is read twice, to declare the makers and to list them.

#include "algorithms/registry.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include <fmt/core.h>

#include "sim/base/kinds.hpp"

namespace starling::algorithms {

#define ALGORITHM(name, offers, summary) \
  Program name(const Section& section, const Context& context);
#include "algorithms/catalog.inc"
#undef ALGORITHM

namespace {

using enum AlgorithmEntry::Offers;

constexpr AlgorithmEntry entries[] = {
#define ALGORITHM(name, offers, summary) {#name, summary, offers, &name},
#include "algorithms/catalog.inc"
#undef ALGORITHM
};

/// Refuses pieces, and messages beside the backward pass, where codes are made of whole models: all but numbers that are added up.
void expect_whole_if_coded(const Section& section, const ExchangeSettings& settings) {
  const auto codes = section.peek<std::string>("compression", "none");
  if (codes == "none" || section.peek<std::string>("code_route", "") == "sums") return;
  expect_whole(section, fmt::format("compression = {}: codes are made of whole models", codes));
  section.expect(!settings.overlaps_backward, "overlap",
                 "must be none with compression = {}: codes are made of whole models", codes);
}

}  // namespace

std::span<const AlgorithmEntry> catalog() { return entries; }

ExchangeSettings read_exchange(const Section& section, const AlgorithmEntry& entry,
                               std::int64_t nodes_per_host) {
  ExchangeSettings settings{};
  if ((entry.offers & pieces) != 0) {
    settings.granularity =
        section.choice<Granularity>("exchange",
                                    {{"whole", Granularity::whole},
                                     {"buckets", Granularity::buckets},
                                     {"tensors", Granularity::tensors}},
                                    "whole",
                                    "how models travel: in one piece, or one piece after the "
                                    "other, of which each is compressed by itself");
    if (settings.granularity == Granularity::buckets) {
      settings.bucket_bytes = section
                                  .optional<Bytes>("bucket_size", Bytes{settings.bucket_bytes},
                                                   "tensors are gathered up to this size")
                                  .count;
      section.expect(settings.bucket_bytes > 0, "bucket_size", "must be positive, got {} B",
                     settings.bucket_bytes);
    }
  }
  if ((entry.offers & overlap) != 0) {
    settings.overlaps_backward = section.choice<bool>(
        "overlap", {{"none", false}, {"backward", true}}, "none",
        "whether a piece leaves when the backward pass has come to it, which takes "
        "as long for each tensor, whatever its size");
  }
  if ((entry.offers & coded_whole) != 0) expect_whole_if_coded(section, settings);
  // Nodes of AD-PSGD then average a copy in host memory, in pieces or not.
  section.expect(!settings.overlaps_backward || settings.granularity != Granularity::whole ||
                     entry.name == "adpsgd",
                 "overlap",
                 "= backward needs exchange = buckets or tensors: a whole model leaves when its "
                 "gradient is complete");
  // read_collective() notes the keys, and refuses a group out of range.
  settings.collective_switch =
      section.peek<Bytes>("collective_switch", Bytes{settings.collective_switch}).count;
  auto group = section.peek<std::int64_t>("collective_group", 0);
  if (group == 0) group = nodes_per_host > 1 ? nodes_per_host : settings.collective_group;
  settings.collective_group =
      static_cast<NodeId>(std::clamp<std::int64_t>(group, 1, std::numeric_limits<NodeId>::max()));
  return settings;
}

const AlgorithmEntry& find(const Section& section) {
  return find_kind(section, entries, "", "what every node runs");
}

}  // namespace starling::algorithms
