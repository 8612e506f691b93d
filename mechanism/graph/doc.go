// Package graph computes optimal private mechanisms on explicit graphs of datasets.
//
// Datasets are the vertices of a graph whose edges join neighbours, which are datasets that differ
// by one individual. Colours are true answers. With more than two outputs, each dataset ranks them
// all, by a rainbow ([Preferences]). A mechanism gives each vertex a law over the outputs
// ([Table]). It is (ε,δ)-differentially private if the laws of neighbours differ by no more than
// that ([Table.Check]).
//
// The mathematics is from
//
//   - doliveira2021: D'Oliveira, Médard, Sadeghi, "Differential Privacy for Binary Functions via
//     Randomized Graph Colorings" (2021);
//   - torkamani2023: Torkamani, Ebrahimi, Sadeghi, D'Oliveira, Médard, "Optimal Binary Differential
//     Privacy via Graphs" (arXiv:2310.20486);
//   - zhou2022: Zhou, Günlü, D'Oliveira, Médard, Sadeghi, Schaefer, "Rainbow Differential Privacy"
//     (2022), and Gu et al., "Generalized Rainbow Differential Privacy" (JPC 14(2), 2024).
//
// Three corrections apply to these papers. τ in torkamani2023 Eq. (6) must not go below 0. The
// brackets in zhou2022 Eqs. (2) and (3) are floors. The distance in the introduction of
// doliveira2021 is the distance to the vertex's own boundary.
//
// # What to use
//
// A question about real records needs no graph: see package mechanism. On an explicit [Graph],
// [Problem.Solve] computes the best mechanism for what is known of the boundary. [Privacy.Law] is
// the law at one distance from a boundary where all vertices have the same law.
//
// [Gradual] decides, with a proof, whether answers can be released gradually, such that all of them
// together cost only the largest ε.
//
// A component without a boundary has the same true answer everywhere. It is given with probability
// 1, and reveals nothing.
package graph
