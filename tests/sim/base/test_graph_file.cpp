// Graphs in DOT and GraphML files: how they are read, on which lines their vertices and edges stand, and which are refused.
#include <string>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "sim/base/graph_file.hpp"

namespace starling::test_graph_file {

TEST_CASE("a graph file: lines of vertices and edges, through comments, quotes and chains") {
  const auto dot =
      parse_graph("graph {\n# a -- b\n/* x --\n y */ \"a -- z\" -- b\n -- c [label=\"p -- q\"];\n}",
                  GraphFormat::dot, {});
  REQUIRE(dot.edges.size() == 2);
  CHECK(dot.edges[0].line == 4);
  CHECK(dot.edges[1].line == 5);
  CHECK(dot.vertices[0].name == "a -- z");
  CHECK(dot.vertices[0].line == 4);
  // Subgraphs are joined by one operator: no line is better than a wrong one.
  CHECK(parse_graph("graph {\n a -- subgraph s { b; c } }", GraphFormat::dot, {}).edges[0].line ==
        0);
  const auto xml = parse_graph(
      "<graphml><!-- <edge/> -->\n<graph edgedefault=\"undirected\"><node id=\"a\"/>\n<node "
      "id=\"b\"/>\n\n<edge source=\"a\" target=\"b\"/></graph></graphml>",
      GraphFormat::graphml, {});
  CHECK(xml.vertices[1].line == 3);
  CHECK(xml.edges[0].line == 5);
}

TEST_CASE("a DOT file may have subgraphs without names, strings of HTML and a byte order mark") {
  const auto read = [](const std::string& text) {
    const auto graph =
        parse_graph(text, GraphFormat::dot, {.vertices = {"kind"}, .edges = {"latency"}});
    std::string told;
    for (const auto& vertex : graph.vertices) {
      told += fmt::format("{}{} ", vertex.name, attribute(vertex.attributes, "kind"));
    }
    for (const auto& edge : graph.edges) {
      told += fmt::format("{}-{}{} ", graph.vertices[edge.source].name,
                          graph.vertices[edge.target].name, attribute(edge.attributes, "latency"));
    }
    return told;
  };
  CHECK(read("\xEF\xBB\xBFgraph { a -- b }") == "a b a-b ");
  CHECK(read("graph { { rank=same; node [kind=switch]; s; t } a -- b }") ==
        "a b sswitch tswitch a-b ");
  CHECK(read("graph { subgraph one { a } -- {\n{b c} } }") == "a b c a-b a-c ");
  CHECK(read("graph { SubGraph \"x y\"\n{a; b} SUBGRAPH {c} }") == "a b c ");
  CHECK(read("graph { a [label=<{<b>x</b> -- \"y\\\"}>]; a -- b [latency=<5 us>] }") ==
        "a b a-b5 us ");
  CHECK(read("graph { a [label=\"\\\\\"]; b [label=\"{ < \\\" \"]; /* { < */ a -- {b}\n# <\n}") ==
        "a b a-b ");
  const auto refusal = [&](const std::string& text) {
    try {
      return read(text);
    } catch (const GraphFileError& error) {
      return fmt::format("{}: {}", error.line, error.what());
    }
  };
  CHECK(refusal("graph {\n{a b}\n a [label=<\n<b> };\n}").find("HTML") != std::string::npos);
  CHECK(refusal("graph {\n{a b}\n a [label=<\n>]; a -- ;\n}").starts_with("4: "));
}

TEST_CASE("a DOT file that is wrong is refused by line") {
  const auto line = [](const std::string& text) {
    try {
      parse_graph(text, GraphFormat::dot, {});
    } catch (const GraphFileError& error) {
      return error.line;
    }
    return std::size_t{9999};
  };
  CHECK(line("hello") == 1);
  CHECK(line("\n\ngrph {\n a -- b }\n") == 3);
  CHECK(line("graph {\n a -- b;\n b -- ;\n c -- d\n}") == 3);
  CHECK(line("graph {\n a -- b [latency=;];\n c\n}") == 2);
  CHECK(line("graph {\n a -- b;\n b -- ! c;\n c -- d\n}") == 3);
  CHECK(line("graph {\n a -- b;\n b -> c\n}") == 3);
  CHECK(line("digraph {\n a -> b;\n b -- c\n}") == 3);
  CHECK(line("graph {\n a -- b;\n b -- c\n\n") == 4);             // the end is missing
  CHECK(line("graph {\n a -- b;\n b [label=\"x];\n c\n}") == 3);  // an open quote
}

TEST_CASE("a graph file that is nested too deep is refused, not read") {
  const auto refusal = [](const std::string& text, GraphFormat format) {
    try {
      parse_graph(text, format, {});
      return std::string("no error");
    } catch (const GraphFileError& error) {
      return fmt::format("{}: {}", error.line, error.what());
    }
  };
  const auto repeat = [](const std::string& text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  const auto dot = [&](int levels) {  // those and the graph's own
    return "graph{\n" + repeat("subgraph{", levels) + "a -- b" + repeat("}", levels) + "}";
  };
  const auto graphml = [&](int levels) {
    return "<graphml><graph edgedefault=\"undirected\"><node id=\"a>\">\n" + repeat("<x>", levels) +
           repeat("</x>", levels) + "</node></graph></graphml>";
  };
  const std::string too_deep = "2: expected at most 500 levels, one in the other";
  CHECK(refusal(dot(499), GraphFormat::dot) == "no error");
  CHECK(refusal(dot(500), GraphFormat::dot) == too_deep);
  CHECK(refusal(dot(20'000), GraphFormat::dot) == too_deep);
  CHECK(refusal(graphml(497), GraphFormat::graphml) == "no error");
  CHECK(refusal(graphml(498), GraphFormat::graphml) == too_deep);
  CHECK(refusal(graphml(20'000), GraphFormat::graphml) == too_deep);
  // Nor does anything hide what Boost's readers would see: what looks like the end of a tag where there is none ..
  const auto hidden = [&](const std::string& begin, const std::string& end, int levels) {
    return refusal("<graphml><graph edgedefault=\"undirected\"><node id=\"a\">\n" +
                       repeat(begin, levels) + repeat(end, levels) + "</node></graph></graphml>",
                   GraphFormat::graphml);
  };
  for (const char* closing : {"<?p ></x>?>", "<!--></x>-->", "<![CDATA[></x>]]>",
                              "<!DOCTYPE [></x>] >", "<!DOCTYPE\t[></x>[></x>]]>"}) {
    CAPTURE(std::string(closing));
    CHECK(hidden(std::string("<x>") + closing, "</x>", 20'000) == too_deep);
  }
  // .. or a quote that opens no value, or closes one ..
  CHECK(hidden("<x'>", "</x'>", 20'000) == too_deep);
  CHECK(hidden("<x='>", "</x='>", 20'000) == too_deep);
  CHECK(hidden("<x a'=\"\">", "</x>", 20'000) == too_deep);
  CHECK(hidden("<x a = '\"'>", "</x>", 20'000) == too_deep);
  CHECK(hidden("<x a = '>'>", "</x>", 490) == "no error");
  // .. or a comment.
  const auto nested = repeat("subgraph{", 20'000) + "a" + repeat("}", 20'000);
  CHECK(refusal("graph{ a [color=red /* \" */];\n" + nested + "/* \" ] */}", GraphFormat::dot) ==
        too_deep);
  CHECK(refusal("graph{ a /*/ b */;\n" + nested + "/**/}", GraphFormat::dot) == too_deep);
  // Many, one beside the other, are not deep.
  CHECK(refusal("graph {" + repeat("subgraph{a -- b}", 2'000) + "}", GraphFormat::dot) ==
        "no error");
  CHECK(refusal("<graphml><graph edgedefault=\"undirected\">" + repeat("<y/>", 2'000) +
                    "</graph></graphml>",
                GraphFormat::graphml) == "no error");
}

}  // namespace starling::test_graph_file
