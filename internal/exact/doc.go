// Package exact draws from a finite set with probabilities that are functions of e^ε, exactly.
//
// Such probabilities are irrational, and a float64 stands for them badly: for two values a float
// comparison never lies from ε ≈ 37 on, which is a broken promise and not a rounding error. Here a
// draw is a uniform real number U in [0,1), revealed bit by bit, compared with a threshold t.
// Sixty-four bits settle it against a precomputed interval that provably holds t, except with
// probability below 2⁻⁵⁰ up to 2¹¹ values, and 2⁻⁴¹ up to 2²⁰; then more bits of U meet tighter
// intervals in big-number arithmetic, for as long as it takes. The law is that of t itself, not of
// an approximation to it (design: "Sampling exactly"; the lazy comparison is von Neumann's).
//
// How long a draw takes, and how many random bits it uses, does not depend on which value is the
// true one or on which value comes out.
package exact
