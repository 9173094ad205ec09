// How runs over MPI end: with mail that nobody wants, by deadlocks, errors, want of memory, interrupts. As test_mpi_transport.cpp.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <list>
#include <new>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/mpi/gradient_worker.hpp"
#include "sim/node/row_store.hpp"
#include "tests/sim/mpi/scarce_memory.hpp"
#include "tests/sim/mpi/small_programs.hpp"

namespace starling::test {
namespace {

Task<> leave_mail(Node& node, ComputeGraph& graph) {
  for (int i = 0; i < 20; ++i) node.send(right_of(node), 9, counting(graph, 100'000, 1));
  co_return;
}

Task<> expect_no_mail(Node& node) {
  co_await node.sleep(from_seconds(0.005));
  const auto mail = node.poll(any_source, any_tag);
  CHECK(!mail.has_value());
}

TEST_CASE("a run ends with messages that nobody received, and the next one does not see them") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  {
    SmallRun run(nodes, workload);
    run([&](Node& node) { return leave_mail(node, run.around.graph); });
    for (NodeId i = run.transport.block().begin; i < run.transport.block().end; ++i) {
      CHECK(run.transport.mailbox().unreceived(i) == 20);
    }
  }
  SmallRun next(nodes, workload);
  next(expect_no_mail);
}

TEST_CASE("a signal that is forgotten makes no later wait shorter") {
  using namespace std::chrono_literals;
  MpiSession& mpi = session();
  mpi.limit_waits(1h, [] { return SIGTERM; });
  for (int look = 0; look < 100; ++look) {  // in short waits, each of which ends
    std::this_thread::sleep_for(10ms);
    mpi.watch(100ms);
  }
  mpi.limit_waits(1h, nullptr);
  std::this_thread::sleep_for(10ms);
  CHECK_NOTHROW(mpi.watch(10s));
  mpi.limit_waits(std::chrono::nanoseconds::max(), nullptr);
}

TEST_CASE("more ranks than nodes is an error on every rank") {
  if (session().ranks() == 1) return;
  const NodeId nodes = session().ranks() - 1;
  Quadratic workload(nodes, 4);
  CHECK_THROWS_WITH_AS(SmallRun(nodes, workload), doctest::Contains("every rank must host a node"),
                       Error);
}

Task<> wait_for_left(Node& node) {
  if (node.id() == 0) co_return;
  co_await node.receive(left_of(node), 12);
}

TEST_CASE("a deadlock is reported on all ranks: who waits for whom") {
  const NodeId nodes = std::max(2, session().ranks());
  Quadratic workload(nodes, 4);
  SmallRun run(nodes, workload);
  const std::string text = run.failure(wait_for_left);
  CHECK(text.find("deadlock at") != text.npos);
  CHECK(text.find("node 1 waits for node 0 (tag 12)") != text.npos);
  CHECK(text.find("node 0 waits") == text.npos);
  SmallRun again(nodes, workload);
  CHECK_THROWS_AS(again(wait_for_left), Stalled);  // so its numbers are whole, and are kept
}

Task<> wait_or_sleep(Node& node) {
  // Nothing happens anywhere for ten counts of the census, but node 0 will wake up.
  if (node.id() == 0) {
    co_await node.sleep(from_seconds(0.2));
    for (NodeId i = 1; i < node.nodes(); ++i) node.send(i, 12);
    co_return;
  }
  co_await node.receive(0, 12);
}

TEST_CASE("a long silence is no deadlock while somebody sleeps") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  SmallRun run(nodes, workload);
  CHECK(run.failure(wait_or_sleep) == "no error");
}

Task<> wait_or_compute(Node& node) {
  if (node.id() == 0) {
    const Gradient g = co_await node.gradient(node.initial_model());
    for (NodeId i = 1; i < node.nodes(); ++i) node.send(i, 12, g.values);
    co_return;
  }
  co_await node.receive(0, 12);
}

TEST_CASE("a long silence is no deadlock while somebody computes") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  workload.before_gradient = [](const GradientRequest&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  };
  SmallRun run(nodes, workload);
  CHECK(run.failure(wait_or_compute) == "no error");
}

TEST_CASE("an error of one node ends the run on all ranks with the same words") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  SmallRun run(nodes, workload);
  const std::string text =
      run.failure([&](Node& node) { return fail_on_last(node, run.around.graph); });
  CHECK(text.find("no coffee left") != text.npos);
  CHECK(text.find("node " + std::to_string(nodes - 1) + " at") != text.npos);
  CHECK(session().broadcast(text) == text);
}

Task<> flood_last_rank(Node& node, ComputeGraph& graph, NodeId last) {
  if (node.id() != last) {
    for (int i = 0; i < 10; ++i) node.send(last, 1, counting(graph, 200'000 + 1000 * i, 1));
    node.send(last, 2, counting(graph, 3, 1));
  }
  co_await node.receive(any_source, 99);
}

TEST_CASE("a rank without room for a message ends the run on all ranks and is named") {
  if (session().ranks() == 1) return;
  const NodeId nodes = session().ranks();
  const std::string expected =
      fmt::format("rank {} of {} has no room for a message: out of memory: asked for too much",
                  nodes - 1, nodes);
  for (const bool stands_in : {false, true}) {
    Quadratic workload(nodes, 100'000, stands_in ? 150'000 : 0);
    SmallRun run(nodes, workload);
    if (session().rank() == nodes - 1) run.around.backend.most = 150'000;
    CHECK(run.failure([&](Node& node) {
      return flood_last_rank(node, run.around.graph, nodes - 1);
    }) == expected);
  }
  // All that was sent has been received: the next run does not see it.
  Quadratic workload(nodes, 4);
  SmallRun next(nodes, workload);
  next(expect_no_mail);
}

TEST_CASE("a gradient is handed over where no memory is left") {
  Quadratic workload(1, 4);
  workload.before_gradient = [](const GradientRequest&) { largest_block = 0; };
  Surroundings around(1, workload, 1, ComputeGraph::Execution::inline_);
  GradientWorker worker(workload);
  worker.submit({nullptr, nullptr, around.graph.begin_gradient(0, 0, around.graph.initial_model()),
                 Time{}, nullptr});
  while (largest_block != 0) worker.nap(std::chrono::milliseconds(1));
  worker.nap(std::chrono::hours(1));
  largest_block = any_block;
  std::list<GradientWorker::Work> finished = worker.take_finished();
  CHECK(finished.size() == 1);
  for (GradientWorker::Work& work : finished) {
    CHECK(!work.failure);
    around.graph.finish_gradient(work.job);
    CHECK(work.job.result.loss.value() > 0);
  }
}

/// Counts the blocks that are not released.
class CountingBackend final : public CpuBackend {
 public:
  float* allocate(std::size_t count) override {
    ++blocks;
    return CpuBackend::allocate(count);
  }
  void release(float* values, std::size_t count) noexcept override {
    --blocks;
    CpuBackend::release(values, count);
  }
  int blocks = 0;
};

TEST_CASE("rows for which there is no room leave no memory behind, those in use come back to it") {
  constexpr RowStore::ValueId count = 100;
  CountingBackend backend;
  {
    RowStore rows(backend);
    rows.fit(count + 1);
    for (RowStore::ValueId value = 0; value <= count; ++value) rows.expect(value, 60, 1, true);
    for (RowStore::ValueId value = 0; value < 8; ++value) rows.make(value);  // all of a slab
    bool is_refused = false;
    largest_block = 0;
    try {
      rows.make(8);
    } catch (const std::bad_alloc&) {
      is_refused = true;
    }
    largest_block = any_block;
    CHECK(is_refused);
    CHECK(backend.blocks == 1);
    for (RowStore::ValueId value = 8; value < count; ++value) rows.make(value);
    largest_block = 0;
    for (RowStore::ValueId value = 0; value < count; ++value) rows.drop(value);
    largest_block = any_block;
    CHECK(backend.blocks > 1);
  }
  CHECK(backend.blocks == 0);
}

TEST_CASE("a loss that is no number ends the run on all ranks and names the node") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  workload.poisoned_node = nodes - 1;
  SmallRun run(nodes, workload);
  const std::string text = run.failure(train_alone);
  CHECK(text.find("loss of node " + std::to_string(nodes - 1)) != text.npos);
}

TEST_CASE("an error inside a gradient's kernel ends the run on all ranks and names the node") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  workload.before_gradient = [](const GradientRequest& request) {
    if (request.node == 0 && request.draw == 3) throw Error("device lost");
  };
  SmallRun run(nodes, workload);
  CHECK(run.failure(train_alone) == "gradient 3 of node 0: device lost");
}

TEST_CASE("an interrupt on one rank interrupts all, and the results so far can be gathered") {
  const NodeId nodes = uneven();
  Quadratic workload(nodes, 4);
  int pulses = 0;
  SmallRun run(nodes, workload, 1, {}, [&] {
    if (++pulses == 2 && session().rank() == session().ranks() - 1) throw Interrupted(15);
  });
  int signal = 0;
  try {
    run(train_alone);
  } catch (const Interrupted& interrupted) {
    signal = interrupted.signal();
  }
  CHECK(signal == 15);
  KnownRanks known;
  gather_results(session(), run.transport.block(), run.around.graph, run.around.observer,
                 run.around.recorder, true, known);
  CHECK(known.size() == (session().rank() == 0 ? session().ranks() - 1 : 0));
  if (session().rank() == 0) {
    for (const NodeTotals& totals : run.around.recorder.nodes) CHECK(totals.compute > Duration{0});
  }
}

}  // namespace
}  // namespace starling::test
