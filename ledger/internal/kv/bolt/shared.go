package bolt

import "sync"

// sharing is the state of the transaction that readers of a file share while no other caller
// writes. To begin a transaction for each reader would take longer than to read a record.
//
// While a transaction writes, each reader has a transaction of its own, which ends with the reader.
// The reason is that bbolt cannot reuse pages that an open transaction may see, and may have to
// wait for all readers when the file grows.
type sharing struct {
	mu      sync.Mutex
	writing bool
	open    *shared // nil if there is none
}

// shared is a transaction with the number of readers that use it.
type shared struct {
	*transaction
	users int // guarded by sharing.mu
}

// acquireShared returns a transaction for reading. The caller must call releaseShared.
func (d *database) acquireShared() (*shared, error) {
	if s, err := d.joinShared(); s != nil || err != nil {
		return s, err
	}
	// No lock is held here: while bbolt maps the file again, it waits until all transactions end,
	// and no new one can begin.
	tx, err := d.begin(false)
	return &shared{tx, 1}, err
}

// joinShared returns the shared transaction, or nil if readers do not share now.
func (d *database) joinShared() (*shared, error) {
	d.sharing.mu.Lock()
	defer d.sharing.mu.Unlock()
	if d.sharing.writing || d.isOverwritten.Load() || d.isBroken.Load() {
		return nil, nil
	}
	if d.sharing.open == nil {
		tx, err := d.begin(false)
		if err != nil {
			return nil, err
		}
		d.sharing.open = &shared{transaction: tx}
	}
	d.sharing.open.users++
	return d.sharing.open, nil
}

// releaseShared ends a transaction if this was its last reader and it is no longer the shared one.
func (d *database) releaseShared(s *shared, err *error) {
	d.sharing.mu.Lock()
	s.users--
	last := s.users == 0 && d.sharing.open != s
	d.sharing.mu.Unlock()
	if last {
		s.end(err)
	}
}

// endSharing ends the sharing of the current transaction, which then ends with its last reader. If
// writing is true, readers share no transaction until endSharing is called with false.
func (d *database) endSharing(writing bool) (err error) {
	d.sharing.mu.Lock()
	s := d.sharing.open
	d.sharing.open, d.sharing.writing = nil, writing
	idle := s != nil && s.users == 0
	d.sharing.mu.Unlock()
	if idle {
		s.end(&err)
	}
	return err
}
