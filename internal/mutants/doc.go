// Package mutants holds faults that could be made, and names for each the test that catches it. It
// is nothing but lists and the tests that hold them: in "go test ./..." each entry still fits the
// code, and with SLUICE_LONG each fault is made, in a copy that only the compiler sees, and its test
// must fail.
//
// An entry of a list is a paragraph. Each line begins with a mark and a space:
//
//	= privacy/privacy.go: the largest ε is out of range
//	- n > maxEpsilonNano
//	+ n >= maxEpsilonNano
//	! privacy TestEpsilonFromNano
//
// The first says which file, and what is wrong. The text after "-" is in the file exactly once, and
// is replaced by that after "+"; either may have several lines. The last says which test fails, in
// which package; a subtest follows a slash. If the test hangs instead, the word "hangs" follows.
// Lines that begin with # are comments.
//
// To try one entry, or those of a file:
//
//	SLUICE_LONG=1 go test ./internal/mutants -run 'Survives/privacy/privacy.go'
package mutants
