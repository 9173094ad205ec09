#include "scenarios/reference.hpp"

namespace starling {

ReferenceSettings read_reference_section(const Section& section) {
  ReferenceSettings settings;
  settings.file = section.required<std::string>(
      "file", "CSV file of a run by anybody's code, or a results file, to compare with");
  settings.file = section.resolve_path(settings.file);
  const auto tolerance = [&section](const char* key, double fallback, const char* help) {
    const auto value = section.optional<double>(key, fallback, help);
    section.expect(value >= 0, key, "must not be negative, got {}", value);
    return value;
  };
  settings.time_tolerance = tolerance("time_tolerance", 0.1,
                                      "how far the time per step may deviate, relative to the "
                                      "reference's; throughput where batches differ");
  settings.loss_tolerance = tolerance(
      "loss_tolerance", 0.05, "how far losses may deviate relatively, accuracies absolutely");
  section.finish();
  return settings;
}

}  // namespace starling
