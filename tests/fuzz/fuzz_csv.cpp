// Any bytes as a table: the first says whether of compute samples, latencies between sites or a schedule of links.

#include <algorithm>

#include "network_models/fabrics.hpp"
#include "network_models/link_schedule.hpp"
#include "sim/base/random.hpp"
#include "sim/engine/compute_time.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace starling;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const test::TemporaryDirectory directory;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string path = directory.write("table.csv", text);
  const auto section = [](const std::string& name, std::vector<Setting> settings) {
    return Section(name, "fuzz.ini:1", std::move(settings));
  };
  test::allow_refusal([&] {
    switch (data[0] % 3) {
      case 0: {
        const Section compute =
            section("compute", {{"distribution", "empirical", "1"}, {"samples", path, "2"}});
        const ComputeTime time(compute, 4, 1);
        for (Step k = 0; k < 4; ++k)
          ensure(time.duration(1, k) >= Duration{}, "no time is negative");
        break;
      }
      case 1: {
        const Section network = section("network", {{"fabric", "matrix", "1"},
                                                    {"latencies", path, "2"},
                                                    {"latency", "1 us", "3"},
                                                    {"bandwidth", "1 GB/s", "4"}});
        const auto build = network_models::read_fabric(network, 4, 1);
        const network_models::Fabric fabric = build();
        std::vector<network_models::LinkId> way;
        fabric.route(0, 3, way);
        ensure(way.size() >= 2, "a way leads up and down");
        break;
      }
      default: {
        const Section network = section("network", {{"link_schedule", path, "1"}});
        auto schedule = network_models::read_schedule(
            network, 1)(network_models::crossbar(4, {1e9, Duration{1}}));
        std::vector<network_models::LinkChange> changes;
        schedule.take(Time::max() - Duration{1}, changes);
        ensure(std::ranges::is_sorted(changes, {}, &network_models::LinkChange::time),
               "changes come in order");
      }
    }
  });
  return 0;
}
