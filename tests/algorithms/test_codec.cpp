// Codecs through whole runs: bytes on the wire, what receivers make of a code, error feedback.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "algorithms/codec.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/registry.hpp"
#include "sim/base/error.hpp"
#include "tests/support/program_run.hpp"
#include "tests/support/section_of_keys.hpp"

namespace starling::test_codec {
using namespace algorithms;

namespace {

using test::Keys;

SharedCodec codec_of(const Keys& keys) {
  const Section section = test::section_of_keys("algorithm", keys);
  SharedCodec codec = read_codec(section);
  section.finish();
  return codec;
}

/// The codec that `keys` name, of vectors of such tensors each by itself.
SharedCodec codec_by_tensors(Keys keys, const std::vector<std::size_t>& tensors) {
  keys.emplace_back("unit", "tensors");
  const Section section = test::section_of_keys("algorithm", keys);
  SharedCodec codec = read_plain_codec(section, {.tensors = &tensors});
  section.finish();
  return codec;
}

/// Node 0 keeps the start and sends its code in every step; node 1 keeps what it reads, beside `around` times its own.
Task<> send_start(Node& node, SharedCodec codec, double around) {
  const Vector start = node.initial_model();
  Vector reference = start;
  reference.scale(around);
  for (Step k = 0; k < node.steps(); ++k) {
    const Random stream = code_stream(node, 0, k);
    Vector kept = start;
    if (node.id() == 0) {
      const Encoded encoded = encode(*codec, start, stream, start);
      node.send_code(1, tag_of(Channel::program, k), encoded.code,
                     squared_distance(encoded.decoded, node.zeros(start.size())).value());
    } else {
      const Message m = co_await node.receive(0, tag_of(Channel::program, k));
      kept = codec->decode(m.values, start.size(), stream, reference);
      const Scalar sum = squared_distance(kept, node.zeros(start.size()));
      node.record("checksum_error", k, std::abs(sum.value() - m.number));
      node.record("distance", k, squared_distance(kept, start));
    }
    node.end_step(k, kept);
  }
}

Recorder send_codes(SharedCodec codec, const std::vector<std::string>& overrides,
                    double around = 1) {
  return test::run_program(
      test::quadratic_scenario(2, 3, "complete", "kind = dpsgd\nlearning_rate = 1"),
      [codec = std::move(codec), around](Node& node) { return send_start(node, codec, around); },
      overrides);
}

/// The same without reading numbers.
Task<> send_hollow(Node& node, SharedCodec codec) {
  const Vector start = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const Random stream = code_stream(node, 0, k);
    if (node.id() == 0)
      node.send_code(1, tag_of(Channel::program, k), codec->encode(start, stream));
    if (node.id() == 1) {
      const Message m = co_await node.receive(0, tag_of(Channel::program, k));
      CHECK(codec->decode(m.values, start.size(), stream, start).size() == start.size());
    }
    node.end_step(k, start);
  }
}

/// Node 0 keeps the start, node 1 the mean of 4000 codes of it.
Task<> mean_of_codes(Node& node, SharedCodec codec) {
  const Vector start = node.initial_model();
  Vector sum = node.zeros(start.size());
  for (Step k = 0; k < 4000; ++k) {
    const Encoded encoded = encode(*codec, start, code_stream(node, 0, k), start);
    sum.add_scaled(1.0 / 4000, encoded.decoded);
  }
  node.end_step(0, node.id() == 0 ? start : sum);
  co_return;
}

struct Case {
  Keys keys;
  std::int64_t bytes;      // for 1001 entries
  std::int64_t big_bytes;  // for 1000 entries that stand for a million
};

/// The table of codec.hpp. Buckets of 512: 2 norms; 7 levels: 3 bits and a sign; 16 levels: 5 bits and a sign. By Elias's code:
/// 1411.9 bits of 512 entries, 1377.2 of 489, 1375.7 of 488; with one level 420.7 of 1001, 420.5 of 1000; 22 levels are too many.
const std::vector<Case> cases{
    {{{"compression", "none"}}, 4004, 4'000'000},
    {{{"compression", "half"}}, 2002, 2'000'000},
    {{{"compression", "bfloat"}}, 2002, 2'000'000},
    {{{"compression", "float4"}}, 2 * 4 + 501, 508'000},
    {{{"compression", "float4"}, {"bucket", "0"}}, 4 + 501, 504'000},
    {{{"compression", "top_k"}, {"keep", "0.05"}}, 8 * 50, 400'000},
    {{{"compression", "random_k"}, {"keep", "0.05"}}, 4 * 50, 200'000},
    {{{"compression", "random_k"}, {"keep", "0.0001"}, {"unbiased", "yes"}}, 4, 4'000},
    {{{"compression", "levels"}}, 2 * 4 + 501, 508'000},
    {{{"compression", "levels"}, {"levels", "16"}, {"bucket", "0"}}, 4 + 751, 754'000},
    {{{"compression", "levels"}, {"coding", "elias"}}, 349, 349'000},
    {{{"compression", "levels"}, {"levels", "1"}, {"bucket", "0"}, {"coding", "elias"}},
     53,
     53'000},
    {{{"compression", "levels"}, {"levels", "22"}, {"coding", "elias"}}, 2 * 4 + 751, 758'000},
    {{{"compression", "ternary"}}, 4 + 251, 254'000},
    {{{"compression", "sign"}}, 4 + 126, 129'000},
    {{{"compression", "one_bit"}}, 8 + 126, 133'000},
    {{{"compression", "lattice"}, {"cell", "0.01"}}, 1001, 1'000'000},
    {{{"compression", "lattice"}, {"cell", "0.01"}, {"bits", "5"}}, 626, 625'000},
};

}  // namespace

TEST_CASE("a code has the bytes of the table, whatever it stands for, with numbers or without") {
  for (const Case& c : cases) {
    CAPTURE(c.keys[0].second);
    const SharedCodec codec = codec_of(c.keys);
    const Recorder exact =
        send_codes(codec, {"workload.dimension=1001", "workload.start_spread=1"});
    CHECK(exact.nodes[0].bytes_sent == 3 * c.bytes);
    CHECK(exact.nodes[0].messages_sent == 3);
    const Recorder big = send_codes(codec, {"workload.dimension=1000", "workload.start_spread=1",
                                            "workload.wire_parameters=1000000"});
    CHECK(big.nodes[0].bytes_sent == 3 * c.big_bytes);

    std::string text =
        test::quadratic_scenario(2, 3, "complete", "kind = dpsgd\nlearning_rate = 1");
    const std::string quadratic = "kind = quadratic\ndimension = 5";
    text.replace(text.find(quadratic), quadratic.size(), "kind = timing\nparameters = 1001");
    const Recorder hollow =
        test::run_program(text, [codec](Node& node) { return send_hollow(node, codec); });
    CHECK(hollow.nodes[0].bytes_sent == 3 * c.bytes);
  }
}

TEST_CASE("bytes of a code of a model that stands for a larger one are rounded to the nearest") {
  // 129 B of 1000 entries, times 1.75: 225.75; times 1.25: 161.25.
  const SharedCodec codec = codec_of({{"compression", "sign"}});
  const auto bytes = [&](const std::string& parameters) {
    return send_codes(codec, {"workload.dimension=1000", "workload.start_spread=1",
                              "workload.wire_parameters=" + parameters})
        .nodes[0]
        .bytes_sent;
  };
  CHECK(bytes("1750") == 3 * 226);
  CHECK(bytes("1250") == 3 * 161);
}

TEST_CASE("a threshold sends what reaches it, and an empty code costs a notice") {
  const Keys keys{{"compression", "threshold"}, {"threshold", "1"}, {"keep", "0.1"}};
  const SharedCodec codec = codec_of(keys);
  CHECK(send_codes(codec, {"workload.dimension=100", "workload.start=2"}).nodes[0].bytes_sent ==
        3 * 800);
  const Recorder nothing = send_codes(codec, {"workload.dimension=100", "workload.start=0.5"});
  CHECK(nothing.nodes[0].bytes_sent == 3 * control_bytes);
  CHECK(nothing.models[1] == std::vector<float>(100, 0.0F));
}

TEST_CASE(
    "quantized by a threshold, every entry that reaches it is sent as the threshold, in 4 bytes") {
  const SharedCodec codec =
      codec_of({{"compression", "threshold_quantization"}, {"threshold", "0.75"}, {"keep", "0.1"}});
  const Recorder all = send_codes(codec, {"workload.dimension=100", "workload.start=-2"});
  CHECK(all.nodes[0].bytes_sent == 3 * 400);
  CHECK(all.models[1] == std::vector<float>(100, -0.75F));
  const Recorder some = send_codes(codec, {"workload.dimension=100", "workload.start_spread=1"});
  std::int64_t reached = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    const double v = test::model(some, 0, i);
    const double expected = std::abs(v) < 0.75 ? 0 : std::copysign(0.75, v);
    CHECK(test::model(some, 1, i) == expected);
    reached += expected == 0 ? 0 : 1;
  }
  CHECK(some.nodes[0].bytes_sent == 3 * 4 * reached);
  CHECK(send_codes(codec, {"workload.dimension=100", "workload.start=0.5"}).nodes[0].bytes_sent ==
        3 * control_bytes);
}

TEST_CASE("threshold quantization with its residual is Strom's recursion, to the bit") {
  // One node, f = 1/2 (x - 1)^2: p <- e + (x - 1) / 4, q = +-1/8 where |p| >= 1/8, e <- p - q, x <- x - q. All numbers are
  // multiples of small powers of two, so double and float agree.
  double x = 0;
  double e = 0;
  for (int k = 0; k < 12; ++k) {
    const double p = e + (x - 1) / 4;
    const double q = std::abs(p) >= 0.125 ? std::copysign(0.125, p) : 0;
    e = p - q;
    x -= q;
  }
  const Recorder recorder =
      test::run(test::quadratic_scenario(1, 12, "complete",
                                         "kind = allreduce\nlearning_rate = 0.25\ncompression = "
                                         "threshold_quantization\nthreshold = 0.125\nkeep = 1"),
                {"workload.centers=list", "workload.center_values=1", "workload.curvature_min=1",
                 "workload.curvature_max=1"});
  CHECK(x > 0.5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(test::model(recorder, 0, i) == x);
}

TEST_CASE("adaptive quantization sends the largest of either side as their mean") {
  const SharedCodec codec = codec_of({{"compression", "adaptive_quantization"}, {"keep", "0.05"}});
  const Recorder recorder =
      send_codes(codec, {"workload.dimension=1000", "workload.start_spread=1"});
  std::int64_t sent = 0;
  for (const double sign : {1.0, -1.0}) {
    std::vector<double> side;
    for (std::size_t i = 0; i < 1000; ++i) {
      if (sign * test::model(recorder, 0, i) > 0)
        side.push_back(sign * test::model(recorder, 0, i));
    }
    std::ranges::sort(side, std::greater{});
    side.resize(static_cast<std::size_t>(0.05 * static_cast<double>(side.size()) + 0.5));
    double mean = 0;
    for (const double v : side) mean += v / static_cast<double>(side.size());
    sent += static_cast<std::int64_t>(side.size());
    for (std::size_t i = 0; i < 1000; ++i) {
      const double v = sign * test::model(recorder, 0, i);
      const double read = sign * test::model(recorder, 1, i);
      if (v >= side.back()) CHECK(read == doctest::Approx(mean).epsilon(1e-6));
      if (v > 0 && v < side.back()) CHECK(read == 0);
    }
  }
  CHECK(sent >= 49);
  CHECK(recorder.nodes[0].bytes_sent == 3 * (8 + 4 * sent));
  // One side alone, and none.
  const Recorder upper = send_codes(codec, {"workload.dimension=100", "workload.start=2"});
  CHECK(upper.nodes[0].bytes_sent == 3 * (8 + 4 * 5));
  for (std::size_t i = 0; i < 100; ++i) CHECK(test::model(upper, 1, i) == (i < 95 ? 0 : 2));
  const Recorder zeros = send_codes(codec, {"workload.dimension=100", "workload.start=0"});
  CHECK(zeros.nodes[0].bytes_sent == 3 * control_bytes);
  CHECK(zeros.models[1] == std::vector<float>(100, 0.0F));
}

TEST_CASE("gradient dropping finds its threshold from a sample; from all entries it is top-k") {
  const std::vector<std::string> settings{"workload.dimension=1000", "workload.start_spread=1"};
  const Recorder whole = send_codes(
      codec_of({{"compression", "gradient_dropping"}, {"keep", "0.05"}, {"sample", "1"}}),
      settings);
  const Recorder top = send_codes(codec_of({{"compression", "top_k"}, {"keep", "0.05"}}), settings);
  CHECK(whole.models == top.models);
  CHECK(whole.nodes == top.nodes);
  // 100 sampled entries, of which the fifth largest counts: of all 50 are larger in expectation, and hardly ever fewer than 10
  // or more than 120 (the fifth of 100 uniform numbers has mean 0.05 and standard deviation 0.022).
  const Recorder sampled = send_codes(
      codec_of({{"compression", "gradient_dropping"}, {"keep", "0.05"}, {"sample", "0.1"}}),
      settings);
  double least = 1e9;
  int kept = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    const double read = test::model(sampled, 1, i);
    if (read == 0) continue;
    ++kept;
    CHECK(read == test::model(sampled, 0, i));
    least = std::fmin(least, std::abs(read));
  }
  for (std::size_t i = 0; i < 1000; ++i)
    CHECK((std::abs(test::model(sampled, 0, i)) >= least) == (test::model(sampled, 1, i) != 0));
  CHECK((kept >= 10 && kept <= 120));
  CHECK(kept != 50);
}

TEST_CASE("gradient dropping keeps its share of small vectors, whose sample was too small for it") {
  // A thousandth of 1000 entries is one, whose magnitude half of them reach. 1 / keep = 20 are sampled: their largest is
  // reached by a share of 1/21 in expectation, and by more than 0.3 with a chance of 0.7^20 < 0.001.
  const Recorder recorder =
      send_codes(codec_of({{"compression", "gradient_dropping"}, {"keep", "0.05"}}),
                 {"workload.dimension=1000", "workload.start_spread=1"});
  int kept = 0;
  for (std::size_t i = 0; i < 1000; ++i) kept += test::model(recorder, 1, i) != 0 ? 1 : 0;
  CHECK(kept >= 1);
  CHECK(kept <= 300);
}

TEST_CASE("codes whose size follows from values have a share of the entries where there are none") {
  std::string text = test::quadratic_scenario(2, 3, "complete", "kind = dpsgd\nlearning_rate = 1");
  const std::string quadratic = "kind = quadratic\ndimension = 5";
  text.replace(text.find(quadratic), quadratic.size(), "kind = timing\nparameters = 1000");
  const std::pair<Keys, std::int64_t> codecs[] = {
      {{{"compression", "gradient_dropping"}, {"keep", "0.01"}}, 8 * 10},
      {{{"compression", "threshold"}, {"threshold", "1"}, {"keep", "0.05"}}, 8 * 50},
      {{{"compression", "threshold_quantization"}, {"threshold", "1"}, {"keep", "0.05"}}, 4 * 50},
      {{{"compression", "adaptive_quantization"}, {"keep", "0.05"}}, 8 + 4 * 50}};
  for (const auto& entry : codecs) {
    CAPTURE(entry.first[0].second);
    const auto& [keys, bytes] = entry;
    const SharedCodec codec = codec_of(keys);
    const Recorder hollow =
        test::run_program(text, [codec](Node& node) { return send_hollow(node, codec); });
    CHECK(hollow.nodes[0].bytes_sent == 3 * bytes);
  }
}

TEST_CASE("the receiver of a code reads what its sender knows of it, to the bit") {
  for (const Case& c : cases) {
    CAPTURE(c.keys[0].second);
    const Recorder recorder = send_codes(codec_of(c.keys), {"workload.start_spread=1"}, 1.001);
    for (std::size_t k = 0; k < 3; ++k) CHECK(recorder.steps.value("checksum_error", k, 1) == 0);
  }
}

TEST_CASE("a code of tensors says of each what the tensor's own code would") {
  // Of 1001 entries 600, 1 and 400. Bytes as in the table, of each; a vector of another size is coded whole.
  const std::vector<std::size_t> tensors{600, 1, 400};
  const std::vector<std::string> normal{"workload.dimension=1001", "workload.start_spread=1"};
  struct Unit {
    Keys keys;
    std::int64_t bytes;
  };
  const Unit units[] = {
      {{{"compression", "float4"}}, (8 + 300) + (4 + 1) + (4 + 200)},
      {{{"compression", "top_k"}, {"keep", "0.05"}}, 8 * (30 + 1 + 20)},
      {{{"compression", "top_k"}, {"keep", "0.05"}, {"strict", "yes"}}, 8 * (29 + 1 + 19)},
      {{{"compression", "random_k"}, {"keep", "0.05"}, {"unbiased", "yes"}}, 4 * (30 + 1 + 20)},
      {{{"compression", "levels"}}, (8 + 300) + (4 + 1) + (4 + 200)},
      {{{"compression", "levels"}, {"levels", "16"}, {"bucket", "0"}},
       (4 + 450) + (4 + 1) + (4 + 300)},
      {{{"compression", "ternary"}}, (4 + 150) + (4 + 1) + (4 + 100)},
      {{{"compression", "sign"}}, (4 + 75) + (4 + 1) + (4 + 50)},
      {{{"compression", "one_bit"}}, (8 + 75) + (8 + 1) + (8 + 50)},
  };
  for (const Unit& unit : units) {
    CAPTURE(unit.keys[0].second);
    const SharedCodec codec = codec_by_tensors(unit.keys, tensors);
    const Recorder recorder = send_codes(codec, normal);
    CHECK(recorder.nodes[0].bytes_sent == 3 * unit.bytes);
    for (std::size_t k = 0; k < 3; ++k) CHECK(recorder.steps.value("checksum_error", k, 1) == 0);
    CHECK(send_codes(codec, {"workload.start_spread=1"}).models ==
          send_codes(codec_of(unit.keys), {"workload.start_spread=1"}).models);
  }

  // Signs have the mean magnitude of their tensor.
  const Recorder signs = send_codes(codec_by_tensors({{"compression", "sign"}}, tensors), normal);
  std::size_t begin = 0;
  for (const std::size_t size : tensors) {
    double mean = 0;
    for (std::size_t i = begin; i < begin + size; ++i)
      mean += std::abs(test::model(signs, 0, i)) / static_cast<double>(size);
    for (std::size_t i = begin; i < begin + size; ++i) {
      const double read = std::copysign(mean, test::model(signs, 0, i));
      CHECK(test::model(signs, 1, i) == doctest::Approx(read).epsilon(1e-5));
    }
    begin += size;
  }

  // Tensors draw for themselves: of two equal ones different entries are sent.
  const Recorder drawn =
      send_codes(codec_by_tensors({{"compression", "random_k"}, {"keep", "0.1"}}, {500, 500}),
                 {"workload.dimension=1000", "workload.start=1"});
  std::size_t both = 0;
  for (std::size_t i = 0; i < 500; ++i)
    both += test::model(drawn, 1, i) != 0 && test::model(drawn, 1, 500 + i) != 0 ? 1 : 0;
  CHECK(both < 25);  // of 50, 5 on average
}

TEST_CASE("codecs that treat every entry alike have no unit") {
  const std::vector<std::size_t> tensors{2, 3};
  CHECK_THROWS_WITH_AS(codec_by_tensors({{"compression", "half"}}, tensors),
                       doctest::Contains("algorithm.unit is not a key here"), ScenarioError);
  CHECK_THROWS_WITH_AS(codec_of({{"compression", "sign"}, {"unit", "tensors"}}),
                       doctest::Contains("algorithm.unit is not a key here"), ScenarioError);

  const std::vector<std::size_t> one{5};
  const Section section =
      test::section_of_keys("algorithm", {{"compression", "sign"}, {"unit", "tensors"}});
  read_plain_codec(section, {.tensors = &one});
  CHECK(section.warnings() ==
        std::vector<std::string>{"test.ini:7: algorithm.unit = tensors changes nothing: the "
                                 "workload has one tensor"});
}

TEST_CASE("a lattice code out of range reads as a plausible wrong vector, and a checksum tells") {
  // 8 bits and cells of 0.01 reach 1.275 from the reference. 10 beside 11 is read as 10, up to half a cell; beside 12,
  // the nearest point of that color is 256 cells further on: 12.56.
  const SharedCodec codec = codec_of({{"compression", "lattice"}, {"cell", "0.01"}});
  const std::vector<std::string> ten{"workload.start=10"};
  const Recorder right = send_codes(codec, ten, 1.1);
  const Recorder wrong = send_codes(codec, ten, 1.2);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(std::abs(test::model(right, 1, i) - 10) < 0.00501);
    CHECK(std::abs(test::model(wrong, 1, i) - 12.56) < 0.00501);
  }
  for (std::size_t k = 0; k < 3; ++k) {
    CHECK(right.steps.value("checksum_error", k, 1) == 0);
    CHECK(wrong.steps.value("checksum_error", k, 1) > 100);  // 5 (12.56^2 - 10^2) = 289
  }
}

TEST_CASE("a lattice for a range recovers within 1 / (2^bits - 1) of it, and only inside it") {
  // Moniqua: B = 2 theta / (1 - 2 d), d = 2^-(bits + 1), so d B = theta / (2^bits - 1). With theta 2, 10 is right beside
  // 11.9. Beside 14.5 a point within B / 2 = theta + d B of that is read, whatever was sent; with a single bit that may even
  // be the right one.
  for (const std::uint32_t bits : {1U, 3U, 8U}) {
    for (const bool is_shifted : {false, true}) {
      const SharedCodec codec = lattice_codec(2, bits, is_shifted);
      const double steps = std::pow(2, bits) - 1;
      const Recorder right = send_codes(codec, {"workload.start=10"}, 1.19);
      const Recorder wrong = send_codes(codec, {"workload.start=10"}, 1.45);
      for (std::size_t i = 0; i < 5; ++i) {
        CHECK(std::abs(test::model(right, 1, i) - 10) < 2 / steps + 1e-5);
        CHECK(std::abs(test::model(wrong, 1, i) - 14.5) < 2 + 2 / steps + 1e-5);
        if (bits > 1) CHECK(std::abs(test::model(wrong, 1, i) - 10) > 4);
      }
    }
  }
}

TEST_CASE("codecs that call themselves unbiased are so, the others are not") {
  // The mean of 4000 codes of one vector of 40 normal numbers v, with L the norm and M the largest magnitude of v (about
  // 6.3 and 2.5). Standard deviation of one entry of a code, at most: random entries v sqrt(d/k - 1) = 2.5 * 3; one level
  // between 0 and M 1.25; 7 levels between 0 and L 0.45; a shifted lattice cell / sqrt 12 = 0.29. Of the mean, a 63rd:
  // 0.12, 0.02, 0.007, 0.005. 5 sigma; `none` shows the rounding of the sum. A biased random_k is off by 0.9 |v|.
  struct Bias {
    Keys keys;
    double allowed;
  };
  const std::vector<Bias> all{
      {{{"compression", "random_k"}, {"keep", "0.1"}, {"unbiased", "yes"}}, 0.6},
      {{{"compression", "ternary"}}, 0.1},
      {{{"compression", "levels"}}, 0.036},
      {{{"compression", "lattice"}, {"cell", "1"}}, 0.023},
      {{{"compression", "none"}}, 3e-4},
      {{{"compression", "random_k"}, {"keep", "0.1"}}, 0},
      {{{"compression", "levels"}, {"contractive", "yes"}}, 0},
      {{{"compression", "sign"}}, 0},
      {{{"compression", "float4"}}, 0},
      {{{"compression", "one_bit"}}, 0},
      {{{"compression", "top_k"}, {"keep", "0.1"}}, 0},
      {{{"compression", "lattice"}, {"cell", "1"}, {"shifted", "no"}}, 0}};
  for (const Bias& b : all) {
    CAPTURE(b.keys[0].second);
    const SharedCodec codec = codec_of(b.keys);
    CHECK(codec->is_unbiased() == (b.allowed > 0));
    const Recorder recorder = test::run_program(
        test::quadratic_scenario(2, 1, "complete", "kind = dpsgd\nlearning_rate = 1"),
        [codec](Node& node) { return mean_of_codes(node, codec); },
        {"workload.dimension=40", "workload.start_spread=1"});
    double bias = 0;
    for (std::size_t i = 0; i < 40; ++i)
      bias = std::max(bias, std::abs(test::model(recorder, 1, i) - test::model(recorder, 0, i)));
    if (b.allowed > 0) CHECK(bias < b.allowed);
    if (b.allowed == 0) CHECK(bias > 0.1);
  }
}

TEST_CASE("contractive codecs lose what their formulas say") {
  // ||Q(v) - v||^2 for v of 1001 entries: top_k loses the squares of all but the largest k; sign ||v||^2 - ||v||_1^2 / d;
  // one_bit the variance of either side; half at most 2^-22 of every square; a lattice at most half a cell per entry.
  const std::vector<std::string> settings{"workload.dimension=1001", "workload.start_spread=1"};
  const auto lost = [&](const Keys& keys) {
    const Recorder recorder = send_codes(codec_of(keys), settings);
    return recorder.steps.value("distance", 2, 1);
  };
  const Recorder plain = send_codes(exact_codec(), settings);
  std::vector<double> v(plain.models[0].begin(), plain.models[0].end());
  double squares = 0;
  double magnitudes = 0;
  double upper = 0, upper_squares = 0, lower = 0, lower_squares = 0, uppers = 0;
  for (const double x : v) {
    squares += x * x;
    magnitudes += std::abs(x);
    (x >= 0 ? upper : lower) += x;
    (x >= 0 ? upper_squares : lower_squares) += x * x;
    uppers += x >= 0 ? 1 : 0;
  }
  std::ranges::sort(v, {}, [](double x) { return std::abs(x); });
  double small = 0;
  for (std::size_t i = 0; i < 901; ++i) small += v[i] * v[i];

  CHECK(lost({{"compression", "none"}}) == 0);
  CHECK(lost({{"compression", "top_k"}, {"keep", "0.1"}}) == doctest::Approx(small).epsilon(1e-6));
  CHECK(lost({{"compression", "sign"}}) ==
        doctest::Approx(squares - magnitudes * magnitudes / 1001).epsilon(1e-5));
  CHECK(lost({{"compression", "one_bit"}}) ==
        doctest::Approx(upper_squares - upper * upper / uppers + lower_squares -
                        lower * lower / (1001 - uppers))
            .epsilon(1e-5));
  CHECK(lost({{"compression", "half"}}) < squares * 0x1p-22);
  CHECK(lost({{"compression", "half"}}) > 0);
  // Between two levels, L/7 apart, an entry loses at most (L/14)^2 in the mean, and L^2 is about half the squares:
  // 512/196 of L^2 per bucket. What is drawn stays near the mean of 1001 entries.
  CHECK(lost({{"compression", "levels"}}) < squares * 512 / 196 * 1.2);
  // One level of 1001 entries: about sqrt(2 / pi) sqrt(1001) - 1 = 24 times the squares; divided by 1 + w, w = sqrt(1001), less
  // than all there is.
  const Keys coarse{{"compression", "levels"}, {"levels", "1"}, {"bucket", "0"}};
  CHECK(lost(coarse) > 20 * squares);
  Keys contractive = coarse;
  contractive.push_back({"contractive", "yes"});
  CHECK(lost(contractive) < squares);
  CHECK(lost({{"compression", "ternary"}}) > squares);
  CHECK(lost({{"compression", "ternary"}, {"contractive", "yes"}}) < squares);
  CHECK(lost({{"compression", "lattice"}, {"cell", "0.1"}}) < 1001 * 0.05 * 0.05);
}

TEST_CASE(
    "contractive levels count the entries that there are, not those that a bucket could hold") {
  // One entry is its own norm, the highest of 7 levels. w = min(1 / 49, 1 / 7), so 10 is read as 10 / (1 + 1 / 49) = 9.8.
  const Recorder recorder =
      send_codes(codec_of({{"compression", "levels"}, {"contractive", "yes"}}),
                 {"workload.dimension=1", "workload.start=10"});
  CHECK(test::model(recorder, 1, 0) == doctest::Approx(9.8));
}

namespace {

/// Node 0 keeps the sum of what it sent and the residual, node 1 the sum of the same inputs.
Task<> feed_back(Node& node, SharedCodec codec) {
  ErrorFeedback feedback;
  Vector sent = node.zeros(node.parameters());
  Vector inputs = sent;
  const Vector start = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(start);
    if (node.id() == 0) {
      const Encoded encoded = feedback.encode(*codec, g.values, code_stream(node, 0, k));
      node.send(1, tag_of(Channel::program, k), g.values);
      sent.add(encoded.decoded);
    } else {
      const Message m = co_await node.receive(0, tag_of(Channel::program, k));
      inputs.add(m.values);
    }
    Vector kept = node.id() == 0 ? sent : inputs;
    if (node.id() == 0) kept.add(feedback.residual());
    node.end_step(k, kept);
    if (node.id() == 0) {
      node.record("residual", k, squared_distance(feedback.residual(), node.zeros(start.size())));
    }
  }
}

}  // namespace

TEST_CASE("with error feedback, what was sent and the residual are the sum of all inputs") {
  for (const Keys& keys :
       {Keys{{"compression", "top_k"}, {"keep", "0.1"}}, Keys{{"compression", "sign"}},
        Keys{{"compression", "one_bit"}}, Keys{{"compression", "random_k"}, {"keep", "0.1"}},
        Keys{{"compression", "half"}}, Keys{{"compression", "float4"}},
        Keys{{"compression", "gradient_dropping"}, {"keep", "0.1"}, {"sample", "0.5"}},
        Keys{{"compression", "threshold_quantization"}, {"threshold", "2"}, {"keep", "1"}},
        Keys{{"compression", "adaptive_quantization"}, {"keep", "0.1"}}}) {
    CAPTURE(keys[0].second);
    const SharedCodec codec = codec_of(keys);
    const Recorder recorder = test::run_program(
        test::quadratic_scenario(2, 50, "complete", "kind = dpsgd\nlearning_rate = 1"),
        [codec](Node& node) { return feed_back(node, codec); },
        {"workload.dimension=40", "workload.noise=1", "run.record_every=1"});
    for (std::size_t i = 0; i < 40; ++i)
      CHECK(std::abs(test::model(recorder, 0, i) - test::model(recorder, 1, i)) < 1e-4);
    CHECK(recorder.steps.value("residual", 49, 0) > 0);
    // It stays bounded: after 50 steps not much more than after 10.
    CHECK(recorder.steps.value("residual", 49, 0) < 50 * recorder.steps.value("residual", 9, 0));
  }
}

TEST_CASE("settings that make no codec are refused by name") {
  CHECK_THROWS_WITH_AS(codec_of({{"compression", "random_k"}}),
                       doctest::Contains("algorithm.keep is missing"), ScenarioError);
  CHECK_THROWS_WITH_AS(codec_of({{"compression", "top_k"}, {"keep", "0"}}),
                       doctest::Contains("must be in (0, 1], got 0"), ScenarioError);
  CHECK_THROWS_WITH_AS(codec_of({{"compression", "lattice"}, {"cell", "1"}, {"bits", "25"}}),
                       doctest::Contains("must be from 1 to 24, got 25"), ScenarioError);
  // As a float it would be 0 or infinite, and so would be all that threshold quantization sends.
  for (const std::string threshold : {"1e-60", "1e+60"}) {
    CHECK_THROWS_WITH_AS(
        codec_of(
            {{"compression", "threshold_quantization"}, {"threshold", threshold}, {"keep", "1"}}),
        doctest::Contains(("threshold must be from 1e-37 to 3.4e+38, got " + threshold).c_str()),
        ScenarioError);
  }
  CHECK_THROWS_WITH_AS(codec_of({{"compression", "zip"}}), doctest::Contains("lattice, got zip"),
                       ScenarioError);
  CHECK_THROWS_WITH_AS(codec_of({{"compression", "half"}, {"keep", "0.1"}}),
                       doctest::Contains("algorithm.keep is not a key here"), ScenarioError);
  CHECK_THROWS_WITH_AS(codec_of({{"compression", "levels"}, {"norm", "max"}, {"coding", "elias"}}),
                       doctest::Contains("coding = elias needs norm = euclidean"), ScenarioError);
}

namespace {

/// Keys that the algorithm reads if it is to send half precision.
std::vector<std::string> keys_of(const AlgorithmEntry& entry) {
  const Topology alone(1, {{}}, {{1.0}});
  const WorkloadFacts facts;
  const Section section = Section::probe("algorithm", {{"compression", "half", "probe"}});
  try {
    entry.make(section, {.nodes = 1, .steps = 1, .topology = alone, .workload = facts});
  } catch (const ProbeFinished&) {
  }
  std::vector<std::string> keys;
  for (const KeyUse& use : section.uses()) keys.push_back(use.key);
  return keys;
}

}  // namespace

TEST_CASE(
    "every algorithm that compresses solves a quadratic with half precision, in half the bytes") {
  // Equal problems, minimum at 3, where half precision has a spacing of 2^-9: four roundings of half of that. ECD-PSGD needs
  // unbiased codes: rounding to nearest pushes its extrapolations the same way step after step. Bytes of a big model, so
  // that notices do not count.
  int found = 0;
  for (const AlgorithmEntry& entry : catalog()) {
    const std::vector<std::string> keys = keys_of(entry);
    const auto has = [&](const char* key) { return std::ranges::find(keys, key) != keys.end(); };
    if (!has("compression")) continue;
    ++found;
    CAPTURE(entry.name);
    std::string text = "kind = " + std::string(entry.name) + "\nlearning_rate = 0.05";
    if (has("period")) text += "\nperiod = 3";
    if (has("gamma")) text += "\ngamma = 0";
    const std::string half =
        text + "\ncompression = half" + (has("consensus_rate") ? "\nconsensus_rate = 0.5" : "");
    const Recorder recorder = test::run(test::quadratic_scenario(8, 400, "ring", half),
                                        {"workload.centers=list", "workload.center_values=3"});
    const double allowed = entry.name == "ecd" ? 0.05 : 0.004;
    for (NodeId i = 0; i < 8; ++i) CHECK(std::abs(test::model(recorder, i, 0) - 3) < allowed);

    // Codes do not add: where sums were sent, codes travel on to everybody, or one way only.
    constexpr std::string_view sums[] = {"adaptive_period",
                                         "allreduce",
                                         "async_diloco",
                                         "async_parameter_server",
                                         "bmuf",
                                         "coda",
                                         "compressed_parameter_server",
                                         "dasgd",
                                         "diloco",
                                         "easgd",
                                         "local_sgd",
                                         "one_bit",
                                         "slowmo",
                                         "streaming_diloco"};
    if (std::ranges::count(sums, entry.name) > 0) continue;
    const auto bytes = [](std::string scenario) {
      const std::string quadratic = "kind = quadratic\ndimension = 5";
      scenario.replace(scenario.find(quadratic), quadratic.size(),
                       "kind = timing\nmodel = resnet50");
      return static_cast<double>(test::run(scenario).nodes[3].bytes_sent);
    };
    CHECK(bytes(test::quadratic_scenario(8, 10, "ring", half)) ==
          doctest::Approx(bytes(test::quadratic_scenario(8, 10, "ring", text)) / 2).epsilon(1e-4));
  }
  CHECK(found >= 27);
}

TEST_CASE("codes leave the mean model alone in every gossip of models") {
  // One step from 0 puts node i at 0.1 i; then gradients end, and mixing keeps the mean, 0.35, whatever is lost on the way:
  // each counts its own model as others read it, or sends what it subtracts.
  const std::vector<std::string> gossip{"dpsgd\norder = adapt_then_combine",
                                        "dpsgd\norder = combine_while_adapt",
                                        "d2\nmixing = exact_diffusion",
                                        "gradient_tracking\norder = adapt_then_combine",
                                        "gradient_tracking\norder = combine_while_adapt",
                                        "local_gossip",
                                        "local_gossip\nmixing = random_matching",
                                        "adpsgd",
                                        "pairwise_gossip",
                                        "sgp",
                                        "sgp\npeers = two_peer",
                                        "overlap_sgp\ntau = 0"};
  for (const std::string& kind : gossip) {
    for (const std::string codec :
         {"half", "levels", "ternary", "random_k\nkeep = 0.4", "lattice\ncell = 0.03"}) {
      const bool pushes = kind.starts_with("sgp") || kind.starts_with("overlap_sgp");
      if (codec.starts_with("lattice") && (pushes || kind.ends_with("random_matching"))) continue;
      CAPTURE(kind);
      CAPTURE(codec);
      const Recorder recorder = test::run(
          test::quadratic_scenario(
              8, 15, "ring", "kind = " + kind + "\nlearning_rate = 0.1\ncompression = " + codec),
          test::gradients_until(1, {"workload.centers=index", "compute.distribution=lognormal",
                                    "compute.sigma=0.5"}));
      double distance = 0;
      for (std::size_t k = 0; k < 5; ++k) {
        CHECK(test::mean_model(recorder, k) == doctest::Approx(0.35).epsilon(1e-4));
        distance = std::max(distance, std::abs(test::model(recorder, 7, k) - 0.7));
      }
      CHECK(distance > 0.01);  // something was mixed
    }
  }
}

TEST_CASE(
    "shares and gradients are no lattice codes: they are near nothing that their receiver has") {
  for (const std::string kind :
       {"sgp", "overlap_sgp", "allreduce", "one_bit", "compressed_parameter_server"}) {
    CHECK_THROWS_WITH_AS(
        test::run(test::quadratic_scenario(
            8, 3, "ring",
            "kind = " + kind + "\nlearning_rate = 0.1\ncompression = lattice\ncell = 1")),
        doctest::Contains("algorithm.compression must be one of none, half,"), ScenarioError);
  }
}

}  // namespace starling::test_codec
