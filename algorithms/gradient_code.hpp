// Gradient codes: of n nodes, each sends one combination of the gradients of some parts of the data, chosen
// so that any n - s of these combinations give the sum over all parts. In gc_dc.cpp each cluster has a code of its own, whose
// nodes are the rows of the cluster.
//
//   repetition   groups of s + 1 nodes hold the same s + 1 parts and send their sum; needs (s + 1) | n. One node of
//                each group is enough.
//   cyclic       node i holds the parts i .. i + s (mod n); row B_i of its coefficients is the solution of H B_i = 0,
//                B_ii = 1, for a random s x n matrix H whose rows sum to zero. Any n - s rows span (1, .., 1).
//
// Tandon, Lei, Dimakis, Karampatziakis, "Gradient Coding: Avoiding Stragglers in Distributed Learning", ICML 2017.
//
// All coefficients are found in double: those of decoding grow fast with n and s. What they combine is single precision, so a
// cyclic code's sum is off by 7e-7 of itself (16 nodes, s = 4) to 8e-6 (100 nodes, s = 30) in the median of 12 random H, by
// 2e-4 in the worst (64 nodes, s = 8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/base/section.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

class GradientCode {
 public:
  enum class Form { cyclic, repetition };

  /// `random` names H.
  GradientCode(Form form, std::size_t nodes, std::size_t stragglers, Random random);

  /// A part that a node holds, and the factor it sends its gradient with.
  struct Term {
    std::size_t part;
    double factor;
  };
  /// What `node` sends the sum of, in order of computing.
  std::span<const Term> terms(std::size_t node) const { return terms_[node]; }

  /// Factors with which the combinations of the nodes `arrived` (ascending) add up to the sum over all parts; empty
  /// if they do not suffice.
  std::vector<double> decode(std::span<const std::size_t> arrived) const;
  /// Nodes of one number send the same; any so many different ones suffice.
  std::size_t kind_of(std::size_t node) const {
    return form_ == Form::cyclic ? node : node / (stragglers_ + 1);
  }
  std::size_t kinds_needed() const {
    return form_ == Form::cyclic ? nodes_ - stragglers_ : nodes_ / (stragglers_ + 1);
  }

 private:
  void make_repetition();
  void make_cyclic(Random random);
  std::vector<double> decode_repetition(std::span<const std::size_t> arrived) const;

  Form form_;
  std::size_t nodes_, stragglers_;
  std::vector<std::vector<Term>> terms_;  // (nodes)
};

/// The code that all nodes of a run share: the first that asks makes it.
class SharedGradientCode {
 public:
  SharedGradientCode(GradientCode::Form form, std::size_t nodes, std::size_t stragglers)
      : form_(form), nodes_(nodes), stragglers_(stragglers) {}

  std::size_t stragglers() const { return stragglers_; }
  const GradientCode& of(const Node& node) {
    if (!code_) code_.emplace(form_, nodes_, stragglers_, node.shared_random("gradient code", 0));
    return *code_;
  }

 private:
  GradientCode::Form form_;
  std::size_t nodes_, stragglers_;
  std::optional<GradientCode> code_;
};

/// Reads `code` and `stragglers` for codes of so many `nodes`; help and errors say `where` these are, if not all are meant.
std::shared_ptr<SharedGradientCode> read_gradient_code(const Section& section, std::int64_t nodes,
                                                       std::string_view where = "");

/// A node's step `k`: computes the gradients of `terms` at `x`, part p of node first_part + p, sends their combination to
/// node 0 and answers with the next model, tagged `next_model`. When that comes, what is left of the gradients is abandoned.
Task<Message> answer(Node& node, std::span<const GradientCode::Term> terms, NodeId first_part,
                     Step k, Vector x, Tag next_model);

/// What the nodes have sent in one step.
class CodedAnswers {
 public:
  CodedAnswers(const GradientCode& code, std::size_t nodes);

  /// What comes twice is left out.
  void take(std::size_t node, Vector combination);
  std::size_t count() const { return count_; }
  /// The sum over all parts; empty as long as the answers do not suffice.
  Vector sum() const;

 private:
  const GradientCode& code_;
  std::vector<Vector> combinations_;  // (nodes), empty until they come
  std::vector<bool> has_kind_;
  std::size_t count_ = 0;
  std::size_t kinds_ = 0;
};

}  // namespace starling::algorithms
