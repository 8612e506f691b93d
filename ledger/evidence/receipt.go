package evidence

import (
	"math"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/privacy"
)

// Receipt is what a buyer keeps of a sale: what was bought, and the proof that the log says so. It
// is a document of its own: as JSON, written by [encoding/json], it can be verified without the
// ledger, by whoever has the key by which the log is signed ([ReadReceipt], [Receipt.Verify]).
//
// It proves that these responses are the ones that the log has for the sale, at these prices, and
// all of them. That the log itself is what it should be, every draw within its budget, an audit of
// the log with the same root shows. Nothing in it tells the true values: what chains are bound to
// is in other events. Nor does it show how responses came about, which depends on what others
// bought: of that it has commitments. What it shows of the log beside the sale is where it is in
// the log, by the numbers of events, of the sale and of the buyer, and of the log's tree some
// hashes. Its checkpoint is of the log as the sale left it.
type Receipt struct {
	Format   string    `json:"format"`   // "sluice receipt 4"
	Ledger   string    `json:"ledger"`   // the ID of the ledger
	Created  time.Time `json:"created"`  // the ledger
	Currency string    `json:"currency"` // the ledger's
	LogKey   string    `json:"log_key"`  // the verifier key that the log began with; "" for none
	Sale     uint64    `json:"sale"`     // its number, from 1
	Buyer    string    `json:"buyer"`    // by its name
	Question string    `json:"question"` // by its name
	Values   []string  `json:"values"`   // of the question
	Encoding string    `json:"encoding"` // of the responses
	// Mechanism is how the question is answered, in finite encoding.
	Mechanism *api.Mechanism  `json:"mechanism,omitempty"`
	Epsilon   privacy.Epsilon `json:"epsilon"`  // of the responses
	Objects   uint64          `json:"objects"`  // that answer
	Price     int64           `json:"price"`    // in all, in minor units of the currency
	Refused   uint64          `json:"refused"`  // objects left out
	Time      time.Time       `json:"time"`     // when it was sold
	Upgrades  uint64          `json:"upgrades"` // of which the buyer held a lower level
	// Responses are in the order of the objects' names.
	Responses []SoldResponse `json:"responses"`
	Evidence  Evidence       `json:"evidence"` // that all of this is in the log
}

// SoldResponse is one response of a receipt.
type SoldResponse struct {
	Object   string   `json:"object,omitempty"`   // who answers
	Response string   `json:"response,omitempty"` // as the question's encoding puts it in words
	Price    int64    `json:"price"`              // in minor units of the currency
	Event    uint64   `json:"event"`              // that records it, by number
	Salt     says.Hex `json:"salt,omitempty"`     // made of that of the event, 16 bytes
	Withheld says.Hex `json:"withheld,omitempty"` // the commitment to how it came about, a SHA-256 hash
	// Erased: the response is not shown, because the object was forgotten before the receipt was
	// made, or because whoever passed the receipt on left it out. There is no Object, Response,
	// Salt and Withheld then, but the Commitment to them; only the price is proven.
	Erased     bool      `json:"erased,omitempty"`
	Commitment says.Hex  `json:"commitment,omitempty"` // a SHA-256 hash, only of what is erased
	Leaf       tlog.Hash `json:"leaf"`                 // the event's leaf in the log
}

// Evidence proves that the events of a receipt are in the log.
type Evidence struct {
	Created Proven `json:"created"` // the event that begins the log
	// Question is the event that defined the question.
	Question struct {
		Number uint32    `json:"number"` // of the question, from 1, in the order of the log
		Time   time.Time `json:"time"`   // of the event, in UTC
		Proven
	} `json:"question"`
	// Buyer is the event that gave the buyer's name a number.
	Buyer struct {
		Number uint32    `json:"number"` // of the buyer, from 1, in the order of the log
		Time   time.Time `json:"time"`   // of the event, in UTC
		Proven
	} `json:"buyer"`
	Sale     Proven   `json:"sale"`     // the event that begins the sale
	Withheld says.Hex `json:"withheld"` // the commitment to how many responses came about in which way, in that event
	// Proof are the hashes that give, with the leaves of these events and of the responses, the
	// root of the log's tree (RFC 6962) with as many leaves as the checkpoint says. They come in
	// the order of a walk from the root, the left side first, one for each widest subtree without
	// any of the leaves.
	Proof      []tlog.Hash `json:"proof"`
	Checkpoint string      `json:"checkpoint"` // a signed note, of the log as of the receipt
}

// Proven is an event that the fields of a document tell, with its salt and its leaf in the log.
type Proven struct {
	Event uint64    `json:"event"` // by number, from 1
	Salt  says.Hex  `json:"salt"`  // 16 random bytes
	Leaf  tlog.Hash `json:"leaf"`  // SHA-256, as RFC 6962 says
}

// ReadReceipt reads a receipt from JSON. It is strict: there is one way to write a receipt, to the
// byte what [encoding/json.Marshal] makes of it, and whatever else, white space, an unknown field
// or another spelling of a number included, is api.ErrInvalid. So two readers of one text cannot
// see different receipts in it, and nobody can make a second text of one that verifies, but by what
// a holder may do openly: leave out responses ([SoldResponse.Erased]) and add or leave out
// cosignatures of the checkpoint ([Checked.Cosigned]). It takes at most 1 GiB (2^30 bytes). That
// a receipt can be read does not mean that it is true: see [Receipt.Verify].
func ReadReceipt(data []byte) (Receipt, error) {
	type plain Receipt
	type document struct {
		plain
		Responses items[SoldResponse] `json:"responses"` // hides those of plain
	}
	var in document
	var r Receipt
	err := readDocument("receipt", data, &in, func() any {
		r = Receipt(in.plain)
		r.Responses = in.Responses.list
		// Written as read would be also a missing list, and a time with the offset of this
		// machine's zone.
		r.Values, r.Evidence.Proof = present(r.Values), present(r.Evidence.Proof)
		for _, at := range []*time.Time{&r.Created, &r.Time, &r.Evidence.Question.Time, &r.Evidence.Buyer.Time} {
			*at = at.UTC()
		}
		return r
	})
	if err != nil {
		return Receipt{}, err
	}
	return r, nil
}

// Verify returns what is wrong with the receipt: nothing, if the log that its checkpoint signs says
// what the receipt says. It encodes each event anew from the fields and its salt, and compares it
// with its leaf, so that what was altered is named, and all leaves with the root of the log. It
// checks also that the responses are all of the sale, and add up. It needs no ledger.
//
// keys are those that the log is known to be signed by; the receipt is worth what they are. They
// should come from the host, not from the receipt. With nil, only [Checked.Faults] means something:
// whether the receipt agrees with itself.
func (r Receipt) Verify(keys note.Verifiers) Checked {
	v := &checker{}
	v.checkFormat(r.Format, event.ReceiptFormat)
	about, err := aboutOf(r.Ledger, r.Created, r.Currency, r.LogKey)
	if err != nil {
		v.fault("the ledger: %v", err)
	}
	if !v.checkLog(about, r.Evidence.Checkpoint, keys) {
		return v.Checked
	}
	r.checkHeads(v, about)
	asked := r.asked()
	if err := event.CheckQuestion(asked); err != nil {
		v.fault("%v", err)
	}
	q := event.NewQuestion(&event.QuestionDefined{Number: r.Evidence.Question.Number, Question: asked})
	for i, one := range r.Responses {
		r.checkResponse(v, i, one, q)
	}
	r.checkSums(v)
	r.checkOrder(v)
	v.checkRoot(r.Evidence.Proof)
	return v.Checked
}

// asked returns the question.
func (r *Receipt) asked() api.Question {
	return api.Question{Name: r.Question, Values: r.Values, Encoding: r.Encoding, Mechanism: r.Mechanism}
}

// checkHeads checks the events that the responses rest on.
func (r *Receipt) checkHeads(v *checker, about event.About) {
	e := r.Evidence
	head := func(name string, p Proven, at time.Time, c event.Change) {
		ev := event.Event{Number: p.Event, Time: at, Change: c}
		in := item{event: p.Event}
		if _, is := c.(*event.SaleMade); is && !v.withhold(&ev, in, e.Withheld) {
			ev.Change = nil
		}
		v.check(ev, proven{in, "altered: the " + name + ", salt or leaf)", p.Salt, p.Leaf})
	}
	head("ledger (its id, time of creation, currency, log key", e.Created, r.Created, &about.Created)
	head("question (its name, values, encoding, number, time", e.Question.Proven, e.Question.Time,
		&event.QuestionDefined{Number: e.Question.Number, Question: r.asked()})
	head("buyer (its name, number, time", e.Buyer.Proven, e.Buyer.Time,
		&event.BuyerNamed{Number: e.Buyer.Number, Name: r.Buyer})
	head("sale (its number, ε, objects, price, refused, upgrades, what is withheld of it, time", e.Sale, r.Time,
		&event.SaleMade{
			Deal: event.Deal{
				Sale: r.Sale, Buyer: e.Buyer.Number, Question: e.Question.Number, Epsilon: r.Epsilon,
				Objects: r.Objects, Price: uint64(r.Price), Refused: r.Refused,
			},
			Tally: event.SaleTally{Upgrades: r.Upgrades},
		})
}

// checkResponse checks one response against its leaf, and that it stands where it belongs.
func (r *Receipt) checkResponse(v *checker, i int, one SoldResponse, q *event.Question) {
	at := item{i + 1, one.Event, one.Object}
	if want := r.Evidence.Sale.Event + 1 + uint64(i); one.Event != want {
		v.faultOf(at, "event %d is expected here: responses follow on the sale without gaps", want)
	}
	if one.Price < 0 {
		v.faultOf(at, "the price is %d", one.Price)
	}
	c := &event.Sold{Sale: r.Sale, Price: uint64(one.Price)}
	ev := event.Event{Number: one.Event, Time: r.Time, Change: c}
	p := proven{at, "altered: the object, response, price, salt, leaf or what is withheld", one.Salt, one.Leaf}
	if one.Erased {
		p.what = "altered: the price, commitment or leaf of an erased response"
		isMore := one.Object != "" || one.Response != "" || one.Withheld != nil || one.Salt != nil
		if isMore || len(one.Commitment) != len(event.Commitment{}) {
			v.faultOf(at, "an erased response has a price and a commitment, and nothing else")
		}
		ev.Erased = &event.Commitment{}
		copy(ev.Erased[:], one.Commitment)
		v.check(ev, p)
		return
	}
	if one.Commitment != nil {
		v.faultOf(at, "a commitment to a response that is there")
	}
	value, known := q.Read(r.Epsilon, one.Response)
	if !known {
		v.faultOf(at, "the response is no value of the question: %q", one.Response)
	}
	c.Object, c.Value = one.Object, value
	if !v.withhold(&ev, at, one.Withheld) || !known {
		ev.Change = nil
	}
	v.check(ev, p)
}

// withhold puts the commitment to what a receipt does not show of an event in its place. It returns
// false if that is no commitment.
func (v *checker) withhold(ev *event.Event, at item, commitment says.Hex) bool {
	if len(commitment) != len(event.Commitment{}) {
		v.faultOf(at, "what is withheld has a commitment of %d bytes; it has %d",
			len(commitment), len(event.Commitment{}))
		return false
	}
	ev.Withheld = (*event.Commitment)(commitment)
	return true
}

// checkSums checks that the responses are the sale.
func (r *Receipt) checkSums(v *checker) {
	if uint64(len(r.Responses)) != r.Objects || r.Objects == 0 {
		v.fault("there are %d responses of %d", len(r.Responses), r.Objects)
	}
	sum, fits := int64(0), true
	for _, one := range r.Responses {
		if one.Price > math.MaxInt64-sum {
			fits = false
			break
		}
		sum += max(one.Price, 0)
	}
	if !fits || sum != r.Price {
		v.fault("the prices of the responses do not add up to that of the sale, %d", r.Price)
	}
	if r.Upgrades > r.Objects {
		v.fault("the sale counts %d upgrades of %d objects", r.Upgrades, r.Objects)
	}
}

// checkOrder checks what comes before what.
func (r *Receipt) checkOrder(v *checker) {
	last := ""
	for i, one := range r.Responses {
		if one.Erased {
			continue
		}
		if one.Object <= last {
			v.faultOf(item{i + 1, one.Event, one.Object},
				"it comes behind object %q: names come in order, each once", last)
		}
		last = one.Object
	}
	e := r.Evidence
	if e.Created.Event != 1 {
		v.fault("the ledger was created by event %d; a log begins with that", e.Created.Event)
	}
	before := func(number uint64, at time.Time) {
		if number >= e.Sale.Event || at.After(r.Time) || at.Before(r.Created) {
			v.fault("event %d, of %v, does not come before the sale, event %d", number, at, e.Sale.Event)
		}
	}
	before(e.Question.Event, e.Question.Time)
	before(e.Buyer.Event, e.Buyer.Time)
	// A sale is one transaction: the settled event of its request, behind those refused, is in the
	// log with it.
	if end := e.Sale.Event + r.Objects + r.Refused + 1; v.read && (end < e.Sale.Event || v.Head.Events < end) {
		v.fault("the checkpoint is of %d events, the sale ends with event %d", v.Head.Events, end)
	}
}
