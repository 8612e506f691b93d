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
	objects  drawer[object]
	chains   drawer[chain]
	requests drawer[request]
	levels   levelPage // for the levels of chains that are read one after the other
}

// newPartDesk returns a desk for one part of a long request after the other. It keeps memory between them.
func newPartDesk() *desk { return &desk{levels: levelPage{most: 4 * partSize}} }

// hasPage tells whether the levels of a chain have room for one more behind them, which nobody else uses.
func (d *desk) hasPage() bool { return d != nil && d.levels.most > 0 }

// recordID names a record: a chain by question and object, an object by its name, a request by its key.
type recordID struct {
	question uint32
	name     string
}

func (id recordID) compare(other recordID) int {
	return cmp.Or(cmp.Compare(id.question, other.question), cmp.Compare(id.name, other.name))
}

// drawer holds the records of one bucket.
type drawer[T any] struct {
	sheets []sheet[T]
	places map[recordID]int // of the sheets, once they have come out of order; else nil
	last   int              // the sheet asked for last: often the same is asked for again, or the one behind it
	edited []int            // the sheets that are to be written
}

type sheet[T any] struct {
	id     recordID
	record T
	found  bool // there is such a record
	edited bool // it is to be written
}

// place returns where a record is.
func (d *drawer[T]) place(id recordID) (at int, known bool) {
	n := len(d.sheets)
	if n == 0 {
		return 0, false
	}
	for at := d.last; at <= d.last+1; at++ {
		if at := at % n; d.sheets[at].id == id {
			d.last = at
			return at, true
		}
	}
	if d.places != nil {
		at, known = d.places[id]
	} else {
		at, known = slices.BinarySearchFunc(d.sheets, id, func(s sheet[T], id recordID) int { return s.id.compare(id) })
	}
	if known {
		d.last = at
	}
	return at, known
}

// of copies a record to into, and reads it if that was not done yet.
func (d *drawer[T]) of(id recordID, into *T, read func() (T, bool, error)) (found bool, err error) {
	if at, known := d.place(id); known {
		s := &d.sheets[at]
		*into = s.record
		return s.found, nil
	}
	if *into, found, err = read(); err == nil {
		s := d.add(id)
		s.record, s.found = *into, found
	}
	return found, err
}

// note keeps what was read, unless the record is there already.
func (d *drawer[T]) note(id recordID, record *T, found bool) {
	n := len(d.sheets)
	known := false
	if d.places != nil || n > 0 && d.sheets[n-1].id.compare(id) >= 0 {
		_, known = d.place(id)
	}
	if !known {
		s := d.add(id)
		s.record, s.found = *record, found
	}
}

// add makes a sheet for a record that is not there yet.
func (d *drawer[T]) add(id recordID) *sheet[T] {
	n := len(d.sheets)
	if d.places == nil && n > 0 && d.sheets[n-1].id.compare(id) > 0 {
		d.places = make(map[recordID]int, cap(d.sheets))
		for at := range d.sheets {
			d.places[d.sheets[at].id] = at
		}
	}
	if d.places != nil {
		d.places[id] = n
	}
	d.sheets = append(d.sheets, sheet[T]{id: id})
	return &d.sheets[n]
}

// set changes a record.
func (d *drawer[T]) set(id recordID, record *T) {
	at, known := d.place(id)
	if !known {
		at = len(d.sheets)
		d.add(id)
	}
	s := &d.sheets[at]
	if !s.edited {
		d.edited = append(d.edited, at)
	}
	s.record, s.found, s.edited = *record, true, true
}

// write passes what changed to put, in order. After that it counts as read.
func (d *drawer[T]) write(put func(id recordID, record T) error) error {
	order := cmp.Compare[int]
	if d.places != nil {
		order = func(a, b int) int { return d.sheets[a].id.compare(d.sheets[b].id) }
	}
	if !slices.IsSortedFunc(d.edited, order) {
		slices.SortFunc(d.edited, order)
	}
	for _, at := range d.edited {
		s := &d.sheets[at]
		if err := put(s.id, s.record); err != nil {
			return err
		}
		s.edited = false
	}
	d.edited = d.edited[:0]
	return nil
}

// room makes room for more records.
func (d *drawer[T]) room(more int) { d.sheets = slices.Grow(d.sheets, more) }

// clear empties the drawer and keeps its memory, unless that is much.
func (d *drawer[T]) clear() {
	if len(d.sheets) > 2*partSize {
		d.sheets = nil
	}
	clear(d.sheets)
	*d = drawer[T]{sheets: d.sheets[:0], edited: d.edited[:0]}
}

func (d *desk) clear() {
	d.objects.clear()
	d.chains.clear()
	d.requests.clear()
	d.levels.clear()
}

// flushDesk writes what changed on the desk.
func (s *state) flushDesk() error {
	err := s.desk.objects.write(s.writeObject)
	if err == nil {
		err = s.desk.chains.write(s.writeChain)
	}
	if err == nil {
		err = s.desk.requests.write(s.writeRequest)
	}
	return err
}
