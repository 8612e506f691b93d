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

// Statement proves what the ledger has about one object: everything that was released of it, what
// this cost, and what it earned. For an object that was forgotten, it covers the time since then.
// It also proves that nothing is left out, as of the checkpoint. Like a [Receipt] it is a document
// of its own ([ReadStatement], [Statement.Verify]).
//
// The proof of completeness is an event of the log. The last of the Events says that it lists all
// events about the object, and the checkpoint covers the log up to that event. The ledger records
// such an event only if this is true. But an operator could write the log with another program. An
// audit of any log with the root of the checkpoint finds that. So a statement is as trustworthy as
// the audit of a log that continues it.
//
// A statement reveals more to its object than a receipt does to a buyer. It has the refusals of
// the object and the reservations that hold its budget. For each sale with the object it has the
// buyer and the total price. Answers to panel queries are charged to the object, but are not in a
// statement, because they are about the panel. Requests and their idempotency keys are not in it
// either.
type Statement struct {
	Format   string          `json:"format"`   // "sluice statement 4"
	Ledger   string          `json:"ledger"`   // api.About.ID
	Created  time.Time       `json:"created"`  // when the ledger was created
	Currency string          `json:"currency"` // the currency of the ledger
	LogKey   string          `json:"log_key"`  // the verifier key in the first event of the log; "" for none
	Object   string          `json:"object"`   // the object that it is about
	Event    uint64          `json:"event"`    // the event that ends the list, and the log as of the checkpoint
	Time     time.Time       `json:"time"`     // of that event, in UTC
	Cap      privacy.Epsilon `json:"cap"`      // of the object, over all questions
	Spent    privacy.Epsilon `json:"spent"`    // over all chains; without the budget that reservations hold
	Earned   int64           `json:"earned"`   // by sales, in minor units of the currency
	// Forgotten is the event that erased all earlier events, or 0. Chains include what these had
	// cost.
	Forgotten uint64           `json:"forgotten"`
	Chains    []StatedChain    `json:"chains"`   // in the order in which questions were defined, then of epochs
	Terms     []StatedTerms    `json:"terms"`    // changes of terms, in the order of the log
	Released  []StatedResponse `json:"released"` // in the order of the log, like all lists below
	Charges   []StatedResponse `json:"charges"`  // for answers to panel queries
	Sales     []StatedSale     `json:"sales"`    // responses that were sold
	// Events are the events of the log that are about the object, or are needed to interpret
	// those.
	Events     []Fact      `json:"events"`
	Proof      []tlog.Hash `json:"proof"`      // as in [Evidence]
	Checkpoint string      `json:"checkpoint"` // a signed note, for the log up to Event
}

// StatedChain is what an object has spent on a question in one epoch.
type StatedChain struct {
	Question string `json:"question"` // by its name
	// Epoch counts from 1, since the object was last forgotten. Each epoch has its own true value
	// (Ledger.BeginEpoch). The costs of the epochs add up.
	Epoch int `json:"epoch"`
	// Ended is the event that ended the epoch, or 0 for the current one. Responses released before
	// it belong to the epoch.
	Ended     uint64         `json:"ended"`
	Policy    *policy.Policy `json:"policy,omitempty"` // nil if only the cap binds
	Withdrawn bool           `json:"withdrawn"`        // whether nothing is released until the object is enrolled again
	// level of the highest response, which is the cost of all responses together
	Epsilon   privacy.Epsilon `json:"epsilon"`
	Charged   privacy.Epsilon `json:"charged"`   // additional cost of answers to panel queries
	Forgotten privacy.Epsilon `json:"forgotten"` // additional ε that was spent before the object was forgotten
	Spent     privacy.Epsilon `json:"spent"`     // the sum of these three
}

// StatedTerms is a change of an object's terms.
type StatedTerms struct {
	Question string          `json:"question"`         // by its name
	Policy   *policy.Policy  `json:"policy,omitempty"` // the new policy; nil if only the cap binds
	Cap      privacy.Epsilon `json:"cap"`              // of the object, over all questions
	// Consent is the host's statement that the object agreed. It is "" if the new terms allow
	// nothing more than the old ones.
	Consent string    `json:"consent,omitempty"`
	Event   uint64    `json:"event"` // number of the event
	Time    time.Time `json:"time"`  // of the event, in UTC
}

// StatedResponse is a response that was recorded. In the list of charges it is what the answer to
// a panel query cost the object.
type StatedResponse struct {
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // level of a response, or ε of a charge
	// Response is the response in the text form of the question's encoding; "" for a charge.
	Response string `json:"response,omitempty"`
	// Method is "raise", "degrade" or "insert"; "" for a charge.
	Method string    `json:"method,omitempty"`
	Event  uint64    `json:"event"` // number of the event
	Time   time.Time `json:"time"`  // of the event, in UTC
}

// StatedSale is a response that was sold.
type StatedSale struct {
	Sale     uint64          `json:"sale"`     // its number, from 1
	Buyer    string          `json:"buyer"`    // by its name
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // the level that was sold
	Response string          `json:"response"` // in the text form of the question's encoding
	Price    int64           `json:"price"`    // paid for the object, in minor units of the currency
	Event    uint64          `json:"event"`    // number of the event
	Time     time.Time       `json:"time"`     // of the event, in UTC
}

// Summarize computes all fields that follow from Object and Events, which are all except Proof and
// Checkpoint. A ledger uses it to make its statements. If no ledger can have these events for the
// object, it returns api.ErrCorrupt and changes nothing.
func (st *Statement) Summarize() error {
	s := newSummary(st.Object)
	var fault error
	s.fault = func(format string, args ...any) {
		if fault == nil {
			fault = errs.Corrupt(nil, format, args...)
		}
	}
	for _, f := range st.Events {
		c, err := f.change(s.Glossary)
		if err != nil {
			return errs.Corrupt(nil, "event %d: %v", f.Event, err)
		}
		s.add(event.Event{Number: f.Event, Time: f.Time, Change: c})
	}
	out := s.statement()
	if fault != nil {
		return fmt.Errorf("object %q: %w", st.Object, fault)
	}
	out.Events, out.Proof, out.Checkpoint = st.Events, st.Proof, st.Checkpoint
	*st = out
	return nil
}

// ReadStatement parses the JSON of a statement, as strictly as [ReadReceipt] parses receipts. A
// statement that can be read need not be true: see [Statement.Verify].
func ReadStatement(data []byte) (Statement, error) {
	type plain Statement
	type document struct { // these lists hide the fields of plain
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

// inUTC converts all times to UTC, the only spelling in statements. Otherwise a time with the
// offset of the local zone would be written as it was read.
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

// Verify checks the statement, and returns its faults. There are none if the log that the
// checkpoint signs contains what the statement says, and says that this is complete. Verify
// encodes each event again and compares the hash with the event's leaf, so that an altered field
// is located. It compares all leaves with the root of the log. From the events alone it computes
// what the object has spent and earned, and compares this with the rest of the statement. It needs
// no ledger.
//
// keys are the known keys of the log, as for [Receipt.Verify].
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
		v.fault("the checkpoint has %d events, but the statement ends with event %d", v.Head.Events, st.Event)
	}
	s := newSummary(st.Object)
	for i, f := range st.Events {
		v.checkFact(s, item{i + 1, f.Event, f.about()}, f)
	}
	s.fault = v.fault
	v.checkSummary(s.statement(), st)
	v.checkRoot(st.Proof)
	return v.Checked
}

// checkFact checks a fact against its leaf, and adds it to the summary. at is the place of the
// fact. It also checks that the fact is written as a ledger writes it.
func (v *checker) checkFact(s *summary, at item, f Fact) {
	s.fault = func(format string, args ...any) { v.faultOf(at, format, args...) }
	c, err := f.change(s.Glossary)
	if err != nil {
		s.fault("%v", err)
	}
	ev := event.Event{Number: f.Event, Time: f.Time, Change: c}
	v.check(ev, proven{at, "altered: a field of the event, its salt or leaf", f.Salt, f.Leaf})
	if c == nil {
		return
	}
	s.add(ev)
	// The hash does not cover the spelling of the fields, so the fact is written again and
	// compared.
	whole, err := factOf(ev, f.Leaf, s)
	// ev has no salt; check has compared that of f
	whole.Salt = f.Salt
	if err == nil && !whole.equals(f) {
		err = sameText(whole, f)
	}
	if err != nil {
		s.fault("the fields are not written as a ledger writes them: %v", err)
	}
}

// checkSummary compares the readable part of a statement, stated, with the summary computed from
// its events, field by field.
func (v *checker) checkSummary(computed, stated Statement) {
	want, got := reflect.ValueOf(computed), reflect.ValueOf(stated)
	for i := range want.NumField() {
		var err error
		name := want.Type().Field(i).Tag.Get("json")
		switch list := want.Field(i).Kind() == reflect.Slice; {
		// These are checked by checkFormat, checkFact, checkRoot and checkLog.
		case slices.Contains([]string{"format", "events", "proof", "checkpoint"}, name):
		case list:
			err = sameItems(want.Field(i), got.Field(i))
		default:
			err = sameText(want.Field(i).Interface(), got.Field(i).Interface())
		}
		if err != nil {
			v.fault("%s differs from the value computed from the events: %v", name, err)
		}
	}
}

// sameItems returns an error for the first difference of two lists. It compares them item by item,
// and not as one text. The computed list may be far longer than the document, because each of many
// chains contains its policy in full.
func sameItems(want, got reflect.Value) error {
	for i := range min(want.Len(), got.Len()) {
		if err := sameText(want.Index(i).Interface(), got.Index(i).Interface()); err != nil {
			return fmt.Errorf("no. %d: %w", i+1, err)
		}
	}
	if want.Len() != got.Len() {
		return fmt.Errorf("%d items instead of %d", got.Len(), want.Len())
	}
	return nil
}
