package ledger

import (
	"cmp"
	"slices"
)

// desk holds the objects, chains and requests that a transaction has read or changed, decoded. What changed is written
// when the transaction ends: each record once, however many events changed it, and in the order of the keys, which is
// how a B+tree takes them fastest.
//
// Records are handed out by value, and the slices in them are shared: who changes one makes a new one.
type desk struct {
	objects  drawer[string, object]
	chains   drawer[chainID, chain]
	requests drawer[string, request]
}

// chainID names a chain.
type chainID struct {
	question uint32
	object   string
}

func (id chainID) compare(other chainID) int {
	return cmp.Or(cmp.Compare(id.question, other.question), cmp.Compare(id.object, other.object))
}

// drawer holds the records of one bucket.
type drawer[K comparable, T any] struct {
	places  map[K]int
	sheets  []sheet[K, T]
	changed int // how many of them are to be written
}

type sheet[K comparable, T any] struct {
	key     K
	record  T
	found   bool // there is such a record
	changed bool // it is to be written
}

// of returns a record, and reads it if that was not done yet.
func (d *drawer[K, T]) of(key K, read func() (T, bool, error)) (record T, found bool, err error) {
	if at, known := d.places[key]; known {
		return d.sheets[at].record, d.sheets[at].found, nil
	}
	if record, found, err = read(); err == nil {
		d.add(sheet[K, T]{key: key, record: record, found: found})
	}
	return record, found, err
}

// note keeps a record that was read, unless it is there.
func (d *drawer[K, T]) note(key K, record T) {
	if _, known := d.places[key]; !known {
		d.add(sheet[K, T]{key: key, record: record, found: true})
	}
}

func (d *drawer[K, T]) add(s sheet[K, T]) {
	if d.places == nil {
		d.places = map[K]int{}
	}
	d.places[s.key] = len(d.sheets)
	d.sheets = append(d.sheets, s)
}

// set changes a record.
func (d *drawer[K, T]) set(key K, record T) {
	at, known := d.places[key]
	if !known {
		at = len(d.sheets)
		d.add(sheet[K, T]{key: key})
	}
	s := &d.sheets[at]
	if !s.changed {
		d.changed++
	}
	s.record, s.found, s.changed = record, true, true
}

// write passes what changed to put, in order. After that it counts as read.
func (d *drawer[K, T]) write(compare func(a, b K) int, put func(key K, record T) error) error {
	if d.changed == 0 {
		return nil
	}
	places := make([]int, 0, d.changed)
	for at := range d.sheets {
		if d.sheets[at].changed {
			places = append(places, at)
		}
	}
	order := func(a, b int) int { return compare(d.sheets[a].key, d.sheets[b].key) }
	if !slices.IsSortedFunc(places, order) {
		slices.SortFunc(places, order)
	}
	for _, at := range places {
		s := &d.sheets[at]
		if err := put(s.key, s.record); err != nil {
			return err
		}
		s.changed = false
	}
	d.changed = 0
	return nil
}

// clear empties the drawer and keeps its memory.
func (d *drawer[K, T]) clear() {
	clear(d.places)
	clear(d.sheets)
	d.sheets, d.changed = d.sheets[:0], 0
}

func (d *desk) clear() {
	d.objects.clear()
	d.chains.clear()
	d.requests.clear()
}

// flushDesk writes what changed on the desk.
func (s *state) flushDesk() error {
	err := s.desk.objects.write(cmp.Compare[string], s.writeObject)
	if err == nil {
		err = s.desk.chains.write(chainID.compare, s.writeChain)
	}
	if err == nil {
		err = s.desk.requests.write(cmp.Compare[string], s.writeRequest)
	}
	return err
}
