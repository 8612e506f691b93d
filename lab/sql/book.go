package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// book is a ledger written by hand on an SQL database: one question, objects with a cap, chains
// with a ceiling, responses, tallies, idempotency keys, and Sluice's log of events with its Merkle
// tree. A transaction loads the rows that it needs, decides in memory, and saves the changed rows.
// Only one process writes. It keeps the end of the log in memory.
type book struct {
	db     database
	values int // of the question

	writer sync.Mutex // held during a transaction, because transactions append to one log
	log    tree
	last   time.Time // of the last event
	total  int64     // number of objects
	draws  *rrchain.Sampler
	salts  salts
	broken error // of a failed commit, after which the database must be opened again

	group group
}

// database is an SQL database for a book. Each call of begin is followed by save or rollback.
type database interface {
	// end returns the number of events and of objects, and the time of the last event.
	end() (events uint64, objects int64, last time.Time, err error)
	hashes(event uint64) ([]byte, error)
	// begin begins a transaction, and loads the rows of the page's keys and names.
	begin(p *page) error
	// save writes the changed rows of a page, and commits.
	save(p *page) error
	rollback() error
	// after returns the first names of objects after a name, in order.
	after(name string, limit int) ([]string, error)
	// over returns the number of objects after a name that have no budget for ε.
	over(name string, epsilon privacy.Epsilon) (int, error)
	// read returns an object as it is on disk, or nil. It can run concurrently with writes.
	read(name string) (*object, error)
	size(ctx context.Context) (written, compact int64, err error)
	version() string
	close() error
}

// level is a row of the table levels: a recorded response.
type level struct {
	rrchain.Level[int]
	event uint64 // that recorded it
}

// object is a row of the tables objects and chains, with its levels by rising ε.
type object struct {
	id               int64
	name             string
	cap, spent       privacy.Epsilon
	ceiling          privacy.Epsilon
	latest, events   uint64 // the last event about the object, and the number of them
	settled, settles uint64 // the last event that settled a request about only this object, and their number
	levels           []level
	fresh            []level // added by this transaction
	added, changed   bool    // by this transaction
}

// current returns the ε of the highest level.
func (o *object) current() privacy.Epsilon {
	if len(o.levels) == 0 {
		return privacy.Epsilon{}
	}
	return o.levels[len(o.levels)-1].Epsilon
}

// find returns the index of a level, or the index at which it would be inserted.
func (o *object) find(epsilon privacy.Epsilon) (place int, recorded bool) {
	return slices.BinarySearchFunc(o.levels, epsilon,
		func(l level, e privacy.Epsilon) int { return l.Epsilon.Compare(e) })
}

// request is a row of the table requests: the request with an idempotency key.
type request struct {
	key     string
	digest  [sha256.Size]byte
	done    bool
	settled uint64 // the event that settled it, or its last part
	drawn   uint64
	cursor  string // the last object of the last part
	parts   int
}

// tallyKey is the key of a row of the table tallies. tally has the numbers to add to the row.
type tallyKey struct {
	epsilon  privacy.Epsilon
	response int
}
type tally struct{ recorded, current int64 }

// page holds the rows of one transaction.
type page struct {
	keys, names []string // to load
	requests    map[string]*request
	objects     map[string]*object

	log     tree
	now     time.Time
	total   int64 // number of objects
	events  []event
	touched []*object
	settled []*request
	tallies map[tallyKey]*tally
}

var (
	errUnknown  = errors.New("unknown object")
	errBudget   = errors.New("no budget")
	errConflict = errors.New("the key was used for another request")
)

// openBook opens the book in a database, and reads the end of its log.
func openBook(db database, values int) (*book, error) {
	events, total, last, err := db.end()
	if err != nil {
		return nil, err
	}
	log, err := loadTree(events, db.hashes)
	if err != nil {
		return nil, err
	}
	b := &book{db: db, values: values, log: log, last: last, total: total, draws: new(rrchain.Sampler),
		salts: newSalts()}
	return b, nil
}

// transact runs one transaction. The caller holds the lock. After a failed commit, all later
// transactions fail.
func (b *book) transact(keys, names []string, decide func(*page) error) error {
	if b.broken != nil {
		return b.broken
	}
	p := &page{
		keys: keys, names: names, requests: make(map[string]*request, len(keys)),
		objects: make(map[string]*object, len(names)),
		log:     b.log, now: latest(time.Now().UTC(), b.last), total: b.total, tallies: map[tallyKey]*tally{},
	}
	err := b.db.begin(p)
	if err == nil {
		err = decide(p)
	}
	if err != nil || len(p.events) == 0 {
		return errors.Join(err, b.db.rollback())
	}
	if err := b.db.save(p); err != nil {
		b.broken = fmt.Errorf("a commit failed, open the database again: %w", err)
		return b.broken
	}
	b.log, b.last, b.total = p.log, p.now, p.total
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// append adds an event to the log.
func (p *page) append(previous uint64, public, hidden []byte) uint64 {
	e := event{number: p.log.size + 1, previous: previous, public: public, hidden: hidden}
	p.log.add(&e)
	p.events = append(p.events, e)
	return e.number
}

func (p *page) touch(o *object) {
	if !o.changed {
		o.changed = true
		p.touched = append(p.touched, o)
	}
}

// about links an event to its object.
func (p *page) about(o *object, public, hidden []byte) uint64 {
	o.latest = p.append(o.latest, public, hidden)
	o.events++
	p.touch(o)
	return o.latest
}

// settle records that a request, or a part of one, is settled.
func (b *book) settle(p *page, s settlement, r *request) error {
	salt, err := b.salts.next()
	if err != nil {
		return err
	}
	previous := uint64(0)
	o := p.objects[s.alone]
	if o != nil {
		previous = o.settled
	}
	r.settled = p.append(previous, s.publicBytes(header(kindSettled, p.now)), s.hiddenBytes(salt))
	if o != nil {
		o.settled = r.settled
		o.settles++
		p.touch(o)
	}
	r.done, r.cursor = s.final, s.cursor
	r.drawn += s.counts[0]
	r.parts++
	p.requests[r.key] = r
	p.settled = append(p.settled, r)
	return nil
}

// order requests the response of one object at one ε.
type order struct {
	key     string
	object  string
	epsilon privacy.Epsilon
	truth   int // a value of the question
}

func (o order) identity() identity {
	return identify(appendText(nil, "raise"), appendText(nil, "vote"), appendEpsilon(nil, o.epsilon),
		appendFlag(nil, false), appendText([]byte{0, 1}, o.object))
}

// release returns the response to an order, in its own transaction.
func (b *book) release(o order) (level, error) {
	c := &call{order: o}
	b.execute([]*call{c})
	return c.got, c.err
}

// execute executes the orders of several callers in one transaction. A refused order does not
// affect the others.
func (b *book) execute(batch []*call) {
	b.writer.Lock()
	defer b.writer.Unlock()
	keys, names := make([]string, len(batch)), make([]string, len(batch))
	for i, c := range batch {
		keys[i], names[i] = c.order.key, c.order.object
	}
	err := b.transact(keys, names, func(p *page) error {
		for _, c := range batch {
			if c.got, c.err = b.decide(p, c.order); c.err != nil && !isRefusal(c.err) {
				return c.err
			}
		}
		return nil
	})
	if err != nil {
		for _, c := range batch {
			c.got, c.err = level{}, err
		}
	}
}

func isRefusal(err error) bool {
	return errors.Is(err, errUnknown) || errors.Is(err, errBudget) || errors.Is(err, errConflict)
}

// decide executes one order on a page.
func (b *book) decide(p *page, o order) (level, error) {
	id, subject := o.identity(), p.objects[o.object]
	former := p.requests[o.key]
	switch {
	case former != nil && former.digest != id.digest:
		return level{}, fmt.Errorf("key %q: %w", o.key, errConflict)
	case subject == nil:
		return level{}, fmt.Errorf("object %q: %w", o.object, errUnknown)
	}
	place, recorded := subject.find(o.epsilon)
	if former != nil {
		if !recorded {
			return level{}, fmt.Errorf("object %q has lost a response", o.object)
		}
		return subject.levels[place], nil
	}
	s := settlement{key: o.key, id: id, alone: o.object, first: p.log.size + 1, through: p.log.size, final: true,
		epsilon: o.epsilon}
	if err := b.answer(p, subject, o.epsilon, o.truth, &s); err != nil {
		return level{}, err
	}
	if err := b.settle(p, s, &request{key: o.key, digest: id.digest}); err != nil {
		return level{}, err
	}
	return subject.levels[place], nil
}

// answer ensures that an object has a response at ε, and counts whether it was drawn, derived or
// recorded before.
func (b *book) answer(p *page, o *object, epsilon privacy.Epsilon, truth int, s *settlement) error {
	place, recorded := o.find(epsilon)
	if recorded {
		s.counts[1]++
		return nil
	}
	cost, err := o.charge(epsilon)
	if err != nil {
		return err
	}
	s.spent += uint64(cost.Nano())
	l, method, err := b.draw(o, epsilon, truth)
	if err != nil {
		return err
	}
	salt, err := b.salts.next()
	if err != nil {
		return err
	}
	top := place == len(o.levels)
	if top {
		s.counts[0]++
	} else {
		s.counts[2]++
	}
	p.count(o, l, top)
	made := level{Level: l}
	made.event = p.about(o, header(kindReleased, p.now), releasedBytes(salt, o.name, made, method))
	o.levels = slices.Insert(o.levels, place, made)
	o.fresh = append(o.fresh, made)
	return nil
}

// charge charges the cost of a raise to ε to the budget, and returns the cost. Below the current
// level the cost is 0.
func (o *object) charge(epsilon privacy.Epsilon) (cost privacy.Epsilon, err error) {
	if epsilon.Less(o.current()) {
		return cost, nil
	}
	cost, err = epsilon.Sub(o.current())
	if err != nil {
		return cost, err
	}
	spent, err := o.spent.Add(cost)
	if err != nil || o.cap.Less(spent) || o.ceiling.Less(epsilon) {
		return cost, fmt.Errorf("object %q, ε=%s: %w: spent %s, cap %s, ceiling %s",
			o.name, epsilon, errBudget, o.spent, o.cap, o.ceiling)
	}
	o.spent = spent
	return cost, nil
}

// draw draws the response of an object at an ε without a response.
func (b *book) draw(o *object, epsilon privacy.Epsilon, truth int) (l rrchain.Level[int], method byte, err error) {
	levels := make([]rrchain.Level[int], len(o.levels))
	for i, at := range o.levels {
		levels[i] = at.Level
	}
	chain, err := rrchain.NewChain[int](b.values, levels...)
	if err != nil {
		return l, 0, err
	}
	switch place, _ := o.find(epsilon); {
	case place == len(levels):
		l, err = chain.Raise(b.draws, epsilon, truth)
		return l, methodRaise, err
	case place == 0:
		l, err = chain.Insert(b.draws, epsilon)
		return l, methodDegrade, err
	default:
		l, err = chain.Insert(b.draws, epsilon)
		return l, methodInsert, err
	}
}

// count adds a new response to the tallies. If top is set, it is the current response.
func (p *page) count(o *object, l rrchain.Level[int], top bool) {
	t := p.tally(l)
	t.recorded++
	if !top {
		return
	}
	t.current++
	if len(o.levels) > 0 {
		p.tally(o.levels[len(o.levels)-1].Level).current--
	}
}

func (p *page) tally(l rrchain.Level[int]) *tally {
	key := tallyKey{l.Epsilon, l.Response}
	if p.tallies[key] == nil {
		p.tallies[key] = &tally{}
	}
	return p.tallies[key]
}
