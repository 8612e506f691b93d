package journaltest

import (
	"bytes"
	"errors"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/journal"
)

// Log makes groups of arbitrary records, with correct positions. The zero Log is empty. Use Clone
// to copy a Log.
type Log struct {
	hashes []tlog.Hash // of the tree, in the order of [tlog.StoredHashIndex]
	at     uint64      // number of records
}

// read returns the hashes of the log's tree at some indexes, as a [tlog.HashReaderFunc].
func (l *Log) read(at []int64) (found []tlog.Hash, err error) {
	for _, i := range at {
		found = append(found, l.hashes[i])
	}
	return found, nil
}

// End returns where the log ends: the number of its records, and the root of the tree over them.
func (l *Log) End() journal.Position {
	root, err := tlog.TreeHash(int64(l.at), tlog.HashReaderFunc(l.read))
	if err != nil {
		panic(err) // the log has all hashes
	}
	return journal.Position{Events: l.at, Root: root}
}

// Group adds records to the log, and returns them as a group under a term. Before is where the log
// ended, After is where it ends now. Cut is false.
func (l *Log) Group(term uint64, records ...[]byte) journal.Group {
	g := journal.Group{Term: term, Before: l.End(), Records: records}
	for _, r := range records {
		more, err := tlog.StoredHashes(int64(l.at), r, tlog.HashReaderFunc(l.read))
		if err != nil {
			panic(err) // the log has all hashes
		}
		l.hashes, l.at = append(l.hashes, more...), l.at+1
	}
	g.After = l.End()
	return g
}

// Undo removes the last records from the log. The parameter is their number.
func (l *Log) Undo(records int) {
	l.at -= uint64(records)
	// The hashes of a smaller tree are the first ones of those of a larger tree.
	l.hashes = l.hashes[:tlog.StoredHashCount(int64(l.at))]
}

// Clone returns an independent copy of the log.
func (l *Log) Clone() Log { return Log{slices.Clone(l.hashes), l.at} }

// Equal reports whether two groups are the same for a reader: equal except for Cut.
func Equal(a, b journal.Group) bool {
	return a.Term == b.Term && a.Before == b.Before && a.After == b.After &&
		slices.EqualFunc(a.Records, b.Records, bytes.Equal)
}

// isRejected reports whether an error wraps [journal.ErrRejected].
func isRejected(err error) bool { return errors.Is(err, journal.ErrRejected) }

// isHeld reports whether an error wraps a [*journal.HeldError].
func isHeld(err error) bool { return errors.As(err, new(*journal.HeldError)) }
