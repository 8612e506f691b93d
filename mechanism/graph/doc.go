// Package graph finds the best private mechanisms on explicit graphs of datasets.
//
// Datasets are the vertices of a graph whose edges join neighbours, datasets that differ by one
// individual. Colours are true answers; with more than two outputs each dataset ranks them all, by
// a rainbow ([Preferences]). A mechanism gives each vertex a law over the outputs ([Table]), and is
// (ε,δ)-differentially private if laws of neighbours differ by no more than that ([Table.Check]).
//
// The mathematics is that of
//
//   - doliveira2021: D'Oliveira, Médard, Sadeghi, "Differential Privacy for Binary Functions via
//     Randomized Graph Colorings" (2021);
//   - torkamani2023: Torkamani, Ebrahimi, Sadeghi, D'Oliveira, Médard, "Optimal Binary Differential
//     Privacy via Graphs" (arXiv:2310.20486);
//   - zhou2022: Zhou, Günlü, D'Oliveira, Médard, Sadeghi, Schaefer, "Rainbow Differential Privacy"
//     (2022), and Gu et al., "Generalized Rainbow Differential Privacy" (JPC 14(2), 2024).
//
// In reading them, mind that τ in torkamani2023 Eq. (6) must not go below 0, that the brackets in
// zhou2022 Eqs. (2) and (3) are floors, and that the distance in the introduction of doliveira2021
// is that to the vertex's own boundary.
//
// # What to use
//
// A question about real records needs no graph: see package mechanism. On an explicit [Graph],
// [Problem.Solve] finds the best mechanism for what is known of the boundary. [Privacy.Law] is the
// law at one distance from a boundary where all vertices are alike.
//
// [Gradual] decides whether answers can be released gradually, such that all of them together cost
// the largest ε only, and proves it.
//
// A component without a boundary has the same true answer everywhere; it is given with probability
// 1, and reveals nothing.
package graph
