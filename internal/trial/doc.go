// Package trial holds no code of its own: its tests treat the ledger as a machine does that dies. A
// process that sells is killed at random and at each of its system calls, its disk fails and runs
// full, its power is cut; and whatever anybody was told must still be there, once, the same.
//
// A quick form of each test runs with all others, and a deep one in .ci/run. The long form runs if
// SLUICE_LONG is set in the environment:
//
//	SLUICE_LONG=1 go test -timeout 12h -v ./internal/trial
//
// The day (killed_test.go) is a host's day of trade, on which its process is killed again and
// again. It repeats every request with its key until it is through. Then everybody has been told
// the same bytes every time, and but for the responses themselves the ledger is the one of a host
// that nothing ever happened to.
package trial
