// What single hosts and links have instead of the fabric's usual numbers, and links by their names.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "network_models/overrides.hpp"
#include "network_models/registry.hpp"
#include "tests/network_models/fabric_fixture.hpp"

namespace starling::test_overrides {

using namespace fabric_test;

TEST_CASE("single hosts and links can be slower and farther than the others") {
  const Fabric fabric =
      build(with("crossbar", {{"host_bandwidths", "1: 2 GB/s, 2-3: 100 MB/s"},
                              {"host_latencies", "0: 7 us"},
                              {"link_bandwidths", "host 3 up: 5 MB/s"},
                              {"link_latencies", "host * down: 3 us, host 0 *: 1 ns"}}),
            4);
  const auto bandwidth = [&](LinkId link) { return fabric.links[link].bytes_per_second; };
  CHECK(bandwidth(0) == 1e9);
  CHECK(bandwidth(2) == 2e9);
  CHECK(bandwidth(5) == 1e8);
  CHECK(bandwidth(6) == 5e6);
  CHECK(bandwidth(7) == 1e8);
  CHECK(fabric.links[0].latency == Duration{1'000});
  CHECK(fabric.links[1].latency == Duration{1'000});
  CHECK(fabric.links[2].latency == Duration{1'000'000});
  CHECK(fabric.links[3].latency == Duration{3'000'000});
}

TEST_CASE("links within hosts are given numbers by name as others are") {
  const Keys keys = with("crossbar", {{"nodes_per_host", "2"},
                                      {"local_bandwidth", "8 GB/s"},
                                      {"link_bandwidths", "host 1 within: 3 GB/s"},
                                      {"link_latencies", "* within: 2 us"}});
  const Fabric fabric = build(keys, 4);
  CHECK(way(fabric, 2, 3) == Names{"host 1 within"});
  CHECK(fabric.links[4].bytes_per_second == 8e9);
  CHECK(fabric.links[5].bytes_per_second == 3e9);
  CHECK(fabric.links[3].latency == Duration{1'000'000});
  CHECK(fabric.links[4].latency == Duration{2'000'000});
}

TEST_CASE("overrides that name nobody, or give nothing, are refused") {
  const auto refused = [](const std::string& key, const std::string& value) {
    return refusal(with("crossbar", {{key, value}}), 4);
  };
  CHECK(refused("host_bandwidths", "4: 1 GB/s") ==
        "test.ini:7: network.host_bandwidths must name numbers or ranges such as 5-9, from 0 to 3, "
        "got \"4\"");
  CHECK(refused("host_bandwidths", "2-1: 1 GB/s").find("got \"2-1\"") != std::string::npos);
  CHECK(refused("host_bandwidths", "1 GB/s").find("must be pairs such as") != std::string::npos);
  CHECK(refused("host_bandwidths", "1: fast").find("network.host_bandwidths must be") !=
        std::string::npos);
  CHECK(refused("link_bandwidths", "host 4 up: 1 GB/s") ==
        "test.ini:7: network.link_bandwidths must name links of the fabric, from \"host 0 up\" to "
        "\"host 3 down\", got \"host 4 up\"");
}

TEST_CASE(
    "a cable between two hosts is as slow as the slower one, in whatever order they are told") {
  for (const char* bandwidths : {"0: 1 MB/s, 1-3: 20 MB/s", "1-3: 20 MB/s, 0: 1 MB/s"}) {
    for (const char* latencies : {"0: 7 us, 1-2: 1 us", "1-2: 1 us, 0: 7 us"}) {
      const Fabric ring =
          build(with("ring", {{"host_bandwidths", bandwidths}, {"host_latencies", latencies}}), 4);
      for (NodeId host = 0; host < 4; ++host) {
        for (const LinkId link : ring.links_at(host)) {
          const std::string name = ring.name(link);
          CAPTURE(name);
          const bool is_at_0 = name.find("host 0") != name.npos;
          CHECK(ring.links[link].bytes_per_second == (is_at_0 ? 1e6 : 20e6));
          CHECK(ring.links[link].latency == Duration{is_at_0 ? 7'000'000 : 1'000'000});
        }
      }
    }
  }
  // Of one host, what comes later.
  const Fabric ring = build(with("ring", {{"host_bandwidths", "0-3: 5 MB/s, 0: 20 MB/s"}}), 4);
  for (const LinkId link : ring.links_at(0)) CHECK(ring.links[link].bytes_per_second == 5e6);
  const Fabric crossbar =
      build(with("crossbar", {{"host_bandwidths", "0-3: 5 MB/s, 0: 20 MB/s"}}), 4);
  for (const LinkId link : crossbar.links_at(0))
    CHECK(crossbar.links[link].bytes_per_second == 2e7);
}

TEST_CASE("links by name: the name of each is made once for all patterns") {
  Fabric fabric{std::vector<Link>(4, Link{1e9, Duration{0}}), {}};
  int made = 0;
  fabric.name = [&](LinkId link) {
    ++made;
    return std::vector<std::string>{"a -> b", "a* -> b", "a -> c", "a -> b"}[link];
  };
  LinkNames names(fabric);
  const Section section = network_test::section({{"key", "1"}});
  const auto called = [&](const std::string& pattern) {
    return names.called(section, "key", "", pattern);
  };
  CHECK(called("a -> b") == std::vector<LinkId>{0, 3});
  CHECK(called("a* -> b") == std::vector<LinkId>{0, 1, 3});
  CHECK(called("a -> *") == std::vector<LinkId>{0, 2, 3});
  CHECK(called("a -> *") == std::vector<LinkId>{0, 2, 3});
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS(called("b"), doctest::Contains("from \"a -> b\" to \"a -> b\", got \"b\""),
                         ScenarioError);
  }
  CHECK(made == 4);
}

TEST_CASE("a host or node that is given two values of a kind is warned of") {
  const auto warnings = [](const Keys& keys) {
    const Section section = network_test::section(keys);
    network_models::find(section).make(section, 12, 1);
    return section.warnings();
  };
  CHECK(warnings(with("crossbar", {{"host_bandwidths", "0: 1 GB/s, 1-4: 2 GB/s, 5: 1 GB/s"},
                                   {"host_latencies", "0-9: 1 us, 2-4: 2 us, 3: 3 us, 7: 2 us"}}))
            .empty());
  const auto hosts = warnings(with("crossbar", {{"host_bandwidths", "0: 1 GB/s, 0: 2 GB/s"},
                                                {"host_latencies", "2-7: 1 us, 5-9: 2 us"}}));
  REQUIRE(hosts.size() == 2);
  CHECK(hosts[0] ==
        "test.ini:7: network.host_bandwidths names 0 more than once: what comes later prevails");
  CHECK(hosts[1] ==
        "test.ini:7: network.host_latencies names 5 more than once: what comes later prevails");
  CHECK(warnings({{"kind", "loggp"}, {"preset", "edr"}, {"slowdowns", "3: 2, 0-5: 3"}}).size() ==
        1);
}

TEST_CASE("a star in a name stands for any text") {
  CHECK(matches("host 3 up", "host 3 up"));
  CHECK(matches("host 3 up", "*"));
  CHECK(matches("host 3 up", "host * up"));
  CHECK(matches("host 3 up", "*3*"));
  CHECK_FALSE(matches("host 3 up", "host 3"));
  CHECK_FALSE(matches("host 3 up", "host * down"));
  CHECK_FALSE(matches("", "a*"));
  CHECK(matches("", "**"));
  CHECK(matches("abcabd", "*ab*d"));
  CHECK_FALSE(matches("abcabd", "*ab*c"));
  const std::string name(200, 'a');  // no number of stars takes long
  std::string pattern;
  for (int i = 0; i < 60; ++i) pattern += "a*";
  CHECK(matches(name, pattern));
  CHECK_FALSE(matches(name, pattern + "b"));
}

}  // namespace starling::test_overrides
