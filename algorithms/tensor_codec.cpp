#include "algorithms/tensor_codec.hpp"

#include <numeric>
#include <utility>

namespace starling::algorithms {
namespace {

/// Streams of the tensors of one code, all from its own.
class TensorStreams {
 public:
  explicit TensorStreams(Random stream) : first_(seed(stream), "tensor") {}
  Random of(std::size_t tensor) const {
    return first_.at(shared_stream, static_cast<Step>(tensor));
  }

 private:
  static std::uint64_t seed(Random& stream) {
    const std::uint64_t high = stream();
    return high << 32 | stream();
  }
  Random first_;
};

class TensorCodec final : public Codec {
 public:
  TensorCodec(SharedCodec codec, std::vector<std::size_t> tensors,
              std::function<std::size_t(std::size_t)> words_of)
      : codec_(std::move(codec)),
        tensors_(std::move(tensors)),
        size_(std::accumulate(tensors_.begin(), tensors_.end(), std::size_t{0})),
        words_of_(std::move(words_of)) {}

  Code encode(const Vector& v, const Random& stream) const override {
    if (v.size() != size_) return codec_->encode(v, stream);
    const TensorStreams streams(stream);
    std::vector<Vector> words;
    std::int64_t bytes = 0;
    std::size_t begin = 0;
    for (std::size_t l = 0; l < tensors_.size(); ++l) {
      const Code code = codec_->encode(v.slice(begin, tensors_[l]), streams.of(l));
      words.push_back(code.words);
      bytes += code.bytes;
      begin += tensors_[l];
    }
    return {concatenate(words), bytes};
  }
  Vector decode(const Vector& words, std::size_t size, const Random& stream,
                const Vector& reference) const override {
    if (size != size_) return codec_->decode(words, size, stream, reference);
    const TensorStreams streams(stream);
    std::vector<Vector> tensors;
    std::size_t begin = 0;
    for (std::size_t l = 0; l < tensors_.size(); ++l) {
      const std::size_t count = words_of_(tensors_[l]);
      const Vector own = words.slice(begin, count);
      tensors.push_back(codec_->decode(own, tensors_[l], streams.of(l), {}));
      begin += count;
    }
    return concatenate(tensors);
  }
  std::size_t entries_of(std::size_t words, std::size_t size) const override {
    return codec_->entries_of(words, size);
  }
  std::uint32_t bits_of_entry() const override { return codec_->bits_of_entry(); }
  bool is_unbiased() const override { return codec_->is_unbiased(); }

 private:
  SharedCodec codec_;
  std::vector<std::size_t> tensors_;
  std::size_t size_;  // of all
  std::function<std::size_t(std::size_t)> words_of_;
};

}  // namespace

std::vector<std::size_t> read_unit(const Section& section, const std::vector<std::size_t>& tensors,
                                   std::string_view fallback, std::string_view key) {
  const bool is_by_tensor =
      section.choice<bool>(key, {{"model", false}, {"tensors", true}}, fallback,
                           "what is compressed by itself: the whole model, or each "
                           "of its tensors");
  return is_by_tensor ? tensors : std::vector<std::size_t>{};
}

SharedCodec codec_of_tensors(SharedCodec codec, std::vector<std::size_t> tensors,
                             std::function<std::size_t(std::size_t)> words_of) {
  return std::make_shared<TensorCodec>(std::move(codec), std::move(tensors), std::move(words_of));
}

}  // namespace starling::algorithms
