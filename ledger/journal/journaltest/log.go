package journaltest

import (
	"bytes"
	"errors"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/journal"
)

// Log makes groups of records that no other program reads, with the positions that they lead to. The
// zero Log is empty. Copies are made by Clone.
type Log struct {
	hashes []tlog.Hash // of the tree, in the order of [tlog.StoredHashIndex]
	at     uint64
}

// read is a [tlog.HashReader] of the log's tree.
func (l *Log) read(at []int64) (found []tlog.Hash, err error) {
	for _, i := range at {
		found = append(found, l.hashes[i])
	}
	return found, nil
}

// End returns where the log ends.
func (l *Log) End() journal.Position {
	root, err := tlog.TreeHash(int64(l.at), tlog.HashReaderFunc(l.read))
	if err != nil {
		panic(err) // all hashes are there
	}
	return journal.Position{Events: l.at, Root: root}
}

// Group adds records to the log, and returns them as a group.
func (l *Log) Group(term uint64, records ...[]byte) journal.Group {
	g := journal.Group{Term: term, Before: l.End(), Records: records}
	for _, r := range records {
		more, err := tlog.StoredHashes(int64(l.at), r, tlog.HashReaderFunc(l.read))
		if err != nil {
			panic(err) // all hashes are there
		}
		l.hashes, l.at = append(l.hashes, more...), l.at+1
	}
	g.After = l.End()
	return g
}

// Undo takes the last so many records back.
func (l *Log) Undo(records int) {
	l.at -= uint64(records)
	l.hashes = l.hashes[:tlog.StoredHashCount(int64(l.at))]
}

// Clone returns a log that goes its own way from here.
func (l *Log) Clone() Log { return Log{slices.Clone(l.hashes), l.at} }

// Equal tells whether two groups are the same to a reader.
func Equal(a, b journal.Group) bool {
	return a.Term == b.Term && a.Before == b.Before && a.After == b.After &&
		slices.EqualFunc(a.Records, b.Records, bytes.Equal)
}

func isRejected(err error) bool { return errors.Is(err, journal.ErrRejected) }
