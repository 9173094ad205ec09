// Topologies from GraphML and DOT files, and what is said about bad ones.

#include <doctest/doctest.h>

#include "tests/support/message_of.hpp"
#include "tests/topology/make_topology.hpp"
#include "topology/mixing.hpp"

namespace starling::topologies::test_file {
namespace {

using Peers = std::vector<NodeId>;

Topology make_file(const std::string& path, NodeId nodes, test::Keys keys = {}) {
  keys.insert(keys.begin(), {"path", path});
  return test::make("file", nodes, keys);
}

/// The refusal of a file of this name and content, without the "t.ini:3: topology.path PATH: " in
/// front.
std::string file_refusal(const std::string& name, const std::string& content, NodeId nodes) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.write(name, content);
  const std::string message = test::refusal("file", nodes, {{"path", path}});
  return starling::test::behind(": ",
                                starling::test::behind("t.ini:3: topology.path " + path, message));
}

std::string graphml(const std::string& direction, const std::string& body) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
         "<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n"
         "<key id=\"d0\" for=\"node\" attr.name=\"color\" attr.type=\"string\"/>\n"
         "<key id=\"d1\" for=\"edge\" attr.name=\"weight\" attr.type=\"float\"/>\n"
         "<graph id=\"G\" edgedefault=\"" +
         direction + "\">\n" + body + "</graph></graphml>\n";
}

std::string edge(const std::string& source, const std::string& target,
                 const std::string& inside = "") {
  return "<edge source=\"" + source + "\" target=\"" + target + "\">" + inside + "</edge>\n";
}

std::string nodes_named(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += "<node id=\"" + name + "\"/>\n";
  return text;
}

TEST_CASE("a DOT file makes the graph that it draws, with Metropolis weights") {
  // The path 0 - 1 - 2: degrees 1, 2, 1.
  const test::TemporaryDirectory directory;
  const auto topology =
      make_file(directory.write("p.dot", "graph G { 0 -- 1 [color=red]; 1 -- 2; }"), 3);
  CHECK(test::peers(topology.in(1)) == Peers{0, 2});
  CHECK(topology.in(0)[0].weight == 1.0f / 3);
  CHECK(topology.self_weight(0) == doctest::Approx(2.0 / 3));
  CHECK(is_doubly_stochastic(topology));
}

TEST_CASE("a GraphML file makes the graph that it lists") {
  const test::TemporaryDirectory directory;
  const auto path = directory.write(
      "g.graphml", graphml("undirected", "<node id=\"n0\"><data key=\"d0\">red</data></node>\n" +
                                             nodes_named({"n1", "n2", "n3"}) + edge("n0", "n1") +
                                             edge("n1", "n2") + edge("n3", "n1")));
  const auto topology = make_file(path, 4);
  CHECK(test::peers(topology.in(1)) == Peers{0, 2, 3});
  CHECK(test::peers(topology.in(3)) == Peers{1});
  CHECK(topology.in(3)[0].weight == 0.25f);
}

TEST_CASE("a <key> of a GraphML file that does not say what it is for is for all") {
  // As GraphML's schema has it.
  const test::TemporaryDirectory directory;
  const auto path = directory.write(
      "g.graphml",
      "<?xml version=\"1.0\"?>\n<!-- <key> -->\n<graphml>\n<key\n id=\"w\" attr.name=\"weight\"/>\n"
      "<key id=\"c\" attr.name=\"color\" attr.type=\"string\" ></key>\n<key for = 'edge' "
      "id=\"d\"/>\n"
      "<graph edgedefault=\"undirected\">\n" +
          nodes_named({"0", "1"}) +
          edge("0", "1", "<data key=\"w\">0.25</data><data key=\"c\">red</data>") +
          "</graph>\n</graphml>\n");
  const auto topology = make_file(path, 2);
  CHECK(topology.in(0)[0].weight == 0.25F);
}

TEST_CASE("names that contain the numbers 0..n-1 are numbers, in any order and beyond ten") {
  const test::TemporaryDirectory directory;
  // The directed cycle 0 -> 1 -> ... -> 11 -> 0. In order of name n10 would come before n2.
  std::string dot = "digraph {";
  std::string body;
  std::vector<std::string> names;
  for (int i = 11; i >= 0; --i) {
    dot += fmt::format(" n{} -> n{};", i, (i + 1) % 12);
    body += edge(fmt::format("n{}", i), fmt::format("n{}", (i + 1) % 12));
    names.push_back(fmt::format("n{}", i));
  }
  for (const auto& topology :
       {make_file(directory.write("c.gv", dot + "}"), 12),
        make_file(directory.write("c.xml", graphml("directed", nodes_named(names) + body)), 12)}) {
    for (NodeId i = 0; i < 12; ++i) CHECK(test::peers(topology.out(i)) == Peers{(i + 1) % 12});
  }
}

TEST_CASE("other names are numbered in their own order") {
  // alice, bob, carol; carol is in the middle.
  const test::TemporaryDirectory directory;
  for (const auto& topology :
       {make_file(directory.write("a.dot", "graph { carol -- bob; carol -- alice }"), 3),
        make_file(directory.write(
                      "a.graphml",
                      graphml("undirected", nodes_named({"carol", "bob", "alice"}) +
                                                edge("carol", "bob") + edge("carol", "alice"))),
                  3),
        // Numbers, but not 0..2, nor behind one common prefix.
        make_file(directory.write("b.dot", "graph { 7 -- 5; 7 -- 6 }"), 3),
        make_file(directory.write("c.dot", "graph { c2 -- a0; c2 -- b1 }"), 3)}) {
    CHECK(test::peers(topology.in(0)) == Peers{2});
    CHECK(test::peers(topology.in(1)) == Peers{2});
    CHECK(test::peers(topology.in(2)) == Peers{0, 1});
  }
}

TEST_CASE("names that begin at 1 keep their order beyond ten, and so do numbers behind numbers") {
  // The directed cycle through all names as listed; in order of their bytes h10 would come before h2.
  const test::TemporaryDirectory directory;
  std::vector<std::string> hosts, racks, plain;
  for (int i = 1; i <= 12; ++i) {
    hosts.push_back(fmt::format("h{}", i));
    racks.push_back(fmt::format("\"rack {} host {}\"", 9 + (i - 1) / 6, 6 + (i - 1) % 6));
    plain.push_back(fmt::format("{}", i));
  }
  for (const auto& names : {hosts, racks, plain}) {
    std::string dot = "digraph {";
    for (std::size_t i = 12; i-- > 0;) dot += names[i] + " -> " + names[(i + 1) % 12] + ";";
    const auto topology = make_file(directory.write("c.gv", dot + "}"), 12);
    for (NodeId i = 0; i < 12; ++i) CHECK(test::peers(topology.out(i)) == Peers{(i + 1) % 12});
  }
  // Leading zeros, more digits than any integer has, and names that differ in zeros alone.
  const std::string many(40, '9');
  const auto topology = make_file(
      directory.write("z.dot", "graph { n007 -- n8; n8 -- n1" + many + "; n007 -- n07 }"), 4);
  CHECK(test::peers(topology.in(0)) == Peers{1, 2});  // n007: n07 and n8
  CHECK(test::peers(topology.in(3)) == Peers{2});
}

TEST_CASE("weights in the file are mixing weights, in either format") {
  const test::TemporaryDirectory directory;
  const auto dot =
      directory.write("w.dot", "graph { 0 -- 1 [weight=0.25]; 1 -- 2 [weight=\"0.5\"] }");
  const auto xml = directory.write(
      "w.graphml", graphml("undirected", nodes_named({"0", "1", "2"}) +
                                             edge("0", "1", "<data key=\"d1\">0.25</data>") +
                                             edge("1", "2", "<data key=\"d1\">0.5</data>")));
  const std::vector<double> expected{0.75, 0.25, 0, 0.25, 0.25, 0.5, 0, 0.5, 0.5};
  CHECK(test::mixing_matrix(make_file(dot, 3)) == expected);
  CHECK(test::mixing_matrix(make_file(xml, 3)) == expected);
  CHECK(test::mixing_matrix(make_file(xml, 3, {{"mixing", "file"}})) == expected);
  CHECK(test::mixing_matrix(make_file(xml, 3, {{"lazy", "yes"}})) ==
        std::vector<double>{0.875, 0.125, 0, 0.125, 0.625, 0.25, 0, 0.25, 0.75});
  // Asked for others, it gives others.
  CHECK(make_file(dot, 3, {{"mixing", "metropolis"}}).in(0)[0].weight == 1.0f / 3);
  CHECK(make_file(dot, 3, {{"mixing", "uniform"}}).in(0)[0].weight == 0.5f);
}

TEST_CASE("weights that are no mixing weights do not matter if others are asked for") {
  const test::TemporaryDirectory directory;
  const auto path = directory.write("l.dot", "graph { 0 -- 1 [weight=12]; 1 -- 2 }");
  CHECK(make_file(path, 3, {{"mixing", "uniform"}}).in(1)[0].weight == 1.0f / 3);
}

TEST_CASE("a directed weight is what the target gives to the source") {
  const test::TemporaryDirectory directory;
  const auto path = directory.write(
      "d.dot", "digraph { 0 -> 1 [weight=0.125]; 1 -> 2 [weight=0.25]; 2 -> 0 [weight=0.5] }");
  CHECK(test::mixing_matrix(make_file(path, 3)) ==
        std::vector<double>{0.5, 0, 0.5, 0.125, 0.875, 0, 0, 0.25, 0.75});
}

TEST_CASE("a directed file without weights averages uniformly over what arrives") {
  const test::TemporaryDirectory directory;
  const auto path = directory.write("u.dot", "digraph { 0 -> 1 -> 2 -> 0; 0 -> 2 }");
  const auto topology = make_file(path, 3);
  CHECK(test::peers(topology.in(2)) == Peers{0, 1});
  CHECK(topology.in(2)[0].weight == 1.0f / 3);
  CHECK(topology.in(1)[0].weight == 0.5f);
  CHECK(is_row_stochastic(topology));
  CHECK(test::refusal("file", 3, {{"path", path}, {"mixing", "metropolis"}}) ==
        "t.ini:4: topology.mixing must not be metropolis for a directed graph, as " + path + " is");
}

TEST_CASE("weights may add up to more than one by the rounding of floats, not by more") {
  // Three neighbors each: 3 * 0.33333334 = 1 + 2e-8, and 3 * 0.333334 = 1 + 2e-6.
  const test::TemporaryDirectory directory;
  const std::string edges = "0 -- 1; 0 -- 2; 0 -- 3; 1 -- 2; 1 -- 3; 2 -- 3 }";
  const auto path = directory.write("k.dot", "graph { edge [weight=0.33333334]; " + edges);
  CHECK(is_doubly_stochastic(make_file(path, 4)));
  CHECK(file_refusal("k.dot", "graph { edge [weight=0.333334]; " + edges, 4)
            .starts_with("expected weights that add up to at most 1 at each node, found 1.000002"));
}

TEST_CASE("a matrix in CSV has the weights of what each node receives") {
  const test::TemporaryDirectory directory;
  const auto path = directory.write("w.csv",
                                    "5.0e-01, 0.25,0.25\n"
                                    "0,0.125,0.875\n"
                                    "# 2 hears of node 0 alone\n"
                                    "1,0,0\n");
  const std::vector<double> expected{0.5, 0.25, 0.25, 0, 0.125, 0.875, 1, 0, 0};
  CHECK(test::mixing_matrix(make_file(path, 3)) == expected);
  const std::vector<double> uniform{
      1 - 2.0 * (1.0f / 3), 1.0f / 3, 1.0f / 3, 0, 0.5, 0.5, 0.5, 0, 0.5};
  CHECK(test::mixing_matrix(make_file(path, 3, {{"mixing", "uniform"}})) == uniform);
  CHECK(test::refusal("file", 3, {{"path", path}, {"mixing", "metropolis"}}) ==
        "t.ini:4: topology.mixing must not be metropolis for a directed graph, as " + path + " is");
}

TEST_CASE("a symmetric matrix is an undirected graph") {
  // The path 0 - 1 - 2, whatever stands on the diagonal; as weights, node 1 exchanges all it has.
  const test::TemporaryDirectory directory;
  const auto links = directory.write("a.csv", "1,1,0\n1,0,1\n0,1,0\n");
  const auto dot = directory.write("p.dot", "graph { 0 -- 1 -- 2 }");
  CHECK(test::mixing_matrix(make_file(links, 3)) == test::mixing_matrix(make_file(dot, 3)));
  const test::Keys fastest{{"mixing", "fastest"}};
  CHECK(test::mixing_matrix(make_file(links, 3, fastest)) ==
        test::mixing_matrix(make_file(dot, 3, fastest)));

  const auto weights = directory.write("w.csv", "0.75,0.25,0\n0.25,0.5,0.25\n0,0.25,0.75\n");
  const std::vector<double> expected{0.75, 0.25, 0, 0.25, 0.5, 0.25, 0, 0.25, 0.75};
  CHECK(test::mixing_matrix(make_file(weights, 3)) == expected);
  CHECK(test::mixing_matrix(make_file(weights, 3, {{"mixing", "metropolis"}})) ==
        test::mixing_matrix(make_file(dot, 3)));

  const auto swap = directory.write("s.csv", "0,1\n1,0\n");
  CHECK(make_file(swap, 2).in(0)[0].weight == 0.5f);
  CHECK(make_file(swap, 2, {{"mixing", "file"}}).in(0)[0].weight == 1.0f);
}

TEST_CASE("a matrix that is none is refused with its line") {
  CHECK(file_refusal("w.csv", "1\n", 2) == "expected a graph of 2 nodes, found 1");
  CHECK(file_refusal("w.csv", "0.5,0.5\n0.5\n", 2) ==
        ":2: expected 2 numbers with commas between them, as there are 2 rows, found 1");
  CHECK(file_refusal("w.csv", "0 1\n1 0\n", 2) ==
        ":1: expected 2 numbers with commas between them, as there are 2 rows, found 1");
  CHECK(file_refusal("w.csv", "a,b\n1,0\n", 2) == ":1: expected numbers alone, found \"a\"");
  CHECK(file_refusal("w.csv", "0.5,0.5\n0.5,nan\n", 2) ==
        ":2: expected numbers alone, found \"nan\"");
  CHECK(file_refusal("w.csv", "0.5,0.5\n0.6,0.5\n", 2) ==
        ":2: expected weights that add up to 1 in each row, found 1.1; mixing = uniform or "
        "metropolis "
        "ignores the weights");
  CHECK(
      file_refusal("w.csv", "1.5,-0.5\n-0.5,1.5\n", 2)
          .starts_with(":2: expected mixing weights above 0 and at most 1, found -0.5 (between "));
  CHECK(file_refusal("w.csv", "1,0\n0,1\n", 2)
            .ends_with("is not connected: no path leads from 0 to 1"));
}

TEST_CASE("a relative path starts at the scenario's directory") {
  const test::TemporaryDirectory directory;
  directory.write("p.dot", "graph { 0 -- 1 }");
  Section section = test::section("file", {{"path", "p.dot"}});
  section.set_directory(directory.path(""));
  CHECK(find(section).make(section, 2, 1).arc_count() == 2);
}

TEST_CASE("a file that is not there, empty, or of an unknown kind is refused by name") {
  const test::TemporaryDirectory directory;
  const std::string absent = directory.path("absent.dot");
  CHECK(test::refusal("file", 2, {{"path", absent}}) ==
        "t.ini:3: topology.path " + absent + ": cannot open: No such file or directory");
  CHECK(file_refusal("empty.dot", "", 2) == "cannot read: it is empty");
  CHECK(test::refusal("file", 2, {{"path", "net.json"}}) ==
        "t.ini:3: topology.path must end in .csv, .graphml, .xml, .dot or .gv, got net.json");
  CHECK(test::refusal("file", 2, {{"path", "a.dot/net"}}) ==
        "t.ini:3: topology.path must end in .csv, .graphml, .xml, .dot or .gv, got a.dot/net");
  CHECK(test::refusal("file", 2) == "t.ini:1: topology.path is missing");
}

TEST_CASE("malformed files are refused with the reader's reason") {
  CHECK(file_refusal("m.dot", "graph { 0 -- ", 2).starts_with(":1: not a valid DOT file: "));
  CHECK(file_refusal("m.dot", "graph { 0 -> 1 }", 2).starts_with(":1: not a valid DOT file: "));
  CHECK(file_refusal("m.dot", "hello", 2).starts_with(":1: not a valid DOT file: "));
  CHECK(file_refusal("m.graphml", "<graphml>\n<graph edgedefault=\"directed\">", 2) ==
        ":2: not a valid GraphML file: unexpected end of data");
  CHECK(file_refusal("m.graphml", "<html></html>", 2).starts_with("not a valid GraphML file: "));
  CHECK(file_refusal("m.graphml", graphml("undirected", "<node/>"), 1)
            .starts_with("not a valid GraphML file: "));
  CHECK(file_refusal("m.graphml", graphml("undirected", nodes_named({"a"}) + edge("a", "b")), 2) ==
        "not a valid GraphML file: it declares 1 nodes, each of which must have an id of its own, "
        "but 2 different "
        "ones occur");
  CHECK(file_refusal("m.graphml",
                     graphml("undirected", nodes_named({"a", "a", "b"}) + edge("a", "b")), 2)
            .ends_with("but 2 different ones occur"));
}

TEST_CASE("names in DOT need no quotes, whatever their letters") {
  const test::TemporaryDirectory directory;
  const auto topology = make_file(
      directory.write("z.dot", "graph { Zürich -- Bern [label=größer]; Zürich -- \"Genève\" }"), 3);
  CHECK(test::peers(topology.out(2)) == Peers{0, 1});
}

TEST_CASE("what DOT would take apart into several words is refused, and read in quotes") {
  // Boost's reader makes weight = 1 of the first, and the second a path of other nodes.
  for (const auto& [wrong, found] :
       {std::pair{"digraph {\n0 -> 1 [weight=1e-1]; 1 -> 0 [weight=1e-1] }", "1e"},
        {"graph {\nhost.1 -- host.2 }", "host.1"},
        {"graph {\n10.0.0.1 -- 10.0.0.2 }", "10.0.0.1"},
        {"graph {\n4f -- a2 }", "4f"},
        {"graph {\n0 -- 1 [weight=.] }", "."}}) {
    CHECK(file_refusal("m.dot", wrong, 2) ==
          fmt::format(":2: expected a name or a number in digits, found {}..; anything else must "
                      "be in quotes, like \"1e-3\"",
                      found));
  }
  const test::TemporaryDirectory directory;
  const auto quoted = make_file(
      directory.write("q.dot", "digraph { 0 -> 1 [weight=\"1e-1\"]; 1 -> 0 [weight=.125] }"), 2);
  CHECK(quoted.in(1)[0].weight == 0.1f);
  CHECK(quoted.in(0)[0].weight == 0.125f);
  const auto named = make_file(
      directory.write("n.dot", "graph { \"10.0.0.2\" -- \"10.0.0.1\"; -1. -- \"10.0.0.1\" }"), 3);
  CHECK(test::peers(named.in(1)) == Peers{0, 2});
}

TEST_CASE("tags within comments and character data of a GraphML file are no nodes") {
  const test::TemporaryDirectory directory;
  const std::string named =
      "<node id=\"a\"><data key=\"d0\"><![CDATA[<node id=\"x\"/>]]></data></node>\n";
  const auto path = directory.write(
      "c.graphml",
      graphml("undirected", "<!-- <node/> -->" + named + nodes_named({"b"}) + edge("a", "b")));
  CHECK(test::peers(make_file(path, 2).in(0)) == Peers{1});
}

TEST_CASE("a GraphML file with both kinds of edges is refused") {
  const std::string both =
      "<edge source=\"a\" target=\"b\" directed=\"true\"/><edge source=\"b\" target=\"a\"/>";
  CHECK(file_refusal("b.graphml", graphml("undirected", nodes_named({"a", "b"}) + both), 2) ==
        "expected edges that are all directed or all undirected, found both");
}

TEST_CASE("a graph of another size is refused") {
  CHECK(file_refusal("s.dot", "graph { a -- b; b -- c }", 4) ==
        "expected a graph of 4 nodes, found 3");
}

TEST_CASE("an unconnected graph is refused with two nodes that show it") {
  const test::TemporaryDirectory directory;
  const auto refusal = [&](const std::string& content) {
    const std::string path = directory.write("u.dot", content);
    std::string message = test::refusal("file", 4, {{"path", path}});
    return message.replace(message.find(path), path.size(), "PATH");
  };
  const std::string parts = refusal("graph { ann -- bob; cid -- dan }");
  CHECK(
      parts.starts_with("t.ini:2: topology.kind file: PATH is not connected: no path leads from "));
  const bool ann_is_first = parts.find("ann") < parts.size() || parts.find("bob") < parts.size();
  const bool cid_is_named = parts.find("cid") < parts.size() || parts.find("dan") < parts.size();
  CHECK((ann_is_first && cid_is_named));
  // Only d has no way out.
  CHECK(refusal("digraph { a -> b -> c -> a; c -> d }") ==
        "t.ini:2: topology.kind file: PATH is not connected: no path leads from d to a");
}

TEST_CASE("edges that make no mixing matrix are refused with their lines and nodes") {
  CHECK(file_refusal("e.dot", "graph {\n a -- b;\n b -- b }", 2) ==
        ":3: expected edges between two nodes, found one from b to itself");
  CHECK(file_refusal("e.dot", "graph {\n a -- b;\n b -- a }", 2) ==
        ":3: expected each edge once, found two from a to b");
  CHECK(file_refusal("e.dot", "digraph { a -> b; b -> a }", 2) == "no error");
  CHECK(file_refusal("e.dot", "graph { a -- b [weight=0.5];\n b -- c }", 3) ==
        ":2: expected a weight on every edge or on none, found an edge without one (between b and "
        "c)");
  CHECK(file_refusal("e.dot", "graph { a -- b;\n b -- c [weight=0.5] }", 3) ==
        ":2: expected a weight on every edge or on none, found an edge with one (between b and c)");
  CHECK(file_refusal("e.dot", "graph {\n a -- b [wieght=0.5]\n}", 2) ==
        ":2: unknown attribute wieght of the edge between a and b; did you mean weight?");
  for (const char* weight : {"2", "0", "-0.5", "nan", "heavy", "0.5kg"}) {
    CAPTURE(weight);
    CHECK(file_refusal("e.dot", fmt::format("graph {{ a -- b [weight=\"{}\"] }}", weight), 2) ==
          fmt::format(
              ":1: expected mixing weights above 0 and at most 1, found {} (between a and b); "
              "mixing = uniform or metropolis ignores the weights",
              weight));
  }
  CHECK(file_refusal("e.dot", "graph { a -- b [weight=0.75]; b -- c [weight=0.5] }", 3) ==
        "expected weights that add up to at most 1 at each node, found 1.25 at b; mixing = uniform "
        "or metropolis ignores the weights");
  const test::TemporaryDirectory directory;
  const std::string path = directory.write("n.dot", "graph { a -- b }");
  CHECK(test::refusal("file", 2, {{"path", path}, {"mixing", "file"}}) ==
        "t.ini:4: topology.mixing is file, but no edge in " + path + " has a weight");
}

}  // namespace
}  // namespace starling::topologies::test_file
