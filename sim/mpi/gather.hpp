// gather_results: after a run over MPI every rank knows what its own nodes did. This brings it to
// rank 0, whose recorder then holds what that of a simulated run would hold; the evaluations that
// were put off because no rank had all models are computed there, in the same order of sums, so
// they have the same bits.
#pragma once

#include <functional>
#include <set>

#include "sim/mpi/mpi_session.hpp"
#include "sim/mpi/node_block.hpp"
#include "sim/node/compute_graph.hpp"
#include "sim/node/observer.hpp"
#include "sim/record/recorder.hpp"

namespace starling {

/// The ranks whose records one has beside its own.
using KnownRanks = std::set<int>;

/// All ranks call this together, after run(), with what they filled during the run; `block` is the
/// transport's. On rank 0, `recorder` gets the columns of all nodes in table "steps", all node
/// totals, all acts (either every rank noted them or none), the whole timeline, sorted by (end,
/// node), and the sums of all ranks' statistics; `observer` gets all snapshots (rows that lack a
/// node's model, as after an interrupt, stay open) and, if `with_models`, the last models of all
/// nodes. Rank 0 then goes on as after a simulation: observer.finish_evaluations(), save. The others are done;
/// they gave their snapshots away. Rank 0 holds the models of one evaluation at a time, and asks
/// `goes_on` before each, when it has all but the models: from the first no on, evaluations stay open. If the memory of a rank,
/// or its last numbers, fail before, all throw the same Error, and rank 0 has what the others know: of nodes of a rank without
/// room to tell it, nothing. On rank 0 `known` says, whatever is thrown, whose columns `recorder` has; empty on others.
void gather_results(
    MpiSession& session, NodeBlock block, ComputeGraph& graph, Observer& observer,
    Recorder& recorder, bool with_models, KnownRanks& known,
    const std::function<bool()>& goes_on = [] { return true; });

/// After run() or gather_results() has thrown Lost, or run() another Error that all share: the ranks that are left call it
/// together. The session's keeper gets the columns, totals, acts and timelines, as far as they are known, of ranks that are not
/// `known` to it, and those of lost ranks as they are in `saved`, if it has that; models and evaluations that were put off are
/// lost, and so is what a rank has no room to tell. Throws std::bad_alloc if the keeper has no room for it.
void gather_what_is_left(MpiSession& session, NodeBlock block, Recorder& recorder,
                         const KnownRanks& known, const Recorder* saved);

}  // namespace starling
