// Base steps: an algorithm whose steps another one may take in blocks (SlowMo), or that runs alone. One class
// per algorithm, made by its program on every node, offers
//
//   Settings, read(section, context)   its keys, the optimizer's included; `optimizer` is a member
//   take(first, last)   takes the steps first .. last, and ends all but the last
//   model()             where the next gradient is taken
//   weight()            of that in the mean over the nodes
//   optimizer()         of the node
//   settle(last)        waits for what is under way; answers x_i, whose mean over the nodes is exact then
//   restart(last, x)    goes on from x, which is the same on all nodes
//   finish()            after the last step
//
// take() is one coroutine for a whole block, so that taking steps for another costs nothing per step.
#pragma once

#include "sim/node/node.hpp"

namespace starling::algorithms {

/// The program that is `Base` alone; `settings` are the program's.
template <class Base>
Task<> run_alone(Node& node, const typename Base::Settings& settings) {
  Base base(node, settings);
  const Step last = node.steps() - 1;
  co_await base.take(0, last);
  node.end_step(last, base.model(), base.weight());
  co_await base.finish();
}

}  // namespace starling::algorithms
