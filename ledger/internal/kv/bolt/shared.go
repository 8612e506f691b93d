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

// borrow returns a transaction for reading. The caller must give it back.
func (d *database) borrow() (*shared, error) {
	if x, err := d.join(); x != nil || err != nil {
		return x, err
	}
	// No lock is held here: while bbolt maps the file again, it waits until all transactions end,
	// and no new one can begin.
	tx, err := d.begin(false)
	return &shared{tx, 1}, err
}

// join returns the shared transaction, or nil if readers do not share now.
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

// giveBack ends a transaction if this was its last reader and it is no longer the shared one.
func (d *database) giveBack(x *shared, err *error) {
	d.sharing.mu.Lock()
	x.users--
	last := x.users == 0 && d.sharing.open != x
	d.sharing.mu.Unlock()
	if last {
		x.end(err)
	}
}

// unshare ends the sharing of the current transaction, which then ends with its last reader. If
// writing is true, readers share no transaction until unshare is called with false.
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
