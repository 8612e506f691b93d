// Package memory is a store without a disk, for tests and for replaying a log.
package memory

import (
	"bytes"
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
	updates uint64  // that led to it, here and where it was copied from
	closed  bool
}

type buckets map[string]table

// table is a bucket: pages, none of them empty, in the order of their keys. To change a record, a transaction copies its
// page, and not the bucket.
type table []*page

// page holds some pairs in the order of their keys. After the update that made it, it is never modified.
type page struct {
	number uint64 // of the update: how many led to it
	pairs  []pair
}

type pair struct{ key, value []byte }

const pageSize = 64 // pairs, at most

// find returns where the first key not below the given one stands, and whether it is that one. It may be behind
// the last pair of its page; without pages it is at 0, 0.
func (t table) find(key []byte) (at, i int, found bool) {
	at, found = slices.BinarySearchFunc(t, key, func(p *page, key []byte) int { return bytes.Compare(p.pairs[0].key, key) })
	if found || len(t) == 0 {
		return at, 0, found
	}
	at = max(at-1, 0)
	i, found = slices.BinarySearchFunc(t[at].pairs, key, func(p pair, key []byte) int { return bytes.Compare(p.key, key) })
	return at, i, found
}

// of returns a page that an update may modify: this one, or a copy.
func (p *page) of(number uint64) *page {
	if p.number == number {
		return p
	}
	return &page{number: number, pairs: append(make([]pair, 0, pageSize+1), p.pairs...)}
}

// split takes what is too much off a page into one of its own, after a pair was put at i. Behind the last one little is
// taken: keys mostly rise.
func (p *page) split(i int) (rest *page) {
	if len(p.pairs) <= pageSize {
		return nil
	}
	half := len(p.pairs) / 2
	if i == len(p.pairs)-1 {
		half = i
	}
	rest = &page{number: p.number, pairs: slices.Clone(p.pairs[half:])}
	p.pairs = slices.Delete(p.pairs, half, len(p.pairs))
	return rest
}

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

// Update implements [kv.Store]. It copies every page it writes to.
func (m *Store) Update(fn func(kv.Writer) error) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	state, err := m.snapshot()
	if err != nil {
		return err
	}
	tx := &memoryTx{state: maps.Clone(state), number: m.updates + 1, owned: map[string]bool{}}
	if tx.state == nil {
		tx.state = buckets{}
	}
	if err := fn(tx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.updates = tx.state, tx.number
	return nil
}

// Size implements [kv.Store] with the number of bytes in keys and values.
func (m *Store) Size() (int64, error) {
	state, err := m.snapshot()
	var size int64
	for _, pages := range state {
		for _, page := range pages {
			for _, p := range page.pairs {
				size += int64(len(p.key) + len(p.value))
			}
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
	return &Store{state: m.state, updates: m.updates}
}

type memoryTx struct {
	state  buckets
	number uint64          // of an update; 0 reads
	owned  map[string]bool // buckets whose list of pages is this transaction's own
}

func (t *memoryTx) Get(bucket string, key []byte) ([]byte, error) {
	pages := t.state[bucket]
	at, i, found := pages.find(key)
	if !found {
		return nil, nil
	}
	return pages[at].pairs[i].value, nil
}

func (t *memoryTx) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	pages := t.state[bucket]
	at, i, _ := pages.find(from)
	for ; at < len(pages); at, i = at+1, 0 {
		for _, p := range pages[at].pairs[i:] {
			if !visit(p.key, p.value) {
				return nil
			}
		}
	}
	return nil
}

func (t *memoryTx) Put(bucket string, key, value []byte) error {
	if len(key) == 0 || len(value) == 0 {
		return errors.New("empty key or value")
	}
	t.own(bucket)
	pages := t.state[bucket]
	at, i, found := pages.find(key)
	if len(pages) == 0 {
		pages = table{{number: t.number}}
	}
	pages[at] = pages[at].of(t.number)
	if found {
		pages[at].pairs[i].value = bytes.Clone(value)
	} else {
		pages[at].pairs = slices.Insert(pages[at].pairs, i, pair{slices.Clip(slices.Clone(key)), bytes.Clone(value)})
	}
	if rest := pages[at].split(i); rest != nil {
		pages = slices.Insert(pages, at+1, rest)
	}
	t.state[bucket] = pages
	return nil
}

func (t *memoryTx) Delete(bucket string, key []byte) error {
	if len(key) == 0 {
		return errors.New("empty key")
	}
	if _, _, found := t.state[bucket].find(key); !found {
		return nil
	}
	t.own(bucket)
	pages := t.state[bucket]
	at, i, _ := pages.find(key)
	pages[at] = pages[at].of(t.number)
	if pages[at].pairs = slices.Delete(pages[at].pairs, i, i+1); len(pages[at].pairs) == 0 {
		t.state[bucket] = slices.Delete(pages, at, at+1)
	}
	return nil
}

// own makes the list of a bucket's pages the transaction's own: others still read the one it began with.
func (t *memoryTx) own(bucket string) {
	if !t.owned[bucket] {
		t.owned[bucket] = true
		t.state[bucket] = slices.Clone(t.state[bucket])
	}
}
