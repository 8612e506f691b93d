// Package kv is the narrow interface between the logic of the ledger and what keeps its bytes:
// buckets of ordered keys, serializable write transactions and snapshot read transactions.
//
// Package bolt implements it on a bbolt file, and [Memory] in memory. Package memtable has the
// tests that any implementation must pass.
package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

var (
	// ErrCorrupt says that stored bytes are damaged or are not what they should be.
	ErrCorrupt = errs.ErrCorrupt
	// ErrInUse says that somebody else has the file open.
	ErrInUse = errs.ErrInUse
	// ErrReplaced says that the path no longer leads to the file as this process left it: it was
	// renamed, removed or replaced. Nothing is written as long as that is so, because nobody would
	// find it there. Or it was overwritten.
	ErrReplaced = errs.ErrReplaced
	// ErrOverwritten is an ErrReplaced: somebody has written to the open file. What was read from
	// it in the same transaction may be of either content. Nothing more is read or written until
	// the file is opened again.
	ErrOverwritten = fmt.Errorf("%w: its content was overwritten", ErrReplaced)
	// ErrUncertain says that a commit failed. The transaction may or may not be found when the data
	// are opened again, and reads until then may show it although it is not durable: so the store
	// must be closed, and opened anew to see what holds. After a [Copier.Compact] that failed too
	// late to be undone it says the same of the whole file, and nothing is written any more.
	ErrUncertain = errors.New("commit failed; its outcome shows only when the ledger is opened again")
)

// Reader is a transaction over a snapshot: it sees all transactions committed before it began, and
// no other.
type Reader interface {
	// Get returns the value of a key, or nil if there is none. The value must not be modified, nor
	// used after the transaction.
	Get(bucket string, key []byte) ([]byte, error)
	// Scan visits the pairs of a bucket in the byte order of their keys, from the first key not
	// below from, until visit returns false. What it passes must not be modified, nor used after
	// the transaction. visit must not write to the bucket.
	Scan(bucket string, from []byte, visit func(key, value []byte) bool) error
}

// Prefetcher is a [Reader] that can fetch from disk what will be read.
type Prefetcher interface {
	// Prefetch says that records of a bucket will be read soon. keys rise; there need not be
	// records of all of them. It is a hint: it changes no result and reports no fault, and may do
	// nothing, or as much as it sees fit.
	Prefetch(bucket string, keys [][]byte)
}

// Writer is a transaction that also sees its own writes.
type Writer interface {
	Reader
	// Put sets the value of a key, neither of them empty. The store keeps references to both until
	// the transaction ends: the caller must not reuse the memory.
	Put(bucket string, key, value []byte) error
	// Delete removes a key, which must not be empty. When there is no such key it does nothing,
	// which is no error. The bytes may stay where the store keeps them, unreachable: see [Copier].
	Delete(bucket string, key []byte) error
}

// Store keeps buckets of ordered keys. Its methods may be called concurrently.
type Store interface {
	// View runs fn on a snapshot and returns its error. The snapshot may show a transaction whose
	// Update has not returned yet, and which is not durable. Keep it short: as long as a snapshot
	// is held, the space of data replaced meanwhile cannot be used again.
	View(fn func(Reader) error) error
	// Update runs fn in a transaction; no two run at a time. When fn returns an error, Update
	// returns it and nothing has changed. When Update returns nil, everything fn wrote is durable:
	// it survives the end of the process and the loss of power. When the commit itself fails, the
	// error wraps [ErrUncertain]. An fn that wrote nothing costs no commit.
	Update(fn func(Writer) error) error
	// Size returns the number of bytes on disk.
	Size() (int64, error)
	// Close waits for transactions to end and releases the store. Further calls return an error.
	Close() error
}

// Guard is a [Store] that can look whether it is still where it was opened.
type Guard interface {
	// Check returns [ErrReplaced] when the path no longer leads to the open file. Nobody would find
	// what is written then.
	Check() error
}

// Spacious is a [Store] that knows how much of its file is not in use.
type Spacious interface {
	// Free returns how many bytes of the file hold nothing, and will be used again.
	Free() int64
}

// Copying is a way to copy a store.
type Copying int

const (
	// Pages copies the file as it is. It is the fast way. The copy also holds what lies in parts of
	// the file that are not in use, what was deleted or replaced, and what was never committed,
	// until these are erased.
	Pages Copying = iota
	// Records copies one record after another into a new file. Nothing else is in the copy: neither
	// what was deleted or replaced, nor a bucket without records.
	Records
)

// Progress is told now and then how many bytes of a store are read, and how many there are in all.
// Where only records are copied, both are about. The first call comes when the snapshot is taken
// and nothing is read yet. It is called by the goroutine that copies, must return soon and must not
// use the store.
type Progress func(done, total int64)

// Copier is a [Store] that can copy itself to a file and rewrite its own. Both may be called while
// others read and write.
type Copier interface {
	// CopyTo writes a copy of one snapshot, which sees what one of View sees, to a new file that
	// only its owner may use. The file is complete and durable, and check (unless nil) has returned
	// nil on it, before it gets its name; until then it has a temporary one in the same directory,
	// and check is called with that. When there is anything at path already, even if it came
	// meanwhile, the error wraps [io/fs.ErrExist] and it is left alone. After any error there is no
	// copy, and nothing else is left.
	//
	// When ctx ends while records are copied, its error is returned soon. progress may be nil.
	//
	// Nobody waits for a copy. As with View, the space of data replaced meanwhile cannot be used
	// again.
	CopyTo(ctx context.Context, path string, how Copying, progress Progress, check func(path string) error) error
	// Compact rewrites the store's own file so that nothing but the present records is in it.
	// Updates wait meanwhile, and then go to the new file; views do not wait. It returns when no
	// view of the old file is left, so calling it within a View or an Update waits for ever.
	//
	// At each instant the path leads to the complete old or the complete new file. After an error
	// the store goes on with one of them. If the error wraps [ErrUncertain], though, it is not
	// known which of them the path leads to after a loss of power: then views still work, and
	// updates fail until the store is opened again.
	//
	// When ctx ends while records are copied, the store goes on with the old file at once. progress
	// may be nil.
	Compact(ctx context.Context, progress Progress) error
}
