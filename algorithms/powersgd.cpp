// PowerSGD: gradients of weight matrices, m x q, travel as products of two thin ones, found by one step of
// power iteration that starts where the last one ended. For every matrix:
//
//   M_i <- gradient + e_i
//   P <- orthonormal columns of mean_i M_i Q;   Q <- mean_i M_i^T P;   the mean gradient is taken for P Q^T
//   e_i <- M_i - P Q_i^T   with Q_i = M_i^T P before the mean;   residual = mean: M_i - P Q^T
//
// Bias vectors, and models without matrices, travel as they are. All P and the vectors go in one allreduce,
// all Q in a second one that waits for it: 4 rank (m + q) bytes instead of 4 m q. A model in pieces (ExchangePlan) has two for each
// piece, one after the other, which as in PyTorch's hook may begin beside the backward pass. Momentum and weight decay
// come after that, so all replicas stay equal. The residual is in units of gradients. Where the learning rate changes it is scaled,
// so that what a gradient lost keeps the rate of its own step; published, `rescale_residual = no`, is that of the step in which it
// travels.
//
// Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
// Optimization", NeurIPS 2019, algorithms 1 and 2. The authors' code has the error against the mean (`residual`); the mean over
// the nodes is the same. The first Q has standard normal entries, the same on all nodes.
//
// With sides = alternating, as in the authors' later library, a step improves one of the two only, in turn, from the other as
// the step before has left it, in one allreduce of half the size:
//
//   Q <- orthonormal columns of Q;   P <- mean_i M_i Q      or, every other step, the same with M_i^T, P and Q exchanged
//
// Later libraries (PyTorch's powerSGD_hook, too) begin after some steps of plain allreduce, `exact_steps`, and leave matrices as they
// are that would not become smaller by a factor of `least_gain`: m q < least_gain rank (m + q).

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "algorithms/averaging.hpp"
#include "algorithms/codec.hpp"
#include "algorithms/collectives.hpp"
#include "algorithms/pieces.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/sums.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct PowersgdSettings {
  std::uint32_t rank;
  double least_gain;
  Step exact_steps;
  bool is_residual_local;
  bool rescales_residual;
  bool alternates;
  CollectiveKind collective;
  OptimizerSettings optimizer;
};

/// A column of Q that a gradient of lower rank has made zero would stay zero: a trace of the first Q brings
/// it back. (The authors' code divides by norm + 1e-8, so rounding errors do that.)
constexpr double revival = 1e-6;

/// A matrix of a piece of the model, or a vector between two of them (rank 0).
struct Tensor {
  std::size_t offset, size;  // in the piece
  std::uint32_t rows = 0, columns = 0, rank = 0;
  Vector first_q{};  // (columns, rank), the same on all nodes
  Vector first_p{};  // (rows, rank), where sides alternate
};

/// Something of every tensor, in order; of vectors there may be nothing.
using Pieces = std::vector<Vector>;

/// The thin matrices.
enum class Side { p, q };

/// Whether products are so much smaller than `matrix` that it travels as one.
bool gains(const WeightMatrix& matrix, std::uint32_t rank, double least) {
  const double whole = static_cast<double>(matrix.rows) * matrix.columns;
  const double thin = rank * (static_cast<double>(matrix.rows) + matrix.columns);
  return whole >= least * thin;
}

/// Of `piece`, which holds matrices whole, as it holds tensors.
std::vector<Tensor> list_tensors(Node& node, const Piece& piece, const PowersgdSettings& settings) {
  std::vector<Tensor> tensors;
  std::size_t at = 0;
  Step index = -1;
  for (const WeightMatrix& matrix : node.matrices()) {
    ++index;
    if (matrix.offset < piece.offset || matrix.offset >= piece.offset + piece.size) continue;
    const std::size_t offset = matrix.offset - piece.offset;
    const std::size_t size = std::size_t{matrix.rows} * matrix.columns;
    ensure(offset + size <= piece.size, "a weight matrix of several tensors");
    if (offset > at) tensors.push_back({at, offset - at});
    const std::uint32_t rank = std::min({settings.rank, matrix.rows, matrix.columns});
    const bool is_compressed = gains(matrix, rank, settings.least_gain);
    Tensor tensor{offset, size, matrix.rows, matrix.columns, is_compressed ? rank : 0};
    tensor.first_q = node.normals(std::size_t{tensor.columns} * tensor.rank,
                                  node.shared_random("first Q", index));
    if (settings.alternates) {
      tensor.first_p = node.normals(std::size_t{tensor.rows} * tensor.rank,
                                    node.shared_random("first P", index));
    }
    at = offset + size;
    tensors.push_back(std::move(tensor));
  }
  if (at < piece.size) tensors.push_back({at, piece.size - at});
  return tensors;
}

/// One node's side of one piece of the model: what it remembers, and the mean gradient that all nodes agree on.
class LowRankMean {
 public:
  /// `piece` is one of the node's, `index` its place among them.
  LowRankMean(Node& node, std::size_t index, const PowersgdSettings& settings)
      : node_(node),
        index_(index),
        piece_(node.pieces()[index]),
        settings_(settings),
        tensors_(list_tensors(node, piece_, settings)),
        rate_(settings.rescales_residual) {
    for (const Tensor& a : tensors_) {
      q_.push_back(a.first_q);
      p_.push_back(a.first_p);
    }
  }

  /// Tells the learning rate at which the next mean is applied. At a rate of 0 that is lost, so what was held back stays.
  void come_to(double rate) {
    const double factor = rate_.come_to(rate);
    if (residual_ && factor != 1) residual_.scale(factor);
  }

  /// The mean over all nodes of `g`, their gradients of this piece, as all of them understand it.
  Task<Vector> of(Vector g, Step k) {
    Vector mean;
    if (!compresses()) {
      mean = co_await average(node_, node_.everybody(), tag(2 * k), std::move(g),
                              settings_.collective, &piece_);
      co_return mean;
    }
    co_await node_.reached(piece_);
    co_await node_.encode(g);
    if (settings_.alternates) {
      mean = co_await by_one_side(std::move(g), k);
    } else {
      mean = co_await by_both_sides(std::move(g), k);
    }
    co_await node_.decode(mean);
    co_return mean;
  }

 private:
  /// Whether any matrix travels as a product.
  bool compresses() const {
    return std::ranges::any_of(tensors_, [](const Tensor& a) { return a.rank > 0; });
  }
  /// By both sides of the power iteration.
  Task<Vector> by_both_sides(Vector g, Step k) {
    if (residual_ && !rate_.loses()) g.add(residual_);
    Pieces m = cut(g);
    const Pieces own_p = multiplied(m, q_, Side::p);
    Pieces p = co_await mean_of(tag(2 * k), own_p);
    orthonormalize(p, Side::p);
    leave_out_vectors(m);  // whose mean is there
    const Pieces own_q = multiplied(m, p, Side::q);
    q_ = co_await mean_of(tag(2 * k + 1), own_q);
    const Vector result = products(p, q_, Side::p);
    keep_residual(g, settings_.is_residual_local ? products(p, own_q, Side::p) : result);
    revive(q_, Side::q);
    co_return result;
  }

  /// By one side of it, in turn.
  Task<Vector> by_one_side(Vector g, Step k) {
    if (residual_ && !rate_.loses()) g.add(residual_);
    const bool makes_p = (k - settings_.exact_steps) % 2 == 0;
    const Side side = makes_p ? Side::p : Side::q;
    Pieces fixed = makes_p ? q_ : p_;
    orthonormalize(fixed, makes_p ? Side::q : Side::p);
    const Pieces own = multiplied(cut(g), fixed, side);
    Pieces made = co_await mean_of(tag(2 * k), own);
    const Vector result = products(made, fixed, side);
    keep_residual(g, settings_.is_residual_local ? products(own, fixed, side) : result);
    revive(made, side);
    (makes_p ? p_ : q_) = std::move(made);
    co_return result;
  }

  Tag tag(Step number) const { return tag_of_part(tag_of(Channel::collective, number), index_); }
  /// The matrices of `v`, row by row, and its vectors.
  Pieces cut(const Vector& v) const {
    Pieces pieces;
    for (const Tensor& a : tensors_) {
      const Vector piece = v.slice(a.offset, a.size);
      pieces.push_back(
          a.rank == 0 ? piece : transformed(transforms::PanelsToRows{a.rows, a.columns}, {piece}));
    }
    return pieces;
  }
  void leave_out_vectors(Pieces& pieces) const {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (tensors_[t].rank == 0) pieces[t] = {};
    }
  }
  /// The side P = M Q of all matrices M, from Q, or Q = M^T P, from P; vectors stay as they are.
  Pieces multiplied(const Pieces& m, const Pieces& from, Side side) const {
    using transforms::MatrixProduct;
    Pieces made = m;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const Tensor& a = tensors_[t];
      if (a.rank == 0) continue;
      made[t] = side == Side::p
                    ? transformed(MatrixProduct{a.rows, a.columns, a.rank}, {m[t], from[t]})
                    : transformed(MatrixProduct{a.columns, a.rows, a.rank, true}, {m[t], from[t]});
    }
    return made;
  }
  /// Over all nodes, of all pieces that there are.
  Task<Pieces> mean_of(Tag tag, Pieces own) {
    Pieces sent;
    std::ranges::copy_if(own, std::back_inserter(sent), [](const Vector& v) { return bool(v); });
    const Vector mean = co_await average(node_, node_.everybody(), tag, concatenate(sent),
                                         settings_.collective, &piece_);
    std::size_t at = 0;
    for (Vector& piece : own) {
      if (!piece) continue;
      const std::size_t size = piece.size();
      piece = mean.slice(at, size);
      at += size;
    }
    co_return own;
  }
  void orthonormalize(Pieces& pieces, Side side) const {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const Tensor& a = tensors_[t];
      if (a.rank == 0) continue;
      const std::uint32_t rows = side == Side::p ? a.rows : a.columns;
      pieces[t] = transformed(transforms::Orthonormalize{rows, a.rank}, {pieces[t]});
    }
  }
  /// The gradient, in the model's layout: P Q^T of matrices, of which one side was `made`, and the vectors among `made`.
  Vector products(const Pieces& made, const Pieces& fixed, Side side) const {
    Pieces pieces = made;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const Tensor& a = tensors_[t];
      if (a.rank == 0) continue;
      const Vector& p = side == Side::p ? made[t] : fixed[t];
      const Vector& q = side == Side::p ? fixed[t] : made[t];
      const Vector rows =
          transformed(transforms::MatrixProduct{a.rows, a.rank, a.columns, false, true}, {p, q});
      pieces[t] = transformed(transforms::RowsToPanels{a.rows, a.columns}, {rows});
    }
    return concatenate(pieces);
  }
  void revive(Pieces& pieces, Side side) const {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const Tensor& a = tensors_[t];
      if (a.rank > 0) pieces[t].add_scaled(revival, side == Side::p ? a.first_p : a.first_q);
    }
  }
  /// Vectors lose nothing.
  void keep_residual(const Vector& wanted, const Vector& result) {
    if (rate_.loses()) return;
    Pieces pieces;
    pieces.reserve(tensors_.size());
    for (const Tensor& a : tensors_) {
      pieces.push_back(
          a.rank == 0 ? node_.zeros(a.size)
                      : difference(wanted.slice(a.offset, a.size), result.slice(a.offset, a.size)));
    }
    residual_ = concatenate(pieces);
  }

  Node& node_;
  std::size_t index_;
  const Piece& piece_;
  const PowersgdSettings& settings_;
  std::vector<Tensor> tensors_;  // in order of offset; they cover the piece
  Pieces p_, q_;                 // as the last step has left them; P where sides alternate
  Vector residual_;
  RateChange rate_;
};

Task<> run(Node& node, const PowersgdSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  std::vector<LowRankMean> low_rank;
  low_rank.reserve(node.pieces().size());
  for (std::size_t i = 0; i < node.pieces().size(); ++i) low_rank.emplace_back(node, i, settings);
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient_in_pieces(x);
    for (LowRankMean& of_piece : low_rank) of_piece.come_to(settings.optimizer.rate(k));
    Vector mean;
    if (k < settings.exact_steps) {
      mean = co_await average(node, node.everybody(), tag_of(Channel::collective, 2 * k), g.values,
                              settings.collective);
    } else {
      const Cut cut(node, g.values);
      Parts means(cut.count());
      for (std::size_t i = 0; i < cut.count(); ++i) {
        Vector part = co_await low_rank[i].of(cut.part(i), k);
        means.add(std::move(part));
      }
      mean = means.join();
    }
    optimizer.update(x, mean, x, k);
    co_await node.finish_backward();
    node.end_step(k, x);
  }
}

}  // namespace

Program powersgd(const Section& section, const Context& context) {
  PowersgdSettings settings{};
  settings.rank = static_cast<std::uint32_t>(
      read_whole(section, "rank", 2, 1, 4096,
                 "columns of the thin matrices; fewer where a matrix is smaller"));
  settings.least_gain = read_not_negative(
      section, "least_gain", 0,
      "matrices that would not become so many times smaller travel as they are; 0: none");
  settings.exact_steps =
      read_at_least(section, "exact_steps", 0, 0, "steps before compression begins");
  warn_beyond_run(section, "exact_steps", settings.exact_steps, context, "nothing is compressed");
  settings.is_residual_local = section.choice<bool>(
      "residual", {{"local", true}, {"mean", false}}, "local",
      "what a node keeps: what its own gradient lost (the paper), or its difference "
      "from the common result (the authors' code)");
  settings.rescales_residual = read_rescales_residual(section);
  settings.alternates = section.choice<bool>(
      "sides", {{"both", false}, {"alternating", true}}, "both",
      "thin matrices that a step improves: both, in two allreduces, or one in turn, "
      "in one (the authors' later library)");
  settings.collective = read_collective(section);
  settings.optimizer = read_optimizer(section, context);
  if (context.workload.matrices.empty())
    section.warn("kind", "= powersgd compresses nothing: the workload names no matrices");
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
