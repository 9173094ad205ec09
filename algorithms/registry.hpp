// The algorithms by name. An algorithm is one file with one maker, and one line in catalog.inc.
#pragma once

#include <span>
#include <string_view>

#include "sim/base/section.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

/// What a maker may know of the run when it checks its settings.
struct Context {
  NodeId nodes;
  Step steps;
  const Topology& topology;
  const WorkloadFacts& workload;
};

/// Reads and checks the section, then answers with the program that every node runs.
using Maker = Program (*)(const Section& section, const Context& context);

struct AlgorithmEntry {
  /// How the messages of an algorithm may travel, beside whole.
  enum Offers : unsigned {
    nothing = 0,
    /// In pieces: it sends models by the functions of exchange.hpp and averaging.hpp, and so has the key `exchange`. Messages of
    /// the others hold a whole model, what it is coded as, shares or fragments.
    pieces = 1,
    /// Those that are compressed are codes of whole models.
    coded_whole = 2,
    /// Beside the backward pass: it awaits Node::gradient_in_pieces(), and so has the key `overlap`.
    overlap = 4
  };

  std::string_view name;
  std::string_view summary;
  unsigned offers;  // of Offers
  Maker make;
};

std::span<const AlgorithmEntry> catalog();
/// The entry named by the section's key `kind`.
const AlgorithmEntry& find(const Section& section);

/// Reads the keys of [algorithm] that say how models travel: `exchange`, `bucket_size`, `overlap`, `collective_switch`, `collective_group`.
/// Refuses what the algorithm does not offer.
ExchangeSettings read_exchange(const Section& section, const AlgorithmEntry& entry);
/// Warns if a number of steps that was read as `key` is more than the run has. `consequence`: "nodes may never average".
void warn_beyond_run(const Section& section, std::string_view key, Step steps,
                     const Context& context, std::string_view consequence);
/// Refuses pieces where they would change nothing: "order = combine_while_adapt: model and estimate go in one message".
void expect_whole(const Section& section, std::string_view because);

}  // namespace starling::algorithms
