// Writer and reader of each group in one file, so that what is written can be held against what is read.

#include "sim/record/results_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <system_error>
#include <type_traits>

#include <fmt/core.h>
#include <unistd.h>

#include "sim/base/error.hpp"
#include "sim/record/hdf5_file.hpp"
#include "sim/record/partial_file.hpp"
#include "sim/record/regular_file.hpp"

namespace starling {
namespace {

constexpr const char* format_name = "starling results";
constexpr std::int64_t results_version = 1;
constexpr std::array<unsigned char, 8> hdf5_signature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

using hdf5::Failure;
using hdf5::Reader;
using hdf5::Shape;
using hdf5::Writer;

/// The columns of /nodes, for writing and reading alike.
struct TimeColumn {
  const char* name;
  std::int64_t (*get)(const NodeTotals&);
  void (*set)(NodeTotals&, std::int64_t picoseconds);
};
constexpr std::array<TimeColumn, 4> time_columns{{
    {"compute", [](const NodeTotals& node) { return node.compute.count(); },
     [](NodeTotals& node, std::int64_t value) { node.compute = Duration(value); }},
    {"wait", [](const NodeTotals& node) { return node.wait.count(); },
     [](NodeTotals& node, std::int64_t value) { node.wait = Duration(value); }},
    {"communicate", [](const NodeTotals& node) { return node.communicate.count(); },
     [](NodeTotals& node, std::int64_t value) { node.communicate = Duration(value); }},
    {"finished", [](const NodeTotals& node) { return node.finished.time_since_epoch().count(); },
     [](NodeTotals& node, std::int64_t value) { node.finished = Time(Duration(value)); }},
}};
struct CountColumn {
  const char* name;
  std::int64_t NodeTotals::*member;
};
constexpr std::array<CountColumn, 3> count_columns{{{"steps", &NodeTotals::steps},
                                                    {"messages_sent", &NodeTotals::messages_sent},
                                                    {"bytes_sent", &NodeTotals::bytes_sent}}};

constexpr std::array activities{Activity::compute, Activity::wait, Activity::communicate};
constexpr std::array<std::string_view, 4> act_kinds{"delivery", "resume", "deadline", "clock"};

// --- Writing -------------------------------------------------------------------------------------

/// The values that `get` takes out of each item.
template <class Items, class Get>
auto column_of(const Items& items, Get get) {
  std::vector<std::remove_cvref_t<std::invoke_result_t<Get&, decltype(items[0])>>> values(
      items.size());
  std::ranges::transform(items, values.begin(), get);
  return values;
}

/// When each segment begins and ends.
template <class Segments>
void write_spans(Writer& writer, const std::string& group, const Segments& segments) {
  const auto count = [](Time time) { return time.time_since_epoch().count(); };
  writer.column(group + "/begin",
                column_of(segments, [&](const auto& s) { return count(s.begin); }));
  writer.column(group + "/end", column_of(segments, [&](const auto& s) { return count(s.end); }));
}

void write_metrics(Writer& writer, const std::string& group, const Table& table, bool is_flat) {
  std::vector<double> values;
  for (const std::string& metric : table.metrics()) {
    const std::size_t rows = table.rows(metric);
    values.clear();
    values.reserve(rows * table.width());
    for (std::size_t row = 0; row < rows; ++row) {
      const std::span<const double> cells = table.cells(metric, row);
      values.insert(values.end(), cells.begin(), cells.end());
    }
    writer.numbers(group + "/" + metric, values,
                   is_flat ? Shape{rows} : Shape{rows, table.width()});
  }
}

void write_table(Writer& writer, const std::string& group, const Table& table, bool is_flat) {
  writer.group(group);
  writer.attribute(group, "every", table.schedule().every());
  writer.attribute(group, "steps", table.schedule().steps());
  writer.attribute(group, "columns", static_cast<std::int64_t>(table.width()));
  std::vector<std::int64_t> finished(table.rows());
  for (std::size_t row = 0; row < finished.size(); ++row)
    finished[row] = table.schedule().finished(row);
  writer.column(group + "/step", finished);
  write_metrics(writer, group, table, is_flat);
}

void write_nodes(Writer& writer, const std::vector<NodeTotals>& nodes) {
  writer.group("/nodes");
  std::vector<double> seconds(nodes.size());
  std::vector<std::int64_t> whole(nodes.size());
  for (const TimeColumn& column : time_columns) {
    std::ranges::transform(nodes, whole.begin(), column.get);
    std::ranges::transform(whole, seconds.begin(),
                           [](std::int64_t t) { return to_seconds(Duration(t)); });
    writer.column(fmt::format("/nodes/{}", column.name), seconds);
    writer.column(fmt::format("/nodes/{}_picoseconds", column.name), whole);
  }
  for (const CountColumn& column : count_columns) {
    std::ranges::transform(nodes, whole.begin(), column.member);
    writer.column(fmt::format("/nodes/{}", column.name), whole);
  }
}

void write_timeline(Writer& writer, const Recorder& recorder) {
  const std::vector<Segment>& timeline = recorder.timeline;
  writer.group("/timeline");
  writer.attribute("/timeline", "until", recorder.timeline_until().time_since_epoch().count());
  writer.column("/timeline/node", column_of(timeline, &Segment::node));
  std::array<std::string_view, activities.size()> names;
  std::ranges::transform(activities, names.begin(), [](Activity a) { return to_text(a); });
  writer.choices(
      "/timeline/activity",
      column_of(timeline, [](const Segment& s) { return static_cast<std::uint8_t>(s.activity); }),
      names);
  write_spans(writer, "/timeline", timeline);
}

void write_links(Writer& writer, const Recorder& recorder) {
  if (recorder.links.empty()) return;
  const std::vector<LinkTotals>& links = recorder.links;
  writer.group("/links");
  writer.texts("/links/name", column_of(links, &LinkTotals::name));
  writer.column("/links/bandwidth", column_of(links, &LinkTotals::bandwidth));
  writer.column("/links/peak_rate", column_of(links, &LinkTotals::peak_rate));
  writer.column("/links/busy",
                column_of(links, [](const LinkTotals& l) { return to_seconds(l.busy); }));
  writer.column("/links/busy_picoseconds",
                column_of(links, [](const LinkTotals& l) { return l.busy.count(); }));
  writer.column("/links/bytes", column_of(links, &LinkTotals::bytes));
  writer.column("/links/most_messages", column_of(links, &LinkTotals::most_messages));
  if (recorder.link_timeline.empty()) return;
  const std::vector<LinkSegment>& timeline = recorder.link_timeline;
  writer.group("/link_timeline");
  writer.column("/link_timeline/link", column_of(timeline, [](const LinkSegment& s) {
                  return static_cast<std::int32_t>(s.link);
                }));
  writer.column("/link_timeline/rate", column_of(timeline, &LinkSegment::rate));
  write_spans(writer, "/link_timeline", timeline);
}

void write_acts(Writer& writer, const Recorder& recorder) {
  if (recorder.acts.empty()) return;
  std::vector<std::int64_t> begin;
  std::vector<Act> all;
  for (const std::vector<Act>& acts : recorder.acts) {
    begin.push_back(std::ssize(all));
    all.insert(all.end(), acts.begin(), acts.end());
  }
  writer.group("/acts");
  writer.column("/acts/first", begin);
  writer.choices("/acts/kind",
                 column_of(all, [](const Act& a) { return static_cast<std::uint8_t>(a.kind); }),
                 act_kinds);
  writer.column("/acts/who", column_of(all, &Act::who));
  writer.column("/acts/what", column_of(all, &Act::what));
}

void write_content(Writer& writer, const Recorder& recorder) {
  writer.attribute("/", "format", std::string(format_name));
  writer.attribute("/", "format_version", results_version);
  for (const char* group : {"/facts", "/machine", "/statistics"}) writer.group(group);
  for (const auto& [key, text] : recorder.facts) {
    if (key == "scenario") {
      writer.text("/scenario", text);
    } else {
      writer.attribute("/facts", key, text);
    }
  }
  for (const auto& [key, text] : recorder.machine) writer.attribute("/machine", key, text);
  for (const auto& [key, value] : recorder.statistics) writer.attribute("/statistics", key, value);
  write_table(writer, "/steps", recorder.steps, /*is_flat=*/false);
  write_table(writer, "/evaluation", recorder.evaluation, /*is_flat=*/true);
  if (recorder.evaluation_by_time.rows() > 0) {
    writer.group("/evaluation_by_time");
    write_metrics(writer, "/evaluation_by_time", recorder.evaluation_by_time, /*is_flat=*/true);
  }
  write_nodes(writer, recorder.nodes);
  write_timeline(writer, recorder);
  write_links(writer, recorder);
  write_acts(writer, recorder);
  if (recorder.models.empty()) return;
  writer.rows("/models", recorder.models);
  std::vector<std::uint8_t> has_model;
  for (const auto& model : recorder.models) has_model.push_back(!model.empty());
  writer.column("/nodes/has_model", has_model);
}

// --- Reading -------------------------------------------------------------------------------------

void read_metrics(const Reader& reader, const std::string& group, bool is_flat, Table& table) {
  for (const std::string& metric : reader.member_names(group)) {
    if (metric == "step") continue;
    const std::string path = group + "/" + metric;
    const auto [values, shape] = reader.numbers<double>(path, is_flat ? 1 : 2);
    if (shape[0] > table.schedule().rows() || (!is_flat && shape[1] != table.width())) {
      throw Failure(fmt::format("{}: does not fit the table", path));
    }
    auto from = values.begin();
    for (std::size_t row = 0; row < shape[0]; ++row) {
      const std::span<double> cells = table.cells(metric, row);
      const auto to = from + std::ssize(cells);
      std::copy(from, to, cells.begin());
      from = to;
    }
  }
}

Table read_table(const Reader& reader, const std::string& group, bool is_flat) {
  const auto every = reader.attribute<std::int64_t>(group, "every");
  const auto steps = reader.attribute<std::int64_t>(group, "steps");
  const auto columns = reader.attribute<std::int64_t>(group, "columns");
  if (every < 1 || steps < 0 || columns < 0 || (is_flat && columns != 1)) {
    throw Failure(fmt::format("{}: a table of {} columns with a row every {} of {} steps", group,
                              columns, every, steps));
  }
  Table table(RowSchedule(every, steps), static_cast<std::size_t>(columns));
  read_metrics(reader, group, is_flat, table);
  return table;
}

std::vector<Segment> read_timeline(const Reader& reader, std::size_t nodes) {
  const auto node = reader.column<std::int32_t>("/timeline/node");
  const auto activity = reader.column<std::uint8_t>("/timeline/activity", node.size());
  const auto begin = reader.column<std::int64_t>("/timeline/begin", node.size());
  const auto end = reader.column<std::int64_t>("/timeline/end", node.size());
  std::vector<Segment> timeline;
  timeline.reserve(node.size());
  for (std::size_t i = 0; i < node.size(); ++i) {
    if (node[i] < 0 || static_cast<std::size_t>(node[i]) >= nodes ||
        activity[i] >= activities.size() || begin[i] < 0 || begin[i] > end[i]) {
      throw Failure(fmt::format("/timeline: segment {} has a value out of range", i));
    }
    timeline.push_back(
        {node[i], activities[activity[i]], Time(Duration(begin[i])), Time(Duration(end[i]))});
  }
  return timeline;
}

void read_links(const Reader& reader, Recorder& recorder) {
  const std::vector<std::string> names = reader.texts("/links/name");
  const auto bandwidth = reader.column<double>("/links/bandwidth", names.size());
  const auto peak_rate = reader.column<double>("/links/peak_rate", names.size());
  const auto busy = reader.column<std::int64_t>("/links/busy_picoseconds", names.size());
  const auto bytes = reader.column<std::int64_t>("/links/bytes", names.size());
  std::vector<std::int64_t> most_messages(names.size(), 0);  // older files do not tell
  if (reader.has("/links/most_messages"))
    most_messages = reader.column<std::int64_t>("/links/most_messages", names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!(bandwidth[i] >= 0 && peak_rate[i] >= 0 && busy[i] >= 0 && most_messages[i] >= 0)) {
      throw Failure(fmt::format("/links: link {} has a value out of range", i));
    }
    recorder.links.push_back(
        {names[i], bandwidth[i], peak_rate[i], Duration(busy[i]), bytes[i], most_messages[i]});
  }
  if (!reader.has("/link_timeline")) return;
  const auto link = reader.column<std::int32_t>("/link_timeline/link");
  const auto rate = reader.column<double>("/link_timeline/rate", link.size());
  const auto begin = reader.column<std::int64_t>("/link_timeline/begin", link.size());
  const auto end = reader.column<std::int64_t>("/link_timeline/end", link.size());
  for (std::size_t i = 0; i < link.size(); ++i) {
    if (link[i] < 0 || static_cast<std::size_t>(link[i]) >= names.size() || begin[i] < 0 ||
        begin[i] > end[i] || !(rate[i] >= 0)) {
      throw Failure(fmt::format("/link_timeline: segment {} has a value out of range", i));
    }
    recorder.link_timeline.push_back({static_cast<std::uint32_t>(link[i]), rate[i],
                                      Time(Duration(begin[i])), Time(Duration(end[i]))});
  }
}

std::vector<std::vector<Act>> read_acts(const Reader& reader, std::size_t nodes) {
  const auto begin = reader.column<std::int64_t>("/acts/first", nodes);
  const auto kind = reader.column<std::uint8_t>("/acts/kind");
  const auto who = reader.column<std::int32_t>("/acts/who", kind.size());
  const auto what = reader.column<std::uint64_t>("/acts/what", kind.size());
  std::vector<std::vector<Act>> acts(nodes);
  for (std::size_t node = 0; node < nodes; ++node) {
    const std::int64_t end = node + 1 < nodes ? begin[node + 1] : std::ssize(kind);
    if ((node == 0 && begin[node] != 0) || begin[node] > end || end > std::ssize(kind)) {
      throw Failure(fmt::format("/acts: those of node {} are not behind those before", node));
    }
    for (auto i = static_cast<std::size_t>(begin[node]); i < static_cast<std::size_t>(end); ++i) {
      if (kind[i] >= act_kinds.size()) {
        throw Failure(fmt::format("/acts: act {} has a value out of range", i));
      }
      acts[node].push_back({static_cast<Act::Kind>(kind[i]), who[i], what[i]});
    }
  }
  return acts;
}

Recorder read_content(const Reader& reader) {
  const std::size_t nodes = reader.column<std::int64_t>("/nodes/steps").size();
  if (nodes > static_cast<std::size_t>(std::numeric_limits<NodeId>::max())) {
    throw Failure("/nodes: too many nodes");
  }
  const Time until(Duration(reader.attribute<std::int64_t>("/timeline", "until")));
  Recorder recorder(static_cast<NodeId>(nodes), {}, {}, until);
  recorder.steps = read_table(reader, "/steps", /*is_flat=*/false);
  recorder.evaluation = read_table(reader, "/evaluation", /*is_flat=*/true);
  if (reader.has("/evaluation_by_time"))
    read_metrics(reader, "/evaluation_by_time", /*is_flat=*/true, recorder.evaluation_by_time);
  for (const TimeColumn& column : time_columns) {
    const auto path = fmt::format("/nodes/{}_picoseconds", column.name);
    const auto values = reader.column<std::int64_t>(path, nodes);
    if (std::ranges::any_of(values, [](std::int64_t value) { return value < 0; }))
      throw Failure(fmt::format("{}: a negative time", path));
    for (std::size_t i = 0; i < nodes; ++i) column.set(recorder.nodes[i], values[i]);
  }
  for (const CountColumn& column : count_columns) {
    const auto values = reader.column<std::int64_t>(fmt::format("/nodes/{}", column.name), nodes);
    for (std::size_t i = 0; i < nodes; ++i) recorder.nodes[i].*column.member = values[i];
  }
  recorder.timeline = read_timeline(reader, nodes);
  if (reader.has("/links")) read_links(reader, recorder);
  if (reader.has("/acts")) recorder.acts = read_acts(reader, nodes);
  for (const std::string& key : reader.attribute_names("/facts")) {
    recorder.facts[key] = reader.attribute<std::string>("/facts", key);
  }
  if (reader.has("/scenario")) recorder.facts["scenario"] = reader.text("/scenario");
  for (const std::string& key : reader.attribute_names("/machine")) {
    recorder.machine[key] = reader.attribute<std::string>("/machine", key);
  }
  for (const std::string& key : reader.attribute_names("/statistics")) {
    recorder.statistics[key] = reader.attribute<double>("/statistics", key);
  }
  if (reader.has("/models")) {
    recorder.models = reader.rows("/models");
    const auto has_model = reader.column<std::uint8_t>("/nodes/has_model", recorder.models.size());
    for (std::size_t i = 0; i < has_model.size(); ++i) {
      if (has_model[i] == 0) recorder.models[i].clear();
    }
  }
  return recorder;
}

/// Size of the file at `path`; throws Error unless it can be read and begins like an HDF5 file.
std::uint64_t size_of_hdf5_file(const std::string& path) {
  const RegularFile file(path, "a results file");
  std::array<unsigned char, 8> found{};
  if (::read(file.descriptor(), found.data(), found.size()) < 0) file.fail(errno);
  if (file.size() == 0) throw Error(path + ": expected a results file, found an empty file");
  if (found != hdf5_signature)
    throw Error(path + ": expected a results file, found something that is not HDF5");
  return file.size();
}

bool is_of_ours(const Reader& reader) {
  return reader.has_attribute("/", "format") && reader.has_attribute("/", "format_version") &&
         reader.attribute<std::string>("/", "format") == format_name;
}

/// Whether the HDF5 file may be replaced: results, or too damaged to tell. Somebody's data may not.
bool holds_results(const std::string& path) {
  const hdf5::Silence silence;
  try {
    return is_of_ours(Reader(path, std::filesystem::file_size(path)));
  } catch (const Failure&) {
    return true;
  }
}

}  // namespace

void refuse_to_replace_others(const std::string& path) {
  std::error_code nothing;
  if (!std::filesystem::is_regular_file(path, nothing)) return;
  std::array<char, hdf5_signature.size()> begin{};
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), begin.size());
  if (file.is_open() && file.gcount() == 0) return;
  const bool is_hdf5 = std::ranges::equal(begin, hdf5_signature, {},
                                          [](char c) { return static_cast<unsigned char>(c); });
  if (is_hdf5 && holds_results(path)) return;
  throw Error(path + ": is there already and no results file; name another one (--output)");
}

void expect_writable(const std::string& path) {
  std::error_code nothing;
  // save() needs no right to a file that it replaces; who has protected one wants to keep it.
  if (std::filesystem::is_regular_file(path, nothing) && ::access(path.c_str(), W_OK) != 0)
    throw Error(fmt::format("{}: cannot write: {}", path, std::generic_category().message(errno)));
  const PartialFile trial(path);
}

namespace {

void save(const Recorder& recorder, const std::string& path, bool yields) {
  ensure(recorder.evaluation.width() == 1, "the evaluation table has one cell per row");
  const hdf5::Silence silence;
  try {
    PartialFile partial(path);
    Writer writer;
    write_content(writer, recorder);
    partial.write(writer.bytes());
    partial.sync();
    if (!yields || !partial.is_overtaken()) partial.finish();
  } catch (const Failure& failure) {
    throw Error(fmt::format("{}: cannot write: {}", path, failure.what()));
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format("{}: cannot write: not enough memory", path));
  }
}

}  // namespace

void save(const Recorder& recorder, const std::string& path) { save(recorder, path, false); }

void save_between_times(const Recorder& recorder, const std::string& path) {
  save(recorder, path, true);
}

Recorder load(const std::string& path) {
  const std::uint64_t bytes = size_of_hdf5_file(path);
  const hdf5::Silence silence;
  try {
    const Reader reader(path, bytes);
    if (!is_of_ours(reader)) {
      throw Error(path + ": expected a results file of Starling, found another HDF5 file");
    }
    const auto version = reader.attribute<std::int64_t>("/", "format_version");
    if (version > results_version) {
      throw Error(fmt::format(
          "{}: written in format {} by a newer Starling; this one reads up to format {}", path,
          version, results_version));
    }
    return read_content(reader);
  } catch (const Failure& failure) {
    throw Error(fmt::format("{}: damaged or cut short: {}", path, failure.what()));
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format("{}: cannot read: not enough memory", path));
  }
}

}  // namespace starling
