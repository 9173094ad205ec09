#include "sim/base/did_you_mean.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>

#include <fmt/format.h>

#include "sim/base/text.hpp"

namespace starling {
namespace {

/// Number of insertions, deletions, changes and swaps of neighbors that turn `a` into `b` (optimal
/// string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> table((a.size() + 1) * width);  // (a prefix, b prefix)
  const auto cell = [&](std::size_t i, std::size_t j) -> std::size_t& {
    return table[i * width + j];
  };
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cell(i, j) = i + j;
        continue;
      }
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      cell(i, j) = std::min({cell(i - 1, j) + 1, cell(i, j - 1) + 1, cell(i - 1, j - 1) + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cell(i, j) = std::min(cell(i, j), cell(i - 2, j - 2) + 1);
      }
    }
  }
  return table.back();
}

/// lr of learning_rate.
std::string initials(std::string_view name) {
  std::string result;
  for (const std::string_view word : split(name, '_')) result += word.substr(0, 1);
  return result;
}

/// Small letters and digits alone: chocosgd of CHOCO-SGD.
std::string plain(std::string_view name) {
  std::string result = lower(std::string(name));
  std::erase_if(result, [](unsigned char letter) { return std::isalnum(letter) == 0; });
  return result;
}

/// Whether one of the words of a summary is such a name.
bool has_word(std::string_view summary, std::string_view name) {
  const std::string wanted = plain(name);
  return !wanted.empty() && std::ranges::any_of(split(summary, ' '), [&](std::string_view word) {
    return plain(word) == wanted;
  });
}

/// Where the only one of `texts` is that fits; their end if several do, or none.
template <class Fits>
auto find_only(const std::vector<std::string>& texts, Fits fits) {
  const auto found = std::ranges::find_if(texts, fits);
  const bool is_only = found != texts.end() && std::none_of(found + 1, texts.end(), fits);
  return is_only ? found : texts.end();
}

}  // namespace

const std::string* most_alike(std::string_view found, const std::vector<std::string>& known) {
  // Of short names, one with another letter is another word: cpu, gpu.
  constexpr std::size_t short_name = 3;
  constexpr std::size_t longest = 64;  // longer than any name; keeps the table small
  const std::string* best = nullptr;
  std::size_t least = std::max<std::size_t>(1, found.size() / 3) + 1;
  const std::string small = lower(std::string(found));
  const auto is_cut_short = [&](const std::string& candidate) {
    return small.size() > short_name && small.size() <= longest &&
           lower(candidate).starts_with(small);
  };
  const auto begins_so = find_only(known, is_cut_short);
  if (begins_so != known.end()) return &*begins_so;
  const auto shortened = std::ranges::find(known, small, initials);
  if (small.size() > 1 && shortened != known.end()) return &*shortened;
  for (const std::string& candidate : known) {
    if (found.size() > longest || candidate.size() > longest) continue;
    const std::string other = lower(candidate);
    const std::size_t distance = edit_distance(small, other);
    const bool has_another_letter =
        other.size() == small.size() && distance == 1 && !std::ranges::is_permutation(small, other);
    if (has_another_letter && small.size() <= short_name) continue;
    if (distance < least && distance < candidate.size()) {
      least = distance;
      best = &candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view found, const std::vector<std::string>& known,
                         const std::vector<std::string>& summaries) {
  const std::string* best = most_alike(found, known);
  if (best == nullptr) {
    const auto named =
        find_only(summaries, [&](std::string_view summary) { return has_word(summary, found); });
    if (named != summaries.end()) best = &known.at(named - summaries.begin());
  }
  return best ? fmt::format("; did you mean {}?", *best) : std::string();
}

}  // namespace starling
