// Gradient coding: synchronous SGD on a parameter server that never waits for its `stragglers` slowest nodes
// and still takes the exact mean gradient. The data of node j are part j; every node holds s + 1 parts and
// sends one combination:
//
//   node i    c_i <- sum_j B_ij g_j(x_k),   g_j the gradient of part j's k-th mini-batch, the same whoever computes it
//   server    from the first answers that suffice, sum_i a_i c_i = sum_j g_j;   x_{k+1} <- x_k - learning_rate * that / n
//
// gradient_code.hpp has the two codes and how a is found. Answers to x_k that come later are dropped. A node
// computes its parts one after the other and abandons what is left of them when x_{k+1} comes, the gradient under way,
// too. With stragglers = 0 it is the synchronous parameter server.
//
// The server is a fibre on node 0 beside that node's own work; momentum and weight decay are the server's. The metric
// "answers" counts those that a step took.
//
// Tandon, Lei, Dimakis, Karampatziakis, "Gradient Coding: Avoiding Stragglers in Distributed Learning", ICML 2017.

#include <memory>

#include "algorithms/companions.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/gradient_code.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct GradientCodingSettings {
  std::shared_ptr<SharedGradientCode> code;
  OptimizerSettings optimizer;
};

Task<> serve(Node& node, const GradientCodingSettings& settings) {
  const GradientCode& code = settings.code->of(node);
  Optimizer optimizer(settings.optimizer);
  Vector x = node.initial_model();
  node.post_receives(tag_of(Channel::request));
  for (Step k = 0; k < node.steps(); ++k) {
    CodedAnswers answers(code, static_cast<std::size_t>(node.nodes()));
    Vector sum;
    while (!sum) {
      Message m = co_await node.receive(any_source, tag_of(Channel::request));
      if (static_cast<Step>(m.number) != k) continue;
      answers.take(static_cast<std::size_t>(m.source), std::move(m.values));
      sum = answers.sum();
    }
    node.record("answers", k, static_cast<double>(answers.count()));
    sum.scale(1.0 / node.nodes());
    optimizer.update(x, sum, x, k);
    for (NodeId i = 0; i < node.nodes(); ++i) node.send(i, tag_of(Channel::reply, k), x);
  }
  node.close_receives(tag_of(Channel::request));
}

Task<> run(Node& node, const GradientCodingSettings& settings) {
  Companions companions(node);
  const GradientCode& code = settings.code->of(node);
  Vector x = node.initial_model();
  if (node.id() == 0) companions.spawn(serve(node, settings));
  for (Step k = 0; k < node.steps(); ++k) {
    const Message next = co_await answer(node, code.terms(static_cast<std::size_t>(node.id())), 0,
                                         k, x, tag_of(Channel::reply, k));
    x = next.values;
    node.end_step(k, x);
  }
  co_await companions.join();
}

}  // namespace

Program gradient_coding(const Section& section, const Context& context) {
  GradientCodingSettings settings{};
  settings.code = read_gradient_code(section, context.nodes);
  settings.optimizer = read_optimizer(section, context);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
