// Package limits holds no code of its own: its tests bring the ledger to where something ends. Inputs are a gigabyte long,
// or a byte, or nothing; there are very many questions, and somebody answers most of them; the disk runs full; and a
// caller gives up at each moment of a call. What happens then is defined, and no memory is asked for that the input
// does not have.
//
// A quick form of each test runs with all others. The long form runs if SLUICE_LONG is set in the environment:
//
//	SLUICE_LONG=1 go test -timeout 4h -v ./internal/trial/limits
package limits
