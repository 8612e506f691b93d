// Package estimate estimates how common values are from responses: the shares of the values, and
// the mean of bounded numbers, with their uncertainty. Each object is counted once, at the level it
// has reached.
//
// [Frequencies] takes [Counts] of responses: randomized responses, responses in unary encoding, or
// outputs of finite mechanisms. [Mean] is for numbers that were rounded to the ends of a range.
// [Options] defines how objects at different ε are combined. The weights do not depend on the
// responses. [Disagreement] tests whether the objects at different ε have different shares.
//
// [Variance] is for planning: it returns the variance of an estimate from a given number of
// objects.
package estimate
