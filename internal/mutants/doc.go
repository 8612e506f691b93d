// Package mutants lists faults that could be made in the code, each with the test that catches it.
// In "go test ./..." each entry still fits the code. With SLUICE_LONG each fault is made in a copy
// that only the compiler sees, and its test must fail.
//
// An entry of a list is a paragraph. Each line begins with a mark and a space:
//
//	= privacy EpsilonFromNano: the largest ε is out of range
//	- n > maxEpsilonNano
//	+ n >= maxEpsilonNano
//	! privacy TestEpsilonFromNano
//
// The first line names a package and a function, a method as Type.Method, or another declaration,
// and says what is wrong. The path of a file that is not Go stands for package and function. The
// code after "-" is in that declaration exactly once, and that after "+" takes its place; both may
// have several lines. White space, comments and commas at the ends of wrapped lines do not count:
// an entry fits wherever in its package the function is, and however its lines are wrapped. The last
// line names the package and the test that fails; a subtest follows a slash. If the test hangs
// instead, the word "hangs" follows. Lines that begin with # are comments.
//
// To try one entry, or those of a package or function:
//
//	SLUICE_LONG=1 go test ./internal/mutants -run 'Survives/ledger/internal/rules_hasAllReservations'
package mutants
