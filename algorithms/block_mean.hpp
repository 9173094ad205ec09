// Mean of the models of all nodes, each of which has trained alone since they were equal: of the models by a collective, or, with
// `compression`, of codes of what each has moved,
//
//   p_i <- x_i - start + e_i;   e_i <- p_i - Q(p_i);   mean <- start + (1/n) sum_i Q(p_i)
//
// without e_i unless there is error feedback. Models do not become small, what they move in a block does. How codes become a mean:
// coded_mean.hpp.
//
// Reisizadeh, Mokhtari, Hassani, Jadbabaie, Pedarsani, "FedPAQ", AISTATS 2020 (unbiased codes); Basu, Data, Karakus, Diggavi,
// "Qsparse-Local-SGD", NeurIPS 2019 (error feedback).
#pragma once

#include "algorithms/averaging.hpp"
#include "algorithms/coded_mean.hpp"

namespace starling::algorithms {

class BlockMean {
 public:
  struct Settings {
    CollectiveKind collective{};
    CodedMean::Settings coded{};
  };

  /// Both outlive it. One per vector that is averaged again and again: what codes lose of it is kept here.
  BlockMean(Node& node, const Settings& settings)
      : node_(node), settings_(settings), coded_(node, settings.coded) {}

  /// Mean of the models `x` of all nodes, which all began at `start`. `number` tells the means of a run apart, and `tag` is as
  /// for allreduce().
  Task<Vector> of_models(Tag tag, Vector x, Vector start, Step number);
  /// Mean of what all nodes have moved.
  Task<Vector> of_progress(Tag tag, Vector progress, Step number);

 private:
  Node& node_;
  const Settings& settings_;
  CodedMean coded_;
};

/// Reads what read_mean_compression() reads, and `collective` if anything is averaged by one: models, or moments by `policy`.
BlockMean::Settings read_block_mean(const Section& section, const Context& context,
                                    MomentumPolicy policy = MomentumPolicy::keep,
                                    bool feeds_back = true);

}  // namespace starling::algorithms
