// Checks reading and writing of dimensioned values: every unit, what is refused, and that each text
// that is written reads back to the very same value.
#include <chrono>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "sim/base/exact_duration.hpp"
#include "sim/base/random.hpp"
#include "sim/base/units.hpp"
#include "tests/support/message_of.hpp"

namespace starling::test_units {
namespace {

using namespace std::chrono_literals;

std::string refusal(const auto& parse, std::string_view text) {
  return test::message_of<std::invalid_argument>([&] { parse(text); });
}

TEST_CASE("durations are read in every unit to the picosecond") {
  CHECK(parse_duration("3 s") == Duration(3s));
  CHECK(parse_duration("1.5 ms") == Duration(1500us));
  CHECK(parse_duration("2 us") == Duration(2us));
  CHECK(parse_duration("4 ns") == Duration(4ns));
  CHECK(parse_duration("7 ps") == Duration(7));
  CHECK(parse_duration("10 min") == Duration(600s));
  CHECK(parse_duration("2 h") == Duration(7200s));
  CHECK(parse_duration("5us") == Duration(5us));
  CHECK(parse_duration("5 \t us") == Duration(5us));
  CHECK(parse_duration("0 s") == Duration(0));
  CHECK(parse_duration("1e-3 s") == Duration(1ms));
  CHECK(parse_duration("2.5e2 ns") == Duration(250ns));
  // 0.1 + 0.2 has no exact double, yet one third of a nanosecond and 0.3 s are the nearest whole
  // counts.
  CHECK(parse_duration("0.3 s") == Duration(300ms));
  CHECK(parse_duration("0.3333333333333333333333333 ns") == Duration(333));
  CHECK(parse_duration("0.5 ps") == Duration(1));
  // 2^53 + 1 picoseconds are no double.
  CHECK(parse_duration("9007199254740993 ps") == Duration(9007199254740993));
}

TEST_CASE("what is not nothing is not read as nothing") {
  CHECK(refusal(parse_duration, "0.4 ps").ends_with("got \"0.4 ps\", which rounds to 0 ps"));
  CHECK(refusal(parse_duration, "1e-20 s").ends_with("which rounds to 0 ps"));
  CHECK(refusal(parse_bytes, "0.4 B").ends_with("got \"0.4 B\", which rounds to 0 B"));
  CHECK(parse_duration("0.0 us") == Duration(0));
  CHECK(parse_duration("0e3 s") == Duration(0));
  CHECK(parse_bytes("0.00 kB").count == 0);
}

TEST_CASE("an exact duration has parts of a picosecond, and whole ones are whole") {
  CHECK(parse_exact_duration("0.4 ps").count() == 0.4);
  CHECK(parse_exact_duration("2.5 ps").count() == 2.5);
  CHECK(parse_exact_duration("0.0025 ns").count() == 2.5);
  CHECK(parse_exact_duration("1e-5 ps").count() == 1e-5);
  for (const char* text : {"0 s", "0.57 ns", "1.001 ms", "0.29 s", "7 ps", "9007199254740991 ps"}) {
    CAPTURE(text);
    CHECK(parse_exact_duration(text) == parse_duration(text));
  }
  for (const double count : {0.0, 0.4, 2.5, 1e-30, 1234567.0, 1234567.125, 9e18}) {
    CHECK(parse_exact_duration(to_text(ExactDuration(count))).count() == count);
  }
  CHECK(to_text(ExactDuration(1500)) == "1.5 ns");
  CHECK(to_text(ExactDuration(2.5)) == "2.5 ps");
  CHECK(refusal(parse_exact_duration, "2.5").ends_with("got \"2.5\" without a unit"));
  CHECK(refusal(parse_exact_duration, "1e8 s").ends_with("past the end of the clock (106 days)"));
}

TEST_CASE("sizes are read in powers of 1000 and of 1024") {
  CHECK(parse_bytes("100 B").count == 100);
  CHECK(parse_bytes("3 kB").count == 3'000);
  CHECK(parse_bytes("3 MB").count == 3'000'000);
  CHECK(parse_bytes("1.5 GB").count == 1'500'000'000);
  CHECK(parse_bytes("2 TB").count == 2'000'000'000'000);
  CHECK(parse_bytes("64 KiB").count == 65536);
  CHECK(parse_bytes("2 MiB").count == 2097152);
  CHECK(parse_bytes("1 GiB").count == 1073741824);
  CHECK(parse_bytes("1 TiB").count == 1099511627776);
  CHECK(parse_bytes("0 B").count == 0);
  CHECK(parse_bytes("9223372036854775807 B").count == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("bandwidths are read in bits and in bytes") {
  CHECK(parse_bandwidth("10 Gbit/s").bytes_per_second == 1.25e9);
  CHECK(parse_bandwidth("8 bit/s").bytes_per_second == 1);
  CHECK(parse_bandwidth("8 kbit/s").bytes_per_second == 1e3);
  CHECK(parse_bandwidth("100 Mbit/s").bytes_per_second == 12.5e6);
  CHECK(parse_bandwidth("1.6 Tbit/s").bytes_per_second == 2e11);
  CHECK(parse_bandwidth("12.5 GB/s").bytes_per_second == 12.5e9);
  CHECK(parse_bandwidth("1 TB/s").bytes_per_second == 1e12);
  CHECK(parse_bandwidth("3 MB/s").bytes_per_second == 3e6);
  CHECK(parse_bandwidth("3 kB/s").bytes_per_second == 3e3);
  CHECK(parse_bandwidth("3 B/s").bytes_per_second == 3);
  CHECK(parse_bandwidth("100 MiB/s").bytes_per_second == 104857600);
  CHECK(parse_bandwidth("1 KiB/s").bytes_per_second == 1024);
  CHECK(parse_bandwidth("1 GiB/s").bytes_per_second == 1073741824);
  CHECK(parse_bandwidth("1 TiB/s").bytes_per_second == 1099511627776);
}

TEST_CASE("a refusal says what was expected and what was found") {
  const std::string duration =
      "must be a duration such as 1.5 ms (units: s, ms, us, ns, ps, min, h), got ";
  CHECK(refusal(parse_duration, "5") == duration + "\"5\" without a unit");
  CHECK(refusal(parse_duration, "") == duration + "\"\"");
  CHECK(refusal(parse_duration, "fast") == duration + "\"fast\"");
  CHECK(refusal(parse_duration, "5 sec") == duration + "\"5 sec\"");
  CHECK(refusal(parse_duration, "-5 s") == duration + "\"-5 s\", which is negative");
  CHECK(refusal(parse_duration, "1e8 s") ==
        duration + "\"1e8 s\", which is past the end of the clock (106 days)");
  CHECK(refusal(parse_duration, "3000 h") ==
        duration + "\"3000 h\", which is past the end of the clock (106 days)");
  CHECK(
      refusal(parse_bytes, "9223372036854775808 B").ends_with(", which is more than 64 bits hold"));
  CHECK(refusal(parse_bytes, "9223372036854775808e0 B")
            .ends_with(", which is more than 64 bits hold"));
  CHECK(refusal(parse_bandwidth, "25 Gbps").ends_with("\"25 Gbps\", did you mean Gbit/s?"));
  CHECK(refusal(parse_bandwidth, "5 Gb/s").ends_with("\"5 Gb/s\", did you mean Gbit/s?"));
  CHECK(refusal(parse_bandwidth, "5 MBps").ends_with("\"5 MBps\", did you mean MB/s?"));
  CHECK(refusal(parse_bandwidth, "5 bloomps").ends_with("\"5 bloomps\""));
  CHECK(refusal(parse_bandwidth, "0 Gbit/s").ends_with(", which is not positive and finite"));
  CHECK(refusal(parse_bandwidth, "1e308 Gbit/s").ends_with(", which is not positive and finite"));
  for (const char* text : {"inf s", "nan s", "0x10 s", "+5 s", "1,5 s", "5 S", "5 s s", " 5 s"}) {
    CHECK(refusal(parse_duration, text) == duration + '"' + text + '"');
  }
  for (const char* text : {"5", "5 K", "5 kb", "5 s", "1e400 B", "-1 B"}) {
    CHECK(refusal(parse_bytes, text)
              .starts_with("must be a number of bytes such as 64 MiB (units: "));
  }
  for (const char* text : {"5", "5 Gb/s", "5 GB", "-1 B/s"}) {
    CHECK(refusal(parse_bandwidth, text)
              .starts_with("must be a bandwidth such as 10 Gbit/s (units: "));
  }
}

TEST_CASE("values are written in the convenient unit") {
  CHECK(to_text(Duration(0)) == "0 s");
  CHECK(to_text(Duration(1)) == "1 ps");
  CHECK(to_text(Duration(1500us)) == "1.5 ms");
  CHECK(to_text(Duration(50us)) == "50 us");
  CHECK(to_text(Duration(1234567)) == "1.234567 us");
  CHECK(to_text(Duration(90min)) == "5400 s");
  CHECK(to_text(Duration(-1500us)) == "-1.5 ms");
  CHECK(to_text(Bytes{0}) == "0 B");
  CHECK(to_text(Bytes{1000}) == "1 kB");
  CHECK(to_text(Bytes{1024}) == "1 KiB");
  CHECK(to_text(Bytes{64 << 20}) == "64 MiB");
  CHECK(to_text(Bytes{1'500'000'000}) == "1.5 GB");
  CHECK(to_text(Bytes{1001}) == "1001 B");
  CHECK(to_text(Bandwidth{1.25e9}) == "10 Gbit/s");
  CHECK(to_text(Bandwidth{12.5e6}) == "100 Mbit/s");
  CHECK(to_text(Bandwidth{0.001}) == "0.001 B/s");
}

TEST_CASE("every value reads back from its text") {
  Random random(1, "units");
  for (int i = 0; i < 20'000; ++i) {
    // All magnitudes: a random number of random bits.
    const std::uint64_t bits = random.below(std::uint64_t{1} << 63) >> random.below(63);
    const auto count = static_cast<std::int64_t>(bits);
    REQUIRE(parse_duration(to_text(Duration(count))) == Duration(count));
    REQUIRE(parse_bytes(to_text(Bytes{count})) == Bytes{count});
    const Bandwidth bandwidth{(random.uniform() + 1e-9) * static_cast<double>(count + 1)};
    REQUIRE(parse_bandwidth(to_text(bandwidth)) == bandwidth);
  }
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  CHECK(parse_duration(to_text(Duration(largest))) == Duration(largest));
  CHECK(parse_bytes(to_text(Bytes{largest})) == Bytes{largest});
  for (const double rate : {1e-300, 1e300, std::numeric_limits<double>::max(), 0x1p-1074}) {
    CHECK(parse_bandwidth(to_text(Bandwidth{rate})) == Bandwidth{rate});
  }
}

TEST_CASE("exact decimals have the digits that they need") {
  CHECK(exact_decimal(0, 12) == "0");
  CHECK(exact_decimal(50, 0) == "50");
  CHECK(exact_decimal(50, 1) == "5");
  CHECK(exact_decimal(5, 1) == "0.5");
  CHECK(exact_decimal(-5, 2) == "-0.05");
  CHECK(exact_decimal(-1'500'000, 6) == "-1.5");
  CHECK(exact_decimal(std::numeric_limits<std::int64_t>::max(), 12) == "9223372.036854775807");
}

}  // namespace
}  // namespace starling::test_units
