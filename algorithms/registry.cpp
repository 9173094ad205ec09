// The table of algorithms: catalog.inc is read twice, to declare the makers and to list them.

#include "algorithms/registry.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "algorithms/collectives.hpp"
#include "sim/base/error.hpp"

namespace starling::algorithms {

#define ALGORITHM(name, summary) Program name(const Section& section, const Context& context);
#include "algorithms/catalog.inc"
#undef ALGORITHM

namespace {

constexpr AlgorithmEntry entries[] = {
#define ALGORITHM(name, summary) {#name, summary, &name},
#include "algorithms/catalog.inc"
#undef ALGORITHM
};

// Those that send models in pieces (exchange.hpp, averaging.hpp), and so have the key `exchange`. Messages of the others hold a
// whole model, what it is coded as, shares or fragments.
constexpr std::string_view in_pieces[] = {"adaptive_period",
                                          "adpsgd",
                                          "allreduce",
                                          "async_diloco",
                                          "async_parameter_server",
                                          "bmuf",
                                          "coda",
                                          "d2",
                                          "dasgd",
                                          "diloco",
                                          "dpsgd",
                                          "eager",
                                          "easgd",
                                          "epidemic",
                                          "gradient_tracking",
                                          "local_gossip",
                                          "local_sgd",
                                          "pairwise_gossip",
                                          "parameter_server",
                                          "sgp",
                                          "slowmo",
                                          "swarm",
                                          "token_walk",
                                          "wagma"};
// Those of them that send whole codes where messages are compressed.
constexpr std::string_view coded_whole[] = {"allreduce",         "d2",           "dpsgd",
                                            "gradient_tracking", "local_gossip", "sgp"};
// Those that may exchange beside the backward pass.
constexpr std::string_view overlapped[] = {"adpsgd",    "allreduce", "dpsgd", "eager",
                                           "local_sgd", "sgp",       "wagma"};

bool names_it(std::span<const std::string_view> names, std::string_view kind) {
  return std::ranges::find(names, kind) != names.end();
}

/// Refuses pieces, and messages beside the backward pass, where codes are made of whole models.
void expect_whole_if_coded(const Section& section, const ExchangeSettings& settings) {
  // Out of a copy: read_codec() is who notes the key.
  const std::string codes = Section(section).optional<std::string>("compression", "none", "");
  if (codes == "none") return;
  expect_whole(section, fmt::format("compression = {}: codes are made of whole models", codes));
  section.expect(!settings.overlaps_backward, "overlap",
                 "must be none with compression = {}: codes are made of whole models", codes);
}

}  // namespace

std::span<const AlgorithmEntry> catalog() { return entries; }

void expect_whole(const Section& section, std::string_view because) {
  // Out of a copy: read_exchange() is who notes the key.
  section.expect(Section(section).optional<std::string>("exchange", "whole", "") == "whole",
                 "exchange", "must be whole with {}", because);
}

ExchangeSettings read_exchange(const Section& section, std::string_view kind) {
  ExchangeSettings settings;
  if (names_it(in_pieces, kind)) {
    const std::string granularity =
        section.choice("exchange", {"whole", "buckets", "tensors"}, "whole",
                       "how models travel: in one piece, or one piece after the other");
    if (granularity != "whole") settings.granularity = Granularity::tensors;
    if (granularity == "buckets") {
      settings.granularity = Granularity::buckets;
      settings.bucket_bytes = section
                                  .optional<Bytes>("bucket_size", Bytes{settings.bucket_bytes},
                                                   "tensors are gathered up to this size")
                                  .count;
      section.expect(settings.bucket_bytes > 0, "bucket_size", "must be positive, got {} B",
                     settings.bucket_bytes);
    }
  }
  if (names_it(overlapped, kind)) {
    settings.overlaps_backward =
        section.choice("overlap", {"none", "backward"}, "none",
                       "whether a piece leaves when the backward pass has come to it") ==
        "backward";
  }
  if (names_it(coded_whole, kind)) expect_whole_if_coded(section, settings);
  // Nodes of AD-PSGD then average a copy in host memory, in pieces or not.
  section.expect(
      !settings.overlaps_backward || settings.granularity != Granularity::whole || kind == "adpsgd",
      "overlap",
      "= backward needs exchange = buckets or tensors: a whole model leaves when its "
      "gradient is complete");
  // Out of a copy: read_collective() is who notes the key, in its place behind `collective`.
  settings.collective_switch = read_collective_switch(Section(section));
  return settings;
}

const AlgorithmEntry& find(const Section& section) {
  std::vector<std::string> names;
  for (const AlgorithmEntry& entry : entries) names.emplace_back(entry.name);
  const std::string kind = section.choice("kind", names, "", "what every node runs");
  const auto found = std::ranges::find(entries, kind, &AlgorithmEntry::name);
  ensure(found != std::end(entries), "a choice is one of its options");
  return *found;
}

}  // namespace starling::algorithms
