// What programs must not do: the run ends and names the program's own line, where a verb has one.

#include <array>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/sim/engine/simulation.hpp"
#include "tests/support/fault.hpp"

namespace starling::test_misuse {
namespace {

using Misuse = std::function<void(Node&, Vector& x)>;

Task<> do_at_once(Node& node, const Misuse& misuse) {
  Vector x = node.initial_model();
  misuse(node, x);
  co_return;
}

/// What ensure() says when a node does this with its initial model.
std::string fault_of(const Misuse& misuse) {
  return test::fault_of([&] {
    test::Simulation simulation(2);
    simulation.run([&](Node& node) { return do_at_once(node, misuse); });
  });
}

bool is_told_here(const std::string& fault, const std::string& what) {
  return fault.find("test_misuse.cpp:") != std::string::npos &&
         fault.find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("an operation on an empty vector is told with its line, not a crash") {
  const Misuse verbs[] = {
      [](Node&, Vector& x) { x.add(Vector()); },
      [](Node&, Vector& x) { Vector().add(x); },
      [](Node&, Vector&) { Vector().add(Vector()); },
      [](Node&, Vector&) { Vector().scale(2); },
      [](Node&, Vector&) { Vector().slice(0, 0); },
      [](Node&, Vector&) { Vector().share(0, 1); },
      [](Node&, Vector& x) {
        x = mean(std::vector<Vector>{Vector(), Vector()});
      },
      [](Node&, Vector& x) {
        x = concatenate(std::vector<Vector>{x, Vector()});
      },
      [](Node&, Vector& x) {
        x = transformed(transforms::Larger{}, {x, Vector()});
      },
      [](Node&, Vector& x) {
        measured(transforms::LargestDifference{}, {x, Vector()});
      },
      [](Node&, Vector& x) { squared_distance(x, Vector()); },
  };
  for (const Misuse& verb : verbs) {
    CHECK(is_told_here(fault_of(verb), "an operation on an empty vector"));
  }
}

TEST_CASE("vectors of sizes that do not fit are told with the program's line") {
  const auto beyond = std::numeric_limits<std::size_t>::max();
  CHECK(is_told_here(fault_of([](Node&, Vector& x) { x.add(x.slice(0, 2)); }),
                     "a sum of vectors of different sizes"));
  CHECK(is_told_here(fault_of([](Node&, Vector& x) {
                       x = mean(std::vector<Vector>{x, x.slice(0, 2)});
                     }),
                     "a sum of vectors of different sizes"));
  CHECK(is_told_here(fault_of([](Node&, Vector& x) {
                       x = transformed(transforms::Larger{}, {x, x.slice(0, 2)});
                     }),
                     "a transform of a vector of another size"));
  // offset + size wraps around to 1.
  CHECK(is_told_here(fault_of([&](Node&, Vector& x) { x = x.slice(2, beyond); }),
                     "a slice reaches past the end"));
  CHECK(is_told_here(fault_of([](Node&, Vector& x) { x = x.share(2, 2); }),
                     "the index of a share is not below their count"));
}

TEST_CASE("an empty scalar has no value") {
  CHECK(is_told_here(fault_of([](Node&, Vector&) { Scalar().value(); }),
                     "the value of an empty scalar"));
}

TEST_CASE("steps end in order, each once, with a model") {
  constexpr const char* out_of_turn = "a step ends out of turn, or beyond the run's";
  constexpr const char* no_model = "a model of another size than the workload's";
  CHECK(fault_of([](Node& node, Vector& x) {
          for (Step k = 0; k < node.steps(); ++k) node.end_step(k, x);
          node.set_final_model(x);
        }) == "");
  const auto twice = [](Node& node, Vector& x) { node.end_step(0, x), node.end_step(0, x); };
  CHECK(is_told_here(fault_of(twice), out_of_turn));
  CHECK(is_told_here(fault_of([](Node& node, Vector& x) { node.end_step(1, x); }), out_of_turn));
  CHECK(is_told_here(fault_of([](Node& node, Vector& x) { node.end_step(-1, x); }), out_of_turn));
  const auto beyond = [](Node& node, Vector& x) {
    for (Step k = 0; k <= node.steps(); ++k) node.end_step(k, x);
  };
  CHECK(is_told_here(fault_of(beyond), out_of_turn));
  CHECK(is_told_here(fault_of([](Node& node, Vector&) { node.end_step(0, Vector()); }), no_model));
  CHECK(is_told_here(fault_of([](Node& node, Vector& x) { node.end_step(0, x.slice(0, 1)); }),
                     no_model));
  CHECK(is_told_here(fault_of([](Node& node, Vector&) { node.set_final_model(Vector()); }),
                     no_model));
  CHECK(is_told_here(fault_of([](Node& node, Vector& x) { node.end_step(0, x, 0); }),
                     "a model without a positive weight in the mean"));
}

TEST_CASE("a gradient is that of a mini-batch that there is, at a model") {
  const auto compute = [](NodeId owner, Step draw, bool at_model) {
    return fault_of([=](Node& node, Vector& x) {
      static_cast<void>(node.gradient_of(owner, draw, at_model ? x : Vector()));
    });
  };
  constexpr const char* nobody = "a gradient of a mini-batch that nobody has";
  CHECK(compute(0, 0, true) == "");
  CHECK(compute(2, 0, true).find(nobody) != std::string::npos);
  CHECK(compute(-1, 0, true).find(nobody) != std::string::npos);
  CHECK(compute(0, -1, true).find(nobody) != std::string::npos);
  CHECK(compute(0, 0, false).find("the size of a model") != std::string::npos);
}

TEST_CASE("messages and metrics have names of their own") {
  CHECK(is_told_here(fault_of([](Node& node, Vector&) { node.send(2, 1); }),
                     "a message to a node that does not exist"));
  CHECK(is_told_here(fault_of([](Node& node, Vector&) { node.send(1, any_tag); }),
                     "a message with the tag that stands for all"));
  for (const char* metric : {"time", "bytes_sent", "train_loss"}) {
    CHECK(is_told_here(fault_of([&](Node& node, Vector&) { node.record(metric, 0, 1.0); }),
                       "a metric with a name that every run's results have"));
  }
  for (const char* metric : {"", ".", "step", "loss/own"}) {
    CHECK(is_told_here(fault_of([&](Node& node, Vector&) { node.record(metric, 0, 1.0); }),
                       "a metric whose name is empty, . or step, or has a /"));
  }
  CHECK(fault_of([](Node& node, Vector&) { node.record("staleness", 0, 1.0); }) == "");
}

}  // namespace starling::test_misuse
