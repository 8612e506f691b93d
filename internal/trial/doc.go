// Package trial holds no code of its own: its tests treat the ledger as a machine does that dies. A
// process that sells is killed at random and at each of its system calls, its disk fails and runs
// full, its power is cut; and whatever anybody was told must still be there, once, the same.
//
// A quick form of each test runs with all others, and a deep one in .ci/run. The long form runs if
// SLUICE_LONG is set in the environment:
//
//	SLUICE_LONG=1 go test -timeout 12h -v ./internal/trial
package trial
