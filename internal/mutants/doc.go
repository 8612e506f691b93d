// Package mutants lists faults that could be made in the code, each with the test that catches it.
// "go test ./..." checks that each entry still fits the code. With SLUICE_LONG, each fault is made
// in a copy that only the compiler sees, and its test must fail.
//
// An entry of a list is a paragraph. Each line begins with a mark and a space:
//
//	= privacy EpsilonFromNano: the largest ε is out of range
//	- n > maxEpsilonNano
//	+ n >= maxEpsilonNano
//	! privacy TestEpsilonFromNano
//
// The first line names a package and a declaration, and says what is wrong. A method is written
// Type.Method. For a file that is not Go, its path is written instead of package and declaration.
// The code after "-" occurs exactly once in the declaration, and the code after "+" replaces it.
// Both may have several lines. White space, comments and commas at the ends of wrapped lines do not
// count: an entry fits in every file of its package, and with lines wrapped in any way. The last
// line names the package and the test that fails. A subtest follows a slash. If the test hangs
// instead of failing, the word "hangs" follows. Lines that begin with # are comments.
//
// To try one entry, or those of a package or function:
//
//	SLUICE_LONG=1 go test ./internal/mutants -run 'Survives/ledger/internal/rules_hasAll'
package mutants
