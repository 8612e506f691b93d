// Package mechanism answers questions about all records of a panel with differential privacy, by
// optimal mechanisms. A dataset is on the boundary of its region if a neighbour has another true
// answer. The farther a dataset is from the boundary, the higher is the probability of the true
// answer at the same ε.
//
// A [Query], such as a majority, a threshold or the most frequent value, computes from counts the
// [Place] of a dataset among all others. A [Sampler] draws the answer from the place, exactly: it
// uses no floating-point numbers to decide.
//
// Answers with two outputs can be released gradually, at rising ε, such that all of them together
// cost only the largest ε. The answer is then a [Score] ([Sampler.Raise]). On a line, with any
// boundary and any number of outputs, the answer is a [Sampler.Rank] of such a score.
//
// A place is computed from the true data and is not private: an answer may be published, a place
// may not. A dataset without a boundary has the same true answer as all others. This answer is
// given with probability 1, and reveals nothing.
//
// The package mechanism/graph has datasets as vertices of explicit graphs, any bounds between
// neighbours, and the corresponding proofs. Queries do not need it.
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
