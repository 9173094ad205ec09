// Random streams over Philox4x32-10. What is encrypted and with which key:
//
//   key     = mix(mix(seed) xor fnv1a(purpose)), 64 bits; the same for all nodes and steps
//   counter = {block, node, low half of step, high half of step}, 32 bits each
//
// Philox is a bijection of the counter, and every (node, step) has counters of its own, so streams
// of one (seed, purpose) never overlap. Block b yields words 4b .. 4b + 3 of the stream. After 2^32
// blocks the low half of the key counts up, which starts 2^34 fresh words.
#include "sim/base/random.hpp"

#include <cmath>

#include <Random123/philox.h>

#include "sim/base/elementary.hpp"
#include "sim/base/error.hpp"

namespace starling {
namespace {

__extension__ using Uint128 = unsigned __int128;

/// 64-bit FNV-1a: a purpose is a short word, and its hash must be the same everywhere (std::hash is
/// not).
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const char c : text) {
    value ^= static_cast<unsigned char>(c);
    value *= 0x100000001b3u;
  }
  return value;
}

/// One step of splitmix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators",
/// OOPSLA 2014): a bijection that changes half of the output bits when one input bit changes.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

constexpr std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
constexpr std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

std::array<std::uint32_t, 4> first_block(NodeId node, Step step) {
  const auto steps = static_cast<std::uint64_t>(step);
  return {0, static_cast<std::uint32_t>(node), low(steps), high(steps)};
}

/// Two words of a stream as one; the first is the upper half.
std::uint64_t draw_64(Random& random) {
  const std::uint64_t upper = random();
  const std::uint64_t lower = random();
  return (upper << 32) | lower;
}

}  // namespace

std::array<std::uint32_t, 4> philox(const std::array<std::uint32_t, 4>& counter,
                                    const std::array<std::uint32_t, 2>& key) {
  const auto block =
      r123::Philox4x32()({{counter[0], counter[1], counter[2], counter[3]}}, {{key[0], key[1]}});
  return {block[0], block[1], block[2], block[3]};
}

Random::Random(std::uint64_t seed, std::string_view purpose, NodeId node, Step step) {
  const std::uint64_t key = mix(mix(seed) ^ hash(purpose));
  key_ = {low(key), high(key)};
  counter_ = first_block(node, step);
}

Random Random::at(NodeId node, Step step) const {
  Random other = *this;
  other.counter_ = first_block(node, step);
  other.used_ = 4;
  return other;
}

void Random::refill() {
  block_ = philox(counter_, key_);
  if (++counter_[0] == 0) ++key_[0];
  used_ = 0;
}

double Random::uniform() { return static_cast<double>(draw_64(*this) >> 11) * 0x1p-53; }

// Lemire, "Fast Random Integer Generation in an Interval", ACM TOMACS 29(1), 2019: the upper half
// of draw * bound, drawn again in the few cases where the lower half would make some answers
// likelier than others.
std::uint64_t Random::below(std::uint64_t bound) {
  ensure(bound > 0, "Random::below needs a positive bound");
  Uint128 product = static_cast<Uint128>(draw_64(*this)) * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t surplus = -bound % bound;  // 2^64 modulo bound
    while (static_cast<std::uint64_t>(product) < surplus) {
      product = static_cast<Uint128>(draw_64(*this)) * bound;
    }
  }
  return static_cast<std::uint64_t>(product >> 64);
}

// Box and Muller, "A Note on the Generation of Random Normal Deviates", Annals of Mathematical
// Statistics 29(2), 1958. The sine twin is not kept: a stream has no hidden state, and every call
// takes exactly two uniforms.
double Random::normal() {
  const double radius = std::sqrt(-2.0 * exact_log(1.0 - uniform()));
  return radius * exact_cos_turns(uniform());
}

double Random::exponential() { return -exact_log(1.0 - uniform()); }

double Random::gamma(double shape) {
  ensure(shape > 0, "Random::gamma needs a positive shape");
  // gamma(shape) = gamma(shape + 1) * uniform^(1 / shape), in the paper's section 6
  if (shape < 1) {
    const double larger = gamma(shape + 1);
    return larger * exact_exp(exact_log(1.0 - uniform()) / shape);
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double x = normal();
    const double root = std::fma(c, x, 1.0);
    if (root <= 0) continue;
    const double v = root * root * root;
    const double bound = std::fma(d, 1.0 - v + exact_log(v), 0.5 * x * x);
    if (exact_log(1.0 - uniform()) < bound) return d * v;
  }
}

}  // namespace starling
