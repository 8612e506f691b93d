// Package hostile holds no code of its own: its tests damage the file of a ledger, in ways that disks and people do, and
// have another process open it. That process must say that the file is damaged, or find everything in it that was there.
// It must not die, hang, take more memory than the file calls for, or go on with something else.
//
// A quick form of the test runs with all others; the long form, of 10,000 files, runs if SLUICE_LONG is set in the
// environment:
//
//	SLUICE_LONG=1 go test -timeout 12h -v ./internal/trial/hostile
package hostile
