// Package memory is a store without a disk, for tests and for replaying a log.
package memory

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// Store is a [kv.Store] in memory. Its updates are as durable as the process. The zero value is empty and ready.
type Store struct {
	writing sync.Mutex
	mu      sync.Mutex
	state   buckets // never modified once it stands here
	closed  bool
}

type buckets map[string]map[string][]byte

var errClosed = errors.New("store is closed")

func (m *Store) snapshot() (buckets, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errClosed
	}
	return m.state, nil
}

// View implements [kv.Store].
func (m *Store) View(fn func(kv.Reader) error) error {
	state, err := m.snapshot()
	if err != nil {
		return err
	}
	return fn(&memoryTx{state: state})
}

// Update implements [kv.Store]. It copies every bucket it writes to.
func (m *Store) Update(fn func(kv.Writer) error) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	state, err := m.snapshot()
	if err != nil {
		return err
	}
	tx := &memoryTx{state: maps.Clone(state), owned: map[string]bool{}}
	if tx.state == nil {
		tx.state = buckets{}
	}
	if err := fn(tx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = tx.state
	return nil
}

// Size implements [kv.Store] with the number of bytes in keys and values.
func (m *Store) Size() (int64, error) {
	state, err := m.snapshot()
	var size int64
	for _, bucket := range state {
		for key, value := range bucket {
			size += int64(len(key) + len(value))
		}
	}
	return size, err
}

// Close implements [kv.Store].
func (m *Store) Close() error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// Copy returns a store of its own that holds what this one does. It takes no longer for a large store than for a small one.
func (m *Store) Copy() *Store {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Store{state: m.state}
}

type memoryTx struct {
	state buckets
	owned map[string]bool
	order map[string][]string // the keys of buckets that were scanned, sorted
}

func (t *memoryTx) Get(bucket string, key []byte) ([]byte, error) {
	return t.state[bucket][string(key)], nil
}

func (t *memoryTx) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	pairs, order := t.state[bucket], t.sorted(bucket)
	first, _ := slices.BinarySearch(order, string(from))
	for _, key := range order[first:] {
		if !visit([]byte(key), pairs[key]) {
			return nil
		}
	}
	return nil
}

// sorted returns the keys of a bucket in order, and remembers them until one is added or removed.
func (t *memoryTx) sorted(bucket string) []string {
	if order, known := t.order[bucket]; known {
		return order
	}
	if t.order == nil {
		t.order = map[string][]string{}
	}
	t.order[bucket] = slices.Sorted(maps.Keys(t.state[bucket]))
	return t.order[bucket]
}

func (t *memoryTx) Put(bucket string, key, value []byte) error {
	if len(key) == 0 || len(value) == 0 {
		return errors.New("empty key or value")
	}
	t.own(bucket)
	if _, known := t.state[bucket][string(key)]; !known {
		delete(t.order, bucket)
	}
	t.state[bucket][string(key)] = value
	return nil
}

func (t *memoryTx) Delete(bucket string, key []byte) error {
	if len(key) == 0 {
		return errors.New("empty key")
	}
	if _, known := t.state[bucket][string(key)]; !known {
		return nil
	}
	t.own(bucket)
	delete(t.order, bucket)
	delete(t.state[bucket], string(key))
	return nil
}

// own makes a bucket the transaction's own: others still read the one it began with.
func (t *memoryTx) own(bucket string) {
	if t.owned[bucket] {
		return
	}
	t.owned[bucket] = true
	t.state[bucket] = maps.Clone(t.state[bucket])
	if t.state[bucket] == nil {
		t.state[bucket] = map[string][]byte{}
	}
}
