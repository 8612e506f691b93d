// Package trial tests that a ledger loses nothing when its process or machine fails. A host that
// sells is killed at random and at each of its system calls, its disk fails or is full, and its
// power is cut. Every result that the host has reported must still be there, once and unchanged.
// The package holds no code of its own.
//
// A quick form of each test runs with all other tests, and a deep form in .ci/run. The long form
// runs if SLUICE_LONG is set in the environment:
//
//	SLUICE_LONG=1 go test -timeout 12h -v ./internal/trial
package trial
