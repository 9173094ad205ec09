// The table of algorithms: catalog.inc is read twice, to declare the makers and to list them.

#include "algorithms/registry.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "algorithms/collectives.hpp"
#include "sim/base/error.hpp"

namespace starling::algorithms {
namespace {

constexpr AlgorithmEntry entries[] = {
#define ALGORITHM(name, summary) {#name, summary, &name},
#include "algorithms/catalog.inc"
#undef ALGORITHM
};

// Those that send models in pieces. The others fold shares or fragments as they come.
constexpr std::string_view whole_only[] = {"overlap_sgp", "push_pull", "push_sum",
                                           "streaming_diloco"};
// Those that may exchange beside the backward pass.
constexpr std::string_view overlapped[] = {"adpsgd",    "allreduce", "dpsgd", "eager",
                                           "local_sgd", "sgp",       "wagma"};

bool names_it(std::span<const std::string_view> names, std::string_view kind) {
  return std::ranges::find(names, kind) != names.end();
}

}  // namespace

std::span<const AlgorithmEntry> catalog() { return entries; }

ExchangeSettings read_exchange(const Section& section, std::string_view kind) {
  ExchangeSettings settings;
  if (!names_it(whole_only, kind)) {
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
