// How far one run is from another, in numbers: A - B, relative ones over B.
#pragma once

#include <string_view>

#include "sim/record/recorder.hpp"

namespace starling {

/// NaN if neither number is known; infinite if one is not, or is infinite.
double difference(double a, double b);

/// Of `a` from `b`; infinite from 0.
double relative(double a, double b);

/// Whether both runs have evaluations by time, both that at the end alone, or neither; a run by other code has but one kind. Else
/// those by step are compared, as nodes that are ahead count in them later.
bool have_the_same_by_time(const Recorder& a, const Recorder& b);

/// Mean size of the relative deviation of a metric over the steps that both runs evaluated; NaN if there are none, as in all below.
double deviation_by_step(const Recorder& a, const Recorder& b, std::string_view metric);

/// The same over the times of A's evaluations, between B's by a straight line.
double deviation_by_time(const Recorder& a, const Recorder& b, std::string_view metric);

/// Mean size of the relative deviation of the training loss over the steps for which a run by other code, at least one of the
/// two, tells it.
double deviation_of_train_loss(const Recorder& a, const Recorder& b);

/// Largest difference of any parameter of any node; NaN if a run has no models, infinite if they are not alike in size.
double model_difference(const Recorder& a, const Recorder& b);

}  // namespace starling
