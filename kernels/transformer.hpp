// The workload of transformer_model.hpp: next characters of a text, or labels of sequences of
// uneven length (sequences.hpp). A mini-batch costs its tokens, so with a compute time per token
// uneven sequences make nodes late, as in machine translation. A batch's loss is the sum over its
// labels in order, in double, over their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/data/length_buckets.hpp"
#include "kernels/data/partition.hpp"
#include "kernels/data/sequences.hpp"
#include "kernels/for_all.hpp"
#include "kernels/score.hpp"
#include "kernels/transformer_model.hpp"
#include "sim/node/workload.hpp"

namespace starling {

class Transformer final : public Workload {
 public:
  /// Everything that defines the problem.
  struct Problem {
    std::size_t layers = 1, heads = 2, width = 32, context = 32;
    SplitSequences data;
    std::vector<std::vector<std::int32_t>> parts;  // training sequences of each node
    std::int64_t batch_size = 8;                   // sequences
    std::string sampling = "epochs";               // as BatchSampler wants it
    std::int64_t buckets = 0;                      // by length, see BucketSampler; 0: none
    std::int64_t max_tokens = 0;                   // of a mini-batch out of a bucket
    std::uint64_t seed = 1;
    std::int64_t wire_parameters = 0;  // 0: as many as the model has
  };

  /// `kernels` is a parameter for tests; results do not depend on it.
  explicit Transformer(Problem problem, const dense::Kernels& kernels = dense::kernels());

  const WorkloadFacts& facts() const override { return facts_; }
  void initial_model(std::span<float> x) const override;
  /// Tokens of the mini-batch.
  std::int64_t batch_cost(NodeId node, Step draw) const override;
  std::vector<std::int32_t> labels() const override {
    return sampler_.labels(problem_.data.train.samples);
  }
  bool folds_sums() const override { return true; }
  void gradients(std::span<GradientRequest> requests) const override;
  void gradients_of(RowOwner& owner, std::span<GradientRequest> requests) const override;
  bool takes_one_by_one() const override { return true; }
  /// Mean loss over all labels of the test sequences, and the fraction whose largest logit (the
  /// first, if equal) is the label's. Sequences are taken in order, some 1,024 tokens at a time.
  void evaluate(std::span<EvaluationRequest> requests) const override;

  const TransformerModel& model() const { return model_; }
  /// The sequences of a mini-batch, packed into work.batch.
  void pack(NodeId node, Step draw, TransformerModel::Work& work) const;
  /// Test sequences are judged by blocks, whose scores are added in order.
  std::size_t test_blocks() const { return test_blocks_.size() - 1; }
  PackedBatch pack_test(std::size_t block) const;

 private:
  void samples_of(NodeId node, Step draw, std::vector<std::int32_t>& samples) const;
  void push(const Sequences& from, std::size_t sample, PackedBatch& batch) const;
  void gradient(GradientRequest& request, TransformerModel::Work& work, Crew::Member* member) const;
  Score score(const float* x, std::size_t block, TransformerModel::Work& work) const;

  Problem problem_;
  const dense::Kernels& kernels_;
  TransformerModel model_;
  BatchSampler sampler_;
  std::optional<BucketSampler> bucket_sampler_;
  std::vector<std::size_t> test_blocks_;  // first sequence of each, and the end
  WorkloadFacts facts_;
  double multiplications_;  // of a gradient
};

}  // namespace starling
