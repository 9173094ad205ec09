#include "sim/mpi/records.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <tuple>
#include <utility>

#include "sim/mpi/packer.hpp"

namespace starling {
namespace {

/// The cells of a row that belong to the nodes of `block`.
template <class Cells>
Cells of_block(Cells row, NodeBlock block) {
  if (row.empty()) return row;
  return row.subspan(static_cast<std::size_t>(block.begin),
                     static_cast<std::size_t>(block.end - block.begin));
}

void pack_rows(Packer& packer, const Table& table, const std::string& metric, NodeBlock block,
               std::size_t& told) {
  const std::size_t first = told, rows = table.rows(metric);
  packer.put_text(metric);
  packer.put(first);
  packer.put(rows - first);
  for (std::size_t row = first; row < rows; ++row) {
    const std::span<const double> cells = of_block(table.cells(metric, row), block);
    packer.put_all(cells);
    const bool is_known = std::ranges::none_of(cells, [](double cell) { return std::isnan(cell); });
    if (is_known && told == row) ++told;
  }
}

}  // namespace

std::string pack_records(const Recorder& recorder, NodeBlock block, Told& told) {
  Packer packer;
  packer.put(block);
  const std::vector<std::string> metrics = recorder.steps.metrics();
  packer.put(metrics.size());
  for (const std::string& metric : metrics) {
    pack_rows(packer, recorder.steps, metric, block, told.rows[metric]);
  }
  for (NodeId node = block.begin; node < block.end; ++node) {
    packer.put(recorder.nodes[static_cast<std::size_t>(node)]);
  }
  for (NodeId node = block.begin; node < block.end && !recorder.acts.empty(); ++node) {
    const auto acts = std::span(recorder.acts[static_cast<std::size_t>(node)]);
    std::size_t& before = told.acts[node];
    packer.put(acts.size() - before);
    packer.put_all(acts.subspan(before));
    before = acts.size();
  }
  std::vector<Segment> segments;
  std::ranges::copy_if(std::span(recorder.timeline).subspan(told.segments),
                       std::back_inserter(segments),
                       [block](const Segment& segment) { return block.contains(segment.node); });
  packer.put(segments.size());
  packer.put_all(std::span<const Segment>(segments));
  told.segments = recorder.timeline.size();
  packer.put(recorder.statistics.size());
  for (const auto& [name, value] : recorder.statistics) {
    packer.put_text(name);
    packer.put(value);
  }
  return std::move(packer).bytes();
}

void unpack_records(std::string_view bytes, Recorder& recorder) {
  Unpacker unpacker(bytes);
  const auto block = unpacker.take<NodeBlock>();
  for (auto metrics = unpacker.take<std::size_t>(); metrics > 0; --metrics) {
    const std::string_view metric = unpacker.take_text();
    auto row = unpacker.take<std::size_t>();
    for (auto rows = unpacker.take<std::size_t>(); rows > 0; --rows, ++row) {
      unpacker.take_all(of_block(recorder.steps.cells(metric, row), block));
    }
  }
  for (NodeId node = block.begin; node < block.end; ++node) {
    recorder.nodes[static_cast<std::size_t>(node)] = unpacker.take<NodeTotals>();
  }
  for (NodeId node = block.begin; node < block.end && !recorder.acts.empty(); ++node) {
    std::vector<Act>& acts = recorder.acts[static_cast<std::size_t>(node)];
    const std::size_t before = acts.size();
    acts.resize(before + unpacker.take<std::size_t>());
    unpacker.take_all(std::span(acts).subspan(before));
  }
  std::vector<Segment> segments(unpacker.take<std::size_t>());
  unpacker.take_all(std::span(segments));
  recorder.timeline.insert(recorder.timeline.end(), segments.begin(), segments.end());
  for (auto statistics = unpacker.take<std::size_t>(); statistics > 0; --statistics) {
    const std::string name(unpacker.take_text());
    recorder.statistics[name] += unpacker.take<double>();
  }
}

void sort_timeline(Recorder& recorder) {
  std::ranges::stable_sort(recorder.timeline, [](const Segment& a, const Segment& b) {
    return std::tie(a.end, a.node) < std::tie(b.end, b.node);
  });
}

}  // namespace starling
