// Checks the reader of scenarios: what each line means, that every mistake is located, that
// overrides win, and that what is written reads back the same.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "scenarios/scenario.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_scenario {
namespace {

constexpr std::string_view ring =
    "# Ring of 16 nodes.\n"       // 1
    "\n"                          // 2
    "[run]\n"                     // 3
    "nodes = 16   # all alike\n"  // 4
    "\tseed=1\r\n"                // 5
    "\n"                          // 6
    "  [ network ]  # slow\n"     // 7
    "latency = 50 us\n"           // 8
    "file = a=b#c.csv\n"          // 9
    "title =\n"                   // 10
    "[sweep]\n"                   // 11
    "run.nodes = 4, 8";           // 12, without a line end

std::string refusal(std::string_view text, const std::vector<std::string>& overrides = {}) {
  return test::message_of<ScenarioError>([&] { Scenario::parse(text, "ring.ini", overrides); });
}

std::string text_of(const Scenario& scenario, std::string_view section, std::string_view key) {
  return scenario.section(section).optional<std::string>(key, "(not set)", "help");
}

/// Same sections, keys and values in the same order; origins may differ.
bool same_settings(const Scenario& a, const Scenario& b) { return a.to_text() == b.to_text(); }

TEST_CASE("sections, keys, values and comments are read as written") {
  const Scenario scenario = Scenario::parse(ring, "ring.ini");
  CHECK(scenario.section_names() == std::vector<std::string>{"run", "network", "sweep"});
  CHECK(scenario.has_section("network"));
  CHECK_FALSE(scenario.has_section("topology"));
  CHECK(text_of(scenario, "run", "nodes") == "16");
  CHECK(text_of(scenario, "run", "seed") == "1");
  CHECK(text_of(scenario, "network", "latency") == "50 us");
  CHECK(text_of(scenario, "network", "file") == "a=b#c.csv");
  CHECK(text_of(scenario, "network", "title") == "");
  CHECK(text_of(scenario, "sweep", "run.nodes") == "4, 8");
  CHECK(scenario.name() == "ring.ini");
}

TEST_CASE("an empty text is a scenario without sections") {
  CHECK(Scenario::parse("", "ring.ini").section_names().empty());
  CHECK(Scenario::parse("\n# nothing\n", "ring.ini").section_names().empty());
}

TEST_CASE("a byte order mark is skipped") {
  CHECK(Scenario::parse("\xEF\xBB\xBF[run]\n", "ring.ini").has_section("run"));
}

TEST_CASE("a wrong value is located at its line and a missing key at its section") {
  const Scenario scenario = Scenario::parse(ring, "ring.ini");
  const auto refusal_of = [&](std::string_view section, std::string_view key) {
    return test::message_of<ScenarioError>(
        [&] { scenario.section(section).required<double>(key, "help"); });
  };
  CHECK(refusal_of("network", "file") ==
        "ring.ini:9: network.file must be a number, got a=b#c.csv");
  CHECK(refusal_of("run", "steps") ==
        "ring.ini:3: run.steps is missing (not read so far: nodes, seed)");
  CHECK(refusal_of("topology", "kind") ==
        "ring.ini has no section [topology]: topology.kind is missing");
}

TEST_CASE("every malformed line is refused with its place") {
  CHECK(refusal("nodes = 16\n[run]") == "ring.ini:1: nodes stands before the first [section]");
  CHECK(refusal("[run]\n\nnodes 16") ==
        "ring.ini:3: expected key = value or [section], got nodes 16");
  CHECK(refusal("[run]\n = 16") == "ring.ini:2: expected a key before the =, got = 16");
  CHECK(refusal("[run]\nnode count = 16") ==
        "ring.ini:2: a key has only letters, digits, _, - and dots, got node count");
  const std::string heading =
      "ring.ini:1: expected [section] with a name of letters, digits, _ and -, got ";
  for (const char* line : {"[", "[]", "[ ]", "[run", "[run] nodes = 16", "[run.more]", "[a b]"}) {
    CHECK(refusal(line) == heading + line);
  }
  CHECK(refusal("[run]\n" + std::string(100, 'x')) ==
        "ring.ini:2: expected key = value or [section], got " + std::string(60, 'x') + "...");
}

TEST_CASE("a duplicate names both places") {
  CHECK(refusal("[run]\nsteps = 1\nseed = 1\nsteps = 1\n") ==
        "ring.ini:4: run.steps is already set at ring.ini:2");
  CHECK(refusal("[run]\n[network]\n[run]\n") ==
        "ring.ini:3: section [run] already begins at ring.ini:1");
  // The same key in two sections is no duplicate.
  CHECK(refusal("[run]\nkind = a\n[network]\nkind = a\n") == "no error");
}

TEST_CASE("what is no text is refused") {
  using namespace std::string_literals;
  CHECK(refusal("[run]\nname = a\0b\n"s) ==
        "ring.ini:2: expected a text file, got the control character 0x00");
  CHECK(refusal("\x89HDF\r\n\x1a\n") ==
        "ring.ini:1: expected key = value or [section], got \x89HDF");
  CHECK(refusal(std::string((16 << 20) + 1, '#')) ==
        "ring.ini: is larger than 16 MiB, expected a scenario");
  CHECK(refusal(std::string(16 << 20, '#')) == "no error");
}

TEST_CASE("an override replaces a value and is located at the command line") {
  const Scenario scenario = Scenario::parse(
      ring, "ring.ini", {"run.nodes=3", "network.latency = 1 ms", "run.nodes=four"});
  CHECK(text_of(scenario, "run", "nodes") == "four");
  CHECK(text_of(scenario, "network", "latency") == "1 ms");
  CHECK_THROWS_WITH_AS(scenario.section("run").required<std::int64_t>("nodes", ""),
                       "command line: run.nodes must be an integer, got four", ScenarioError);
}

TEST_CASE("an override may add a key, a section and a key with dots") {
  const Scenario scenario =
      Scenario::parse(ring, "ring.ini",
                      {"run.steps=5", "compute.gradient=4 ms", "sweep.run.seed=1, 2", "run.tag="});
  CHECK(text_of(scenario, "run", "steps") == "5");
  CHECK(text_of(scenario, "run", "tag") == "");
  CHECK(text_of(scenario, "compute", "gradient") == "4 ms");
  CHECK(text_of(scenario, "sweep", "run.seed") == "1, 2");
  CHECK(scenario.section_names().back() == "compute");
}

TEST_CASE("default in place of a value takes away what the scenario or an included file sets") {
  const std::string text = "[algorithm]\nkind = wagma\ngroup_size = 8\n";
  const std::string without = "[algorithm]\nkind = dpsgd\n";
  CHECK(Scenario::parse(text, "ring.ini", {"algorithm.kind=dpsgd", "algorithm.group_size=default"})
            .to_text() == without);
  CHECK(Scenario::parse(without, "ring.ini", {"algorithm.period=default", "run.seed= default"})
            .to_text() == without);
  CHECK(refusal("[algorithm]\nkind = wagma\nkind = default\n") ==
        "ring.ini:3: algorithm.kind is already set at ring.ini:2");

  const test::TemporaryDirectory directory;
  std::ofstream(directory.path("base.ini")) << text;
  std::ofstream(directory.path("s.ini"))
      << "include = base.ini\n[algorithm]\nkind = dpsgd\ngroup_size = default  # none\n";
  CHECK(Scenario::read(directory.path("s.ini")).to_text() == without);
}

TEST_CASE("a malformed override is refused") {
  for (const char* text : {"", "nodes", "nodes=3", "run.=3", ".nodes=3", "run.nodes"}) {
    CAPTURE(text);
    CHECK(refusal(ring, {text}) ==
          fmt::format("command line: expected section.key=value, got {}", text));
  }
  CHECK(refusal(ring, {"=3"}) == "command line: expected a key before the =, got =3");
  for (const char* value : {"#1", "a # b", "a\nb"}) {
    CHECK(refusal(ring, {fmt::format("run.name={}", value)}) ==
          fmt::format("command line: run.name must be one line without a comment, got {}",
                      printable(value)));
  }
}

TEST_CASE("a section that nobody knows is refused with the nearest known name") {
  const Scenario scenario = Scenario::parse("[run]\n[algoritm]\n", "ring.ini");
  const std::string_view known[] = {"run", "algorithm", "algoritm"};
  CHECK_NOTHROW(scenario.reject_unknown_sections(known));
  CHECK_THROWS_WITH_AS(scenario.reject_unknown_sections(std::span(known).first(2)),
                       "ring.ini:2: [algoritm] is not a section here; known sections: run, "
                       "algorithm; did you mean algorithm?",
                       ScenarioError);
}

TEST_CASE("the effective text reads back to the same settings, overrides included") {
  const Scenario scenario =
      Scenario::parse(ring, "ring.ini", {"run.nodes=3", "run.tag=", "compute.gradient=4 ms"});
  CHECK(scenario.to_text() ==
        "[run]\nnodes = 3\nseed = 1\ntag =\n\n"
        "[network]\nlatency = 50 us\nfile = a=b#c.csv\ntitle =\n\n"
        "[sweep]\nrun.nodes = 4, 8\n\n"
        "[compute]\ngradient = 4 ms\n");
  const Scenario again = Scenario::parse(scenario.to_text(), "again.ini");
  CHECK(same_settings(again, scenario));
}

TEST_CASE("no value begins with a comment sign, so none is lost when written back") {
  const Scenario scenario = Scenario::parse("[run]\ncolor =#fff\nname = a#b\n", "ring.ini");
  CHECK(text_of(scenario, "run", "color") == "");
  CHECK(same_settings(Scenario::parse(scenario.to_text(), "again.ini"), scenario));
}

TEST_CASE("a described scenario shows every default and reads back to the values in effect") {
  const Scenario scenario =
      Scenario::parse("[algorithm]\nlearning_rate = 0.05\n[network]\n", "ring.ini");
  const Section algorithm = scenario.section("algorithm");
  algorithm.required<double>("learning_rate", "factor before the gradient");
  algorithm.optional<double>("momentum", 0.9, "heavy-ball factor");
  algorithm.optional<std::string>("file", "", "");
  const Section network = scenario.section("network");
  network.optional<Duration>("latency", std::chrono::microseconds(50), "time of an empty message");
  const std::vector<DescribedSection> described = {{"algorithm", algorithm.uses()},
                                                   {"network", network.uses()}};
  const std::string text = Scenario::to_text(described);
  CHECK(text ==
        "[algorithm]\n"
        "learning_rate = 0.05  # factor before the gradient\n"
        "momentum = 0.9        # default: heavy-ball factor\n"
        "file =                # default\n\n"
        "[network]\n"
        "latency = 50 us  # default: time of an empty message\n");
  const Scenario filled = Scenario::parse(
      "[algorithm]\nlearning_rate = 0.05\nmomentum = 0.9\nfile =\n[network]\nlatency = 50 us\n",
      "b");
  CHECK(same_settings(Scenario::parse(text, "a"), filled));
}

TEST_CASE("an included file gives sections that the including one overrides") {
  const test::TemporaryDirectory directory;
  std::filesystem::create_directory(directory.path("machines"));
  directory.write("machines/base.ini", "[network]\nlatency = 1 us\nbandwidth = 2 GB/s\n");
  directory.write("machines/big.ini",
                  "include = base.ini\n[network]\nlatency = 3 us\n[compute]\nsigma = 1\n");
  const std::string path = directory.write(
      "s.ini", "# a comment\ninclude = machines/big.ini\n[run]\nnodes = 2\n[compute]\nsigma = 2\n");
  const Scenario scenario = Scenario::read(path, {"network.latency=5 us"});
  CHECK(scenario.to_text() ==
        "[network]\nlatency = 5 us\nbandwidth = 2 GB/s\n\n[compute]\nsigma = 2\n\n[run]\nnodes = "
        "2\n");
  CHECK(scenario.section("network").settings()[1].origin ==
        directory.path("machines/base.ini") + ":3");
  // Of whatever file: results keep the settings alone, to_text().
  CHECK(scenario.section("network").resolve_path("x.csv") == directory.path("x.csv"));

  const std::string two = directory.write(
      "two.ini", "include = machines/base.ini\ninclude = machines/big.ini\n[run]\nnodes = 2\n");
  CHECK(text_of(Scenario::read(two), "network", "latency") == "3 us");  // the later one's
  const std::string swapped = directory.write(
      "swapped.ini", "include = machines/big.ini\ninclude = machines/base.ini\n[run]\nnodes = 2\n");
  CHECK(text_of(Scenario::read(swapped), "network", "latency") == "1 us");

  const auto refusal_of = [](const std::string& file) {
    return test::message_of<ScenarioError>([&] { Scenario::read(file); });
  };
  const std::string twice =
      directory.write("twice.ini", "include = machines/big.ini\n[compute]\nsigma = 2\nsigma = 3\n");
  CHECK(refusal_of(twice) == twice + ":4: compute.sigma is already set at " + twice + ":3");
  const std::string gone = directory.write("gone.ini", "include = nowhere.ini\n");
  CHECK(refusal_of(gone) == gone + ":1: cannot include: " + directory.path("nowhere.ini") +
                                ": cannot open: No such file or directory");
  const std::string late = directory.write("late.ini", "[run]\nnodes = 2\ninclude = base.ini\n");
  CHECK(refusal_of(late) == late + ":3: include must stand before the first [section]");
  const std::string circle = directory.write("circle.ini", "include = circle.ini\n");
  CHECK(refusal_of(circle) == circle + ":1: more than 8 files include each other");
}

TEST_CASE("a file is read from disk, and its directory resolves relative paths") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.write("ring.ini", std::string(ring));
  const Scenario scenario = Scenario::read(path, {"run.nodes=2"});
  CHECK(scenario.name() == path);
  CHECK(text_of(scenario, "run", "nodes") == "2");
  CHECK(scenario.section("run").resolve_path("data.csv") == directory.path("data.csv"));
  CHECK(scenario.section("absent").resolve_path("/data.csv") == "/data.csv");

  const std::string folder = directory.path("folder");
  std::filesystem::create_directory(folder);
  CHECK_THROWS_WITH_AS(Scenario::read(folder), (folder + ": cannot read: Is a directory").c_str(),
                       Error);
  directory.write("folder/scenario.ini", std::string(ring));
  const std::string hint = "; did you mean " + folder + "/scenario.ini?";
  CHECK_THROWS_WITH_AS(Scenario::read(folder),
                       (folder + ": cannot read: Is a directory" + hint).c_str(), Error);
  std::filesystem::remove(path);
  CHECK_THROWS_WITH_AS(Scenario::read(path),
                       (path + ": cannot open: No such file or directory").c_str(), Error);
  const std::string too_long(300, 'x');
  CHECK_THROWS_WITH_AS(Scenario::read(too_long),
                       (too_long + ": cannot open: File name too long").c_str(), Error);
  directory.write("ring.ini.ini", std::string(ring));
  CHECK_THROWS_WITH_AS(
      Scenario::read(path),
      (path + ": cannot open: No such file or directory; did you mean " + path + ".ini?").c_str(),
      Error);
}

TEST_CASE("a scenario that a run has left is looked for here, then where the run was started") {
  const test::TemporaryDirectory directory;
  const std::string there = directory.path("");
  const std::string written = directory.write("left.ini", "[run]\n");
  CHECK(find_scenario("left.ini", there) == written);
  CHECK(find_scenario("./left.ini", there) == written);
  CHECK(find_scenario("lost.ini", there) ==
        directory.path("lost.ini"));  // the error names this place
  CHECK(find_scenario(written, "/") == written);
  CHECK(find_scenario("left.ini", "") == "left.ini");
  CHECK(find_scenario("left.ini", std::filesystem::current_path()) == "left.ini");
  CHECK(find_scenario("gone/left.ini", there) == "gone/left.ini");
  // What is here wins.
  const std::string here = std::filesystem::relative(written);
  CHECK(find_scenario(here, there) == here);
}

}  // namespace
}  // namespace starling::test_scenario
