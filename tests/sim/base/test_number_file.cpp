// Files of numbers: headers, and what a wrong file is told.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/base/number_file.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_number_file {
namespace {

/// The lines of numbers that a file of this text holds, and its header.
struct Content {
  std::vector<std::vector<double>> lines;
  std::string header;
};

Content read(const std::string& text) {
  const test::TemporaryFile written(text);
  Content content;
  NumberFile file(written.path(), "the numbers of a test", "numbers");
  while (file.next()) content.lines.emplace_back(file.values().begin(), file.values().end());
  content.header = file.header();
  return content;
}

}  // namespace

TEST_CASE("a file of numbers may begin with the names of its columns, and with a byte order mark") {
  const std::vector<std::vector<double>> expected{{0, 2.5}, {1, -3}};
  for (const std::string text :
       {"0,2.5\n1,-3\n", "node, seconds\n0,2.5\n\n1,-3\n", "\xEF\xBB\xBFnode,seconds\n0,2.5\n1,-3",
        "\xEF\xBB\xBF\x30,2.5\n1,-3"}) {
    CHECK(read(text).lines == expected);
  }
  CHECK(read("node, seconds\n1,2").header == "node,seconds");
}

TEST_CASE("a folder in place of a file of numbers is called one") {
  CHECK_THROWS_WITH_AS(NumberFile("/", "the numbers of a test", "numbers"),
                       "/: cannot read the numbers of a test: is a directory", Error);
}

TEST_CASE("a first line that is neither numbers nor names is refused, not skipped") {
  for (const std::string line :
       {"2;0;1", "2 0 1", "n0,0,1", "0.5,O.5", "seconds,", ".5s,fraction"}) {
    CAPTURE(line);
    CHECK_THROWS_WITH_AS(read(line + "\n1,2\n"), doctest::Contains("csv:1: expected numbers, got"),
                         Error);
  }
  CHECK_THROWS_WITH_AS(read("1,2\nnode,seconds\n"), doctest::Contains("csv:2: expected"), Error);
}

TEST_CASE("a line whose fields are not parted by commas is told so") {
  const auto refusal = [](const std::string& text) {
    const std::string message = test::message_of([&] { read(text); });
    return message.substr(message.find(": expected"));
  };
  const std::string hint = "; fields are parted by commas, not by ";
  CHECK(refusal("node;step;seconds\n0;0;0.5\n") ==
        ": expected numbers, got \"0;0;0.5\"" + hint + "semicolons");
  CHECK(refusal("1\t2\r\n") == ": expected numbers, got \"1\\x092\"" + hint + "tabs");
  CHECK(refusal("1 2\n") == ": expected numbers, got \"1 2\"" + hint + "blanks");
  CHECK(refusal("1;fast\n") == ": expected numbers, got \"1;fast\"");
}

TEST_CASE("the key of a file is the one that names it, or its folder, in full") {
  const Section section("workload", "test.ini:1",
                        {{"path", "a.h", "test.ini:2"},
                         {"test_path", "a.h5", "test.ini:3"},
                         {"directory", "data", "test.ini:4"}});
  for (const char* key : {"path", "test_path", "directory"}) section.required<std::string>(key, "");
  section.optional<std::string>("other", "", "");
  CHECK(key_of_file(section, "in/a.h5: x: expected data", "dataset") == "test_path");
  CHECK(key_of_file(section, "a.h: x: expected 2 as in a.h5, found 3", "dataset") == "path");
  CHECK(key_of_file(section, "in/data/train.gz: cannot open", "dataset") == "directory");
  CHECK(key_of_file(section, "/usr/digits.csv: cannot open", "dataset") == "dataset");
}

TEST_CASE("of a file that is no text an error shows a piece on one line") {
  const auto shown = [](const std::string& text) {
    const std::string message = test::message_of([&] { read(text); });
    return message.substr(message.find(" got ") + 5);
  };
  CHECK(shown("1,2\n\x1b[2J" + std::string(100'000, 'x')) ==
        "\"\\x1b[2J" + std::string(56, 'x') + "...\"");
}

}  // namespace starling::test_number_file
