#include "algorithms/sparse_codecs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/base/error.hpp"

namespace starling::algorithms {
namespace {

using namespace transforms;

std::uint32_t nonzeros(const Vector& v) {
  return static_cast<std::uint32_t>(measured(CountNonzero{}, {v}).value());
}

/// Of nonzero entries those that reach a magnitude.
std::uint32_t count_from(float threshold, const Vector& v) {
  return nonzeros(transformed(KeepAbove{threshold}, {v}));
}

/// Positions, then values.
class SparseCodec : public Codec {
 public:
  Code encode(const Vector& v, const Random& stream) const override {
    const Vector words = chosen(v, stream);
    return {words, 4 * static_cast<std::int64_t>(words.size())};
  }
  Vector decode(const Vector& words, std::size_t size, const Random&,
                const Vector&) const override {
    return transformed(Scatter{narrow(size)}, {words});
  }
  std::size_t entries_of(std::size_t words, std::size_t) const override { return words / 2; }
  bool is_unbiased() const override { return false; }

 private:
  virtual Vector chosen(const Vector& v, const Random& stream) const = 0;
};

class TopKCodec final : public SparseCodec {
 public:
  TopKCodec(double keep, bool is_strict, std::vector<std::size_t> tensors)
      : keep_(keep), is_strict_(is_strict), tensors_(std::move(tensors)) {}

 private:
  std::uint32_t count_in(std::size_t size) const { return share_of(keep_, size, is_strict_); }
  Vector chosen(const Vector& v, const Random&) const override {
    if (tensors_.size() < 2) return transformed(KeepLargest{count_in(v.size())}, {v});
    std::vector<Vector> positions;
    std::vector<Vector> values;
    std::size_t begin = 0;
    for (const std::size_t size : tensors_) {
      const std::uint32_t count = count_in(size);
      const Vector code = transformed(KeepLargest{count, narrow(begin)}, {v.slice(begin, size)});
      positions.push_back(code.slice(0, count));
      values.push_back(code.slice(count, count));
      begin += size;
    }
    ensure(begin == v.size(), "tensors that are not as large as the vector");
    positions.insert(positions.end(), values.begin(), values.end());
    return concatenate(positions);
  }

  double keep_;
  bool is_strict_;
  std::vector<std::size_t> tensors_;
};

class ThresholdCodec final : public SparseCodec {
 public:
  ThresholdCodec(double threshold, double keep)
      : threshold_(static_cast<float>(threshold)), keep_(keep) {}

 private:
  Vector chosen(const Vector& v, const Random&) const override {
    const std::uint32_t count =
        v.has_numbers() ? count_from(threshold_, v) : share_of(keep_, v.size());
    return transformed(KeepLargest{count}, {v});
  }
  float threshold_;
  double keep_;
};

class GradientDroppingCodec final : public SparseCodec {
 public:
  GradientDroppingCodec(double keep, double sample) : keep_(keep), sample_(sample) {}

 private:
  Vector chosen(const Vector& v, const Random& stream) const override {
    if (!v.has_numbers()) return transformed(KeepLargest{share_of(keep_, v.size())}, {v});
    const std::uint32_t sampled = std::max(
        share_of(sample_, v.size()), narrow(std::min<double>(std::ceil(1 / keep_), v.size())));
    const std::uint32_t kept = share_of(keep_, sampled);
    const Vector sample = transformed(GatherRandom{sampled, stream}, {v});
    const Vector largest = transformed(KeepLargest{kept}, {sample}).slice(kept, kept);
    const double threshold = measured(LeastMagnitude{}, {largest}).value();
    return transformed(KeepLargest{count_from(static_cast<float>(threshold), v)}, {v});
  }
  double keep_, sample_;
};

class ThresholdQuantizationCodec final : public Codec {
 public:
  ThresholdQuantizationCodec(double threshold, double keep)
      : threshold_(static_cast<float>(threshold)), keep_(keep) {}
  Code encode(const Vector& v, const Random&) const override {
    const std::uint32_t count =
        v.has_numbers() ? count_from(threshold_, v) : share_of(keep_, v.size());
    return {transformed(SignedPositions{}, {transformed(KeepLargest{count}, {v})}),
            4 * std::int64_t{count}};
  }
  Vector decode(const Vector& words, std::size_t size, const Random&,
                const Vector&) const override {
    return transformed(ScatterSigns{narrow(size), threshold_}, {words});
  }
  std::size_t entries_of(std::size_t words, std::size_t) const override { return words; }
  bool is_unbiased() const override { return false; }

 private:
  float threshold_;
  double keep_;
};

class AdaptiveQuantizationCodec final : public Codec {
 public:
  explicit AdaptiveQuantizationCodec(double keep) : keep_(keep) {}
  /// The means of both sides, then the positive entries, then the negative ones; nothing at all of zeros.
  Code encode(const Vector& v, const Random&) const override {
    const Vector upper = transformed(KeepSide{false}, {v});
    const Vector lower = transformed(KeepSide{true}, {v});
    const auto [uppers, lowers] = counts(upper, lower);
    const Vector above = transformed(KeepLargest{uppers}, {upper});
    const Vector below = transformed(KeepLargest{lowers}, {lower});
    const std::size_t count = std::size_t{uppers} + lowers;
    if (count == 0) return {above, 0};
    const std::array<Vector, 2> values{above.slice(uppers, uppers), below.slice(lowers, lowers)};
    const std::array<Vector, 3> words{transformed(SideMeans{}, {concatenate(values)}),
                                      transformed(SignedPositions{}, {above}),
                                      transformed(SignedPositions{}, {below})};
    return {concatenate(words), 4 * static_cast<std::int64_t>(2 + count)};
  }
  Vector decode(const Vector& words, std::size_t size, const Random&,
                const Vector&) const override {
    return transformed(ScatterSigns{narrow(size), 0}, {words});
  }
  std::size_t entries_of(std::size_t words, std::size_t) const override {
    return words == 0 ? 0 : words - 2;
  }
  bool is_unbiased() const override { return false; }

 private:
  std::pair<std::uint32_t, std::uint32_t> counts(const Vector& upper, const Vector& lower) const {
    if (!upper.has_numbers()) {
      const std::uint32_t all = share_of(keep_, upper.size());
      return {all - all / 2, all / 2};
    }
    const Scalar uppers = measured(CountNonzero{}, {upper});
    const Scalar lowers = measured(CountNonzero{}, {lower});
    const auto share = [this](const Scalar& count) {
      const auto size = static_cast<std::size_t>(count.value());
      return size == 0 ? 0 : share_of(keep_, size);
    };
    return {share(uppers), share(lowers)};
  }
  double keep_;
};

class RandomKCodec final : public Codec {
 public:
  RandomKCodec(double keep, bool is_unbiased) : keep_(keep), is_unbiased_(is_unbiased) {}
  Code encode(const Vector& v, const Random& stream) const override {
    const std::uint32_t count = share_of(keep_, v.size());
    return {transformed(GatherRandom{count, stream}, {v}), 4 * std::int64_t{count}};
  }
  Vector decode(const Vector& words, std::size_t size, const Random& stream,
                const Vector&) const override {
    const double factor =
        is_unbiased_ ? static_cast<double>(size) / static_cast<double>(words.size()) : 1.0;
    return transformed(ScatterRandom{narrow(size), static_cast<float>(factor), stream}, {words});
  }
  std::size_t entries_of(std::size_t words, std::size_t) const override { return words; }
  bool is_unbiased() const override { return is_unbiased_; }

 private:
  double keep_;
  bool is_unbiased_;
};

}  // namespace

std::uint32_t share_of(double keep, std::size_t size, bool is_strict) {
  const double share = std::floor(keep * static_cast<double>(size) + 0.5);
  const auto count = narrow(std::clamp<std::size_t>(static_cast<std::size_t>(share), 1, size));
  return is_strict && count > 1 ? count - 1 : count;
}

SharedCodec top_k_codec(double keep, bool is_strict, std::vector<std::size_t> tensors) {
  return std::make_shared<TopKCodec>(keep, is_strict, std::move(tensors));
}
SharedCodec random_k_codec(double keep, bool is_unbiased) {
  return std::make_shared<RandomKCodec>(keep, is_unbiased);
}
SharedCodec threshold_codec(double threshold, double keep) {
  return std::make_shared<ThresholdCodec>(threshold, keep);
}
SharedCodec gradient_dropping_codec(double keep, double sample) {
  return std::make_shared<GradientDroppingCodec>(keep, sample);
}
SharedCodec threshold_quantization_codec(double threshold, double keep) {
  return std::make_shared<ThresholdQuantizationCodec>(threshold, keep);
}
SharedCodec adaptive_quantization_codec(double keep) {
  return std::make_shared<AdaptiveQuantizationCodec>(keep);
}

}  // namespace starling::algorithms
