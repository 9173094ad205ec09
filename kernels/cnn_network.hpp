// A convolutional network at work: layers become operations between numbered buffers, with all
// shapes and all places in the flat model known. Passes run them in turn; whatever is local to a
// sample runs sample by sample, so that what one operation writes is in the cache for the next. The
// arithmetic is that of kernels/dense/dense.hpp and kernels/dense/images.hpp.
//
// A model is its layers one after the other: weights (panel-major), then bias; scale, then shift.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "kernels/cnn_layers.hpp"
#include "kernels/crew.hpp"
#include "kernels/dense/dense.hpp"
#include "kernels/dense/layer.hpp"
#include "kernels/scratch.hpp"
#include "sim/base/random.hpp"
#include "sim/base/types.hpp"
#include "sim/node/workload.hpp"

namespace starling {

/// Height, width and channels of what a layer takes or gives.
struct Extent {
  std::size_t height, width, channels;
  std::size_t pixels() const { return height * width; }
  std::size_t size() const { return pixels() * channels; }
  bool operator==(const Extent&) const = default;
};

class CnnNetwork {
 public:
  /// What there is to do. Numbers named `weights`, `bias`, `scale` and `shift` are places in the model.
  struct Convolve {
    dense::Convolution shape;                 // of the framed input
    std::size_t border_height, border_width;  // zeros on each side of the input
    std::size_t weights = 0, bias = 0;
    bool is_biased;
    std::size_t flipped = 0;  // where the flipped weights are in Work
  };
  struct Dense : DenseLayer {
    bool is_last;
  };
  struct Relu {};
  struct Pool {
    std::size_t window;
  };
  struct Average {};
  struct Normalize {
    std::size_t groups;  // 0: batch normalization
    std::size_t scale, shift;
    std::size_t statistics;  // number of this layer's channels in all normalizations before it
  };
  struct Dropout {
    std::uint32_t threshold;  // a number is dropped where 16 random bits are below
    std::size_t factors;      // buffer of what each number was multiplied by
    std::size_t layer;        // names the random stream
  };
  struct Add {
    std::size_t other;  // buffer of the second summand
  };
  using Operation = std::variant<Convolve, Dense, Relu, Pool, Average, Normalize, Dropout, Add>;

  /// An operation from buffer `input` to buffer `output`; the same one for what works in place.
  struct Placed {
    Operation operation;
    std::size_t input, output;
    Extent from, to;
    bool adds_slope = false;  // backward: the input already has a gradient, from a later step
  };

  /// What one pass needs besides the model; of one thread, and reused.
  struct Work;
  /// What a thread needs to take one sample through it.
  struct SampleWork;
  /// Names the random streams of dropout.
  struct Chance {
    std::uint64_t seed;
    NodeId node;
    Step draw;
  };
  /// Of one sample of a mini-batch: a number takes 16 bits of it, in order.
  static Random dropout_stream(const Chance& chance, std::size_t layer, std::size_t sample);
  /// What normalization and dropout do.
  enum class Mode {
    train,      // statistics of the mini-batch; numbers are dropped
    calibrate,  // statistics of the mini-batch; nothing is dropped
    evaluate,   // batch normalization uses the statistics that are in Work; nothing is dropped
  };

  /// Throws std::invalid_argument ("must ..., got ..") if the layers do not fit the image.
  CnnNetwork(const std::vector<CnnLayer>& layers, Extent image, std::size_t classes);

  std::size_t parameters() const { return parameters_; }
  /// That the products of a forward pass take for one sample.
  std::size_t multiplications() const;
  /// Adds tensors and weight matrices; that of a convolution has a row for each input of a sum.
  void add_tensors(WorkloadFacts& facts) const;
  std::span<const Placed> operations() const { return operations_; }
  Extent image() const { return image_; }
  std::size_t classes() const { return classes_; }
  bool has_batch_normalization() const { return has_batch_normalization_; }
  /// Whether a batch normalization is over one number per sample: with batches of one sample it makes all numbers 0.
  bool normalizes_over_samples_alone() const { return normalizes_over_samples_alone_; }
  /// Over all normalizations: as many as means and rates of a sample in Work.
  std::size_t channels_normalized() const { return channels_normalized_; }

  /// Draws the model that training starts from; see Cnn::initial_model.
  void initial_model(std::uint64_t seed, bool is_uniform, std::span<float> x) const;

  /// Makes `work` large enough for a forward pass of `batch` samples, or also for the pass back.
  void fit(Work& work, std::size_t batch, bool is_backward_too) const;
  /// Floats of such a Work and of what its thread keeps beside it.
  std::size_t work_floats(std::size_t batch, bool is_backward_too) const;
  /// From images in the first buffer of `work` to logits in the last. `member`: who gets help with it, or null.
  void forward(const dense::Kernels& kernels, const float* x, const Chance& chance, Mode mode,
               Work& work, Crew::Member* member = nullptr) const;
  /// From the gradient of the logits, which replaces them, to that of the model. After a forward
  /// pass in mode `train`.
  void backward(const dense::Kernels& kernels, const float* x, Work& work, float* gradient,
                Crew::Member* member = nullptr) const;

 private:
  struct Builder;
  struct Passes;  // in cnn_passes.cpp
  void plan_buffers();
  void plan_stages();
  // Deal floats out from `base` on, aligned to cache lines, and return how many; null: only count them.
  std::size_t deal(Work& work, float* base, std::size_t batch, bool is_backward_too) const;
  std::size_t deal(SampleWork& own, float* base) const;
  /// That of the calling thread.
  SampleWork& sample_work() const;

  Extent image_;
  std::size_t classes_;
  std::size_t parameters_ = 0;
  std::size_t channels_normalized_ = 0;
  bool has_batch_normalization_ = false;
  bool normalizes_over_samples_alone_ = false;
  std::vector<Placed> operations_;
  /// Numbers of one place between layers, for all samples.
  struct Buffer {
    std::size_t size;        // floats of a sample
    std::size_t stride = 0;  // from sample to sample
    bool has_slope = true;   // a gradient belongs to it
    bool is_local = false;   // which lives only while one sample passes
  };
  std::vector<Buffer> buffers_;
  /// Operations begin .. end - 1: all local to a sample, or one that joins the samples.
  struct Stage {
    std::size_t begin, end;
    bool is_local;
  };
  std::vector<Stage> stages_;
  std::size_t framed_size_ = 0, flipped_size_ = 0, widest_ = 0;
};

/// Scratch of one thread.
struct CnnNetwork::Work {
  struct Rows {
    float* at;           // of sample 0; null: there are none here
    std::size_t stride;  // from sample to sample
  };
  std::size_t batch = 0;
  Scratch floats;
  std::vector<Rows> values, slopes;           // [buffer]
  float* flipped;                             // weights of all convolutions, flipped
  float* zeros;                               // (channels) of the widest layer
  float *mean, *rate;                         // (batch, channels normalized)
  std::vector<std::int32_t> indices, labels;  // (batch)
  std::vector<double> losses;                 // (batch)
};

struct CnnNetwork::SampleWork {
  Scratch floats;
  std::vector<float*> slopes;  // [buffer], of those that live only while one sample passes
  float* framed;               // one image with a border
  float* shares;               // (2, channels) of the widest layer
  std::vector<double> sums;    // (2, channels)
};

}  // namespace starling
