package kv

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
)

// Memory is a [Store] in memory, for tests. Its updates last as long as the process. The zero value
// is empty and ready to use.
type Memory struct {
	writing sync.Mutex
	mu      sync.Mutex
	state   map[string]*node // trees by bucket; never modified after it is stored here
	updates uint64           // number of updates that led to state, including those of the store it was copied from
	closed  bool
}

// node is a record in the tree of a bucket. The tree is a treap: keys rise from left to right,
// priorities fall from the root down. An update modifies only nodes that it has created, and copies
// other nodes.
type node struct {
	key, value  []byte
	left, right *node
	priority    uint32
	update      uint64 // number of the update that created the node
}

// of returns a node with the content of n that the given update may modify. That is n itself if
// this update created n, and otherwise a copy.
func (n *node) of(update uint64) *node {
	if n.update == update {
		return n
	}
	c := *n
	c.update = update
	return &c
}

// put returns the tree n with value stored under key, as an update with this number does it. It
// copies each node that another update created, so the tree from before the update stays valid.
func (n *node) put(key, value []byte, update uint64) *node {
	if n == nil {
		// The key is clipped, so that a reader that appends to it copies it.
		return &node{key: slices.Clip(bytes.Clone(key)), value: value, priority: rand.Uint32(), update: update}
	}
	n = n.of(update)
	switch bytes.Compare(key, n.key) {
	case 0:
		n.value = value
	case -1:
		n.left = n.left.put(key, value, update)
		// Rotate: priorities must fall from the root down, and only the new node can break that.
		if l := n.left; l.priority > n.priority {
			n.left, l.right = l.right, n
			return l
		}
	default:
		n.right = n.right.put(key, value, update)
		if r := n.right; r.priority > n.priority {
			n.right, r.left = r.left, n
			return r
		}
	}
	return n
}

// remove returns the tree n without a key, as an update with this number does it. The key must be
// in the tree.
func (n *node) remove(key []byte, update uint64) *node {
	c := bytes.Compare(key, n.key)
	if c == 0 {
		return join(n.left, n.right, update)
	}
	n = n.of(update)
	if c < 0 {
		n.left = n.left.remove(key, update)
	} else {
		n.right = n.right.remove(key, update)
	}
	return n
}

// join returns a tree with the records of a and b. All keys of a must be below those of b. The root
// with the higher priority becomes the root of the result.
func join(a, b *node, update uint64) *node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority:
		a = a.of(update)
		a.right = join(a.right, b, update)
		return a
	}
	b = b.of(update)
	b.left = join(a, b.left, update)
	return b
}

// get returns the value of a key in the tree n, or nil if the tree does not have the key.
func (n *node) get(key []byte) []byte {
	for n != nil {
		switch bytes.Compare(key, n.key) {
		case 0:
			return n.value
		case -1:
			n = n.left
		default:
			n = n.right
		}
	}
	return nil
}

// scan passes the records whose keys are not below from to visit, in the order of keys. It ends
// when visit returns false. The result is false in that case, and otherwise true.
func (n *node) scan(from []byte, visit func(key, value []byte) bool) bool {
	if n == nil {
		return true
	}
	if bytes.Compare(from, n.key) <= 0 && (!n.left.scan(from, visit) || !visit(n.key, n.value)) {
		return false
	}
	return n.right.scan(from, visit)
}

// snapshot returns the current trees, or an error if the store is closed.
func (m *Memory) snapshot() (map[string]*node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errors.New("store is closed")
	}
	return m.state, nil
}

// View implements [Store].
func (m *Memory) View(fn func(Reader) error) error {
	state, err := m.snapshot()
	if err != nil {
		return err
	}
	return fn(&memoryTx{state: state})
}

// Update implements [Store]. fn modifies a copy of the map of trees. If fn returns an error, this
// copy is discarded.
func (m *Memory) Update(fn func(Writer) error) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	state, err := m.snapshot()
	if err != nil {
		return err
	}
	tx := &memoryTx{state: map[string]*node{}, update: m.updates + 1}
	maps.Copy(tx.state, state)
	if err := fn(tx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.updates = tx.state, tx.update
	return nil
}

// Size implements [Store]. It returns the number of bytes in keys and values.
func (m *Memory) Size() (size int64, err error) {
	state, err := m.snapshot()
	for _, tree := range state {
		tree.scan(nil, func(key, value []byte) bool {
			size += int64(len(key) + len(value))
			return true
		})
	}
	return size, err
}

// Close implements [Store].
func (m *Memory) Close() error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// Copy returns an independent store with the same content. Its time does not depend on the size of
// the store.
func (m *Memory) Copy() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{state: m.state, updates: m.updates}
}

// memoryTx is a transaction of [Memory]. It implements [Reader] and [Writer].
type memoryTx struct {
	state  map[string]*node
	update uint64 // number of the update; 0 if the transaction only reads
}

func (t *memoryTx) Get(bucket string, key []byte) ([]byte, error) {
	return t.state[bucket].get(key), nil
}

func (t *memoryTx) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	t.state[bucket].scan(from, visit)
	return nil
}

// Put implements [Writer]. The store keeps copies of key and value.
func (t *memoryTx) Put(bucket string, key, value []byte) error {
	if len(key) == 0 || len(value) == 0 {
		return errors.New("empty key or value")
	}
	t.state[bucket] = t.state[bucket].put(key, bytes.Clone(value), t.update)
	return nil
}

// Delete implements [Writer].
func (t *memoryTx) Delete(bucket string, key []byte) error {
	if len(key) == 0 {
		return errors.New("empty key")
	}
	if tree := t.state[bucket]; tree.get(key) != nil {
		t.state[bucket] = tree.remove(key, t.update)
	}
	return nil
}
