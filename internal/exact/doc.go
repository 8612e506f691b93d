// Package exact draws from a finite set with probabilities that are functions of e^ε, exactly.
//
// Such probabilities are irrational, and a float64 approximates them badly. For two values, a
// comparison of floats never returns the false value from ε ≈ 37 on, which breaks the privacy
// guarantee. Here a draw compares a uniform real number U in [0,1), whose bits are revealed one by
// one, with a threshold t. Sixty-four bits of U are compared with a precomputed interval that
// provably contains t. They decide except with probability below 2⁻⁵⁰ for up to 2¹¹ values, and
// 2⁻⁴¹ for up to 2²⁰. Otherwise more bits of U are compared with smaller intervals in arbitrary
// precision, until they decide. The law is therefore that of t itself, not of an approximation
// (design: "Sampling exactly"; the lazy comparison is von Neumann's).
//
// The running time of a draw, and the number of random bits, do not depend on the true value or on
// the result.
package exact
