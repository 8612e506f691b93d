// Package kv defines the interface between the logic of the ledger and its storage: buckets of
// ordered keys, serializable write transactions and snapshot read transactions.
//
// Package bolt implements it on a bbolt file, and [Memory] implements it in memory. Package
// memtable has the tests that every implementation must pass.
package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

var (
	// ErrCorrupt is returned if stored bytes are damaged, or not what they should be.
	ErrCorrupt = errs.ErrCorrupt
	// ErrInUse is returned if another process has the file open.
	ErrInUse = errs.ErrInUse
	// ErrReplaced is returned if the path no longer leads to the file as this process left it: the
	// file was renamed, removed, replaced or overwritten. Nothing is written as long as that is so,
	// because what is written could not be found at the path.
	ErrReplaced = errs.ErrReplaced
	// ErrOverwritten is an ErrReplaced: another process has written to the open file. What was read
	// in the same transaction may be from the old or the new content. Nothing more is read or
	// written until the file is opened again.
	ErrOverwritten = fmt.Errorf("%w: its content was overwritten", ErrReplaced)
	// ErrUncertain is returned if a commit failed. The transaction may or may not be in the store
	// when it is opened again. Until then reads may show it although it is not durable. So the
	// store must be closed and opened again to find out.
	//
	// After a [Copier.Compact] that failed too late to be undone, the same holds for the whole
	// file, and nothing is written any more.
	ErrUncertain = errors.New("commit failed; its outcome shows only when the ledger is opened again")
)

// Reader is a transaction over a snapshot. It sees all transactions that were committed before it
// began, and no others.
type Reader interface {
	// Get returns the value of a key, or nil if there is none. The value must not be modified, and
	// not be used after the transaction.
	Get(bucket string, key []byte) ([]byte, error)
	// Scan visits the pairs of a bucket in the byte order of their keys, from the first key not
	// below from, until visit returns false. The pairs must not be modified, and not be used after
	// the transaction. visit must not write to the bucket.
	Scan(bucket string, from []byte, visit func(key, value []byte) bool) error
}

// Prefetcher is a [Reader] that can fetch records from disk before they are read.
type Prefetcher interface {
	// Prefetch announces that records of a bucket will be read soon. keys must rise; records need
	// not exist for all of them. The call is a hint: it changes no result, reports no error, and
	// may fetch all, some or none of the records.
	Prefetch(bucket string, keys [][]byte)
}

// Writer is a transaction that also sees its own writes.
type Writer interface {
	Reader
	// Put sets the value of a key. Neither may be empty. The store keeps references to both until
	// the transaction ends, so the caller must not reuse the memory.
	Put(bucket string, key, value []byte) error
	// Delete removes a key, which must not be empty. If there is no such key, Delete does nothing
	// and returns no error. The bytes may remain in unused parts of the store: see [Copier].
	Delete(bucket string, key []byte) error
}

// Store keeps buckets of ordered keys. Its methods may be called concurrently.
type Store interface {
	// View runs fn on a snapshot and returns its error. The snapshot may show a transaction whose
	// Update has not returned yet, and which is not durable yet. fn should be short, because the
	// space of data that is replaced cannot be reused while the snapshot is held.
	View(fn func(Reader) error) error
	// Update runs fn in a transaction. Only one Update runs at a time. If fn returns an error,
	// Update returns it and nothing has changed. If Update returns nil, everything that fn wrote is
	// durable: it survives the end of the process and a power failure.
	//
	// If the commit itself fails, the error wraps [ErrUncertain]. An fn that wrote nothing causes
	// no commit.
	Update(fn func(Writer) error) error
	// Size returns the number of bytes on disk.
	Size() (int64, error)
	// Close waits for transactions to end and releases the store. Further calls return an error.
	Close() error
}

// Guard is a [Store] that can check whether its path still leads to it.
type Guard interface {
	// Check returns [ErrReplaced] if the path no longer leads to the open file. Then what is
	// written could not be found.
	Check() error
}

// Spacious is a [Store] that can report how much of its file is unused.
type Spacious interface {
	// Free returns how many bytes of the file are unused, and will be reused.
	Free() int64
}

// Copying is a way to copy a store.
type Copying int

const (
	// Pages copies the file as it is, which is fast. The copy also contains the unused parts of the
	// file: what was deleted or replaced, and what was never committed, until these parts are
	// erased.
	Pages Copying = iota
	// Records copies one record after another to a new file. The copy contains nothing else:
	// neither what was deleted or replaced, nor a bucket without records.
	Records
)

// Progress is called at intervals with the number of bytes of a store that are read, and the total.
// If only records are copied, both are approximate. The first call means that the snapshot is taken
// and nothing is read yet.
//
// The goroutine that copies calls it. It must return soon and must not use the store.
type Progress func(done, total int64)

// Copier is a [Store] that can copy itself to a file and rewrite its own file. Both methods may be
// called while other callers read and write.
type Copier interface {
	// CopyTo writes a copy of one snapshot, which sees what a View sees, to a new file that only
	// its owner may use. Before the file gets its name, it is complete and durable, and check has
	// returned nil, unless check is nil. Until then it has a temporary name in the same directory,
	// with which check is called.
	//
	// If anything exists at path, even if it was created during the copy, the error wraps
	// [io/fs.ErrExist], and what exists is not changed. After any error there is no copy, and no
	// temporary file.
	//
	// If ctx ends while records are copied, CopyTo returns its error soon. progress may be nil.
	//
	// No other caller waits for a copy. As for View, the space of data that is replaced cannot be
	// reused during the copy.
	CopyTo(ctx context.Context, path string, how Copying, progress Progress, check func(path string) error) error
	// Compact rewrites the store's own file so that it contains only the present records. Updates
	// wait for it, and then go to the new file; views do not wait. Compact returns when the old
	// file has no more views, so it must not be called in a View or an Update: it would wait
	// forever.
	//
	// At each moment the path leads to the complete old or the complete new file. After an error
	// the store continues with one of them. But if the error wraps [ErrUncertain], it is unknown
	// which of them the path leads to after a power failure. Then views still work, and updates
	// fail until the store is opened again.
	//
	// If ctx ends while records are copied, the store continues with the old file at once. progress
	// may be nil.
	Compact(ctx context.Context, progress Progress) error
}
