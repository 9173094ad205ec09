#include "sim/record/export.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/base/csv.hpp"
#include "sim/base/error.hpp"
#include "sim/base/units.hpp"
#include "sim/record/partial_file.hpp"

namespace starling {
namespace {

[[noreturn]] void fail(const std::string& name, int error) {
  throw Error(fmt::format("{}: cannot write: {}", name, std::generic_category().message(error)));
}

/// Collects text and passes it on in large pieces.
class Output {
 public:
  using Sink = std::function<void(std::string_view)>;

  explicit Output(Sink sink) : sink_(std::move(sink)) {}

  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    if (text_.size() >= 1 << 16) finish();
  }

  void finish() {
    sink_({text_.data(), text_.size()});
    text_.clear();
  }

 private:
  Sink sink_;
  fmt::memory_buffer text_;
};

std::string seconds(Duration duration) { return exact_decimal(duration.count(), 12); }
std::string seconds(Time time) { return seconds(time.time_since_epoch()); }
std::string microseconds(Duration duration) { return exact_decimal(duration.count(), 6); }

/// Length of the UTF-8 sequence at the start of `text`; 0 if it is none (overlong forms and
/// surrogates are none).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const std::size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool is_wrong = (byte(0) == 0xe0 && byte(1) < 0xa0) ||
                        (byte(0) == 0xed && byte(1) > 0x9f) ||
                        (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) > 0x8f);
  return is_wrong ? 0 : length;
}

/// `text` as a JSON string, quotes included; what is not UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char first = text.front();
    if (length == 0) {
      quoted += "\\ufffd";
    } else if (first == '"' || first == '\\') {
      quoted += {'\\', first};
    } else if (static_cast<unsigned char>(first) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<int>(first));
    } else {
      quoted += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return quoted + '"';
}

/// `row_name`: what rows are counted by.
void write_table(Output& out, const Table& table, std::string_view row_name, bool has_nodes) {
  const std::vector<std::string> metrics = table.metrics();
  out.print("{}{}", row_name, has_nodes ? ",node" : "");
  for (const std::string& metric : metrics) out.print(",{}", csv_field(metric));
  out.print("\n");
  std::vector<std::span<const double>> cells(metrics.size());
  for (std::size_t row = 0; row < table.rows(); ++row) {
    std::ranges::transform(metrics, cells.begin(),
                           [&](const std::string& metric) { return table.cells(metric, row); });
    for (std::size_t column = 0; column < table.width(); ++column) {
      out.print("{}", table.schedule().finished(row));
      if (has_nodes) out.print(",{}", column);
      for (const std::span<const double> values : cells) {
        if (values.empty() || std::isnan(values[column])) {
          out.print(",");
        } else {
          out.print(",{}", values[column]);
        }
      }
      out.print("\n");
    }
  }
}

void write_nodes(Output& out, const std::vector<NodeTotals>& nodes) {
  out.print(
      "node,compute_seconds,wait_seconds,communicate_seconds,finished_seconds,steps,messages_sent,"
      "bytes_sent\n");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeTotals& node = nodes[i];
    out.print("{},{},{},{},{},{},{},{}\n", i, seconds(node.compute), seconds(node.wait),
              seconds(node.communicate), seconds(node.finished), node.steps, node.messages_sent,
              node.bytes_sent);
  }
}

void write_timeline(Output& out, const std::vector<Segment>& timeline) {
  out.print("node,activity,begin_seconds,end_seconds\n");
  for (const Segment& segment : timeline) {
    out.print("{},{},{},{}\n", segment.node, to_text(segment.activity), seconds(segment.begin),
              seconds(segment.end));
  }
}

void write_links(Output& out, const Recorder& recorder) {
  out.print(
      "link,bandwidth_bytes_per_second,bytes,busy_seconds,mean_load,peak_load,most_messages\n");
  const double end = recorder.active_seconds();
  for (const LinkTotals& link : recorder.links) {
    const double mean = end > 0 ? static_cast<double>(link.bytes) / (link.bandwidth * end) : 0;
    out.print("{},{},{},{},{},{},{}\n", csv_field(link.name), link.bandwidth, link.bytes,
              seconds(link.busy), mean, link.peak_rate / link.bandwidth, link.most_messages);
  }
}

void write_link_timeline(Output& out, const Recorder& recorder) {
  out.print("link,bytes_per_second,begin_seconds,end_seconds\n");
  for (const LinkSegment& segment : recorder.link_timeline) {
    out.print("{},{},{},{}\n", csv_field(recorder.links[segment.link].name), segment.rate,
              seconds(segment.begin), seconds(segment.end));
  }
}

using TableWriter = void (*)(Output&, const Recorder&);

TableWriter writer_of(std::string_view table) {
  if (table == "steps") {
    return [](Output& out, const Recorder& run) {
      write_table(out, run.steps, "step", /*has_nodes=*/true);
    };
  }
  if (table == "evaluation") {
    return [](Output& out, const Recorder& run) {
      write_table(out, run.evaluation, "step", /*has_nodes=*/false);
    };
  }
  if (table == "evaluation_by_time") {
    return [](Output& out, const Recorder& run) {
      write_table(out, run.evaluation_by_time, "instant", /*has_nodes=*/false);
    };
  }
  if (table == "nodes")
    return [](Output& out, const Recorder& run) { write_nodes(out, run.nodes); };
  if (table == "timeline")
    return [](Output& out, const Recorder& run) { write_timeline(out, run.timeline); };
  if (table == "links") return write_links;
  if (table == "link_timeline") return write_link_timeline;
  throw Error(
      fmt::format("expected table steps, evaluation, evaluation_by_time, nodes, timeline, links or "
                  "link_timeline, found \"{}\"",
                  table));
}

/// Loads of the busiest links as counters of a process of their own.
void write_link_counters(Output& out, const Recorder& recorder) {
  constexpr std::size_t most = 32;
  if (recorder.link_timeline.empty()) return;
  std::vector<std::uint32_t> busiest(recorder.links.size());
  std::iota(busiest.begin(), busiest.end(), 0U);
  const auto use = [&](std::uint32_t i) {
    return static_cast<double>(recorder.links[i].bytes) / recorder.links[i].bandwidth;
  };
  std::ranges::stable_sort(busiest, std::greater{}, use);
  busiest.resize(std::min(busiest.size(), most));
  std::vector<char> is_shown(recorder.links.size(), 0);
  for (const std::uint32_t link : busiest) is_shown[link] = 1;
  out.print(
      ",\n"
      R"({{"ph":"M","pid":1,"name":"process_name","args":{{"name":"busiest links"}}}})");
  const auto write = [&](std::uint32_t link, Time time, double rate) {
    out.print(
        ",\n"
        R"({{"ph":"C","pid":1,"ts":{},"name":{},"args":{{"load %":{:.4g}}}}})",
        microseconds(time.time_since_epoch()), json_string(recorder.links[link].name),
        100 * rate / recorder.links[link].bandwidth);
  };
  // A stretch that another follows at once needs no end of its own.
  std::vector<Time> ends(recorder.links.size(), Time::min());
  for (const LinkSegment& segment : recorder.link_timeline) {
    if (is_shown[segment.link] == 0) continue;
    Time& end = ends[segment.link];
    if (end != Time::min() && end < segment.begin) write(segment.link, end, 0);
    write(segment.link, segment.begin, segment.rate);
    end = segment.end;
  }
  for (const std::uint32_t link : busiest) {
    if (ends[link] != Time::min()) write(link, ends[link], 0);
  }
}

/// Calls `write` with an output to `file`, which messages call `name`.
template <class Write>
void write_to(std::FILE* file, const std::string& name, const Write& write) {
  Output out([&](std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), file) != text.size()) fail(name, errno);
  });
  write(out);
  out.finish();
  if (std::fflush(file) != 0) fail(name, errno);
}

/// With what tables and traces begin. A run that failed early may have no metrics.
constexpr std::string_view begins_of_exports[] = {"step\n",
                                                  "step,bytes_sent,",
                                                  "step,node",
                                                  "instant\n",
                                                  "instant,bytes_sent,",
                                                  "node,compute_seconds,",
                                                  "node,activity,",
                                                  "link,bandwidth_bytes_per_second,",
                                                  R"([{"ph":"M","pid":0,"name":"process_name",)"};

/// The same to a file that takes its place when it is whole; to a device or pipe as it comes.
template <class Write>
void write_to(const std::string& path, const Write& write) {
  std::error_code none;
  if (std::filesystem::is_other(path, none)) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"),
                                                               std::fclose);
    if (file == nullptr) fail(path, errno);
    return write_to(file.get(), path, write);
  }
  refuse_to_replace_others(path, begins_of_exports, "export");
  PartialFile file(path);
  Output out([&file](std::string_view text) { file.write(std::as_bytes(std::span(text))); });
  write(out);
  out.finish();
  file.finish();
}

void write_trace(Output& out, const Recorder& recorder) {
  const auto fact = recorder.facts.find("scenario_name");
  const std::string title = fact == recorder.facts.end() ? "starling" : fact->second;
  out.print(R"([{{"ph":"M","pid":0,"name":"process_name","args":{{"name":{}}}}})",
            json_string(title));
  for (std::size_t i = 0; i < recorder.nodes.size(); ++i) {
    out.print(
        ",\n"
        R"({{"ph":"M","pid":0,"tid":{0},"name":"thread_name","args":{{"name":"node {0}"}}}})",
        i);
    out.print(
        ",\n"
        R"({{"ph":"M","pid":0,"tid":{0},"name":"thread_sort_index","args":{{"sort_index":{0}}}}})",
        i);
  }
  for (const Segment& segment : recorder.timeline) {
    out.print(
        ",\n"
        R"({{"ph":"X","pid":0,"tid":{},"ts":{},"dur":{},"name":"{}","cat":"node"}})",
        segment.node, microseconds(segment.begin.time_since_epoch()),
        microseconds(segment.end - segment.begin), to_text(segment.activity));
  }
  write_link_counters(out, recorder);
  out.print("]\n");
}

}  // namespace

void write_csv(const Recorder& recorder, std::string_view table, std::FILE* file,
               const std::string& name) {
  const TableWriter write = writer_of(table);
  write_to(file, name, [&](Output& out) { write(out, recorder); });
}

void write_csv(const Recorder& recorder, std::string_view table, const std::string& path) {
  const TableWriter write = writer_of(table);
  write_to(path, [&](Output& out) { write(out, recorder); });
}

void write_chrome_trace(const Recorder& recorder, std::FILE* file, const std::string& name) {
  write_to(file, name, [&](Output& out) { write_trace(out, recorder); });
}

void write_chrome_trace(const Recorder& recorder, const std::string& path) {
  write_to(path, [&](Output& out) { write_trace(out, recorder); });
}

}  // namespace starling
