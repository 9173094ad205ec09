// PowerSGD: gradients of weight matrices, m x q, travel as products of two thin ones, found by one step of
// power iteration that starts where the last one ended. For every matrix:
//
//   M_i <- gradient + e_i
//   P <- orthonormal columns of mean_i M_i Q;   Q <- mean_i M_i^T P;   the mean gradient is taken for P Q^T
//   e_i <- M_i - P Q_i^T   with Q_i = M_i^T P before the mean;   residual = mean: M_i - P Q^T
//
// Bias vectors, and models without matrices, travel as they are. All P and the vectors go in one allreduce,
// all Q in a second one that waits for it: 4 rank (m + q) bytes instead of 4 m q. Momentum and weight decay
// come after that, so all replicas stay equal. The residual is in units of gradients: it does not know the
// learning rate.
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

#include "algorithms/averaging.hpp"
#include "algorithms/collectives.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/sums.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct Settings {
  std::uint32_t rank;
  double least_gain;
  Step exact_steps;
  bool is_residual_local;
  bool alternates;
  CollectiveKind collective;
  OptimizerSettings optimizer;
};

/// A column of Q that a gradient of lower rank has made zero would stay zero: a trace of the first Q brings
/// it back. (The authors' code divides by norm + 1e-8, so rounding errors do that.)
constexpr double revival = 1e-6;

/// A matrix of the model, or a vector between two of them (rank 0).
struct Tensor {
  std::size_t offset, size;
  std::uint32_t rows = 0, columns = 0, rank = 0;
  Vector first_q{};  // (columns, rank), the same on all nodes
  Vector q{};
  Vector first_p{};  // (rows, rank), where sides alternate, from here
  Vector p{};
};

/// Whether products are so much smaller than `matrix` that it travels as one.
bool gains(const WeightMatrix& matrix, std::uint32_t rank, double least) {
  const double whole = static_cast<double>(matrix.rows) * matrix.columns;
  const double thin = rank * (static_cast<double>(matrix.rows) + matrix.columns);
  return whole >= least * thin;
}

std::vector<Tensor> list_tensors(Node& node, const Settings& settings) {
  std::vector<Tensor> tensors;
  std::size_t at = 0;
  Step index = 0;
  for (const WeightMatrix& matrix : node.matrices()) {
    if (matrix.offset > at) tensors.push_back({at, matrix.offset - at});
    const std::uint32_t rank = std::min({settings.rank, matrix.rows, matrix.columns});
    const bool is_compressed = gains(matrix, rank, settings.least_gain);
    Tensor tensor{matrix.offset, std::size_t{matrix.rows} * matrix.columns, matrix.rows,
                  matrix.columns, is_compressed ? rank : 0};
    tensor.first_q = node.normals(std::size_t{tensor.columns} * tensor.rank,
                                  node.shared_random("first Q", index));
    tensor.q = tensor.first_q;
    if (settings.alternates) {
      tensor.first_p = node.normals(std::size_t{tensor.rows} * tensor.rank,
                                    node.shared_random("first P", index));
    }
    ++index;
    at = tensor.offset + tensor.size;
    tensors.push_back(std::move(tensor));
  }
  if (at < node.parameters()) tensors.push_back({at, node.parameters() - at});
  return tensors;
}

/// The next `size` numbers of what allreduce gave back.
class Reader {
 public:
  explicit Reader(Vector v) : v_(std::move(v)) {}
  Vector take(std::size_t size) { return v_.slice(std::exchange(at_, at_ + size), size); }

 private:
  Vector v_;
  std::size_t at_ = 0;
};

/// One node's side: what it remembers, and the mean gradient that all nodes agree on.
class LowRankMean {
 public:
  LowRankMean(Node& node, const Settings& settings)
      : node_(node), settings_(settings), tensors_(list_tensors(node, settings)) {}

  Task<Vector> mean_gradient(std::span<const NodeId> members, Vector g, Step k) {
    using namespace transforms;
    if (residual_) g.add(residual_);
    std::vector<Vector> rows(tensors_.size());
    std::vector<Vector> first;  // P_i of matrices, and the vectors
    first.reserve(tensors_.size());
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const Tensor& a = tensors_[t];
      const Vector own = g.slice(a.offset, a.size);
      if (a.rank > 0) rows[t] = transformed(PanelsToRows{a.rows, a.columns}, {own});
      first.push_back(a.rank == 0
                          ? own
                          : transformed(MatrixProduct{a.rows, a.columns, a.rank}, {rows[t], a.q}));
    }
    const Vector first_mean = co_await average(node_, members, tag_of(Channel::collective, 2 * k),
                                               concatenate(first), settings_.collective);
    std::vector<Vector> pieces(tensors_.size());  // P of matrices, the mean of vectors
    std::vector<Vector> second;                   // Q_i
    Reader reader(first_mean);
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const Tensor& a = tensors_[t];
      pieces[t] = reader.take(first[t].size());
      if (a.rank == 0) continue;
      pieces[t] = transformed(Orthonormalize{a.rows, a.rank}, {pieces[t]});
      second.push_back(
          transformed(MatrixProduct{a.columns, a.rows, a.rank, true}, {rows[t], pieces[t]}));
    }
    if (second.empty()) co_return first_mean;
    const Vector own_q = concatenate(second);
    std::vector<Vector> own = pieces;
    if (settings_.is_residual_local) multiply(Reader(own_q), own);
    const Vector second_mean = co_await average(
        node_, members, tag_of(Channel::collective, 2 * k + 1), own_q, settings_.collective);
    multiply(Reader(second_mean), pieces);
    keep_q(Reader(second_mean));
    const Vector result = concatenate(pieces);
    keep_residual(g, settings_.is_residual_local ? concatenate(own) : result);
    co_return result;
  }

  /// The same by one side of the power iteration.
  Task<Vector> mean_by_one_side(std::span<const NodeId> members, Vector g, Step k) {
    if (residual_) g.add(residual_);
    const bool makes_p = (k - settings_.exact_steps) % 2 == 0;
    std::vector<Vector> fixed(tensors_.size());  // the side of each matrix that stays
    std::vector<Vector> own;                     // the other side, and the vectors
    own.reserve(tensors_.size());
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const Tensor& a = tensors_[t];
      own.push_back(g.slice(a.offset, a.size));
      if (a.rank == 0) continue;
      fixed[t] = transformed(transforms::Orthonormalize{makes_p ? a.columns : a.rows, a.rank},
                             {makes_p ? a.q : a.p});
      own[t] = improved(a, own[t], fixed[t], makes_p);
    }
    const Vector mean = co_await average(node_, members, tag_of(Channel::collective, 2 * k),
                                         concatenate(own), settings_.collective);
    std::vector<Vector> all;
    Reader reader(mean);
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      Tensor& a = tensors_[t];
      all.push_back(reader.take(own[t].size()));
      if (a.rank == 0) continue;
      Vector& kept = makes_p ? a.p : a.q;
      kept = all[t];
      kept.add_scaled(revival, makes_p ? a.first_p : a.first_q);
    }
    const Vector result = products(all, fixed, makes_p);
    keep_residual(g, settings_.is_residual_local ? products(own, fixed, makes_p) : result);
    co_return result;
  }

 private:
  /// P from `matrix`, in the model's layout, and Q, or Q from it and P.
  static Vector improved(const Tensor& a, const Vector& matrix, const Vector& fixed, bool makes_p) {
    using namespace transforms;
    const Vector rows = transformed(PanelsToRows{a.rows, a.columns}, {matrix});
    return makes_p ? transformed(MatrixProduct{a.rows, a.columns, a.rank}, {rows, fixed})
                   : transformed(MatrixProduct{a.columns, a.rows, a.rank, true}, {rows, fixed});
  }
  /// The gradient that `made` sides say with those that stayed, in the model's layout; `made` has vectors as they are.
  Vector products(const std::vector<Vector>& made, const std::vector<Vector>& fixed,
                  bool makes_p) const {
    std::vector<Vector> pieces = made;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (tensors_[t].rank == 0) continue;
      pieces[t] = makes_p ? product(tensors_[t], made[t], fixed[t])
                          : product(tensors_[t], fixed[t], made[t]);
    }
    return concatenate(pieces);
  }
  /// P Q^T, in the model's layout.
  static Vector product(const Tensor& a, const Vector& p, const Vector& q) {
    using namespace transforms;
    const Vector rows = transformed(MatrixProduct{a.rows, a.rank, a.columns, false, true}, {p, q});
    return transformed(RowsToPanels{a.rows, a.columns}, {rows});
  }
  /// Turns the P among `pieces` into P Q^T, in the model's layout; `reader` has the Q.
  void multiply(Reader reader, std::vector<Vector>& pieces) const {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const Tensor& a = tensors_[t];
      if (a.rank == 0) continue;
      const Vector q = reader.take(std::size_t{a.columns} * a.rank);
      pieces[t] = product(a, pieces[t], q);
    }
  }
  /// For the next step.
  void keep_q(Reader reader) {
    for (Tensor& a : tensors_) {
      if (a.rank == 0) continue;
      a.q = reader.take(std::size_t{a.columns} * a.rank);
      a.q.add_scaled(revival, a.first_q);
    }
  }
  /// Vectors lose nothing.
  void keep_residual(const Vector& wanted, const Vector& result) {
    std::vector<Vector> pieces;
    pieces.reserve(tensors_.size());
    for (const Tensor& a : tensors_) {
      pieces.push_back(
          a.rank == 0 ? node_.zeros(a.size)
                      : difference(wanted.slice(a.offset, a.size), result.slice(a.offset, a.size)));
    }
    residual_ = concatenate(pieces);
  }

  Node& node_;
  const Settings& settings_;
  std::vector<Tensor> tensors_;  // in order of offset; they cover the model
  Vector residual_;
};

Task<> run(Node& node, const Settings& settings) {
  Optimizer optimizer(settings.optimizer);
  LowRankMean low_rank(node, settings);
  const std::span<const NodeId> everybody = node.everybody();
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    Vector mean;
    if (k < settings.exact_steps) {
      mean = co_await average(node, everybody, tag_of(Channel::collective, 2 * k), g.values,
                              settings.collective);
    } else if (settings.alternates) {
      mean = co_await low_rank.mean_by_one_side(everybody, g.values, k);
    } else {
      mean = co_await low_rank.mean_gradient(everybody, g.values, k);
    }
    optimizer.update(x, mean, x, k);
    node.end_step(k, x);
  }
}

}  // namespace

Program powersgd(const Section& section, const Context& context) {
  Settings settings;
  settings.rank = static_cast<std::uint32_t>(
      read_whole(section, "rank", 2, 1, 4096,
                 "columns of the thin matrices; fewer where a matrix is smaller"));
  settings.least_gain = read_not_negative(
      section, "least_gain", 0,
      "matrices that would not become so many times smaller travel as they are; 0: none");
  settings.exact_steps =
      read_at_least(section, "exact_steps", 0, 0, "steps before compression begins");
  warn_beyond_run(section, "exact_steps", settings.exact_steps, context, "nothing is compressed");
  settings.is_residual_local =
      section.choice("residual", {"local", "mean"}, "local",
                     "what a node keeps: what its own gradient lost (the paper), or its difference "
                     "from the common result (the authors' code)") == "local";
  settings.alternates =
      section.choice("sides", {"both", "alternating"}, "both",
                     "thin matrices that a step improves: both, in two allreduces, or one in turn, "
                     "in one (the authors' later library)") == "alternating";
  settings.collective = read_collective(section);
  settings.optimizer = read_optimizer(section, context);
  if (context.workload.matrices.empty())
    section.warn("kind", "= powersgd compresses nothing: the workload names no matrices");
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
