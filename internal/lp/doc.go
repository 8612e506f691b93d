// Package lp solves linear programs, maximize c·x subject to rows a·x ≤ b or a·x = b and x ≥ 0.
// Every answer has a proof. Data and answers are rational numbers, and no answer depends on a
// tolerance.
//
// A vertex of the polytope is given by its basis: n linearly independent constraints, out of the m
// rows and the n constraints −x_j ≤ 0, that are equations at the vertex. The basis matrix has one
// row for each variable, for any number of constraints. Programs of differential privacy have
// several constraints of two terms for each variable.
//
//   - A simplex method in float64 walks from vertex to vertex (file simplex.go): a dual phase for a
//     cost that suits the first basis, and then, from the feasible vertex it ends at, a primal
//     phase for the true cost. Only the basis it ends at is used.
//   - The vertex of that basis, and the multipliers of its constraints, are found exactly (file
//     lift.go) by p-adic lifting, from an inverse modulo a prime (J. D. Dixon, "Exact solution of
//     linear equations using p-adic expansions", Numerische Mathematik 40, 1982).
//   - While the violation at the vertex is too small for float64, the walk continues with a smaller
//     unit (file approach.go).
//   - If the vertex satisfies all constraints and all multipliers of inequalities are at least 0,
//     it is the optimum: the multipliers are a solution of the dual program with the same value.
//     Otherwise an exact simplex method with Bland's rule, which cannot cycle, takes the remaining
//     steps (file exact.go).
//
// The proof that a program is infeasible are multipliers that combine its rows to 0·x ≤ b with b <
// 0 (Farkas). The proof that it is unbounded is a direction in which a feasible vertex can move
// without end. If none of these proofs is found with bounded work, the answer is
// [privacy.ErrNoCertificate].
//
// The alternative was to accept float64 solutions within a tolerance. It was rejected for two
// reasons. In programs of differential privacy, nearly all right sides are 0 and most vertices
// degenerate. So feasibility, and which of two bases is better, are decided below any tolerance.
// And a probability of 1e-14 beside one of 0 is within every absolute tolerance, and is not
// private.
package lp
