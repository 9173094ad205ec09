// Checks typed reading of a section: each type, each error's whole text (they are what a user
// sees), what is remembered of the reads, and probes.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/base/section.hpp"
#include "tests/support/fault.hpp"
#include "tests/support/message_of.hpp"

namespace starling::test_section {
namespace {

using namespace std::chrono_literals;

/// [algorithm] from line 14 of ring.ini, one setting per line after it.
Section section_of(const std::vector<std::pair<std::string, std::string>>& settings) {
  std::vector<Setting> located;
  int line = 14;
  for (const auto& [key, value] : settings) {
    located.push_back({key, value, "ring.ini:" + std::to_string(++line)});
  }
  return Section("algorithm", "ring.ini:14", std::move(located));
}

std::string refusal(const auto& action) { return test::message_of<ScenarioError>(action); }

template <class T>
std::string refusal_of(const std::string& text) {
  const Section section = section_of({{"value", text}});
  return refusal([&] { section.required<T>("value", "help"); });
}

TEST_CASE("a key that is read after finish() is a fault, unless it was read before") {
  const auto read_late = [](const char* key) {
    return test::fault_of([key] {
      const Section section = section_of({});
      section.optional<double>("rate", 1, "help");
      section.finish();
      section.optional<double>(key, 1, "help");
    });
  };
  CHECK(read_late("rate") == "");
  CHECK(read_late("decay").find("a key that is read after finish()") != std::string::npos);
}

TEST_CASE("every type is read from its text") {
  const Section section = section_of({{"rate", "0.5"},
                                      {"count", "-12"},
                                      {"big", "9223372036854775807"},
                                      {"million", "1e6"},
                                      {"on", "yes"},
                                      {"off", "false"},
                                      {"text", "a, b"},
                                      {"wait", "5 us"},
                                      {"size", "64 KiB"},
                                      {"speed", "8 Gbit/s"}});
  CHECK(section.required<double>("rate", "") == 0.5);
  CHECK(section.required<std::int64_t>("count", "") == -12);
  CHECK(section.required<std::int64_t>("big", "") == 9223372036854775807);
  CHECK(section.required<std::int64_t>("million", "") == 1000000);
  CHECK(section.required<bool>("on", "") == true);
  CHECK(section.required<bool>("off", "") == false);
  CHECK(section.required<std::string>("text", "") == "a, b");
  CHECK(section.required<Duration>("wait", "") == Duration(5us));
  CHECK(section.required<Bytes>("size", "") == Bytes{65536});
  CHECK(section.required<Bandwidth>("speed", "") == Bandwidth{1e9});
  CHECK_NOTHROW(section.finish());
}

TEST_CASE(
    "a required text of nothing is refused at its line, not opened as a file without a name") {
  const Section section = section_of({{"path", ""}});
  CHECK_THROWS_WITH_AS(section.required<std::string>("path", ""),
                       doctest::Contains(".path must not be empty"), ScenarioError);
  CHECK(section_of({{"path", ""}}).optional<std::string>("path", "a.csv", "") == "");
}

TEST_CASE("an optional key answers its value, or its fallback when absent") {
  const Section section = section_of({{"rate", "0.5"}, {"wait", "1 ms"}});
  CHECK(section.optional<double>("rate", 2, "") == 0.5);
  CHECK(section.optional<Duration>("wait", 3s, "") == Duration(1ms));
  CHECK(section.optional<double>("other", 2, "") == 2);
  CHECK(section.optional<std::int64_t>("count", 7, "") == 7);
  CHECK(section.optional<std::string>("file", "a.csv", "") == "a.csv");
  CHECK(section.has("rate"));
  CHECK_FALSE(section.has("other"));
}

TEST_CASE("none is an empty value where that is the default") {
  const Section section = section_of({{"path", "none"}, {"values", "none"}, {"name", "none"}});
  CHECK(section.optional<std::string>("path", "", "") == "");
  CHECK(section.peek<std::string>("path", "") == "");
  CHECK(section.peek<std::string>("name", "ring") == "none");
  CHECK(section.numbers("values", {}, "").empty());
  CHECK(section.optional<std::string>("name", "ring", "") == "none");
  CHECK(section.uses()[0].value == "");
}

TEST_CASE("a key that is only looked at is not read") {
  const Section section = section_of({{"rate", "0.5"}, {"wait", "1"}});
  CHECK(section.peek<double>("rate", 2) == 0.5);
  CHECK(section.peek<double>("other", 2) == 2);
  CHECK(section.uses().empty());
  CHECK_THROWS_WITH_AS(
      section.peek<Duration>("wait", 3s),
      doctest::Contains("ring.ini:16: algorithm.wait must be a duration such as 1.5 ms"),
      ScenarioError);
  CHECK_THROWS_WITH_AS(section.finish(),
                       doctest::Contains("ring.ini:15: algorithm.rate is not a key here"),
                       ScenarioError);
}

TEST_CASE("a value of the wrong type is refused with place, key and text") {
  CHECK(refusal_of<double>("abc") == "ring.ini:15: algorithm.value must be a number, got abc");
  CHECK(refusal_of<double>("") == "ring.ini:15: algorithm.value must be a number, got nothing");
  CHECK(refusal_of<std::int64_t>("1.5") ==
        "ring.ini:15: algorithm.value must be an integer, got 1.5");
  CHECK(refusal_of<std::int64_t>("1e17") ==
        "ring.ini:15: algorithm.value must be an integer, got 1e17, which is too large");
  CHECK(refusal_of<bool>("maybe") == "ring.ini:15: algorithm.value must be yes or no, got maybe");
  CHECK(refusal_of<Duration>("5") ==
        "ring.ini:15: algorithm.value must be a duration such as 1.5 ms "
        "(units: s, ms, us, ns, ps, min, h), got \"5\" without a unit");
  for (const char* text :
       {"nan", "inf", "-inf", "1e999", "0x10", "1 2", "1,5", "+1", "1_000", "1e"}) {
    CAPTURE(text);
    CHECK(refusal_of<double>(text) != "");
    CHECK(refusal_of<std::int64_t>(text) != "");
  }
  // Beyond 2^53 a double no longer tells neighbors apart; beyond 64 bits nothing does.
  CHECK(refusal_of<std::int64_t>("1e17") != "");
  CHECK(refusal_of<std::int64_t>("9223372036854775808") != "");
  // An optional key that is set is checked as well.
  const Section section = section_of({{"value", "abc"}});
  CHECK(refusal([&] { section.optional<double>("value", 1, ""); }) ==
        "ring.ini:15: algorithm.value must be a number, got abc");
}

TEST_CASE("a list where one value is wanted is told where it belongs") {
  const std::string hint = "; a list of values to try belongs in [sweep]";
  CHECK(refusal_of<std::int64_t>("4, 8") ==
        "ring.ini:15: algorithm.value must be an integer, got 4, 8" + hint);
  CHECK(refusal_of<Duration>("1 ms,2 ms").ends_with(", got \"1 ms,2 ms\"" + hint));
  for (const char* text : {"4, eight", "4,", ",", "4 8"}) {
    CAPTURE(text);
    CHECK_FALSE(refusal_of<std::int64_t>(text).ends_with(hint));
  }
  const Section section = section_of({{"kind", "ring, torus"}});
  CHECK(refusal([&] {
          section.choice("kind", {"ring", "torus"}, "ring", "");
        }) == "ring.ini:15: algorithm.kind must be one of ring, torus, got ring, torus" + hint);
}

TEST_CASE("a missing key is located at the section and names the keys not read so far") {
  const Section section = section_of({{"kind", "dpsgd"}, {"learing_rate", "0.1"}});
  section.required<std::string>("kind", "");
  CHECK(refusal([&] { section.required<double>("learning_rate", ""); }) ==
        "ring.ini:14: algorithm.learning_rate is missing (not read so far: learing_rate)");
  const Section empty = section_of({});
  CHECK(refusal([&] { empty.required<double>("learning_rate", ""); }) ==
        "ring.ini:14: algorithm.learning_rate is missing");
  CHECK(refusal([&] { empty.choice("kind", {"a"}, "", ""); }) ==
        "ring.ini:14: algorithm.kind is missing");
}

TEST_CASE("a key nobody read is refused with the known keys and the nearest of them") {
  const Section section = section_of({{"kind", "dpsgd"}, {"learing_rate", "0.1"}});
  section.required<std::string>("kind", "");
  section.optional<double>("learning_rate", 0.1, "");
  CHECK(refusal([&] { section.finish(); }) ==
        "ring.ini:16: algorithm.learing_rate is not a key here; known keys: kind, learning_rate; "
        "did you mean learning_rate?");
  const Section other = section_of({{"zebra", "1"}});
  other.optional<double>("rate", 0.1, "");
  CHECK(refusal([&] { other.finish(); }) ==
        "ring.ini:15: algorithm.zebra is not a key here; known keys: rate");
}

TEST_CASE("a choice is one of its options") {
  const Section section = section_of({{"order", "before"}, {"mode", "fats"}});
  CHECK(section.choice("order", {"after", "before"}, "after", "") == "before");
  CHECK(section.choice("other", {"after", "before"}, "after", "") == "after");
  CHECK(refusal([&] {
          section.choice("mode", {"strict", "fast"}, "strict", "");
        }) ==
        "ring.ini:16: algorithm.mode must be one of strict, fast, got fats; did you mean fast?");
}

TEST_CASE("words of a choice may stand for values") {
  const Section section = section_of({{"order", "before"}, {"mode", "fats"}});
  const std::vector<Option<int>> orders{{"after", 1}, {"before", -1}};
  CHECK(section.choice("order", orders, "after", "") == -1);
  CHECK(section.choice("other", orders, "after", "") == 1);
  CHECK(section.uses().back().type == "after|before");
  CHECK(section.uses().back().fallback == "after");
  CHECK(refusal([&] {
          section.choice<bool>("mode", {{"strict", true}, {"fast", false}}, "strict", "");
        }) ==
        "ring.ini:16: algorithm.mode must be one of strict, fast, got fats; did you mean fast?");
}

TEST_CASE("summaries of options serve hints") {
  const Section section = section_of({{"kind", "SwarmSGD"}});
  CHECK(
      refusal([&] {
        section.choice("kind", {"choco", "swarm"}, "", "", {"CHOCO-SGD", "pairs (SwarmSGD)"});
      }) ==
      "ring.ini:15: algorithm.kind must be one of choco, swarm, got SwarmSGD; did you mean swarm?");
}

TEST_CASE("a list is numbers between commas") {
  const Section section = section_of(
      {{"rates", "1, 2.5 ,-3"}, {"one", "4"}, {"none", ""}, {"hole", "1,,2"}, {"end", "1,"}});
  CHECK(section.numbers("rates", {}, "") == std::vector<double>{1, 2.5, -3});
  CHECK(section.numbers("one", {}, "") == std::vector<double>{4});
  CHECK(section.numbers("none", {7}, "").empty());
  CHECK(section.numbers("absent", {7, 8}, "") == std::vector<double>{7, 8});
  CHECK(section.uses().back().fallback == "7, 8");
  CHECK(refusal([&] { section.numbers("hole", {}, ""); }) ==
        "ring.ini:18: algorithm.hole must be numbers separated by commas, got 1,,2");
  CHECK(refusal([&] { section.numbers("end", {}, ""); }) ==
        "ring.ini:19: algorithm.end must be numbers separated by commas, got 1,");
}

TEST_CASE("a failed expectation is located at the key, or at the section if the key is not set") {
  const Section section = section_of({{"rate", "-1"}});
  CHECK_NOTHROW(section.expect(true, "rate", "must be positive, got {}", -1));
  CHECK(refusal([&] { section.expect(false, "rate", "must be positive, got {}", -1); }) ==
        "ring.ini:15: algorithm.rate must be positive, got -1");
  CHECK(refusal([&] { section.fail("nodes", "must be even"); }) ==
        "ring.ini:14: algorithm.nodes must be even");
}

TEST_CASE("a number out of its range is told with both ends, which belong to the range") {
  const Section section = section_of({{"share", "1.5"}});
  CHECK_NOTHROW(section.expect_range("share", 0.0, 0, 1));
  CHECK_NOTHROW(section.expect_range("share", 1.0, 0, 1));
  CHECK(refusal([&] { section.expect_range("share", 1.5, 0, 1); }) ==
        "ring.ini:15: algorithm.share must be from 0 to 1, got 1.5");
  CHECK(refusal([&] { section.expect_range("share", std::nan(""), 0, 0.5); }) ==
        "ring.ini:15: algorithm.share must be from 0 to 0.5, got nan");
}

TEST_CASE("a warning is located as an error is, and a probe gives none") {
  const Section section("algorithm", "ring.ini:14", {{"period", "9", "ring.ini:15"}});
  section.warn("period", "is {}", 9);
  section.warn("tau", "is none");
  CHECK(section.warnings() == std::vector<std::string>{"ring.ini:15: algorithm.period is 9",
                                                       "ring.ini:14: algorithm.tau is none"});
  const Section probe = Section::probe("algorithm");
  probe.warn("period", "is {}", 9);
  CHECK(probe.warnings().empty());
}

TEST_CASE("the reads are remembered in their order, each key once") {
  const Section section = section_of({{"wait", "1 ms"}, {"rate", "0.50"}});
  section.required<double>("rate", "how fast");
  section.optional<Duration>("wait", 2s, "how long");
  section.optional<Bytes>("size", Bytes{1024}, "how much");
  section.choice("mode", {"a", "b"}, "b", "how");
  section.required<double>("rate", "again");
  const std::vector<KeyUse>& uses = section.uses();
  REQUIRE(uses.size() == 4);
  CHECK(uses[0].key == "rate");
  CHECK(uses[0].type == "number");
  CHECK(uses[0].fallback == "");
  CHECK(uses[0].help == "how fast");
  CHECK(uses[0].value == "0.50");
  CHECK(uses[0].required);
  CHECK(uses[1].key == "wait");
  CHECK(uses[1].type == "duration");
  CHECK(uses[1].fallback == "2 s");
  CHECK(uses[1].value == "1 ms");
  CHECK_FALSE(uses[1].required);
  CHECK(uses[2].type == "bytes");
  CHECK(uses[2].value == "1 KiB");
  CHECK(uses[3].type == "a|b");
  CHECK(uses[3].value == "b");
}

TEST_CASE("a probe answers samples and ends at finish() with every key known") {
  const Section probe = Section::probe("algorithm", {{"kind", "dpsgd", "list"}});
  CHECK(probe.required<std::string>("kind", "") == "dpsgd");
  CHECK(probe.required<double>("rate", "") == 1);
  CHECK(probe.required<std::int64_t>("count", "") == 1);
  CHECK(probe.required<std::string>("file", "") == "");
  CHECK(probe.required<Duration>("wait", "") == Duration(1s));
  CHECK(probe.required<Bytes>("size", "").count > 0);
  CHECK(probe.required<Bandwidth>("speed", "").bytes_per_second > 0);
  CHECK(probe.choice("mode", {"a", "b"}, "", "") == "a");
  CHECK(probe.choice("other", {"a", "b"}, "b", "") == "b");
  CHECK(probe.optional<double>("momentum", 0.9, "") == 0.9);
  // A sample that breaks a rule must not hide the keys read after the check.
  CHECK_NOTHROW(probe.expect(false, "count", "must be even"));
  CHECK_THROWS_AS(probe.finish(), ProbeFinished);
  CHECK_THROWS_AS(probe.fail("rate", "must be small"), ProbeFinished);
  CHECK(probe.uses().size() == 10);
  CHECK(probe.uses()[1].required);
}

TEST_CASE("relative paths are resolved against the directory of the scenario") {
  Section section = section_of({});
  CHECK(section.resolve_path("data.csv") == "data.csv");
  section.set_directory("scenarios/first");
  CHECK(section.resolve_path("data.csv") == "scenarios/first/data.csv");
  CHECK(section.resolve_path("/data.csv") == "/data.csv");
  CHECK(section.resolve_path("") == "");
  CHECK(section.files() ==
        std::vector<std::string>{"data.csv", "scenarios/first/data.csv", "/data.csv"});
}

}  // namespace
}  // namespace starling::test_section
