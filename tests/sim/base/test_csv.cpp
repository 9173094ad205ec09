// Tables as text, read and written.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/csv.hpp"
#include "sim/base/error.hpp"

namespace starling::test_csv {
namespace {

using Names = std::vector<std::string>;

std::vector<CsvRow> parse(std::string_view text) { return parse_csv(text, "t.csv"); }

}  // namespace

TEST_CASE("tables as text: quotes, comments, empty cells and lines, a byte order mark") {
  CHECK(parse("\xEF\xBB\xBFtime, link")[0].cells == Names{"time", "link"});
  CHECK(parse("\xEF\xBB\xBF# no row\n").empty());
  const auto rows = parse("a, \"b, \"\"c\"\"\" ,\n\n # no row\n1,,2\r\n");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].cells == Names{"a", "b, \"c\"", ""});
  CHECK(rows[1].line == 4);
  CHECK(rows[1].cells == Names{"1", "", "2"});
}

TEST_CASE("quotes that do not fit are refused with their line") {
  CHECK_THROWS_WITH_AS(parse("a,b\n\"0.5\"9,0.5\n"),
                       "t.csv:2: expected a comma behind \"0.5\", found 9", Error);
  CHECK_THROWS_WITH_AS(parse("a,b\n0.5,\"0.5\n"),
                       "t.csv:2: the cell that begins with \"0.5 has no closing quote", Error);
  CHECK_THROWS_WITH_AS(parse("\""), doctest::Contains("no closing quote"), Error);
}

TEST_CASE("what is written as a cell is read back") {
  for (const char* text :
       {"", "a", "a b", "a,b", "\"", "a\"b\"", " a", "a\t", "#a", "a#", ",", "1e-3"}) {
    CAPTURE(text);
    for (const std::string& line : {csv_field(text) + ",x", "x," + csv_field(text)}) {
      const auto rows = parse(line);
      REQUIRE(rows.size() == 1);
      CHECK(std::ranges::count(rows[0].cells, text) == 1);
      CHECK(rows[0].cells.size() == 2);
    }
  }
}

}  // namespace starling::test_csv
