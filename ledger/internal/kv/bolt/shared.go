package bolt

import "sync"

// sharing is the state of the transaction that the readers of a file share. To begin a transaction
// for each reader would take longer than to read a record.
//
// While bbolt begins or commits a writing transaction, readers do not share: each has a transaction
// of its own, which ends with the reader. The reason is that bbolt cannot reuse pages that an open
// transaction may see. It may also have to wait for all readers when the file grows.
type sharing struct {
	mu      sync.Mutex
	writing bool    // bbolt begins or commits a writing transaction: readers do not share
	open    *shared // the transaction that new readers join; nil if there is none
}

// shared is a transaction with the number of readers that use it.
type shared struct {
	*transaction
	users int // guarded by sharing.mu
}

// acquireShared returns a transaction for reading: the shared one, or one of its own if readers do
// not share now. The caller must call releaseShared.
func (d *database) acquireShared() (*shared, error) {
	if s, err := d.joinShared(); s != nil || err != nil {
		return s, err
	}
	// No lock is held here: while bbolt maps the file again, it waits until all transactions end,
	// and no new one can begin.
	tx, err := d.begin(false)
	return &shared{tx, 1}, err
}

// joinShared adds a reader to the shared transaction, and returns it. The first reader begins it;
// the error is that of begin. joinShared returns nil and no error if readers do not share now. It
// also does so after the file was overwritten or bbolt has panicked, so that acquireShared returns
// that error.
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

// releaseShared removes a reader from a transaction of acquireShared. It ends the transaction if
// that was the last reader and new readers cannot join it. If that fails, it sets *err, unless *err
// is set already.
func (d *database) releaseShared(s *shared, err *error) {
	d.sharing.mu.Lock()
	s.users--
	last := s.users == 0 && d.sharing.open != s
	d.sharing.mu.Unlock()
	if last {
		s.end(err)
	}
}

// endSharing lets no more readers join the current transaction, which then ends with its last
// reader, or at once if it has none. If writing is true, readers share no transaction until
// endSharing is called with false. The error is that of ending the transaction.
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
