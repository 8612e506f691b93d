// Package estimate estimates how common values are from responses: the shares of the values, and
// the mean of bounded numbers, with their uncertainty. Each object is counted once, at the level it
// has reached.
//
// [Frequencies] takes [Counts] of responses: randomized responses, those in unary encoding, or the
// outputs of finite mechanisms. [Mean] is for numbers that were rounded to the ends of a range.
// Objects at different ε are combined as [Options] says, with weights that do not depend on the
// responses. [Disagreement] tests whether the objects at different ε have different shares.
//
// [Variance] plans: it returns how good an estimate from so many objects will be.
package estimate
