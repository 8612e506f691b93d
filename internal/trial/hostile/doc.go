// Package hostile holds no code of its own: its tests damage the file of a ledger, in ways that
// disks and people do, and have another process open it. That process must say that the file is
// damaged, or find everything in it that was there. It must not die, hang, take more memory than
// the file calls for, or go on with something else.
//
// A quick form of the test runs with all others; the long form, of 10,000 files, runs if
// SLUICE_LONG is set in the environment:
//
//	SLUICE_LONG=1 go test -timeout 12h -v ./internal/trial/hostile
//
// Tests of limits bring the ledger to where something ends. Inputs are a gigabyte long, or a byte,
// or nothing; there are very many questions, and somebody answers most of them; the disk runs full;
// and a caller gives up at each moment of a call. What happens then is defined, and no memory is
// asked for that the input does not have.
//
// A quick form of each test runs with all others. The long form runs if SLUICE_LONG is set in the
// environment:
//
//	SLUICE_LONG=1 go test -timeout 4h -v ./internal/trial/hostile
//
// Tests of two processes let two processes want one ledger. The second comes by the same name,
// through a link, after the file was renamed or replaced, or with a copy of it; it opens the ledger
// for reading or for writing, and so has the first. Whoever may not have it is told so, by a typed
// error and soon.
package hostile
