// Package estimate tells from responses how common the values are: the shares of a population, and the mean of
// bounded numbers, with their uncertainty. The responses are those of chains (package rrchain), each object counted
// once, at the level it has reached.
//
// [Frequencies] is for randomized responses, [UnaryFrequencies] for unary encoding, and [Mean] for numbers that
// were rounded to the ends of a range. Objects at different ε are combined with weights that do not depend on the
// responses, so that all estimates stay unbiased.
//
// [Variance] and [UnaryVariance] plan: how good will an estimate be, at an ε and from so many objects.
package estimate
