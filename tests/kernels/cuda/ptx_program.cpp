#include "tests/kernels/cuda/ptx_program.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>
#include <span>
#include <string_view>

#include <cxxabi.h>

#include "tests/kernels/cuda/emulated_blocks.hpp"
#include "tests/kernels/cuda/ptx_steps.hpp"

namespace starling::ptx {
namespace {

using cuda::give_up;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0)
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.remove_suffix(1);
  return text;
}

/// The part before the first of `marks`, which is taken away from text, and the mark with it.
std::string_view cut(std::string_view& text, std::string_view marks) {
  const std::size_t end = std::min(text.find_first_of(marks), text.size());
  const std::string_view part = trimmed(text.substr(0, end));
  text = trimmed(text.substr(std::min(end + 1, text.size())));
  return part;
}

/// Operands are separated by commas, but for those between braces.
std::vector<std::string_view> operands_of(std::string_view text) {
  std::vector<std::string_view> operands;
  while (!text.empty()) {
    const std::size_t open = text.front() == '{' ? text.find('}') : 0;
    const std::size_t end = std::min(text.find(',', open), text.size());
    operands.push_back(trimmed(text.substr(0, end)));
    text = trimmed(text.substr(std::min(end + 1, text.size())));
  }
  return operands;
}

class KernelReader {
 public:
  explicit KernelReader(std::string_view name) : symbol_(name) {
    kernel_.name = demangled(symbol_.c_str());
    registers_["%tid.x"] = thread_register;
    registers_["%ctaid.x"] = block_register;
    kernel_.registers = 2;
  }

  void directive(std::string_view text) {
    const std::string_view name = cut(text, " \t");
    if (name == ".maxntid") {
      kernel_.threads = static_cast<std::uint32_t>(number(cut(text, ",")));
    } else if (name == ".local") {  // .align 4 .b8 NAME[BYTES];
      const std::size_t open = text.find('[');
      kernel_.local_bytes = static_cast<std::uint32_t>(number(text.substr(open + 1)));
    }
  }

  void label(std::string_view name) {
    labels_[std::string(name)] = static_cast<std::uint32_t>(kernel_.code.size());
  }

  void instruction(std::string_view text, std::uint32_t file, std::uint32_t line) {
    Instruction i;
    i.file = file;
    i.line = line;
    if (text.front() == '@') {
      std::string_view guard = cut(text, " \t").substr(1);
      i.is_guarded = true;
      i.wanted = guard.front() != '!';
      i.guard = reg(i.wanted ? guard : guard.substr(1));
    }
    std::string_view name = cut(text, " \t");
    const std::vector<std::string_view> operands = operands_of(text);
    if (name == "bra" || name == "bra.uni")
      branches_.emplace_back(kernel_.code.size(), operands[0]);
    std::uint32_t to = 0, from = 0;
    const bool writes_memory =
        name.starts_with("st.") || name.starts_with("cp.async") || name.starts_with("prefetch.");
    for (std::size_t k = 0; k < operands.size() && !name.starts_with("bra"); ++k) {
      const bool is_target = k == 0 && !writes_memory && !name.starts_with("bar.");
      const std::span<Register> places =
          is_target ? std::span<Register>(i.to) : std::span<Register>(i.from);
      std::uint32_t& mentioned = is_target ? to : from;
      const std::uint32_t before = mentioned;
      for_each_part(operands[k], [&](std::string_view part) {
        if (mentioned == places.size()) fail(text);
        places[mentioned++] = operand(part, i);
      });
      if (operands[k].front() == '{') i.count = mentioned - before;
    }
    i.step = find_step(name, to, from);
    if (i.step == nullptr) fail(name);
    i.is_fused = name.starts_with("fma.");
    kernel_.code.push_back(i);
  }

  Kernel finish() {
    for (const auto& [at, label] : branches_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) fail(label);
      kernel_.code[at].target = found->second;
    }
    return std::move(kernel_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    give_up(("PTX that is not understood: " + std::string(what) + " in " + kernel_.name).c_str());
  }

  static std::int64_t number(std::string_view text) {
    return std::strtoll(std::string(text).c_str(), nullptr, 0);
  }

  template <class F>
  static void for_each_part(std::string_view operand, const F& f) {
    if (operand.front() != '{') return f(operand);
    operand = operand.substr(1, operand.size() - 2);
    while (!operand.empty()) f(cut(operand, ","));
  }

  Register reg(std::string_view name) {
    const auto [found, is_new] = registers_.try_emplace(std::string(name), kernel_.registers);
    kernel_.registers += is_new ? 1 : 0;
    return found->second;
  }

  Register value(std::uint64_t bits) {
    const auto [found, is_new] = values_.try_emplace(bits, kernel_.registers);
    if (is_new) kernel_.values.emplace_back(kernel_.registers++, bits);
    return found->second;
  }

  /// A register, a number, a name, or an address: [one of these + offset].
  Register operand(std::string_view text, Instruction& i) {
    if (text.front() == '[') {
      text = text.substr(1, text.size() - 2);
      const std::size_t plus = text.find('+');
      if (plus != text.npos) i.offset = static_cast<std::int32_t>(number(text.substr(plus + 1)));
      text = text.substr(0, plus);
    }
    if (text.front() == '%') return reg(text);
    if (text.starts_with("0f") || text.starts_with("0d"))
      return value(std::strtoull(std::string(text.substr(2)).c_str(), nullptr, 16));
    if (text.front() == '-') return value(static_cast<std::uint64_t>(number(text)));
    if (std::isdigit(static_cast<unsigned char>(text.front())) != 0)
      return value(std::strtoull(std::string(text).c_str(), nullptr, 0));
    const bool is_known = text == symbol_ + "_param_0" || text.starts_with("__local_depot") ||
                          text.find("shared_memory") != text.npos;
    if (!is_known) fail(text);
    return value(first_address);
  }

  std::string symbol_;
  Kernel kernel_;
  std::map<std::string, Register, std::less<>> registers_;
  std::map<std::uint64_t, Register> values_;
  std::map<std::string, std::uint32_t, std::less<>> labels_;
  std::vector<std::pair<std::size_t, std::string>> branches_;
};

}  // namespace

std::string demangled(const char* name) {
  int status = 0;
  char* plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? plain : name;
  std::free(plain);
  return result;
}

Program read(const char* path) {
  std::ifstream file(path);
  if (!file) give_up((std::string("cannot read ") + path).c_str());
  Program program;
  std::vector<KernelReader> reader;  // of the kernel that is open
  std::uint32_t source = 0, source_line = 0;
  for (std::string whole; std::getline(file, whole);) {
    std::string_view line = trimmed(std::string_view(whole).substr(0, whole.find("//")));
    if (line.empty()) continue;
    if (whole == "}" && !reader.empty()) {
      program.kernels.push_back(reader[0].finish());
      reader.clear();
      continue;
    }
    if (line.starts_with(".file")) {
      cut(line, " \t");
      const std::size_t number = std::strtoul(std::string(cut(line, " \t")).c_str(), nullptr, 10);
      if (program.files.size() <= number) program.files.resize(number + 1);
      const std::size_t slash = line.rfind('/') + 1;
      program.files[number] = line.substr(slash, line.rfind('"') - slash);
    } else if (line.starts_with(".loc ") || line.starts_with(".loc\t")) {
      cut(line, " \t");
      source = static_cast<std::uint32_t>(std::stoul(std::string(cut(line, " \t"))));
      source_line = static_cast<std::uint32_t>(std::stoul(std::string(cut(line, " \t"))));
    } else if (const std::size_t entry = line.find(".entry"); entry != line.npos) {
      std::string_view rest = trimmed(line.substr(entry + 6));
      reader.emplace_back(cut(rest, "("));
    } else if (reader.empty() || line == "{" || line == "}" || line == ")") {
      continue;
    } else if (line.front() == '.') {
      reader[0].directive(line);
    } else if (line.back() == ':') {
      reader[0].label(line.substr(0, line.size() - 1));
    } else {
      reader[0].instruction(line.substr(0, line.size() - 1), source, source_line);
    }
  }
  return program;
}

}  // namespace starling::ptx
