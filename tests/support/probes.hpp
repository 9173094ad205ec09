// Probes of makers (Section::probe) with settings drawn at random of the keys that they turn out to have.
#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/random.hpp"
#include "sim/base/section.hpp"

namespace starling::test {

/// What a key of a type may be set to: what is seldom meant, and all words of a choice.
inline std::vector<std::string> odd_values(const KeyUse& use) {
  if (use.type == "integer") return {"-1", "0", "1", "3", "9223372036854775807"};
  if (use.type == "number") return {"-1", "0", "0.5", "1", "1e300"};
  if (use.type == "numbers") return {"", "0", "-1, 0", "1, 2, 3", "1e300"};
  if (use.type == "duration") return {"0 s", "1 ps", "9000000 s"};
  if (use.type == "bytes") return {"0 B", "1 B", "8 EB"};
  if (use.type == "bandwidth") return {"1 bit/s"};
  if (use.type == "yes/no") return {"yes", "no"};
  const std::vector<std::string> words = use.options();
  return words.empty() ? std::vector<std::string>{"", "x", "1: 2", "*"} : words;
}

/// The words of a choice, which leave all other keys as they are.
inline std::vector<std::string> choices(const KeyUse& use) { return use.options(); }

/// Probes each kind `times`: make(kind, section) ends in ProbeFinished. visit(kind, section) sees what was read.
template <class Entries, class Values, class Make, class Visit>
void probe_at_random(const Entries& kinds, int times, Values values_of, Make make, Visit visit) {
  for (const auto& kind : kinds) {
    Random random(1, kind.name);
    std::vector<KeyUse> known;
    std::set<std::string> names;
    for (int p = 0; p < times; ++p) {
      std::vector<Setting> settings;
      std::string text;
      for (const KeyUse& use : known) {
        const std::vector<std::string> values = values_of(use);
        if (values.empty() || random.below(3) != 0) continue;
        settings.push_back({use.key, values[random.below(values.size())], "test"});
        text += use.key + " = " + settings.back().text + "\n";
      }
      const Section section = Section::probe("section", settings);
      INFO(std::string(kind.name) << "\n" << text);
      CHECK_THROWS_AS(make(kind, section), ProbeFinished);
      for (const KeyUse& use : section.uses()) {
        if (names.insert(use.key).second) known.push_back(use);
      }
      visit(kind, section);
    }
  }
}

}  // namespace starling::test
