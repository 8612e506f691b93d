package state

import (
	"cmp"
	"slices"
)

// Desk holds the objects, chains and requests that a transaction has read or changed, decoded. What changed is written
// when the transaction ends: each record once, however many events changed it, and in the order of the keys, which is
// how a B+tree takes them fastest.
//
// Records are handed out by value, and the slices in them are shared: who changes one makes a new one.
type Desk struct {
	Objects  Drawer[Object]
	Chains   Drawer[Chain]
	Requests Drawer[Request]
	levels   LevelPage // for the levels of chains that are read one after the other
}

// NewPartDesk returns a desk for one part of a long request after the other. It keeps memory between them.
func NewPartDesk() *Desk { return &Desk{levels: LevelPage{most: 4 * PartSize}} }

// HasPage tells whether the levels of a chain have room for one more behind them, which nobody else uses.
func (d *Desk) HasPage() bool { return d != nil && d.levels.most > 0 }

// RecordID names a record: a chain by question and object, an object by its name, a request by its key.
type RecordID struct {
	Question uint32
	Name     string
}

func (id RecordID) compare(other RecordID) int {
	return cmp.Or(cmp.Compare(id.Question, other.Question), cmp.Compare(id.Name, other.Name))
}

// Drawer holds the records of one bucket.
type Drawer[T any] struct {
	Sheets []Sheet[T]
	places map[RecordID]int // of the sheets, once they have come out of order; else nil
	last   int              // the sheet asked for last: often the same is asked for again, or the one behind it
	edited []int            // the sheets that are to be written
}

// Sheet is one record in a drawer.
type Sheet[T any] struct {
	ID     RecordID
	Record T
	Found  bool // there is such a record
	edited bool // it is to be written
}

// Place returns where a record is.
func (d *Drawer[T]) Place(id RecordID) (at int, known bool) {
	n := len(d.Sheets)
	if n == 0 {
		return 0, false
	}
	for at := d.last; at <= d.last+1; at++ {
		if at := at % n; d.Sheets[at].ID == id {
			d.last = at
			return at, true
		}
	}
	if d.places != nil {
		at, known = d.places[id]
	} else {
		at, known = slices.BinarySearchFunc(d.Sheets, id, func(s Sheet[T], id RecordID) int { return s.ID.compare(id) })
	}
	if known {
		d.last = at
	}
	return at, known
}

// of copies a record to into, and reads it if that was not done yet.
func (d *Drawer[T]) of(id RecordID, into *T, read func() (T, bool, error)) (found bool, err error) {
	if at, known := d.Place(id); known {
		s := &d.Sheets[at]
		*into = s.Record
		return s.Found, nil
	}
	if *into, found, err = read(); err == nil {
		s := d.add(id)
		s.Record, s.Found = *into, found
	}
	return found, err
}

// Note keeps what was read, unless the record is there already.
func (d *Drawer[T]) Note(id RecordID, record *T, found bool) {
	n := len(d.Sheets)
	known := false
	if d.places != nil || n > 0 && d.Sheets[n-1].ID.compare(id) >= 0 {
		_, known = d.Place(id)
	}
	if !known {
		s := d.add(id)
		s.Record, s.Found = *record, found
	}
}

// add makes a sheet for a record that is not there yet.
func (d *Drawer[T]) add(id RecordID) *Sheet[T] {
	n := len(d.Sheets)
	if d.places == nil && n > 0 && d.Sheets[n-1].ID.compare(id) > 0 {
		d.places = make(map[RecordID]int, cap(d.Sheets))
		for at := range d.Sheets {
			d.places[d.Sheets[at].ID] = at
		}
	}
	if d.places != nil {
		d.places[id] = n
	}
	d.Sheets = append(d.Sheets, Sheet[T]{ID: id})
	return &d.Sheets[n]
}

// set changes a record.
func (d *Drawer[T]) set(id RecordID, record *T) {
	at, known := d.Place(id)
	if !known {
		at = len(d.Sheets)
		d.add(id)
	}
	s := &d.Sheets[at]
	if !s.edited {
		d.edited = append(d.edited, at)
	}
	s.Record, s.Found, s.edited = *record, true, true
}

// write passes what changed to put, in order. After that it counts as read.
func (d *Drawer[T]) write(put func(id RecordID, record T) error) error {
	order := cmp.Compare[int]
	if d.places != nil {
		order = func(a, b int) int { return d.Sheets[a].ID.compare(d.Sheets[b].ID) }
	}
	if !slices.IsSortedFunc(d.edited, order) {
		slices.SortFunc(d.edited, order)
	}
	for _, at := range d.edited {
		s := &d.Sheets[at]
		if err := put(s.ID, s.Record); err != nil {
			return err
		}
		s.edited = false
	}
	d.edited = d.edited[:0]
	return nil
}

// Room makes room for more records.
func (d *Drawer[T]) Room(more int) { d.Sheets = slices.Grow(d.Sheets, more) }

// clear empties the drawer and keeps its memory, unless that is much.
func (d *Drawer[T]) clear() {
	if len(d.Sheets) > 2*PartSize {
		d.Sheets = nil
	}
	clear(d.Sheets)
	*d = Drawer[T]{Sheets: d.Sheets[:0], edited: d.edited[:0]}
}

// Clear takes everything off the desk, without writing it.
func (d *Desk) Clear() {
	d.Objects.clear()
	d.Chains.clear()
	d.Requests.clear()
	d.levels.Clear()
}

// FlushDesk writes what changed on the desk. It stays there, as if it had been read.
func (s *State) FlushDesk() error {
	err := s.Desk.Objects.write(s.writeObject)
	if err == nil {
		err = s.Desk.Chains.write(s.writeChain)
	}
	if err == nil {
		err = s.Desk.Requests.write(s.writeRequest)
	}
	return err
}

// PartSize is the number of objects of one transaction. Larger ones commit little faster and keep
// others waiting longer.
const PartSize = 4096

// MakeRoom sees to it that a snapshot has a desk, with no more on it than one part of a long request. The desk of a
// transaction keeps everything, which may have to be written.
func (s *State) MakeRoom() {
	switch {
	case s.Desk == nil && s.Writer == nil:
		s.Desk = &Desk{}
	case s.Writer == nil && len(s.Desk.Objects.Sheets)+len(s.Desk.Chains.Sheets) >= PartSize:
		s.Desk.Clear()
	}
}
