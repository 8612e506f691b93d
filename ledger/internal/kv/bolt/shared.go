package bolt

import "sync"

// sharing is the transaction that readers of a file share as long as nobody writes: to begin one
// for each takes longer than to read a record. While somebody writes, each has one of its own, so
// that none lasts longer than its reader: bbolt uses the pages again that only those see who read
// before, and may have to wait for all readers when the file grows.
type sharing struct {
	mu      sync.Mutex
	writing bool
	open    *shared // nil if there is none
}

// shared is a transaction with those who use it.
type shared struct {
	*transaction
	users int // guarded by mu
}

// borrow returns a transaction to read from, until it is given back.
func (d *database) borrow() (*shared, error) {
	if x, err := d.join(); x != nil || err != nil {
		return x, err
	}
	// While the file is mapped anew bbolt lets nobody begin, and waits for others to end: so no
	// lock is held here.
	tx, err := d.begin(false)
	return &shared{tx, 1}, err
}

// join returns the transaction that readers share, or nil while somebody writes.
func (d *database) join() (*shared, error) {
	d.sharing.mu.Lock()
	defer d.sharing.mu.Unlock()
	if d.sharing.writing || d.overwritten.Load() || d.broken.Load() {
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

// giveBack ends a transaction that nobody reads from any more, nor will.
func (d *database) giveBack(x *shared, err *error) {
	d.sharing.mu.Lock()
	x.users--
	last := x.users == 0 && d.sharing.open != x
	d.sharing.mu.Unlock()
	if last {
		x.end(err)
	}
}

// unshare has readers share nothing, until it is called again, and what they shared ends with the
// last of them.
func (d *database) unshare(writing bool) (err error) {
	d.sharing.mu.Lock()
	x := d.sharing.open
	d.sharing.open, d.sharing.writing = nil, writing
	idle := x != nil && x.users == 0
	d.sharing.mu.Unlock()
	if idle {
		x.end(&err)
	}
	return err
}
