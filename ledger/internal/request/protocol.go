package request

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// A request that changes the ledger carries an idempotency key. The last event of each of its
// transactions settles (a part of) it: it records the key, a digest of the request and what came of
// it. The same key with the same request then returns the recorded outcome, and with another request
// [ErrKeyConflict]. A request over many objects is carried out in parts of bounded size; one that
// was interrupted goes on after its last part when it comes again.

// Outcome is what came of a request.
type Outcome struct {
	Counts  event.Counts                    // of all parts
	Left    int                             // how many objects were left out
	Refused []vocabulary.Refusal            // the first of them who are not forgotten; not of a sweep
	Swept   map[uint32]*event.SweptQuestion // by question, of a sweep
	listed  int                             // the refusals in refused and swept, at most MaxPanel
	First   uint64                          // the first event
	Last    uint64                          // the last event
}

// Standing is how far a request has come.
type Standing struct {
	settled []uint64 // the events that settled its parts
	Done    bool     // its last part is settled
	Through uint64   // objects enrolled by later events do not belong to it
	dealt   uint64   // how many of the objects that it names are dealt with
	Cursor  string   // the last object of the last part, of a request for all
	Last    uint64   // the last of its events
}

// StandingOf returns how far the request with this key has come, or [ErrKeyConflict]; or [ErrForgotten], if
// nobody can tell any more which request it was. What is not done is not begun, nor gone on with, by a clock that
// nobody has confirmed: it would be refused for reasons of that time.
func StandingOf(s *state.State, key string, id event.Identity) (Standing, error) {
	r, part, err := s.LastPart(key)
	if err == nil && (part == nil || !part.Final) {
		err = s.Far
	}
	if err != nil || part == nil {
		return Standing{Through: s.Counters.Events}, err
	}
	if part.Digest == [sha256.Size]byte{} {
		return Standing{}, fmt.Errorf("key %q: %w: the request that it was used for was about an object", key, errs.ErrForgotten)
	}
	first := part
	if len(r.Settled) > 1 {
		if first, err = s.Settlement(r.Settled[0]); err != nil {
			return Standing{}, err
		}
	}
	if err := checkSame(s, first, &id); err != nil {
		return Standing{}, err
	}
	st := Standing{settled: r.Settled, Done: part.Final, Through: part.Through, dealt: part.Done, Last: r.Settled[len(r.Settled)-1]}
	if !st.Done && st.dealt == 0 {
		st.Cursor, err = cursor(s, r.Settled)
	}
	return st, err
}

// checkSame returns [ErrKeyConflict] if a request is not the one whose first part an event settles. Where an
// object was forgotten, what the request says of several objects is erased, and not compared.
func checkSame(s *state.State, first *event.Settled, id *event.Identity) error {
	conflict := &vocabulary.KeyConflictError{Key: first.Key}
	names := first.Names
	switch {
	case first.Digest != id.Digest:
		conflict.Field = id.Differs(event.Sum{Digest: first.Digest, Marks: first.Marks}, names)
		return conflict
	case id.Panel != event.PanelSum{}:
		ev, err := s.Event(first.Answer)
		if err != nil {
			return err
		}
		if made, is := ev.Change.(*event.Answered); ev.Erased == nil && !(is && id.Panel.IsAskedFor(made.Panel)) {
			conflict.Field = "Objects"
			return conflict
		}
	case first.Named && names == event.Sum{}: // erased
	case names.Digest != id.Objects.Digest:
		conflict.Field = id.Differs(event.Sum{Digest: first.Digest, Marks: first.Marks}, names)
		return conflict
	}
	return nil
}

// cursor returns the object at which a request for all stands, whose parts were settled by these events. If it
// was forgotten, that is the last one that an event of the part still names: those behind it have nothing coming,
// or are looked at, and counted, again.
func cursor(s *state.State, settled []uint64) (name string, err error) {
	for _, number := range slices.Backward(settled) {
		part, err := s.Settlement(number)
		if err != nil || part.Object != "" {
			return part.Object, err
		}
		for at := part.First; at < number; at++ {
			ev, err := s.Event(at)
			if err != nil {
				return "", err
			}
			if c, ok := ev.Change.(event.Personal); ok {
				name = max(name, c.About())
			}
		}
		if name != "" {
			break
		}
	}
	return name, nil
}

// outcomeOf returns what came of the parts of a request that events settled.
func outcomeOf(s *state.State, settled []uint64) (o Outcome, err error) {
	for _, number := range settled {
		part, err := s.Settlement(number)
		if err != nil {
			return o, err
		}
		if err := state.CheckRefused(number, part.Refused); err != nil {
			return o, err
		}
		var left []*event.ObjectRefused
		if o.listed < vocabulary.MaxPanel {
			if left, err = s.RefusedBefore(number, part.Refused); err != nil {
				return o, err
			}
		}
		if o.First == 0 {
			o.First = part.First
		}
		o.Add(part, left)
		o.Last = number
	}
	return o, nil
}

// RefusalsOf returns whom a request left out, without those forgotten since.
func RefusalsOf(s *state.State, number uint64, end *event.Settled) (left []vocabulary.Refusal, err error) {
	all, err := s.RefusedBefore(number, end.Refused)
	for _, c := range all {
		if c.Object != "" {
			left = append(left, c.Refusal)
		}
	}
	return left, err
}

// Settling adds the events of those a request about a question left out, and the one that settles it.
func Settling(changes []event.Change, question uint32, left []vocabulary.Refusal, end *event.Settled) []event.Change {
	end.Refused += uint64(len(left))
	for _, r := range left {
		changes = append(changes, &event.ObjectRefused{Question: question, Refusal: r})
	}
	return append(changes, end)
}

// partly tells the refusal of a whole request from that of the rest of one.
func (st Standing) partly(err error) error {
	var refused *vocabulary.RefusedError
	if len(st.settled) > 0 && errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", errs.ErrPartlyDone, err)
	}
	return err
}

// Add adds a part, with the refusals whose events stand before it, as far as they are wanted.
func (o *Outcome) Add(part *event.Settled, left []*event.ObjectRefused) {
	o.Left += int(part.Refused)
	for i, n := range part.Counts {
		o.Counts[i] += n
	}
	for _, one := range part.Swept {
		sum := o.SweptOf(one.Question)
		sum.Raised += one.Raised
		sum.Unchanged += one.Unchanged
		sum.Refused += one.Refused
	}
	for _, c := range left {
		if o.listed == vocabulary.MaxPanel {
			return
		}
		if c.Object == "" {
			continue // it was forgotten
		}
		o.listed++
		if len(part.Swept) == 0 {
			o.Refused = append(o.Refused, c.Refusal)
			continue
		}
		sum := o.SweptOf(c.Question)
		sum.Refusals = append(sum.Refusals, c.Refusal)
	}
}

// settle adds a part that has just been carried out by these changes.
func (o *Outcome) settle(end *event.Settled, last uint64, changes []event.Change) {
	if o.First == 0 {
		o.First = end.First
	}
	var refused []*event.ObjectRefused
	for _, c := range changes {
		if one, is := c.(*event.ObjectRefused); is {
			refused = append(refused, one)
		}
	}
	o.Add(end, refused)
	o.Last = last
}

// SweptOf returns what a sweep did in a question, to be added to.
func (o *Outcome) SweptOf(question uint32) *event.SweptQuestion {
	if o.Swept == nil {
		o.Swept = map[uint32]*event.SweptQuestion{}
	}
	if o.Swept[question] == nil {
		o.Swept[question] = &event.SweptQuestion{SweptCount: event.SweptCount{Question: question}}
	}
	return o.Swept[question]
}

// Once carries out a request of at most one change, which decide returns, or nil if there is none to make.
//
// object is the one that the request names; "" if it names none.
func Once(ctx context.Context, e *engine.Engine, key, object string, id event.Identity, decide func(*state.State) (event.Change, error)) error {
	if err := names.Check("idempotency key", key); err != nil {
		return err
	}
	_, _, err := e.Submit(ctx, func(s *state.State) ([]event.Change, error) {
		st, err := StandingOf(s, key, id)
		if err != nil || st.Done {
			return nil, err
		}
		end := &event.Settled{Key: key, First: s.Counters.Events + 1, Through: st.Through, Final: true, Alone: object != "", Object: object}
		end.Of(&id)
		c, err := decide(s)
		if err != nil || c == nil {
			return []event.Change{end}, err
		}
		return []event.Change{c, end}, nil
	})
	return err
}

// Panel is the set of objects of a request: the names given, or all that were enrolled in a question
// by an event and have not withdrawn, or simply all there are.
type Panel struct {
	Names    []string // sorted
	All      bool     // rather than Names
	Question uint32   // 0 for whoever is enrolled in any
	Through  uint64   // the last event whose enrolments count, of a panel of all
}

// After returns up to limit names behind a given one, in order, and whether they are the last.
func (p *Panel) After(s *state.State, name string, limit int) (names []string, last bool, err error) {
	if !p.All {
		from, found := slices.BinarySearch(p.Names, name)
		if found {
			from++
		}
		to := min(from+limit, len(p.Names))
		names = p.Names[from:to]
		return names, to == len(p.Names), nil
	}
	last = true
	if p.Question == 0 {
		err = s.ScanObjects(name, func(found string) bool {
			if last = len(names) < limit; last {
				names = append(names, found)
			}
			return last
		})
		return names, last, err
	}
	members, last, err := p.membersAfter(s, name, limit)
	s.Expect(members) // they are looked at next
	names = make([]string, len(members))
	for i := range members {
		names[i] = members[i].Name
	}
	return names, last, err
}

// membersAfter is After for a panel of all who are enrolled in a question.
func (p *Panel) membersAfter(s *state.State, name string, limit int) (members []state.Member, last bool, err error) {
	for from := string(state.ObjectKey(name)); ; {
		candidates, end, err := p.candidates(s, from, limit+1-len(members))
		if err != nil {
			return nil, false, err
		}
		if err := s.ReadObjects(candidates); err != nil {
			return nil, false, err
		}
		if members == nil {
			members = candidates[:0] // who is left out makes room for those behind
		}
		for i := range candidates {
			from = candidates[i].Name
			if !candidates[i].Known {
				return nil, false, errs.Corrupt(nil, "object %q has a chain but no budget", from)
			}
			in := !candidates[i].Object.Withdrew(candidates[i].Chain) // whoever has withdrawn is out of it
			if in && len(members) == limit {
				return members, false, nil
			}
			if in {
				members = append(members, candidates[i])
			}
		}
		if end {
			return members, true, nil
		}
		from = string(state.ObjectKey(from)) // nobody has taken the last place, but the last one
	}
}

// candidates returns whose chains of the question are the next that are old enough, up to a limit, and whether there are no more.
func (p *Panel) candidates(s *state.State, from string, limit int) (found []state.Member, end bool, err error) {
	end = true
	room := int(min(uint64(min(limit, state.PartSize+1)), s.Counters.Chains))
	err = s.ScanChains(p.Question, from, func(name string, c state.Chain) bool {
		if c.Enrolled <= p.Through {
			if found == nil {
				found = make([]state.Member, 0, room)
			}
			found = append(found, state.Member{Name: name, Question: p.Question, Chain: c})
		}
		end = len(found) < limit
		return end
	})
	return found, end, err
}

// stop notes in the event that settles a part how far the request has come: of names given only how many, since
// the event outlives them.
func (p *Panel) stop(end *event.Settled, dealt uint64, cursor string) {
	switch {
	case NamesAlone(end, p.Names, p.All), end.Final:
	case p.All:
		end.Object = cursor
	default:
		end.Done = dealt
	}
}

// NamesAlone notes the object of a request that names just one, and tells whether it does.
func NamesAlone(c *event.Settled, objects []string, all bool) bool {
	if all || len(objects) != 1 {
		return false
	}
	c.Alone, c.Object = true, objects[0]
	return true
}

// Whole returns everybody in a panel of a question, for a request that is one transaction.
func (p *Panel) Whole(s *state.State, q *event.Question) ([]string, error) {
	var names []string
	for last := false; !last && len(names) <= vocabulary.MaxPanel; {
		behind := ""
		if n := len(names); n > 0 {
			behind = names[n-1]
		}
		some, end, err := p.After(s, behind, state.PartSize)
		if err != nil {
			return nil, err
		}
		names, last = append(names, some...), end
	}
	if err := CheckPanel(q, len(names)); err != nil {
		return nil, err
	}
	return names, nil
}

// CheckPanel refuses a panel of nobody, or of more than one transaction may be about.
func CheckPanel(q *event.Question, objects int) error {
	switch {
	case objects == 0:
		return fmt.Errorf("question %q: nobody takes part: %w", q.Name, errs.ErrUnknown)
	case objects > vocabulary.MaxPanel:
		return errs.Invalid("question %q: a request for all is for more than %d objects; name some of them, in several requests with keys of their own", q.Name, vocabulary.MaxPanel)
	}
	return nil
}

// Contains tells whether an object belongs to the panel.
func (p *Panel) Contains(s *state.State, name string) (bool, error) {
	if !p.All {
		_, found := slices.BinarySearch(p.Names, name)
		return found, nil
	}
	c, found, err := s.Chain(p.Question, name)
	return found && c.Enrolled <= p.Through, err
}

// work is what a request over many objects does with them.
type work interface {
	// Precheck looks at the whole panel behind an object, before anything is written, and may refuse. It returns the number
	// of objects it found.
	Precheck(ctx context.Context, p Panel, behind string) (int, error)
	// Truths gets ready what the part behind an object needs from outside of any transaction: true values that were not
	// asked for before, or not kept.
	Truths(ctx context.Context, behind string) error
	// Decide decides about the objects of one part. It may record changes by itself, and returns those that are not recorded yet. Who
	// belongs to the part may have changed since it was looked at.
	Decide(s *state.State, names []string) (Part, error)
}

// Bulk is a request over a panel of objects, carried out in parts.
type Bulk struct {
	Engine   *engine.Engine        // of the ledger
	Holds    *rules.Holds          // in which the parts to come are held
	Work     work                  // what the request does
	Key      string                // its idempotency key
	Id       event.Identity        // by which a repetition is recognized
	Panel    Panel                 // whom it is about
	Progress func(done, total int) // optional
	// Look, if set, looks at the beginning of a panel that is one part, in the snapshot in which the request is
	// looked up.
	Look func(s *state.State) error
}

// Part is what one transaction does for a request.
type Part struct {
	Changes  []event.Change         // that are not recorded yet, in order
	Counts   event.Counts           // of its objects
	Refused  []vocabulary.Refusal   // in the question, if it is not a sweep
	Question uint32                 // of Refused, by number
	Swept    []*event.SweptQuestion // of a sweep, with the refusals of each question
	Left     int                    // objects at the end that it leaves to the next part
	Again    event.Wanted           // the responses handed out again, if there are any
}

// Settle adds the refusals to the changes, and their numbers to what settles the part.
func (p Part) Settle(end *event.Settled) []event.Change {
	end.Counts, end.Again = p.Counts, p.Again
	changes := p.Changes
	for _, one := range p.Swept {
		end.Swept = append(end.Swept, one.SweptCount)
		end.Refused += one.Refused
		for _, r := range one.Refusals {
			changes = append(changes, &event.ObjectRefused{Question: one.Question, Refusal: r})
		}
	}
	return Settling(changes, p.Question, p.Refused, end)
}

// ErrOvertaken says that a request must look at the state anew, because another call with the same
// key, or on the same objects, came between.
var ErrOvertaken = errors.New("overtaken by other requests again and again; repeat this one with its key")

// MostAttempts is after how many times a request that is overtaken gives up. It is far more than crowds
// of callers bring about, and keeps a fault from turning for ever.
const MostAttempts = 10_000

// UntilSettled repeats an attempt as long as it is overtaken.
func UntilSettled[T any](attempt func() (T, error)) (result T, err error) {
	for range MostAttempts {
		if result, err = attempt(); !errors.Is(err, ErrOvertaken) {
			break
		}
	}
	return result, err
}

// Run carries a request out from where it stands to its end.
func (b *Bulk) Run(ctx context.Context) (Outcome, error) {
	return UntilSettled(func() (Outcome, error) { return b.attempt(ctx) })
}

func (b *Bulk) attempt(ctx context.Context) (Outcome, error) {
	st, done, err := b.lookUp(ctx)
	if err != nil || st.Done {
		return done, err
	}
	b.Panel.Through = st.Through
	if st.dealt > 0 {
		if b.Panel.All || st.dealt > uint64(len(b.Panel.Names)) {
			return Outcome{}, errs.Corrupt(nil, "request %q has dealt with %d objects", b.Key, st.dealt)
		}
		st.Cursor = b.Panel.Names[st.dealt-1]
	}
	total, err := b.Work.Precheck(ctx, b.Panel, st.Cursor)
	if err != nil {
		return Outcome{}, st.partly(err)
	}
	if err := b.runParts(ctx, &st, total, &done); err != nil {
		return Outcome{}, err
	}
	return done, nil
}

// lookUp finds out how far the request has come, and what came of it.
func (b *Bulk) lookUp(ctx context.Context) (st Standing, done Outcome, err error) {
	err = b.Engine.View(ctx, func(s *state.State) (err error) {
		if st, err = StandingOf(s, b.Key, b.Id); err != nil {
			return err
		}
		if len(st.settled) > 0 {
			done, err = outcomeOf(s, st.settled)
		} else if b.Look != nil {
			err = b.Look(s)
		}
		return err
	})
	return st, done, err
}

// runParts carries out what is left of a request over so many objects, and adds it to what came of it before.
func (b *Bulk) runParts(ctx context.Context, st *Standing, total int, into *Outcome) error {
	for done := 0; !st.Done; {
		if err := b.Engine.AwaitRoom(ctx); err != nil {
			return err
		}
		if err := b.Work.Truths(ctx, st.Cursor); err != nil {
			return err
		}
		n, err := b.runPart(ctx, st, into)
		if err != nil {
			return st.partly(err)
		}
		if done += n; b.Progress != nil {
			b.Progress(done, total)
		}
	}
	return nil
}

// ending is a part with the event that settles it.
type ending struct {
	n       int    // how many objects it is about
	cursor  string // the last of them
	end     *event.Settled
	changes []event.Change
}

// runPart carries out the part behind st.cursor, adds it to the outcome and moves st behind it.
func (b *Bulk) runPart(ctx context.Context, st *Standing, into *Outcome) (n int, err error) {
	var e ending
	several := b.Panel.All || len(b.Panel.Names) > state.PartSize || len(st.settled) > 0 // of all, who knows how many they are
	_, last, err := b.Engine.Propose(ctx, &engine.Proposal{Part: several, Decide: func(s *state.State) ([]event.Change, error) {
		now, err := StandingOf(s, b.Key, b.Id)
		if err != nil {
			return nil, err
		}
		if len(now.settled) != len(st.settled) {
			return nil, ErrOvertaken
		}
		e, err = b.next(s, st)
		return e.changes, err
	}})
	if err != nil {
		return 0, err
	}
	into.settle(e.end, last, e.changes)
	st.settled = append(slices.Clip(st.settled), last)
	st.Cursor, st.Done, st.dealt = e.cursor, e.end.Final, e.end.Done
	return e.n, nil
}

// next decides the part behind st.cursor, and adds the event that settles it.
func (b *Bulk) next(s *state.State, st *Standing) (ending, error) {
	names, last, err := b.Panel.After(s, st.Cursor, state.PartSize)
	if err != nil {
		return ending{}, err
	}
	first := s.Counters.Events + 1
	p, err := b.Work.Decide(s, names)
	if err != nil {
		return ending{}, err
	}
	e := ending{n: len(names) - p.Left, end: &event.Settled{Key: b.Key, First: first, Through: b.Panel.Through}}
	if e.end.Of(&b.Id); len(st.settled) > 0 {
		e.end.Named, e.end.Names = false, event.Sum{} // the first part has them
	}
	if e.n > 0 {
		e.cursor = names[e.n-1]
	}
	e.end.Final = last && p.Left == 0
	b.Panel.stop(e.end, st.dealt+uint64(e.n), e.cursor)
	e.changes = p.Settle(e.end)
	return e, nil
}

// EachPart passes the panel behind an object to visit, in snapshots of one part each.
func EachPart(ctx context.Context, e *engine.Engine, p *Panel, behind string, visit func(s *state.State, names []string) error) error {
	for last := false; !last; {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := e.View(ctx, func(s *state.State) error {
			names, end, err := p.After(s, behind, state.PartSize)
			if err != nil {
				return err
			}
			if last = end; len(names) > 0 {
				behind = names[len(names)-1]
			}
			return visit(s, names)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
