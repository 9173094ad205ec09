#include "tests/kernels/cuda/ptx_steps.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <type_traits>

#include "tests/kernels/cuda/ptx_thread.hpp"

namespace starling::ptx {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using f32 = float;
using f64 = double;

template <class T, auto f>
void unary(Thread& t, const Instruction& i) {
  t.set(i.to[0], static_cast<T>(f(t.get<T>(i.from[0]))));
}
template <class T, auto f>
void binary(Thread& t, const Instruction& i) {
  t.set(i.to[0], static_cast<T>(f(t.get<T>(i.from[0]), t.get<T>(i.from[1]))));
}
template <class T, auto f>
void ternary(Thread& t, const Instruction& i) {
  t.set(i.to[0], static_cast<T>(f(t.get<T>(i.from[0]), t.get<T>(i.from[1]), t.get<T>(i.from[2]))));
}
template <class T, auto f>
void divide(Thread& t, const Instruction& i) {
  if (t.get<T>(i.from[1]) == 0) t.fail("divides by zero");
  binary<T, f>(t, i);
}
/// The amount has 32 bits, and may be as large as it likes.
template <class T, auto f>
void shift(Thread& t, const Instruction& i) {
  t.set(i.to[0], static_cast<T>(f(t.get<T>(i.from[0]), t.get<u32>(i.from[1]))));
}
template <class T, auto f>
void compare(Thread& t, const Instruction& i) {
  t.set<u64>(i.to[0], f(t.get<T>(i.from[0]), t.get<T>(i.from[1])) ? 1 : 0);
}
template <class To, class From, auto f>
void convert(Thread& t, const Instruction& i) {
  t.set(i.to[0], static_cast<To>(f(t.get<From>(i.from[0]))));
}
template <class T>
void select(Thread& t, const Instruction& i) {
  t.set(i.to[0], t.get<T>(t.get<u8>(i.from[2]) != 0 ? i.from[0] : i.from[1]));
}
template <class Wide, class T>
void multiply_wide(Thread& t, const Instruction& i) {
  t.set(i.to[0], static_cast<Wide>(static_cast<Wide>(t.get<T>(i.from[0])) *
                                   static_cast<Wide>(t.get<T>(i.from[1]))));
}
/// Bits [position, position + length) of b, replaced by the lowest ones of a.
template <class T>
void insert_bits(Thread& t, const Instruction& i) {
  constexpr u32 width = 8 * sizeof(T);
  const u32 position = std::min<u32>(t.get<u32>(i.from[2]) & 0xff, width);
  const u32 length = std::min<u32>(t.get<u32>(i.from[3]) & 0xff, width - position);
  const T ones = length == width ? ~T{0} : static_cast<T>((T{1} << length) - 1);
  const T mask = position == width ? T{0} : static_cast<T>(ones << position);
  const T moved = position == width ? T{0} : static_cast<T>(t.get<T>(i.from[0]) << position);
  t.set(i.to[0], static_cast<T>((t.get<T>(i.from[1]) & ~mask) | (moved & mask)));
}
void join(Thread& t, const Instruction& i) {
  t.set<u64>(i.to[0], t.get<u32>(i.from[0]) | u64{t.get<u32>(i.from[1])} << 32);
}
void split(Thread& t, const Instruction& i) {
  const u64 bits = t.get<u64>(i.from[0]);
  t.set(i.to[0], static_cast<u32>(bits));
  t.set(i.to[1], static_cast<u32>(bits >> 32));
}

template <Space space>
Address address_of(const Thread& t, const Instruction& i, Register r) {
  const Address base = space == Space::shared ? t.get<u32>(r) : t.get<u64>(r);
  return base + static_cast<Address>(static_cast<s64>(i.offset));
}
template <Space space, class T>
void load(Thread& t, const Instruction& i) {
  const unsigned char* place =
      t.reach(space, address_of<space>(t, i, i.from[0]), i.count * sizeof(T), Access::read);
  for (u32 k = 0; k < i.count; ++k, place += sizeof(T)) {
    T value;
    std::memcpy(&value, place, sizeof value);
    t.set(i.to[k], value);
  }
}
template <Space space, class T>
void store(Thread& t, const Instruction& i) {
  unsigned char* place =
      t.reach(space, address_of<space>(t, i, i.from[0]), i.count * sizeof(T), Access::write);
  for (u32 k = 0; k < i.count; ++k, place += sizeof(T)) {
    const T value = t.get<T>(i.from[k + 1]);
    std::memcpy(place, &value, sizeof value);
  }
}
template <Space space>
void add_atomically(Thread& t, const Instruction& i) {
  unsigned char* place = t.reach(space, address_of<space>(t, i, i.from[0]), 4, Access::add);
  u32 before;
  std::memcpy(&before, place, 4);
  const u32 after = before + t.get<u32>(i.from[1]);
  std::memcpy(place, &after, 4);
  t.set(i.to[0], before);
}
void copy_ahead(Thread& t, const Instruction& i) {
  t.queue_copy(t.get<u32>(i.from[0]), t.get<u64>(i.from[1]), t.get<u32>(i.from[2]), true);
}
/// Of all bytes, or of none: zeros.
void copy_or_clear_ahead(Thread& t, const Instruction& i) {
  t.queue_copy(t.get<u32>(i.from[0]), t.get<u64>(i.from[1]), t.get<u32>(i.from[2]),
               t.get<u32>(i.from[3]) != 0);
}
void read_ahead(Thread& t, const Instruction& i) {
  t.reach(Space::global, address_of<Space::global>(t, i, i.from[0]), sizeof(f32), Access::read);
}
void close_copies(Thread& t, const Instruction&) {
  t.copies.push_back(std::move(t.open_copies));
  t.open_copies.clear();
}
void await_copies(Thread& t, const Instruction& i) { t.await_copies(t.get<u32>(i.from[0])); }

void branch(Thread& t, const Instruction& i) { t.next = i.target; }
void wait(Thread& t, const Instruction&) { t.state = Thread::State::waits; }
void meet(Thread& t, const Instruction&) { t.state = Thread::State::meets; }
void end(Thread& t, const Instruction&) { t.state = Thread::State::has_ended; }

// Integers wrap round, and those of 16 bits are not made wider than that.
constexpr auto same = [](auto a) { return a; };
constexpr auto add = [](auto a, auto b) { return a + b; };
constexpr auto subtract = [](auto a, auto b) { return a - b; };
constexpr auto multiply = [](auto a, auto b) { return a * b; };
constexpr auto quotient = [](auto a, auto b) { return a / b; };
constexpr auto remainder = [](auto a, auto b) { return a % b; };
constexpr auto multiply_add = [](auto a, auto b, auto c) { return a * b + c; };
constexpr auto fused = [](auto a, auto b, auto c) { return std::fma(a, b, c); };
constexpr auto both = [](auto a, auto b) { return a & b; };
constexpr auto either = [](auto a, auto b) { return a | b; };
constexpr auto one_of = [](auto a, auto b) { return a ^ b; };
constexpr auto inverted = [](auto a) { return ~a; };
constexpr auto negated = [](auto a) { return -a; };
constexpr auto logical_not = [](auto a) { return a == 0 ? 1 : 0; };
constexpr auto magnitude = [](auto a) { return std::fabs(a); };
constexpr auto root = [](auto a) { return std::sqrt(a); };
constexpr auto reciprocal = [](auto a) { return 1 / a; };
constexpr auto with_sign_of = [](auto sign, auto a) { return std::copysign(a, sign); };
constexpr auto left = [](auto a, u32 by) { return by >= 8 * sizeof a ? 0 : a << by; };
constexpr auto right = [](auto a, u32 by) {
  constexpr u32 width = 8 * sizeof a;
  if constexpr (std::is_signed_v<decltype(a)>) return a >> std::min(by, width - 1);
  return by >= width ? 0 : a >> by;
};
template <class T>
bool is_nan(T a) {
  return a != a;
}
constexpr auto equal = [](auto a, auto b) { return a == b; };
constexpr auto unequal = [](auto a, auto b) { return !is_nan(a) && !is_nan(b) && a != b; };
constexpr auto less = [](auto a, auto b) { return a < b; };
constexpr auto less_or_equal = [](auto a, auto b) { return a <= b; };
constexpr auto greater = [](auto a, auto b) { return a > b; };
constexpr auto greater_or_equal = [](auto a, auto b) { return a >= b; };
constexpr auto incomparable = [](auto a, auto b) { return is_nan(a) || is_nan(b); };
/// Of numbers, if one of them is not NaN; +0 is greater than -0.
constexpr auto greater_number = [](auto a, auto b) {
  if (is_nan(a) || is_nan(b)) return is_nan(a) ? b : a;
  if constexpr (std::is_floating_point_v<decltype(a)>) {
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
};
constexpr auto lesser_number = [](auto a, auto b) {
  if (is_nan(a) || is_nan(b)) return is_nan(a) ? b : a;
  if constexpr (std::is_floating_point_v<decltype(a)>) {
    if (a == b) return std::signbit(a) ? a : b;
  }
  return b < a ? b : a;
};
/// Towards zero; what does not fit becomes the nearest that does, NaN zero.
template <class To>
constexpr auto truncated = [](auto a) -> To {
  using From = decltype(a);
  if (is_nan(a)) return 0;
  constexpr auto least = static_cast<From>(std::numeric_limits<To>::min());
  constexpr auto beyond = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
  if (a <= least) return std::numeric_limits<To>::min();
  if (a >= beyond) return std::numeric_limits<To>::max();
  return static_cast<To>(a);
};
constexpr auto nearest_whole = [](auto a) { return std::nearbyint(a); };
constexpr auto ones_of = [](u64 a) { return std::popcount(a); };
constexpr auto zeros_before = [](u64 a) { return std::countl_zero(a); };
constexpr auto next_lower_whole = [](auto a) { return std::floor(a); };

using Steps = std::map<std::string, Step, std::less<>>;

/// Both comparisons of a kind: false where one of them is NaN, and (…u) true.
template <class T, auto f>
void add_comparison(Steps& steps, const std::string& name, const std::string& type) {
  steps["setp." + name + "." + type] = compare<T, f>;
  if constexpr (std::is_floating_point_v<T>) {
    constexpr auto unordered = [](auto a, auto b) { return incomparable(a, b) || f(a, b); };
    steps["setp." + name + "u." + type] = compare<T, unordered>;
  }
}
template <class T>
void add_comparisons(Steps& steps, const std::string& type) {
  add_comparison<T, equal>(steps, "eq", type);
  add_comparison<T, unequal>(steps, "ne", type);
  add_comparison<T, less>(steps, "lt", type);
  add_comparison<T, less_or_equal>(steps, "le", type);
  add_comparison<T, greater>(steps, "gt", type);
  add_comparison<T, greater_or_equal>(steps, "ge", type);
}

template <class T>
void add_moves(Steps& steps, const std::string& type) {
  steps["mov." + type] = unary<T, same>;
  steps["selp." + type] = select<T>;
}

/// What integers and floats have in common.
template <class T>
void add_numbers(Steps& steps, const std::string& type) {
  add_moves<T>(steps, type);
  add_comparisons<T>(steps, type);
  steps["min." + type] = binary<T, lesser_number>;
  steps["max." + type] = binary<T, greater_number>;
}

template <class T, class Unsigned = T>
void add_integers(Steps& steps, const std::string& type) {
  add_numbers<T>(steps, type);
  // Unsigned, as signed ones may not wrap round in C++.
  steps["add." + type] = binary<Unsigned, add>;
  steps["sub." + type] = binary<Unsigned, subtract>;
  steps["mul.lo." + type] = binary<Unsigned, multiply>;
  steps["mad.lo." + type] = ternary<Unsigned, multiply_add>;
  steps["neg." + type] = unary<Unsigned, negated>;
  steps["div." + type] = divide<T, quotient>;
  steps["rem." + type] = divide<T, remainder>;
  steps["shr." + type] = shift<T, right>;
}

template <class T>
void add_bits(Steps& steps, const std::string& type) {
  add_moves<T>(steps, type);
  add_comparison<T, equal>(steps, "eq", type);
  add_comparison<T, unequal>(steps, "ne", type);
  steps["and." + type] = binary<T, both>;
  steps["or." + type] = binary<T, either>;
  steps["xor." + type] = binary<T, one_of>;
  steps["not." + type] = unary<T, inverted>;
  steps["shl." + type] = shift<T, left>;
  steps["shr." + type] = shift<T, right>;  // T is unsigned
}

template <class T>
void add_floats(Steps& steps, const std::string& type) {
  add_numbers<T>(steps, type);
  steps["setp.nan." + type] = compare<T, incomparable>;
  steps["add.rn." + type] = steps["add." + type] = binary<T, add>;
  steps["sub.rn." + type] = steps["sub." + type] = binary<T, subtract>;
  steps["mul.rn." + type] = steps["mul." + type] = binary<T, multiply>;
  steps["div.rn." + type] = binary<T, quotient>;
  steps["fma.rn." + type] = ternary<T, fused>;
  steps["sqrt.rn." + type] = unary<T, root>;
  steps["rcp.rn." + type] = unary<T, reciprocal>;
  steps["abs." + type] = unary<T, magnitude>;
  steps["neg." + type] = unary<T, negated>;
  steps["copysign." + type] = binary<T, with_sign_of>;
}

template <class T>
void add_memory(Steps& steps, const std::string& type) {
  const auto both_ways = [&]<Space space>(const std::string& name) {
    for (const std::string vector : {".", ".v2.", ".v4."}) {
      std::string end = name;
      end += vector;
      end += type;
      steps["ld" + end] = load<space, T>;
      steps["st" + end] = store<space, T>;
    }
  };
  // By an address of any space: none but device memory has one.
  both_ways.template operator()<Space::global>("");
  both_ways.template operator()<Space::global>(".global");
  both_ways.template operator()<Space::shared>(".shared");
  both_ways.template operator()<Space::local>(".local");
  both_ways.template operator()<Space::arguments>(".param");
}

Steps all_steps() {
  Steps steps;
  add_bits<u16>(steps, "b16");
  add_bits<u32>(steps, "b32");
  add_bits<u64>(steps, "b64");
  add_bits<u64>(steps, "pred");
  steps["not.pred"] = unary<u64, logical_not>;
  add_integers<u16>(steps, "u16");
  add_integers<u32>(steps, "u32");
  add_integers<u64>(steps, "u64");
  add_integers<std::int16_t, u16>(steps, "s16");
  add_integers<s32, u32>(steps, "s32");
  add_integers<s64, u64>(steps, "s64");
  add_floats<f32>(steps, "f32");
  add_floats<f64>(steps, "f64");
  steps["mul.wide.u16"] = multiply_wide<u32, u16>;
  steps["mul.wide.u32"] = multiply_wide<u64, u32>;
  steps["mul.wide.s32"] = multiply_wide<s64, s32>;
  steps["bfi.b32"] = insert_bits<u32>;
  steps["bfi.b64"] = insert_bits<u64>;
  steps["cvt.u64.u16"] = convert<u64, u16, same>;
  steps["cvt.u64.u32"] = convert<u64, u32, same>;
  steps["cvt.s64.s32"] = convert<s64, s32, same>;
  steps["cvt.u32.u64"] = convert<u32, u64, same>;
  steps["cvt.u32.u16"] = convert<u32, u16, same>;
  steps["cvt.u64.u16"] = convert<u64, u16, same>;
  steps["cvt.u16.u32"] = convert<u16, u32, same>;
  steps["cvt.u16.u64"] = convert<u16, u64, same>;
  steps["cvt.f64.f32"] = convert<f64, f32, same>;
  steps["cvt.rn.f32.f64"] = convert<f32, f64, same>;
  steps["cvt.rn.f32.u32"] = convert<f32, u32, same>;
  steps["cvt.rn.f32.s32"] = convert<f32, s32, same>;
  steps["cvt.rn.f64.u32"] = convert<f64, u32, same>;
  steps["cvt.rn.f64.s32"] = convert<f64, s32, same>;
  steps["cvt.rzi.u32.f32"] = convert<u32, f32, truncated<u32>>;
  steps["cvt.rzi.s32.f32"] = convert<s32, f32, truncated<s32>>;
  steps["cvt.rzi.u32.f64"] = convert<u32, f64, truncated<u32>>;
  steps["cvt.rni.f64.f64"] = unary<f64, nearest_whole>;
  steps["cvt.rmi.f64.f64"] = unary<f64, next_lower_whole>;
  steps["popc.b64"] = convert<u32, u64, ones_of>;
  steps["clz.b64"] = convert<u32, u64, zeros_before>;
  steps["cvta.to.global.u64"] = unary<u64, same>;
  add_memory<u8>(steps, "u8");
  add_memory<u16>(steps, "u16");
  add_memory<u32>(steps, "u32");
  add_memory<u64>(steps, "u64");
  add_memory<s32>(steps, "s32");
  add_memory<f32>(steps, "f32");
  add_memory<f64>(steps, "f64");
  steps["atom.shared.add.u32"] = add_atomically<Space::shared>;
  steps["atom.add.u32"] = add_atomically<Space::global>;
  steps["cp.async.ca.shared.global"] = steps["cp.async.cg.shared.global"] = copy_ahead;
  steps["cp.async.commit_group"] = close_copies;
  steps["cp.async.wait_group"] = await_copies;
  steps["prefetch.global.L2"] = read_ahead;
  steps["bra"] = steps["bra.uni"] = branch;
  steps["bar.sync"] = wait;
  steps["mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"] = meet;
  steps["ret"] = end;
  return steps;
}

/// A factor of a tensor core, which has TF32's bits only.
float cut_off(u32 bits) {
  bits &= ~0x1FFFU;
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

}  // namespace

void multiply_tiles(std::span<Thread> lanes) {
  const Instruction& i = *lanes[0].instruction;
  float a[16][8], b[8][8];
  for (u32 l = 0; l < warp; ++l) {
    const u32 row = l / 4, column = l % 4;
    for (u32 k = 0; k < 4; ++k)
      a[row + k % 2 * 8][column + k / 2 * 4] = cut_off(lanes[l].get<u32>(i.from[k]));
    for (u32 k = 0; k < 2; ++k) b[column + 4 * k][row] = cut_off(lanes[l].get<u32>(i.from[4 + k]));
  }
  for (u32 l = 0; l < warp; ++l) {
    for (u32 c = 0; c < 4; ++c) {
      auto sum = lanes[l].get<f32>(i.from[6 + c]);
      for (u32 k = 0; k < 8; ++k) sum += a[l / 4 + c / 2 * 8][k] * b[k][2 * (l % 4) + c % 2];
      lanes[l].set(i.to[c], sum);
    }
  }
}

Step find_step(std::string_view name, std::uint32_t to, std::uint32_t from) {
  static const Steps steps = all_steps();
  if (name == "mov.b64" && from == 2) return join;
  if (name == "mov.b64" && to == 2) return split;
  if (name.starts_with("cp.async.c") && from == 4) return copy_or_clear_ahead;
  const auto found = steps.find(name);
  return found == steps.end() ? nullptr : found->second;
}

}  // namespace starling::ptx
