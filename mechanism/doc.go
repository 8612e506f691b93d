// Package mechanism answers questions about all records of a panel with differential privacy, by
// mechanisms that no other can beat: the farther a dataset is from the boundary, beyond which the
// true answer is another, the surer is the answer at the same ε.
//
// A [Query] such as a majority, a threshold or the commonest value finds the [Place] of a dataset
// among all others from counts. A [Sampler] draws the answer from the place, exactly: no float
// decides.
//
// Answers with two outputs can be released gradually, at rising ε, such that all of them together
// cost the largest ε only: as a [Score] ([Sampler.Raise]). On a line with any boundary and any
// number of outputs the answer is a [Sampler.Rank] of such a score.
//
// A place is computed from the truth, and not private: an answer may be published, a place may not.
// A dataset without a boundary has the same true answer as all others; it is given with probability
// 1, and tells nothing.
//
// Datasets as vertices of explicit graphs, any bounds between neighbours, and the proofs that go
// with them are in package graph, below this one. It is not needed to ask a query.
//
// # Sources
//
//   - doliveira2021: D'Oliveira, Médard, Sadeghi, "Differential Privacy for Binary Functions via
//     Randomized Graph Colorings" (2021);
//   - torkamani2023: Torkamani, Ebrahimi, Sadeghi, D'Oliveira, Médard, "Optimal Binary Differential
//     Privacy via Graphs" (arXiv:2310.20486);
//   - zhou2022: Zhou, Günlü, D'Oliveira, Médard, Sadeghi, Schaefer, "Rainbow Differential Privacy"
//     (2022), and Gu et al., "Generalized Rainbow Differential Privacy" (JPC 14(2), 2024).
package mechanism
