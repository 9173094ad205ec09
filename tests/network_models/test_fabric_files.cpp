// Fabrics that files describe: graphs and matrices of latencies, and what is said about bad ones.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/graph_file.hpp"
#include "tests/network_models/fabric_fixture.hpp"
#include "tests/support/temporary_directory.hpp"

namespace starling::test_fabric_files {
namespace {

using namespace fabric_test;

/// The links at a host, sorted by name.
Names at(const Fabric& fabric, NodeId host) {
  Names names;
  for (const LinkId link : fabric.links_at(host)) names.push_back(fabric.name(link));
  std::ranges::sort(names);
  return names;
}

/// Times of arrival in ns of messages that all start at 0.
std::vector<std::int64_t> arrivals(const Keys& keys, NodeId nodes,
                                   const std::vector<network_test::Start>& starts) {
  const auto model = network_test::network(keys, nodes);
  return network_test::in_ns(network_test::ScriptedRun(*model, starts).arrivals);
}

/// The refusal of a fabric file, without the "test.ini:7: network.file PATH" in front.
std::string file_refusal(const std::string& content, NodeId nodes,
                         const std::string& name = "net.dot") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.write(name, content);
  return test::behind("test.ini:7: network.file " + path,
                      refusal(with("file", {{"file", path}}), nodes));
}

// Two switches with two hosts each; the cable between them is slow and far, host d's is slow.
constexpr const char* two_switches = R"(graph {
  node [kind=host]; a; b; c; d;
  left [kind=switch]; right [kind=switch];
  a -- left; b -- left; c -- right;
  d -- right [bandwidth="100 MB/s"];
  left -- right [latency="10 us", bandwidth="500 MB/s"];
}
)";

}  // namespace

TEST_CASE("a fabric file: routes, links by name, and times worked out by hand") {
  const test::TemporaryDirectory directory;
  const Keys keys = with("file", {{"file", directory.write("net.dot", two_switches)}});
  const Fabric fabric = build(keys, 4);
  CHECK(fabric.links.size() == 10);
  CHECK(way(fabric, 0, 1) == Names{"a -> left", "left -> b"});
  CHECK(way(fabric, 0, 3) == Names{"a -> left", "left -> right", "right -> d"});
  CHECK(way(fabric, 3, 0) == Names{"d -> right", "right -> left", "left -> a"});
  CHECK(at(fabric, 3) == Names{"d -> right", "right -> d"});
  // a to b: 2 us and 1 ns per byte. c to a: 1 + 10 + 1 us and 2 ns per byte. c to d: 2 us, 10 ns
  // per byte. They meet nowhere but on the link up from c, where c to d takes only 0.1 GB/s.
  CHECK(arrivals(keys, 4, {{0, 0, 1, 1'000}, {0, 2, 0, 1'000}, {0, 2, 3, 1'000}}) ==
        std::vector<std::int64_t>{3'000, 14'000, 12'000});
}

TEST_CASE("a fabric file: GraphML says the same, and a directed graph has one link per edge") {
  const test::TemporaryDirectory directory;
  const auto path = directory.write("net.graphml", R"(<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="k" for="node" attr.name="kind" attr.type="string"/>
<key id="b" for="edge" attr.name="bandwidth" attr.type="string"/>
<graph edgedefault="directed">
<node id="h0"/><node id="h1"/><node id="s"><data key="k">switch</data></node>
<edge source="h0" target="s"/><edge source="s" target="h1"/>
<edge source="h1" target="h0"><data key="b">2 GB/s</data></edge>
</graph></graphml>)");
  const Fabric fabric = build(with("file", {{"file", path}}), 2);
  CHECK(fabric.links.size() == 3);
  CHECK(way(fabric, 0, 1) == Names{"h0 -> s", "s -> h1"});
  CHECK(way(fabric, 1, 0) == Names{"h1 -> h0"});
  CHECK(fabric.links[2].bytes_per_second == 2e9);
  CHECK(at(fabric, 0) == Names{"h0 -> s", "h1 -> h0"});
}

TEST_CASE(
    "a fabric file without switches: hosts pass messages on; a pair takes one of parallel cables") {
  const test::TemporaryDirectory directory;
  const auto path =
      directory.write("ring.gv", "graph { 0 -- 1; 1 -- 2; 1 -- 2; 2 -- 3; 3 -- 4; 4 -- 0 }");
  const Fabric fabric = build(with("file", {{"file", path}}), 5);
  CHECK(way(fabric, 0, 2) == Names{"0 -> 1", "1 -> 2"});
  CHECK(way(fabric, 0, 3) == Names{"0 -> 4", "4 -> 3"});
  std::vector<LinkId> there;
  std::vector<LinkId> back;
  fabric.route(1, 2, there);
  fabric.route(2, 1, back);
  const auto cable = static_cast<LinkId>(way_between(1, 2) % 2);
  CHECK(there == std::vector<LinkId>{2 + 2 * cable});
  CHECK(back == std::vector<LinkId>{3 + 2 * cable});
  CHECK(at(fabric, 2) == Names{"1 -> 2", "1 -> 2 (2)", "2 -> 1", "2 -> 1 (2)", "2 -> 3", "3 -> 2"});
}

TEST_CASE(
    "a fabric file: the links at a host are those of all its cables, to hosts at their ends too") {
  // a and c have a single cable each, b, which passes on what they send each other, both.
  const test::TemporaryDirectory directory;
  const Keys keys = with("file", {{"file", directory.write("path.dot", "graph { a -- b; b -- c }")},
                                  {"host_bandwidths", "1: 2 GB/s"}});
  const Fabric fabric = build(keys, 3);
  CHECK(at(fabric, 0) == Names{"a -> b", "b -> a"});
  CHECK(at(fabric, 1) == Names{"a -> b", "b -> a", "b -> c", "c -> b"});
  for (const Link& link : fabric.links) CHECK(link.bytes_per_second == 2e9);
}

TEST_CASE("parallel cables had one name, and a schedule could not tell them apart") {
  const test::TemporaryDirectory directory;
  const auto path = directory.write(
      "two.dot", "graph { s [kind=switch]; a -- s; s -- a; a -- s; b -- s }");  // either way round
  const Fabric fabric = build(with("file", {{"file", path}}), 2);
  Names names;
  for (LinkId link = 0; link < 8; ++link) names.push_back(fabric.name(link));
  CHECK(names == Names{"a -> s", "s -> a", "s -> a (2)", "a -> s (2)", "a -> s (3)", "s -> a (3)",
                       "b -> s", "s -> b"});
}

TEST_CASE("a fabric file: hosts with several cables pass nothing on where there are switches") {
  // a hangs at both switches, but b and c cannot meet through it.
  CHECK(file_refusal(
            "graph {\n  x [kind=switch]; y [kind=switch];\n  a -- x; a -- y; b -- x; c -- y }", 3)
            .find("expected ways between all hosts, found none from") != std::string::npos);
  // Nor does b pass on what comes from a, whose only cable leads there.
  CHECK(file_refusal("graph { s [kind=switch]; a -- b; b -- s; c -- s }", 3) ==
        ": expected ways between all hosts, found none from c to a (where there are switches, "
        "hosts pass nothing on)");
  const test::TemporaryDirectory directory;
  const auto path = directory.write(
      "two.dot",
      "graph { x [kind=switch]; y [kind=switch]; a -- x; a -- y; b -- x; c -- y; x -- y }");
  const Fabric fabric = build(with("file", {{"file", path}}), 3);
  CHECK(way(fabric, 1, 2) == Names{"b -> x", "x -> y", "y -> c"});
  CHECK(way(fabric, 0, 1) == Names{"a -> x", "x -> b"});
}

TEST_CASE("a fabric file that is wrong is refused by file, line and rule") {
  CHECK(file_refusal("graph {\n a -- b;\n b -- b;\n}", 2) ==
        ":3: expected cables between two vertices, found one from b to itself");
  CHECK(file_refusal("graph {\n a -- b [latency=\"-1 us\"];\n}", 2)
            .starts_with(":2: latency of the cable between a and b must be "));
  CHECK(file_refusal("graph {\n // a comment -- with a cable\n a -- b [bandwidth=\"10\"]\n}", 2)
            .starts_with(":3: bandwidth of the cable between a and b must be "));
  CHECK(file_refusal("graph {\n a -- b [latency=\"2 h\"]\n}", 2) ==
        ":2: expected latencies of at most 60 s, found 7200 s between a and b");
  CHECK(file_refusal("graph {\n a; b;\n c [kind=router];\n a -- b -- c }", 2) ==
        ":3: expected kind = host or switch, found router at c");
  CHECK(file_refusal("graph { a -- b; c -- d }", 4) ==
        ": expected ways between all hosts, found none from c to a");
  CHECK(file_refusal("graph { s [kind=switch]; a -- s; b -- s }", 3) ==
        ": expected at least 3 hosts, found 2");
  CHECK(file_refusal("digraph { a -> b }", 2) ==
        ": expected ways between all hosts, found none from b to a");
  CHECK(file_refusal("graph { a -- ", 2).starts_with(":1: not a valid DOT file: "));
  const std::string unknown =
      "<graphml>\n<graph edgedefault=\"undirected\">\n<node id=\"a\"/>\n<edge source=\"a\" "
      "target=\"b\"/></graph></graphml>";
  CHECK(file_refusal(unknown, 2, "net.graphml").starts_with(": not a valid GraphML file: "));
  CHECK(refusal(with("file", {{"file", "/nowhere/net.dot"}}), 2) ==
        "test.ini:7: network.file /nowhere/net.dot: cannot open: No such file or directory");
  CHECK(refusal(with("file", {}), 2) == "test.ini:1: network.file is missing");
}

TEST_CASE("a fabric file whose cables all have their own values needs none of the scenario") {
  const test::TemporaryDirectory directory;
  const auto path = directory.write("net.dot", R"(graph {
    a -- b [latency="2 us", bandwidth="1 GB/s"];
    b -- c [latency="3 us", bandwidth="2 GB/s"];
  })");
  const auto drawn = [](const std::string& file, const Keys& more) {
    Keys keys = {{"kind", "fluid"}, {"fabric", "file"}, {"file", file}};
    keys.insert(keys.end(), more.begin(), more.end());
    return keys;
  };
  // a to c: 5 us, and 1 ns per byte over the slower cable.
  const std::vector<network_test::Start> starts = {{0, 0, 2, 1'000}};
  CHECK(arrivals(drawn(path, {}), 3, starts) == std::vector<std::int64_t>{6'000});
  // As a scenario with its defaults filled in says it.
  const Keys unset = {
      {"bandwidth", ""}, {"latency", ""}, {"slow_hosts", ""}, {"slow_bandwidth", ""}};
  CHECK(arrivals(drawn(path, unset), 3, starts) == std::vector<std::int64_t>{6'000});
  CHECK(refusal(drawn(path, {{"slow_hosts", "1"}}), 3) ==
        "test.ini:1: network.slow_bandwidth is missing, and network.bandwidth, its default, too");
  const auto partial = directory.write("partial.dot", "graph {\n a -- b [bandwidth=\"1 GB/s\"]\n}");
  CHECK(refusal(drawn(partial, {}), 2) ==
        "test.ini:7: network.file " + partial +
            ":2: expected a latency of the cable between a and b, or network.latency for all that "
            "have none");
  CHECK(arrivals(drawn(partial, {{"latency", "4 us"}}), 2, {{0, 0, 1, 1'000}}) ==
        std::vector<std::int64_t>{5'000});
  CHECK(refusal({{"kind", "fluid"}, {"fabric", "ring"}, {"latency", "1 us"}}, 4)
            .starts_with("test.ini:1: network.bandwidth is missing"));
}

TEST_CASE("a fabric file: misspelt attributes are refused, those of drawing tools are not") {
  CHECK(file_refusal("graph {\n a;\n a -- b [latancy=\"1 us\"];\n}", 2) ==
        ":3: unknown attribute latancy of the edge between a and b; did you mean latency?");
  CHECK(file_refusal("graph {\n a -- b [Latency=\"1 us\"]\n}", 2) ==
        ":2: unknown attribute Latency of the edge between a and b; did you mean latency?");
  CHECK(file_refusal("graph {\n a -- b [LATENCY=\"1 us\"]\n}", 2) ==
        ":2: unknown attribute LATENCY of the edge between a and b; did you mean latency?");
  CHECK(file_refusal("graph {\n s [knid=switch];\n a -- s -- b }", 2) ==
        ":2: unknown attribute knid of vertex s; did you mean kind?");
  CHECK(file_refusal("graph {\n a [bandwidth=\"1 GB/s\"]; a -- b }", 2) ==
        ":2: unknown attribute bandwidth of vertex a; it is one of edges");
  CHECK(file_refusal("graph {\n a -- b [kind=switch] }", 2) ==
        ":2: unknown attribute kind of the edge between a and b; it is one of vertices");
  CHECK(file_refusal("graph { bandwith = \"1 GB/s\"; a -- b }", 2) ==
        ": unknown attribute bandwith of the graph; did you mean bandwidth?");
  // Defaults of all edges are attributes of edges.
  CHECK(file_refusal("digraph { edge [latenzy=\"1 us\"];\n a -> b; b -> a }", 2) ==
        ":2: unknown attribute latenzy of the edge between a and b; did you mean latency?");
  const auto graphml = [](const std::string& attribute) {
    return "<graphml><key id=\"k\" for=\"edge\" attr.name=\"" + attribute +
           "\" attr.type=\"string\"/>\n<graph edgedefault=\"undirected\"><node id=\"a\"/>"
           "<node id=\"b\"/>\n<edge source=\"a\" target=\"b\">"
           "<data key=\"k\">1 GB/s</data></edge></graph></graphml>";
  };
  CHECK(file_refusal(graphml("bandwith"), 2, "net.graphml") ==
        ":3: unknown attribute bandwith of the edge between a and b; did you mean bandwidth?");
  for (const char* drawn :
       {"pos",           "label",    "color", "shape",    "width",     "height",    "lwidth",
        "lheight",       "fontsize", "style", "penwidth", "weight",    "x",         "y",
        "size",          "id",       "type",  "Latitude", "Longitude", "LinkLabel", "labelangle",
        "labeldistance", "lp",       "bb",    "rank",     "constraint"}) {
    CAPTURE(drawn);
    CHECK_NOTHROW(parse_graph(fmt::format("graph {{ {0} = 1; a [{0}=1]; a -- b [{0}=1] }}", drawn),
                              GraphFormat::dot,
                              {.vertices = {"kind"}, .edges = {"latency", "bandwidth"}}));
    if (std::string(drawn) == "weight") continue;  // a topology reads it
    CHECK_NOTHROW(parse_graph(fmt::format("graph {{ a [{0}=1]; a -- b [{0}=1] }}", drawn),
                              GraphFormat::dot, {.vertices = {}, .edges = {"weight"}}));
    CHECK_NOTHROW(parse_graph(graphml(drawn), GraphFormat::graphml,
                              {.vertices = {"kind"}, .edges = {"latency", "bandwidth"}}));
  }
}

TEST_CASE(
    "a fabric file: a switch that is called so under another name is refused, not made a host") {
  CHECK(file_refusal("graph {\n s [type=switch];\n a -- s -- b }", 2) ==
        ":2: vertex s has type = switch, expected that as kind");
  CHECK(file_refusal("graph {\n a -- s -- b;\n s [label=Switch] }", 2) ==
        ":2: vertex s has label = Switch, expected that as kind");
  const std::string text = R"(<graphml><key id="k" for="node" attr.name="role" attr.type="string"/>
<graph edgedefault="undirected"><node id="a"/><node id="b"/>
<node id="s"><data key="k">switch</data></node>
<edge source="a" target="s"/><edge source="b" target="s"/></graph></graphml>)";
  CHECK(file_refusal(text, 2, "net.graphml") ==
        ":3: vertex s has role = switch, expected that as kind");
  // What is said as it should be may be said in other words, too, and at edges it means nothing.
  CHECK(file_refusal("graph { s [kind=switch, label=switch]; a -- s -- b [label=switch] }", 2) ==
        "no error");
  CHECK(file_refusal("graph { s [kind=host, label=switch]; a -- s -- b }", 2) == "no error");
}

TEST_CASE("a fabric file: what a cable carries is refused under another name, not left out") {
  CHECK(file_refusal("graph {\n a -- b [bw=\"10 GB/s\"] }", 2) ==
        ":2: the edge between a and b has bw = 10 GB/s, expected that as bandwidth");
  CHECK(file_refusal("graph { edge [delay=\"2 ms\"];\n a -- b }", 2) ==
        ":2: the edge between a and b has delay = 2 ms, expected that as latency");
  CHECK(file_refusal("graph { a -- b [label=\"10 GB/s\", bandwidth=\"1 GB/s\", color=red] }", 2) ==
        "no error");
  CHECK(file_refusal("graph { a [label=\"10 GB/s\"]; a -- b [weight=3, label=\"3 cm\"] }", 2) ==
        "no error");
}

TEST_CASE(
    "a GraphML file: what is missing is named, and known data whose key is not declared is "
    "refused") {
  const auto told = [](const std::string& key, const std::string& body,
                       const std::string& direction = "edgedefault=\"undirected\"") {
    return file_refusal("<graphml>" + key + "<graph " + direction +
                            "><node id=\"a\"/><node id=\"b\"/>" + body + "</graph></graphml>",
                        2, "net.graphml");
  };
  const std::string cable = R"(<edge source="a" target="b"><data key="latency">2 us</data></edge>)";
  const std::string refused =
      ": not a valid GraphML file: expected <key id=\"latency\" attr.name=..> for the data with "
      "key "
      "latency, found none";
  CHECK(told(R"(<key id="latency" for="edge" attr.name="latency"/>)", cable) == "no error");
  CHECK(told("", cable) == refused);
  CHECK(told(R"(<key id="latency" for="edge"/>)", cable) == refused);
  // What no reader would miss may be as it likes; drawing tools have keys without names.
  CHECK(told(R"(<key id="d0" for="edge"/>)",
             R"(<edge source="a" target="b"><data key="d0">x</data></edge>)") == "no error");
  // Which attribute is meant without its declaration nobody knows: it may well be the latency.
  CHECK(told("", R"(<edge source="a" target="b"><data key="l">2 us</data></edge>)") ==
        ": not a valid GraphML file: expected <key id=\"l\" attr.name=..> for the data with key l, "
        "found none");
  CHECK(told("", R"(<edge source="a"/>)") ==
        ": not a valid GraphML file: a tag lacks the attribute target");
  CHECK(told("", R"(<edge source="a" target="b"/>)", "") ==
        ": not a valid GraphML file: a tag lacks the attribute edgedefault");
  CHECK(told("", "<hyperedge><endpoint node=\"a\"/><endpoint node=\"b\"/></hyperedge>") ==
        ": not a valid GraphML file: expected edges between two nodes, found a hyperedge");
  const std::string another = "<graph edgedefault=\"undirected\"><node id=\"c\"/></graph>";
  CHECK(told(another, cable) == ": not a valid GraphML file: expected one graph, found several");
  CHECK(told("", "<node id=\"d\">" + another + "</node>") ==
        ": not a valid GraphML file: expected one graph, found another within a node");
  CHECK(file_refusal("<svg/>", 2, "net.xml") ==
        ": not a valid GraphML file: expected a tag graphml with a tag graph in it, found none");
}

// ----- matrix

namespace {

constexpr const char* three_sites = R"(ms,     Oregon, Tokyo, "Frankfurt, Main"
# one way
Oregon,            -,  49, 69
Tokyo,             50,   , 118
"Frankfurt, Main", 70, 120 ms, 1
)";

std::string matrix_refusal(const std::string& content, const Keys& more = {}) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.write("m.csv", content);
  Keys keys = {{"latencies", path}};
  keys.insert(keys.end(), more.begin(), more.end());
  return test::behind("test.ini:7: network.latencies " + path, refusal(with("matrix", keys), 4));
}

}  // namespace

TEST_CASE("a matrix: every ordered pair of sites has its own latency and link") {
  const test::TemporaryDirectory directory;
  const Keys keys = with("matrix", {{"latencies", directory.write("m.csv", three_sites)}});
  const Fabric fabric = build(keys, 4);
  // In turn: hosts 0 and 3 in Oregon, 1 in Tokyo, 2 in Frankfurt.
  CHECK(way(fabric, 0, 1) == Names{"host 0 up", "Oregon -> Tokyo", "host 1 down"});
  CHECK(way(fabric, 0, 3) == Names{"host 0 up", "host 3 down"});
  // 1 us at either end: 49.002 ms there, 50.002 ms back; 1000 B at 1 GB/s. Hosts 0 and 3 share the
  // link to Frankfurt: half the speed.
  CHECK(arrivals(keys, 4, {{0, 0, 1, 1'000}, {0, 1, 0, 1'000}}) ==
        std::vector<std::int64_t>{49'003'000, 50'003'000});
  CHECK(arrivals(keys, 4, {{0, 0, 2, 1'000}, {0, 3, 2, 1'000}}) ==
        std::vector<std::int64_t>{69'004'000, 69'004'000});
}

TEST_CASE("a matrix: bandwidths, a site's own link, blocks and lists") {
  const test::TemporaryDirectory directory;
  const auto latencies = directory.write("m.csv", three_sites);
  const auto bandwidths = directory.write(
      "b.csv",
      "Mbit/s, Oregon, Tokyo, \"Frankfurt, Main\"\nOregon,-,80,80\nTokyo,80,-,80\n\"Frankfurt, "
      "Main\",80,80,16 Mbit/s");
  // 80 Mbit/s are 100 ns per byte; within Frankfurt 1 ms and 500 ns per byte.
  const Keys both = {{"latencies", latencies}, {"bandwidths", bandwidths}};
  Keys listed = both;
  listed.insert(listed.end(),
                {{"placement", "list"},
                 {"sites", "Tokyo, \"Frankfurt, Main\", \"Frankfurt, Main\", Oregon"}});
  CHECK(arrivals(with("matrix", listed), 4, {{0, 0, 3, 1'000}, {0, 1, 2, 1'000}}) ==
        std::vector<std::int64_t>{50'102'000, 1'502'000});
  // 6 hosts in blocks: 0 1 | 2 3 | 4 5.
  Keys blocks = both;
  blocks.emplace_back("placement", "blocks");
  const Fabric fabric = build(with("matrix", blocks), 6);
  CHECK(way(fabric, 1, 2) == Names{"host 1 up", "Oregon -> Tokyo", "host 2 down"});
  CHECK(way(fabric, 4, 5) ==
        Names{"host 4 up", "Frankfurt, Main -> Frankfurt, Main", "host 5 down"});
  CHECK(
      refusal(with("matrix", {{"latencies", latencies}, {"placement", "list"}, {"sites", "Tokio"}}),
              4) ==
      "test.ini:7: network.sites must be sites of the matrix, Oregon, Tokyo, Frankfurt, Main, got "
      "\"Tokio\"; did you mean Tokyo?");
  CHECK(
      refusal(with("matrix", {{"latencies", latencies}, {"placement", "list"}, {"sites", "Tokyo"}}),
              4) == "test.ini:7: network.sites must be as many sites as hosts, 4, got 1");
}

TEST_CASE(
    "a matrix: a zero within a site is a link that its hosts share only if it has a bandwidth") {
  const test::TemporaryDirectory directory;
  const auto latencies = directory.write("m.csv", "ms,a,b\na,0,2\nb,2,0\n");
  const auto bandwidths = directory.write("b.csv", "Mbit/s,a,b\na,-,9\nb,9,9\n");
  const Keys keys = with("matrix", {{"latencies", latencies}, {"placement", "blocks"}});
  CHECK(way(build(keys, 4), 0, 1) == Names{"host 0 up", "host 1 down"});
  CHECK(way(build(keys, 4), 2, 3) == Names{"host 2 up", "host 3 down"});
  Keys both = keys;
  both.emplace_back("bandwidths", bandwidths);
  CHECK(way(build(both, 4), 0, 1) == Names{"host 0 up", "host 1 down"});
  CHECK(way(build(both, 4), 2, 3) == Names{"host 2 up", "b -> b", "host 3 down"});
}

TEST_CASE("a matrix: where cells have their own units, a zero needs none") {
  const test::TemporaryDirectory directory;
  const Keys keys =
      with("matrix", {{"latencies", directory.write("m.csv", ",a,b\na,0,5 us\nb,7 us,0\n")}});
  const Keys dashes =
      with("matrix", {{"latencies", directory.write("n.csv", "us,a,b\na,-,5\nb,7,-\n")}});
  const std::vector<network_test::Start> starts{
      {0, 0, 1, 1'000}, {0, 1, 0, 1'000}, {0, 0, 2, 1'000}};
  CHECK(arrivals(keys, 4, starts) == arrivals(dashes, 4, starts));
}

TEST_CASE("a matrix: a bandwidth within a site that has no latency is refused, not left out") {
  const test::TemporaryDirectory directory;
  const auto latencies = directory.write("m.csv", "ms,a,b\na,1,2\nb,2,-\n");
  const auto bandwidths = directory.write("b.csv", "Mbit/s,a,b\na,9,9\nb,9,8\n");
  CHECK(refusal(with("matrix", {{"latencies", latencies}, {"bandwidths", bandwidths}}), 4) ==
        "test.ini:7: network.bandwidths " + bandwidths + ": has a bandwidth within b, where " +
            latencies + " has no latency: hosts meet there over their own links");
}

TEST_CASE("a matrix that is wrong is refused by file, line and rule") {
  CHECK(matrix_refusal("ms,a,b\na,-,1\n") ==
        ":2: expected 2 rows below the names of the sites, found 1");
  CHECK(matrix_refusal("ms,a,b\na,-,1\nb,1\n") ==
        ":3: expected a name and 2 values, found 2 cells");
  CHECK(matrix_refusal("ms,a,b\nb,-,1\na,1,-\n") == ":2: expected the row of a, found b");
  CHECK(matrix_refusal("ms,a,a\na,-,1\na,1,-\n") ==
        ":1: expected each site once, by a name, found \"a\"");
  CHECK(matrix_refusal("ms,a,b\na,-,1\n\nb,-2,-\n").starts_with(":4: from b to a: must "));
  CHECK(matrix_refusal("ms,a,b\na,-,-\nb,2,-\n").starts_with(":2: from a to b: must "));
  CHECK(matrix_refusal(",a,b\na,-,5\nb,2,-\n").starts_with(":2: from a to b: must "));
  CHECK(matrix_refusal(",a,b\na,-,5\nb,2,-\n").ends_with("got \"5\" without a unit"));
  CHECK(matrix_refusal("h,a,b\na,-,5\nb,2,-\n") ==
        ":2: from a to b: must be at most 60 s, got 5 h");
  CHECK(matrix_refusal("ms\n").starts_with(":1: expected the names of the sites"));
  CHECK(matrix_refusal("ms;A;B\nA;-;1\nB;1;-\n")
            .starts_with(":1: expected cells parted by commas, got \"ms;A;B\""));
  CHECK(matrix_refusal("").starts_with(": cannot read: it is empty"));
}

}  // namespace starling::test_fabric_files
