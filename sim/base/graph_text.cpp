#include "sim/base/graph_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>

#include <fmt/core.h>

#include "sim/base/graph_file.hpp"
#include "sim/base/text.hpp"

namespace starling {
namespace {

constexpr std::string_view blanks = " \t\r\n";

bool is_blank(char c) { return blanks.find(c) != blanks.npos; }

/// A place in a text that knows its line.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ >= text_.size(); }
  char next() const { return text_[at_]; }
  bool is_at(std::string_view word) const { return text_.substr(at_, word.size()) == word; }
  std::size_t line() const { return line_; }
  std::size_t place() const { return at_; }
  void skip(std::size_t count = 1) {
    for (; count > 0 && !at_end(); --count) line_ += text_[at_++] == '\n' ? 1 : 0;
  }
  /// Skips to behind the next `word`.
  void skip_past(std::string_view word) {
    while (!at_end() && !is_at(word)) skip();
    skip(word.size());
  }
  /// Skips a quoted string, in which a backslash guards a quote or another, and returns what is in it.
  std::string skip_quoted() {
    skip();
    std::string inside;
    while (!at_end() && next() != '"') {
      if (is_at("\\\\")) {
        inside += next();
        skip();
      } else if (is_at("\\\"")) {
        skip();
      }
      inside += next();
      skip();
    }
    skip();
    return inside;
  }
  /// Skips a string of HTML, from < to the > that closes it; whether there is one.
  bool skip_html() {
    int open = 0;
    do {
      open += next() == '<' ? 1 : next() == '>' ? -1 : 0;
      skip();
    } while (!at_end() && open > 0);
    return open == 0;
  }
  /// Skips a comment, raw text, instruction or declaration of XML; whether there is one. Like skip_tag() to the letter as Boost's
  /// reader does, lest something hide tags from this one that the other sees.
  bool skip_unread() {
    constexpr std::array<std::array<std::string_view, 2>, 3> brackets{
        {{"<!--", "-->"}, {"<![CDATA[", "]]>"}, {"<?", "?>"}}};
    for (const auto& [begin, end] : brackets) {
      if (!is_at(begin)) continue;
      skip(begin.size());
      skip_past(end);
      return true;
    }
    if (!is_at("<!")) return false;
    constexpr std::string_view doctype = "<!DOCTYPE";
    const std::size_t behind = at_ + doctype.size();
    const bool nests = is_at(doctype) && behind < text_.size() && is_blank(text_[behind]);
    for (int open = 0; !at_end() && (open > 0 || next() != '>'); skip()) {
      if (nests && next() == '[') ++open;
      if (open > 0 && next() == ']') --open;
    }
    skip();
    return true;
  }
  /// Skips a tag of XML: a name, in which anything may be, and attributes with quoted values; whether it closes itself.
  bool skip_tag() {
    skip();
    while (!at_end() && !is_blank(next()) && next() != '/' && next() != '>' && next() != '?')
      skip();
    char last = ' ';  // but blanks
    while (!at_end() && next() != '>') {
      const char here = next();
      skip();
      if (last == '=' && (here == '"' || here == '\'')) {
        while (!at_end() && next() != here) skip();
        skip();
      }
      if (!is_blank(here)) last = here;
    }
    skip();
    return last == '/';
  }
  std::string skip_word() {
    std::string word;
    const auto is_letter = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' ||
             static_cast<unsigned char>(c) >= 0x80;
    };
    for (; !at_end() && (is_letter(next()) || (word.empty() && next() == '-')); skip()) {
      word += next();
    }
    return word;
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
};

/// Boost's readers recurse: some ten thousand levels end the program.
class Depth {
 public:
  void enter(std::size_t line) {
    constexpr int deepest = 500;
    if (++levels_ <= deepest) return;
    throw GraphFileError(line,
                         fmt::format("expected at most {} levels, one in the other", deepest));
  }
  void leave() { --levels_; }

 private:
  int levels_ = 0;
};

/// Whether DOT takes this for one word: a name, or digits with at most one point. It takes all else apart, 1e-3 into
/// the number 1, the name e and the number -3.
bool is_one_word(std::string_view word) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  if (word[0] != '-' && word[0] != '.' && !is_digit(word[0])) return word.find('.') == word.npos;
  if (word[0] == '-') word.remove_prefix(1);
  const auto points = std::ranges::count(word, '.');
  const auto digits = std::ranges::count_if(word, is_digit);
  return points <= 1 && digits >= 1 && points + digits == std::ssize(word);
}

/// Whether a tag of XML has an attribute of that name.
bool has_attribute(std::string_view tag, std::string_view name) {
  for (std::size_t at = tag.find(name); at != tag.npos; at = tag.find(name, at + 1)) {
    const std::size_t behind = tag.find_first_not_of(blanks, at + name.size());
    const bool begins = at > 0 && is_blank(tag[at - 1]);
    if (begins && behind != tag.npos && tag[behind] == '=') return true;
  }
  return false;
}

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

/// A value in quotes.
std::string quoted(std::string_view inside) {
  std::string text = "\"";
  for (const char c : inside) text.append(c == '"' || c == '\\' ? "\\" : "").push_back(c);
  return text + '"';
}

}  // namespace

TagLines find_tags(std::string_view text) {
  TagLines lines;
  Depth depth;
  for (Scanner scan(text); !scan.at_end();) {
    if (scan.skip_unread()) continue;
    if (scan.is_at("</")) {
      depth.leave();
      scan.skip_past(">");
    } else if (scan.next() == '<') {
      if (scan.is_at("<node")) lines.vertices.push_back(scan.line());
      if (scan.is_at("<edge")) lines.edges.push_back(scan.line());
      depth.enter(scan.line());
      if (scan.skip_tag()) depth.leave();
    } else {
      scan.skip();
    }
  }
  return lines;
}

std::string plain_graphml(std::string_view text) {
  constexpr std::string_view tag = "<key", owner = " for=\"all\"";
  std::string plain;
  for (Scanner scan(text); !scan.at_end();) {
    const std::size_t begin = scan.place();
    if (!scan.skip_unread()) scan.next() == '<' ? static_cast<void>(scan.skip_tag()) : scan.skip();
    const std::string_view skipped = text.substr(begin, scan.place() - begin);
    plain += skipped;
    const bool is_key =
        skipped.starts_with(tag) && skipped.substr(tag.size()).find_first_of(" \t\r\n/>") == 0;
    if (is_key && !has_attribute(skipped, "for"))
      plain.insert(plain.size() - skipped.size() + tag.size(), owner);
  }
  return plain;
}

OperatorLines find_operators(std::string_view text) {
  OperatorLines lines;
  Depth depth;
  for (Scanner scan(text); !scan.at_end();) {
    const std::size_t line = scan.line();
    if (scan.next() == '[') {
      while (!scan.at_end() && scan.next() != ']') {
        scan.next() == '"' ? static_cast<void>(scan.skip_quoted()) : scan.skip();
      }
    } else if (scan.is_at("--") || scan.is_at("->")) {
      lines.edges.push_back(line);
      scan.skip(2);
    } else if (scan.next() == '"') {
      lines.names.emplace(scan.skip_quoted(), line);
    } else if (const std::string word = scan.skip_word(); !word.empty()) {
      lines.names.emplace(word, line);
    } else {
      if (scan.next() == '{') depth.enter(line);
      if (scan.next() == '}') depth.leave();
      scan.skip();
    }
  }
  return lines;
}

std::string plain_dot(std::string_view text) {
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  std::string plain;
  int levels = 0;
  bool is_announced = false;  // behind the word subgraph, or its name
  for (Scanner scan(text); !scan.at_end();) {
    const std::size_t begin = scan.place();
    const char first = scan.next();
    const auto skipped = [&] { return text.substr(begin, scan.place() - begin); };
    const bool begins_line = begin == 0 || text[begin - 1] == '\n';
    const bool is_of_a_line = scan.is_at("//") || (first == '#' && begins_line);
    if (is_of_a_line || scan.is_at("/*")) {
      scan.skip(first == '#' ? 1 : 2);  // the start of one is not its end
      scan.skip_past(is_of_a_line ? "\n" : "*/");
      const auto lines = std::ranges::count(skipped(), '\n');
      plain += lines > 0 ? std::string(static_cast<std::size_t>(lines), '\n') : " ";
      continue;
    }
    if (first == '"') {
      scan.skip_quoted();
    } else if (first == '<' && scan.skip_html()) {
      plain += quoted(skipped().substr(1, skipped().size() - 2));
      continue;
    } else if (scan.is_at("--") || scan.is_at("->")) {
      scan.skip(2);
      is_announced = false;
    } else if (const std::string word = scan.skip_word(); !word.empty()) {
      if (!is_one_word(word)) {
        throw GraphFileError(
            scan.line(), fmt::format("expected a name or a number in digits, found {}..; anything "
                                     "else must be in quotes, like \"1e-3\"",
                                     word));
      }
      if (!std::ranges::all_of(word, is_ascii)) {  // which Boost takes in quotes only
        plain += quoted(skipped());
        continue;
      }
      is_announced |= lower(word) == "subgraph";
    } else {
      if (first == '{' && levels++ > 0 && !is_announced) plain += "subgraph ";
      if (first == '}') --levels;
      is_announced &= std::isspace(static_cast<unsigned char>(first)) != 0;
      scan.skip();
    }
    plain += skipped();
  }
  return plain;
}

}  // namespace starling
