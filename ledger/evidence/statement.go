package evidence

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Statement is what the ledger has about one object, proven: everything that was ever released of
// it, or since it was last forgotten, what that cost it, and what it earned; and that nothing is
// left out as of the checkpoint. Like a [Receipt] it is a document of its own ([ReadStatement],
// [Statement.Verify]).
//
// That it is complete rests on an event of the log. The last of the Events says that it lists all
// events about the object, and the checkpoint is of the log up to it. The ledger records no such
// event unless that is so; an operator who writes the log with another program could. An audit of
// the log finds that, of any log with the root of the checkpoint: a statement is as good as the
// audit of a log that continues it.
//
// For whom it is about it says more than a receipt does: what it was refused for, what holds budget
// of it, and to whom and for how much in all the sales were that it was part of. Answers to queries
// about a panel are charged to it, and are in no statement, because they are about the panel. Nor
// are requests, and their idempotency keys.
type Statement struct {
	Format   string          `json:"format"`   // "sluice statement 4"
	Ledger   string          `json:"ledger"`   // api.About.ID
	Created  time.Time       `json:"created"`  // the ledger
	Currency string          `json:"currency"` // the ledger's
	LogKey   string          `json:"log_key"`  // the verifier key that the log began with; "" for none
	Object   string          `json:"object"`   // whom it is about
	Event    uint64          `json:"event"`    // that closes the list, and the log as of the checkpoint
	Time     time.Time       `json:"time"`     // of that event, in UTC
	Cap      privacy.Epsilon `json:"cap"`      // of the object, over all questions
	Spent    privacy.Epsilon `json:"spent"`    // over all chains; what reservations hold is not in it
	Earned   int64           `json:"earned"`   // by sales, in minor units of the currency
	// Forgotten is the event that destroyed what came before, or 0. What it had cost is in Chains.
	Forgotten uint64           `json:"forgotten"`
	Chains    []StatedChain    `json:"chains"`   // in the order of the definitions of questions, and of their epochs
	Terms     []StatedTerms    `json:"terms"`    // changes of them, in the order of the log
	Released  []StatedResponse `json:"released"` // in the order of the log, like all below
	Charges   []StatedResponse `json:"charges"`  // for answers about panels
	Sales     []StatedSale     `json:"sales"`    // each an offer that somebody took
	// Events are the log's, as far as they are about the object, or are needed to read those.
	Events     []Fact      `json:"events"`
	Proof      []tlog.Hash `json:"proof"`      // as in [Evidence]
	Checkpoint string      `json:"checkpoint"` // a signed note, of the log up to Event
}

// StatedChain is what an object has spent on a question in one epoch.
type StatedChain struct {
	Question string `json:"question"` // by its name
	// Epoch counts from 1, since the object was last forgotten. Each is about a value of its own
	// (Ledger.BeginEpoch), and what they cost adds up.
	Epoch int `json:"epoch"`
	// Ended is the event that ended it, 0 for the current one: what was released before belongs to
	// it.
	Ended     uint64          `json:"ended"`
	Policy    *policy.Policy  `json:"policy,omitempty"` // nil if only the cap binds
	Withdrawn bool            `json:"withdrawn"`        // nothing more is released unless the object is enrolled again
	Epsilon   privacy.Epsilon `json:"epsilon"`          // of the highest response: all of them together cost that
	Charged   privacy.Epsilon `json:"charged"`          // by answers to queries, besides
	Forgotten privacy.Epsilon `json:"forgotten"`        // spent by what was destroyed, besides
	Spent     privacy.Epsilon `json:"spent"`            // the sum
}

// StatedTerms is a change of an object's terms.
type StatedTerms struct {
	Question string          `json:"question"`         // by its name
	Policy   *policy.Policy  `json:"policy,omitempty"` // from then on; nil if only the cap binds
	Cap      privacy.Epsilon `json:"cap"`              // of the object, over all questions
	// Consent is the host's word that the object agreed. It is "" where none was needed: nothing is
	// more than before.
	Consent string    `json:"consent,omitempty"`
	Event   uint64    `json:"event"` // that changed them, by number
	Time    time.Time `json:"time"`  // of the event, in UTC
}

// StatedResponse is a response that was recorded or, among the charges, what an answer about a
// panel has cost the object.
type StatedResponse struct {
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // the level of a response, or what a charge added to the spending
	// Response is written as the question's encoding describes it; "" for a charge.
	Response string `json:"response,omitempty"`
	// Method is "raise", "degrade" or "insert"; "" for a charge.
	Method string    `json:"method,omitempty"`
	Event  uint64    `json:"event"` // that recorded it, by number
	Time   time.Time `json:"time"`  // of the event, in UTC
}

// StatedSale is a response that was sold.
type StatedSale struct {
	Sale     uint64          `json:"sale"`     // its number, from 1
	Buyer    string          `json:"buyer"`    // by its name
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // the level that was sold
	Response string          `json:"response"` // as the question's encoding puts it in words
	Price    int64           `json:"price"`    // to the object, in minor units of the currency
	Event    uint64          `json:"event"`    // that records it, by number
	Time     time.Time       `json:"time"`     // of the event, in UTC
}

// Summarize sets all fields that follow from Object and Events: all but Proof and Checkpoint. A
// ledger makes its statements with it. Events that no ledger has for the object are
// api.ErrCorrupt, and change nothing.
func (st *Statement) Summarize() error {
	t := newTeller(st.Object)
	var fault error
	t.fault = func(format string, args ...any) {
		if fault == nil {
			fault = errs.Corrupt(nil, format, args...)
		}
	}
	for _, f := range st.Events {
		c, err := f.change(t.Glossary)
		if err != nil {
			return errs.Corrupt(nil, "event %d: %v", f.Event, err)
		}
		t.tell(event.Event{Number: f.Event, Time: f.Time, Change: c})
	}
	out := t.statement()
	if fault != nil {
		return fmt.Errorf("object %q: %w", st.Object, fault)
	}
	out.Events, out.Proof, out.Checkpoint = st.Events, st.Proof, st.Checkpoint
	*st = out
	return nil
}

// ReadStatement reads a statement from JSON, as strictly as [ReadReceipt] reads receipts.
func ReadStatement(data []byte) (Statement, error) {
	type plain Statement
	type document struct { // the lists hide those of plain
		plain
		Chains   items[StatedChain]    `json:"chains"`
		Released items[StatedResponse] `json:"released"`
		Terms    items[StatedTerms]    `json:"terms"`
		Charges  items[StatedResponse] `json:"charges"`
		Sales    items[StatedSale]     `json:"sales"`
		Events   items[Fact]           `json:"events"`
	}
	var in document
	var st Statement
	err := readDocument("statement", data, &in, func() any {
		st = Statement(in.plain)
		st.Chains, st.Terms, st.Released = in.Chains.list, in.Terms.list, in.Released.list
		st.Charges, st.Sales, st.Events = in.Charges.list, in.Sales.list, in.Events.list
		st.Proof = present(st.Proof)
		st.inUTC()
		return st
	})
	if err != nil {
		return Statement{}, err
	}
	return st, nil
}

// inUTC gives all times the one spelling that statements have. Those with the offset of this
// machine's zone would otherwise be written as they were read.
func (st *Statement) inUTC() {
	st.Created, st.Time = st.Created.UTC(), st.Time.UTC()
	for i := range st.Released {
		st.Released[i].Time = st.Released[i].Time.UTC()
	}
	for i := range st.Terms {
		st.Terms[i].Time = st.Terms[i].Time.UTC()
	}
	for i := range st.Charges {
		st.Charges[i].Time = st.Charges[i].Time.UTC()
	}
	for i := range st.Sales {
		st.Sales[i].Time = st.Sales[i].Time.UTC()
	}
	for i := range st.Events {
		f := &st.Events[i]
		f.Time = f.Time.UTC()
		if d, ok := f.Says.(*says.Reserved); ok {
			d.Expires = d.Expires.UTC()
		}
	}
}

// Verify returns what is wrong with the statement: nothing, if the log that its checkpoint signs
// says what the statement says, and says that this is all. It encodes each event anew and compares
// it with its leaf, so that what was altered is named, and all leaves with the root of the log; and
// it tells from the events alone what the object has spent and earned, and compares that with the
// rest of the statement. It needs no ledger.
//
// keys are those that the log is known to be signed by, as for [Receipt.Verify].
func (st Statement) Verify(keys note.Verifiers) Checked {
	v := &checker{}
	v.checkFormat(st.Format, event.StatementFormat)
	about, err := aboutOf(st.Ledger, st.Created, st.Currency, st.LogKey)
	if err != nil {
		v.fault("the ledger: %v", err)
	}
	if !v.checkLog(about, st.Checkpoint, keys) {
		return v.Checked
	}
	if v.read && v.Head.Events != st.Event {
		v.fault("the checkpoint is of %d events, the statement of %d", v.Head.Events, st.Event)
	}
	t := newTeller(st.Object)
	for i, f := range st.Events {
		v.checkFact(t, item{i + 1, f.Event, f.about()}, f)
	}
	t.fault = v.fault
	v.checkTold(t.statement(), st)
	v.checkRoot(st.Proof)
	return v.Checked
}

// checkFact checks a fact against its leaf, and tells it.
func (v *checker) checkFact(t *teller, at item, f Fact) {
	t.fault = func(format string, args ...any) { v.faultOf(at, format, args...) }
	c, err := f.change(t.Glossary)
	if err != nil {
		t.fault("%v", err)
	}
	ev := event.Event{Number: f.Event, Time: f.Time, Change: c}
	v.check(ev, proven{at, "altered: a field of the event, its salt or leaf", f.Salt, f.Leaf})
	if c == nil {
		return
	}
	t.tell(ev)
	// How the event spells what it says is in no hash.
	whole, err := factOf(ev, f.Leaf, t)
	whole.Salt = f.Salt
	if err == nil && !whole.equals(f) {
		err = sameText(whole, f)
	}
	if err != nil {
		t.fault("the fields are not those of such an event: %v", err)
	}
}

// checkTold compares the readable part of a statement with what its events tell, field by field.
func (v *checker) checkTold(told, said Statement) {
	want, got := reflect.ValueOf(told), reflect.ValueOf(said)
	for i := range want.NumField() {
		var err error
		name := want.Type().Field(i).Tag.Get("json")
		switch list := want.Field(i).Kind() == reflect.Slice; {
		case slices.Contains([]string{"format", "events", "proof", "checkpoint"}, name): // are checked by themselves
		case list:
			err = sameItems(want.Field(i), got.Field(i))
		default:
			err = sameText(want.Field(i).Interface(), got.Field(i).Interface())
		}
		if err != nil {
			v.fault("%s is not what the events come to: %v", name, err)
		}
	}
}

// sameItems compares two lists one by one, up to the first difference. What the events come to may
// be far longer as text than what the document says: each of many chains names its policy in full.
func sameItems(want, got reflect.Value) error {
	for i := range min(want.Len(), got.Len()) {
		if err := sameText(want.Index(i).Interface(), got.Index(i).Interface()); err != nil {
			return fmt.Errorf("no. %d: %w", i+1, err)
		}
	}
	if want.Len() != got.Len() {
		return fmt.Errorf("%d where there should be %d", got.Len(), want.Len())
	}
	return nil
}
