// Exports, compared with the exact text they must give.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/record/export.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_export {
using test::message_of;

namespace {

Time at(std::int64_t picoseconds) { return Time(Duration(picoseconds)); }

std::string written(const std::function<void(std::FILE*)>& write) {
  char* data = nullptr;
  std::size_t size = 0;
  const auto close = [&data](std::FILE* file) {
    std::fclose(file);
    std::free(data);
  };
  const std::unique_ptr<std::FILE, decltype(close)> file(open_memstream(&data, &size), close);
  write(file.get());  // which flushes
  return {data, size};
}

std::string csv(const Recorder& recorder, std::string_view table) {
  return written([&](std::FILE* file) { write_csv(recorder, table, file, "x.csv"); });
}

std::string trace(const Recorder& recorder) {
  return written([&](std::FILE* file) { write_chrome_trace(recorder, file, "x.json"); });
}

}  // namespace

TEST_CASE(
    "steps are written in long form: a line per row and node, empty where nothing was recorded") {
  // Rows after 2, 4 and 5 finished steps; the last one was not reached.
  Recorder recorder(2, RowSchedule(2, 5), {}, at(0));
  recorder.steps.cell("time", 0, 0) = 0.1;
  recorder.steps.cell("time", 0, 1) = 1e-9;
  recorder.steps.cell("time", 1, 1) = 3;
  recorder.steps.cell("loss, mean", 0, 1) = -std::numeric_limits<double>::infinity();
  CHECK(csv(recorder, "steps") ==
        "step,node,\"loss, mean\",time\n"
        "2,0,,0.1\n"
        "2,1,-inf,1e-09\n"
        "4,0,,\n"
        "4,1,,3\n");
}

TEST_CASE("numbers in CSV read back to the bit") {
  Recorder recorder(1, RowSchedule(1, 1), {}, at(0));
  const double value = 0.1 + 0.2;
  recorder.steps.cell("x", 0) = value;
  const std::string text = csv(recorder, "steps");
  CHECK(std::stod(text.substr(text.rfind(',') + 1)) == value);
}

TEST_CASE("evaluations are written a line per row") {
  Recorder recorder(9, {}, RowSchedule(10, 20), at(0));
  recorder.evaluation.cell("test_loss", 0) = 2.5;
  recorder.evaluation.cell("test_loss", 1) = 1.25;
  CHECK(csv(recorder, "evaluation") == "step,test_loss\n10,2.5\n20,1.25\n");
}

TEST_CASE("virtual times are written exactly") {
  Recorder recorder(2, {}, {}, at(0));
  recorder.nodes[0].compute = Duration(7);
  recorder.nodes[0].wait = Duration(1'500'000'000'000);
  recorder.nodes[0].finished = at(9'007'199'254'740'993);  // 2^53 + 1 is no double
  recorder.nodes[0].bytes_sent = 4096;
  recorder.nodes[1].communicate = Duration(20'000'000'000'000);
  CHECK(csv(recorder, "nodes") ==
        "node,compute_seconds,wait_seconds,communicate_seconds,finished_seconds,steps,messages_"
        "sent,bytes_sent\n"
        "0,0.000000000007,1.5,0,9007.199254740993,0,0,4096\n"
        "1,0,0,20,0,0,0,0\n");
}

TEST_CASE("the timeline is written a line per stretch of time") {
  Recorder recorder(2, {}, {}, at(1'000'000'000'000));
  recorder.spend(1, Activity::compute, at(0), at(4'000'000'000));
  recorder.spend(1, Activity::wait, at(4'000'000'000), at(4'000'000'001));
  CHECK(
      csv(recorder, "timeline") ==
      "node,activity,begin_seconds,end_seconds\n1,compute,0,0.004\n1,wait,0.004,0.004000000001\n");
}

TEST_CASE("large tables are written whole") {
  // 3,000 lines are several pieces of 64 KiB; line i ends in i.
  Recorder recorder(1, RowSchedule(1, 30'000), {}, at(0));
  for (std::size_t row = 0; row < 30'000; ++row)
    recorder.steps.cell("x", row) = static_cast<double>(row);
  std::string expected = "step,node,x\n";
  for (int i = 0; i < 30'000; ++i) {
    expected += std::to_string(i + 1) + ",0," + std::to_string(i) + "\n";
  }
  CHECK(csv(recorder, "steps") == expected);
}

TEST_CASE(
    "the trace names a thread per node and has an event per stretch of time, in microseconds") {
  Recorder recorder(1, {}, {}, at(100'000'000));
  recorder.spend(0, Activity::compute, at(0), at(2'500'000));
  recorder.spend(0, Activity::communicate, at(2'500'000), at(2'500'001));
  CHECK(trace(recorder) ==
        "[{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"starling\"}},\n"
        "{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"thread_name\",\"args\":{\"name\":\"node "
        "0\"}},\n"
        "{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":"
        "0}},\n"
        "{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":0,\"dur\":2.5,\"name\":\"compute\",\"cat\":"
        "\"node\"},\n"
        "{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":2.5,\"dur\":0.000001,\"name\":\"communicate\","
        "\"cat\":\"node\"}]\n");
}

TEST_CASE("texts in the trace are escaped, and what is not UTF-8 is replaced") {
  Recorder recorder;
  recorder.facts["scenario_name"] =
      "a\"b\\c\n\x01 \xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa6 \xff \xc0\x80 \xed\xa0\x80 \xe2(\xac "
      "\xe2\x82";
  // 0xc0 0x80 is an overlong form, 0xed 0xa0 0x80 a surrogate, a parenthesis goes on no sequence, the last two bytes lack a
  // third.
  CHECK(trace(recorder) ==
        "[{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":"
        "\"a\\\"b\\\\c\\u000a\\u0001 \xc3\xa9 "
        "\xe2\x82\xac \xf0\x9f\x90\xa6 \\ufffd \\ufffd\\ufffd \\ufffd\\ufffd\\ufffd "
        "\\ufffd(\\ufffd \\ufffd\\ufffd\"}}]\n");
}

TEST_CASE("links are written a line per link, with their loads over the run") {
  // 2 s long: 1000 of 2 * 1000 B, and 500 of 2 * 250 B.
  Recorder recorder(1, {}, {}, Time{});
  recorder.nodes[0].finished = Time(Duration(2'000'000'000'000));
  recorder.links = {{"host 0 up", 1e3, 750, Duration(1'500'000'000'000), 1'000, 9},
                    {"a, b", 250, 250, Duration(2'000'000'000'000), 500}};
  CHECK(csv(recorder, "links") ==
        "link,bandwidth_bytes_per_second,bytes,busy_seconds,mean_load,peak_load,most_messages\n"
        "host 0 up,1000,1000,1.5,0.5,0.75,9\n"
        "\"a, b\",250,500,2,1,1,0\n");
  // Ended at 4 s, when links had carried that much, in the middle of the last node's step.
  recorder.facts["ended"] = "at run.until";
  recorder.evaluation_by_time.cell("time", 0) = 4;
  recorder.evaluation_by_time.cell("time", 1) = std::nan("");
  CHECK(csv(recorder, "links") ==
        "link,bandwidth_bytes_per_second,bytes,busy_seconds,mean_load,peak_load,most_messages\n"
        "host 0 up,1000,1000,1.5,0.25,0.75,9\n"
        "\"a, b\",250,500,2,0.5,1,0\n");
}

TEST_CASE("a link's stretches of time are written with its name") {
  Recorder recorder(0, {}, {}, Time(Duration(9'000'000)));
  recorder.links = {{"up", 100, 100, Duration(0), 10}, {"a, b", 100, 100, Duration(0), 10}};
  recorder.link_timeline = {{1, 62.5, Time(Duration(7)), Time(Duration(2'000'000'000'000))}};
  CHECK(csv(recorder, "link_timeline") ==
        "link,bytes_per_second,begin_seconds,end_seconds\n\"a, b\",62.5,0.000000000007,2\n");
}

TEST_CASE("the mean load of a link is that until nodes no longer serve others") {
  // The last step ended after 1 s, but a node was asked until 4 s.
  Recorder recorder(2, {}, {}, Time{});
  recorder.nodes[1].finished = Time(Duration(1'000'000'000'000));
  recorder.nodes[0].compute = Duration(500'000'000'000);
  recorder.nodes[0].wait = Duration(2'000'000'000'000);
  recorder.nodes[0].communicate = Duration(1'500'000'000'000);
  recorder.links = {{"host 0 up", 1e3, 1'000, Duration(2'000'000'000'000), 2'000}};
  CHECK(csv(recorder, "links") ==
        "link,bandwidth_bytes_per_second,bytes,busy_seconds,mean_load,peak_load,most_messages\n"
        "host 0 up,1000,2000,2,0.5,1,0\n");
}

TEST_CASE(
    "the trace counts the load of links: a change where a stretch begins, zero where all end") {
  Recorder recorder(0, {}, {}, Time(Duration(9'000'000)));
  recorder.links = {{"up", 100, 100, Duration(0), 10}};
  const auto at = [](std::int64_t us) { return Time(Duration(1'000'000 * us)); };
  recorder.link_timeline = {{0, 100, at(1), at(2)}, {0, 50, at(2), at(4)}, {0, 25, at(6), at(7)}};
  const std::string text = trace(recorder);
  const auto count = [&](const std::string& time, const std::string& load) {
    return text.find("\"ph\":\"C\",\"pid\":1,\"ts\":" + time +
                     ",\"name\":\"up\",\"args\":{\"load %\":" + load + "}") != std::string::npos;
  };
  CHECK(count("1", "100"));
  CHECK(count("2", "50"));
  CHECK_FALSE(count("2", "0"));
  CHECK(count("4", "0"));
  CHECK(count("6", "25"));
  CHECK(count("7", "0"));
}

TEST_CASE("the trace counts the loads of the 32 links that were busiest") {
  // All of 100 B/s but link 5, which carried more than the others, for its bandwidth less.
  Recorder recorder(0, {}, {}, Time(Duration(9'000'000)));
  for (std::uint32_t link = 0; link < 33; ++link) {
    const bool is_wide = link == 5;
    recorder.links.push_back({"link " + std::to_string(link), is_wide ? 1e6 : 100, 100, Duration(0),
                              is_wide ? 1000 : 10 + link});
    recorder.link_timeline.push_back({link, 100, at(0), Time(Duration(1'000'000))});
  }
  const std::string text = trace(recorder);
  for (std::uint32_t link = 0; link < 33; ++link) {
    CAPTURE(link);
    const std::string counter = "\"name\":\"link " + std::to_string(link) + "\",\"args\"";
    CHECK((text.find(counter) != std::string::npos) == (link != 5));
  }
}

TEST_CASE("an unknown table is an error that lists the known ones") {
  CHECK(message_of([] { csv(Recorder(), "node"); }) ==
        "expected table steps, evaluation, evaluation_by_time, nodes, timeline, links or "
        "link_timeline, found "
        "\"node\"");
}

TEST_CASE("exports that cannot be written are errors in the system's words") {
  const Recorder recorder(3, {}, {}, at(0));
  CHECK(message_of([&] { write_csv(recorder, "nodes", "/dev/full"); }) ==
        "/dev/full: cannot write: No space left on device");
  CHECK(message_of([&] { write_chrome_trace(recorder, "/dev/full"); }) ==
        "/dev/full: cannot write: No space left on device");
  CHECK(message_of([&] { write_csv(recorder, "nodes", "/dev/null/x.csv"); }) ==
        "/dev/null/x.csv: cannot write: Not a directory");
}

TEST_CASE("an export for which there is no room leaves the old file and no other") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("x.csv");
  const auto text_of = [&path] {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  write_csv(Recorder(3, {}, {}, at(0)), "nodes", path);
  const std::string old_text = text_of();
  // The partial file is written through this link to a device that is always full.
  std::filesystem::create_symlink("/dev/full", path + ".partial");
  CHECK(message_of([&] { write_csv(Recorder(2, {}, {}, at(0)), "nodes", path); }) ==
        path + ": cannot write: No space left on device");
  CHECK(text_of() == old_text);
  CHECK_FALSE(std::filesystem::is_symlink(path + ".partial"));
}

TEST_CASE(
    "exports make the directories above the file and leave none behind for an unknown table") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path("some/x.csv");
  write_csv(Recorder(), "timeline", path);
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  CHECK(line == "node,activity,begin_seconds,end_seconds");
  CHECK(message_of([&] { write_csv(Recorder(), "other", path + "2"); }) != "no error");
  CHECK_FALSE(std::filesystem::exists(path + "2"));
}

}  // namespace starling::test_export
