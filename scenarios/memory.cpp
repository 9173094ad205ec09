#include "scenarios/memory.hpp"

#include <algorithm>
#include <fstream>
#include <optional>

#include <fmt/core.h>
#include <omp.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sim/base/error.hpp"
#include "sim/base/memory.hpp"
#include "sim/node/row_store.hpp"
#include "sim/record/recorder.hpp"

namespace starling {
namespace {

constexpr double gibibyte = 1 << 30;
/// Of program, mailbox, totals, recorded operations, rounded up: scenarios/scale/million_nodes.ini takes 2,210 B per node beside
/// its models at most. With a model of 4 floats, runs of 100,000 and 300,000 nodes differ by 2,050 B per node, with normal
/// gradient times (sigma = 0.2) by 2,310 B, with lognormal ones (0.3) by 2,350 B. With large models and
/// lognormal times nodes drift apart, and 0.4 of a model per node more is in flight.
constexpr double node_bytes = 2400;
/// Of the program with all its libraries: a run of three nodes and a few numbers takes 22 MB.
constexpr double program_bytes = 22e6;
/// What a node takes beside its model, at least: one that only sleeps takes most of it (tests/benchmarks/bench_engine.cpp).
constexpr std::int64_t bytes_per_idle_node = 380;

/// The numbers of a node in a row of its table: time, bytes sent and, of workloads with numbers, the loss; and one of them
/// once more, when they are saved.
constexpr std::int64_t table_bytes = 32;

/// "50 rows * 1000 nodes * 32 B": the table of what each node did, which grows up to that.
std::string table_of_nodes(const RunSettings& settings) {
  const std::size_t rows = RowSchedule(settings.record_every, settings.steps).rows();
  return fmt::format("{} {} * {} nodes * {} B", rows, rows == 1 ? "row" : "rows", settings.nodes,
                     table_bytes);
}

double bytes_of_table(const RunSettings& settings) {
  return static_cast<double>(RowSchedule(settings.record_every, settings.steps).rows()) *
         static_cast<double>(settings.nodes * table_bytes);
}

/// Bytes in words.
std::string in_words(double bytes) {
  return bytes < 0.1 * gibibyte ? fmt::format("{:.4g} MB", bytes / 1e6)
                                : fmt::format("{:.2f} GiB", bytes / gibibyte);
}

double scratch_bytes(const WorkloadFacts& facts, int threads) {
  return 4.0 * static_cast<double>(facts.scratch_floats) * threads;
}

/// The same as arithmetic: "2 threads * 5000 floats * 4 B".
std::string scratch(const WorkloadFacts& facts, int threads) {
  return fmt::format("{} {} * {} floats * 4 B", threads, threads == 1 ? "thread" : "threads",
                     facts.scratch_floats);
}

}  // namespace

void check_memory_of_models(const RunSettings& settings, const WorkloadFacts& facts, int hosts) {
  const std::optional<std::int64_t> available = available_memory();
  if (!facts.has_numbers || !available) return;
  const auto refuse_beyond = [&](double bytes, const std::string& arithmetic) {
    if (bytes <= static_cast<double>(*available)) return;
    throw Error(fmt::format("{} = {:.1f} GiB, but {:.1f} GiB of memory are free", arithmetic,
                            bytes / gibibyte, static_cast<double>(*available) / gibibyte));
  };
  const double models = 4.0 * static_cast<double>(facts.parameters) * settings.nodes / hosts;
  std::string arithmetic =
      fmt::format("the models alone need {} nodes * {} parameters * 4 B{}", settings.nodes,
                  facts.parameters, hosts > 1 ? fmt::format(" / {} hosts", hosts) : "");
  refuse_beyond(models, arithmetic);
  const int threads = omp_get_max_threads();  // the blocks of an evaluation are for all
  arithmetic += fmt::format(", and what lies between the layers {}", scratch(facts, threads));
  refuse_beyond(models + scratch_bytes(facts, threads), arithmetic);
}

void check_memory_of_nodes(const Section& run, std::int64_t nodes) {
  expect_memory(run, "nodes", static_cast<double>(bytes_per_idle_node) * static_cast<double>(nodes),
                fmt::format("{} nodes * {} B beside their models", nodes, bytes_per_idle_node));
}

std::string doubt_of_table(const RunSettings& settings) {
  const std::optional<std::int64_t> available = available_memory();
  const double bytes = bytes_of_table(settings);
  if (!available || bytes <= static_cast<double>(*available)) return "";
  return fmt::format(
      "is {}: {} = {:.1f} GiB of the table of nodes, but {:.1f} GiB of memory are free",
      settings.record_every, table_of_nodes(settings), bytes / gibibyte,
      static_cast<double>(*available) / gibibyte);
}

double model_bytes(const RunSettings& settings, const WorkloadFacts& facts) {
  return 4.0 * static_cast<double>(RowStore::row_floats(facts.parameters)) * settings.nodes;
}

std::string describe_memory(const RunSettings& settings, const WorkloadFacts& facts) {
  const double table = bytes_of_table(settings);
  const std::string of_table =
      fmt::format("{} = {} of the table of nodes", table_of_nodes(settings), in_words(table));
  if (!facts.has_numbers) return fmt::format("no numbers are kept but {}", of_table);
  const double models = model_bytes(settings, facts);
  const double rest = program_bytes + node_bytes * settings.nodes;
  std::string text = fmt::format("{} nodes * {} floats * 4 B = {} of models", settings.nodes,
                                 RowStore::row_floats(facts.parameters), in_words(models));
  double sum = models + rest + table + facts.data_bytes;
  if (settings.swa_start > 0) {
    sum += models;
    text += ", as much of their averages over steps";
  }
  if (facts.scratch_floats > 0 && settings.device != DeviceChoice::cuda) {  // else on the GPU
    const int threads = omp_get_max_threads();
    sum += scratch_bytes(facts, threads);
    text += fmt::format(", {} = {} between the layers", scratch(facts, threads),
                        in_words(scratch_bytes(facts, threads)));
  }
  return text +
         fmt::format(
             ", {} of data, {}, and about {:.0f} MB + {:.0f} B * {} = {} of all else: {}; the "
             "models' share again for each further model that nodes keep, or have in flight{}",
             in_words(facts.data_bytes), of_table, program_bytes / 1e6, node_bytes, settings.nodes,
             in_words(rest), in_words(sum),
             settings.save_models ? ", and twice to save the models" : "");
}

std::int64_t resident_memory() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t all = 0;
  std::int64_t resident = 0;
  if (!(statm >> all >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

std::int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace starling
