// The algorithms by name. An algorithm is one file with one maker, and one line in catalog.inc.
#pragma once

#include <span>
#include <string_view>

#include "algorithms/context.hpp"
#include "sim/base/section.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

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
/// Refuses what the algorithm does not offer. `nodes_per_host`: of the network.
ExchangeSettings read_exchange(const Section& section, const AlgorithmEntry& entry,
                               std::int64_t nodes_per_host = 1);

}  // namespace starling::algorithms
