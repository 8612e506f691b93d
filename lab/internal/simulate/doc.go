// Package simulate runs the experiments of Pan, "Randomized Response with Gradual Release of
// Privacy Budget" (2024, arXiv:2401.13952; pan2024 for short), section 6, on the chains of package
// rrchain, and compares the measurements with theory. It draws no pictures, but has the numbers of
// the paper's Figures 1 to 3.
//
// An experiment is run many times. In each run every object is raised through all levels, and at
// each level the shares of the values are estimated from the responses. The chains must have three
// properties:
//
//   - The estimates have the mean and the variance of a fresh randomized response at the level's ε.
//   - They are better than the estimates of RAPPOR's repeated noisy sampling at the same ε, by the
//     amount of Eq. (68).
//   - All responses of an object together give no better guess of its value than the last response
//     (Theorem 6.1).
//
// All draws use the randomness of the operating system, so no two runs are the same.
package simulate
