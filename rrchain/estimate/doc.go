// Package estimate estimates how common values are from responses: the shares of the values, and
// the mean of bounded numbers, with their uncertainty. The responses are those of chains (package
// rrchain). Each object is counted once, at the level it has reached.
//
// [Frequencies] is for randomized responses, [UnaryFrequencies] for unary encoding, and [Mean] for
// numbers that were rounded to the ends of a range. Objects at different ε are combined as
// [Options] says, with weights that do not depend on the responses. [Disagreement] tests whether
// the objects at different ε have different shares.
//
// [Variance] and [UnaryVariance] plan: they return how good an estimate at an ε and from so many
// objects will be.
package estimate
