// What a rank has recorded of its nodes, as bytes: while a run over MPI goes on (reports.hpp) and after it (gather.hpp).
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/mpi/node_block.hpp"
#include "sim/record/recorder.hpp"

namespace starling {

/// How much of a recorder has been told.
struct Told {
  std::map<std::string, std::size_t>
      rows;  // of table "steps", by metric: those before the first with an unknown cell
  std::map<NodeId, std::size_t> acts;
  std::size_t segments = 0;  // of the timeline
};

/// Table "steps", totals, acts and timeline of the nodes of `block`, and the statistics; without what was told, to which it
/// adds. Rows with cells that are not known yet are told again the next time.
std::string pack_records(const Recorder& recorder, NodeBlock block, Told& told);
/// Adds what another rank has told, all of it in the order it was packed.
void unpack_records(std::string_view bytes, Recorder& recorder);
/// By (end, node), as one process alone would have noted it.
void sort_timeline(Recorder& recorder);

}  // namespace starling
