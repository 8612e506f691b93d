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

// Receipt proves to a buyer what a sale contained: what was bought, and that the log says so. It
// is a document of its own. Its JSON, written by [encoding/json], can be verified without the
// ledger by any holder of the key that signs the log ([ReadReceipt], [Receipt.Verify]).
//
// A receipt proves that its responses are those of the sale in the log, at these prices, and that
// none is missing. It does not prove that the log itself is correct, for example that every draw
// is within its budget. An audit of a log with the same root shows that.
//
// A receipt does not reveal true values, because other events contain what chains are bound to. It
// does not show how responses were made, because that depends on what others bought. It has only
// commitments to that. Of the rest of the log it reveals only the numbers of the events, of the
// sale and of the buyer, and some hashes of the tree. Its checkpoint covers the log up to the end
// of the sale.
type Receipt struct {
	Format   string    `json:"format"`   // "sluice receipt 4"
	Ledger   string    `json:"ledger"`   // the ID of the ledger
	Created  time.Time `json:"created"`  // when the ledger was created
	Currency string    `json:"currency"` // the currency of the ledger
	LogKey   string    `json:"log_key"`  // the verifier key in the first event of the log; "" for none
	Sale     uint64    `json:"sale"`     // its number, from 1
	Buyer    string    `json:"buyer"`    // by its name
	Question string    `json:"question"` // by its name
	Values   []string  `json:"values"`   // of the question
	Encoding string    `json:"encoding"` // of the responses
	// Mechanism is the mechanism of a question in finite encoding.
	Mechanism *api.Mechanism  `json:"mechanism,omitempty"`
	Epsilon   privacy.Epsilon `json:"epsilon"`  // of the responses
	Objects   uint64          `json:"objects"`  // number of objects with a response
	Price     int64           `json:"price"`    // the total, in minor units of the currency
	Refused   uint64          `json:"refused"`  // objects left out
	Time      time.Time       `json:"time"`     // when the sale was recorded
	Upgrades  uint64          `json:"upgrades"` // objects of which the buyer held a lower level
	// Responses are ordered by the names of the objects.
	Responses []SoldResponse `json:"responses"`
	Evidence  Evidence       `json:"evidence"` // the proof that the log contains all of this
}

// SoldResponse is one response of a receipt.
type SoldResponse struct {
	Object   string   `json:"object,omitempty"`   // name of the object
	Response string   `json:"response,omitempty"` // in the text form of the question's encoding
	Price    int64    `json:"price"`              // in minor units of the currency
	Event    uint64   `json:"event"`              // number of the event that records it
	Salt     says.Hex `json:"salt,omitempty"`     // derived from the salt of the event, 16 bytes
	Withheld says.Hex `json:"withheld,omitempty"` // commitment to how the response was made, a SHA-256 hash
	// Erased means that the response is not shown. Either the object was forgotten before the
	// receipt was made, or a holder of the receipt left the response out. Object, Response, Salt
	// and Withheld are then empty, and Commitment is the commitment to them. Only the price is
	// proven.
	Erased     bool      `json:"erased,omitempty"`
	Commitment says.Hex  `json:"commitment,omitempty"` // a SHA-256 hash; only if Erased
	Leaf       tlog.Hash `json:"leaf"`                 // the event's leaf in the log
}

// Evidence proves that the events of a receipt are in the log.
type Evidence struct {
	Created Proven `json:"created"` // the first event of the log
	// Question is the event that defined the question.
	Question struct {
		Number uint32    `json:"number"` // number of the question, from 1, in the order of the log
		Time   time.Time `json:"time"`   // of the event, in UTC
		Proven
	} `json:"question"`
	// Buyer is the event that gave the buyer's name a number.
	Buyer struct {
		Number uint32    `json:"number"` // number of the buyer, from 1, in the order of the log
		Time   time.Time `json:"time"`   // of the event, in UTC
		Proven
	} `json:"buyer"`
	Sale Proven `json:"sale"` // the event that starts the sale
	// Withheld is the commitment, in the sale's event, to the number of responses by how they were
	// made.
	Withheld says.Hex `json:"withheld"`
	// Proof has the hashes that, with the leaves of these events and of the responses, give the
	// root of the log's tree (RFC 6962). The checkpoint has the number of leaves. There is one
	// hash for each widest subtree without any of these leaves. They are in the order of a walk
	// from the root, left side first.
	Proof      []tlog.Hash `json:"proof"`
	Checkpoint string      `json:"checkpoint"` // a signed note, for the log as of the receipt
}

// Proven is the evidence for an event that the fields of a document describe: its salt and its
// leaf.
type Proven struct {
	Event uint64    `json:"event"` // its number, from 1
	Salt  says.Hex  `json:"salt"`  // 16 random bytes
	Leaf  tlog.Hash `json:"leaf"`  // a SHA-256 hash by RFC 6962
}

// ReadReceipt parses the JSON of a receipt. It accepts only the exact bytes that
// [encoding/json.Marshal] writes for the receipt. Anything else is api.ErrInvalid, such as white
// space, an unknown field, or another spelling of a number.
//
// So two readers of one text cannot see different receipts in it. A second text that verifies can
// be made only by the two changes that any holder of a receipt may make: leave out responses
// ([SoldResponse.Erased]), and add or leave out cosignatures of the checkpoint
// ([Checked.Cosigned]).
//
// It reads at most 1 GiB (2^30 bytes). A receipt that can be read need not be true: see
// [Receipt.Verify].
func ReadReceipt(data []byte) (Receipt, error) {
	type plain Receipt
	type document struct {
		plain
		Responses items[SoldResponse] `json:"responses"` // hides the field of plain
	}
	var in document
	var r Receipt
	err := readDocument("receipt", data, &in, func() any {
		r = Receipt(in.plain)
		r.Responses = in.Responses.list
		// Normalize what would be written just as it was read: a missing list, and a time with the
		// offset of the local zone.
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

// Verify checks the receipt, and returns its faults. There are none if the log that the checkpoint
// signs contains what the receipt says. Verify encodes each event again from the fields and its
// salt, and compares the hash with the event's leaf, so that an altered field is located. It
// compares all leaves with the root of the log. It also checks that the receipt has all responses
// of the sale, and that their prices add up. It needs no ledger.
//
// keys are the known keys of the log. They should come from the host, and not from the receipt,
// because the result is only as trustworthy as the keys. If keys is nil, only [Checked.Faults] has
// a meaning: whether the receipt is consistent with itself.
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
	question := r.soldQuestion()
	if err := event.CheckQuestion(question); err != nil {
		v.fault("%v", err)
	}
	q := event.NewQuestion(&event.QuestionDefined{Number: r.Evidence.Question.Number, Question: question})
	for i, one := range r.Responses {
		r.checkResponse(v, i, one, q)
	}
	r.checkSums(v)
	r.checkOrder(v)
	v.checkRoot(r.Evidence.Proof)
	return v.Checked
}

// soldQuestion returns the definition of the question of the sale, from the fields of the receipt.
func (r *Receipt) soldQuestion() api.Question {
	return api.Question{Name: r.Question, Values: r.Values, Encoding: r.Encoding, Mechanism: r.Mechanism}
}

// checkHeads checks the events that define the ledger, the question and the buyer, and the event
// that starts the sale, against their leaves.
func (r *Receipt) checkHeads(v *checker, about event.About) {
	e := r.Evidence
	// head checks the event of p, with the given time and change. The name with its parenthesis is
	// part of the text of a fault, which head closes.
	head := func(name string, p Proven, at time.Time, c event.Change) {
		ev := event.Event{Number: p.Event, Time: at, Change: c}
		in := item{event: p.Event}
		if _, is := c.(*event.SaleMade); is && !v.withhold(&ev, in, e.Withheld) {
			ev.Change = nil // the fault is recorded, and the leaf cannot be compared
		}
		v.check(ev, proven{in, "altered: the " + name + ", salt or leaf)", p.Salt, p.Leaf})
	}
	head("ledger (its id, time of creation, currency, log key", e.Created, r.Created, &about.Created)
	head("question (its name, values, encoding, number, time", e.Question.Proven, e.Question.Time,
		&event.QuestionDefined{Number: e.Question.Number, Question: r.soldQuestion()})
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

// checkResponse checks the response at index i, counted from 0, against its leaf, and that its
// event is at the expected position. q is the question of the sale.
func (r *Receipt) checkResponse(v *checker, i int, one SoldResponse, q *event.Question) {
	at := item{i + 1, one.Event, one.Object}
	if want := r.Evidence.Sale.Event + 1 + uint64(i); one.Event != want {
		v.faultOf(at, "event %d is expected here: the responses follow the sale without gaps", want)
	}
	if one.Price < 0 {
		v.faultOf(at, "the price is %d, must not be negative", one.Price)
	}
	c := &event.Sold{Sale: r.Sale, Price: uint64(one.Price)}
	ev := event.Event{Number: one.Event, Time: r.Time, Change: c}
	p := proven{at, "altered: the object, response, price, salt, leaf or what is withheld", one.Salt, one.Leaf}
	if one.Erased {
		p.fault = "altered: the price, commitment or leaf of an erased response"
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
		v.faultOf(at, "a response that is shown has a commitment")
	}
	value, known := q.Read(r.Epsilon, one.Response)
	if !known {
		v.faultOf(at, "the response is no value of the question: %q", one.Response)
	}
	c.Object, c.Value = one.Object, value
	if !v.withhold(&ev, at, one.Withheld) || !known {
		ev.Change = nil // the fault is recorded, and the leaf cannot be compared
	}
	v.check(ev, p)
}

// withhold sets the commitment to the part of an event that a receipt does not show. If its length
// is wrong, it records a fault and returns false.
func (v *checker) withhold(ev *event.Event, at item, commitment says.Hex) bool {
	if len(commitment) != len(event.Commitment{}) {
		v.faultOf(at, "the commitment to what is withheld has %d bytes instead of %d",
			len(commitment), len(event.Commitment{}))
		return false
	}
	ev.Withheld = (*event.Commitment)(commitment)
	return true
}

// checkSums checks that the receipt has all responses of the sale, and that their prices add up to
// the price of the sale. Upgrades must not be more than the objects.
func (r *Receipt) checkSums(v *checker) {
	if uint64(len(r.Responses)) != r.Objects || r.Objects == 0 {
		v.fault("the receipt has %d responses, the sale %d", len(r.Responses), r.Objects)
	}
	sum, fits := int64(0), true
	for _, one := range r.Responses {
		if one.Price > math.MaxInt64-sum {
			fits = false
			break
		}
		sum += max(one.Price, 0) // for a negative price, checkResponse records a fault
	}
	if !fits || sum != r.Price {
		v.fault("the prices of the responses do not add up to that of the sale, %d", r.Price)
	}
	if r.Upgrades > r.Objects {
		v.fault("the sale counts %d upgrades of %d objects", r.Upgrades, r.Objects)
	}
}

// checkOrder checks that the responses are in the order of the names, and that the events are in
// the order of the log. The checkpoint must cover the whole sale.
func (r *Receipt) checkOrder(v *checker) {
	last := ""
	for i, one := range r.Responses {
		if one.Erased {
			continue
		}
		if one.Object <= last {
			v.faultOf(item{i + 1, one.Event, one.Object},
				"it follows object %q, but must precede it: the names are in order, each once", last)
		}
		last = one.Object
	}
	e := r.Evidence
	if e.Created.Event != 1 {
		v.fault("the ledger was created by event %d, but a log begins with that", e.Created.Event)
	}
	// before checks that an event precedes the sale, and that its time is not before the creation
	// of the ledger.
	before := func(number uint64, at time.Time) {
		if number >= e.Sale.Event || at.After(r.Time) || at.Before(r.Created) {
			v.fault("event %d, of %v, does not come before the sale, event %d", number, at, e.Sale.Event)
		}
	}
	before(e.Question.Event, e.Question.Time)
	before(e.Buyer.Event, e.Buyer.Time)
	// A sale is one transaction. So the log also contains the sale's refused events and the
	// settled event of its request, which follow the responses.
	if end := e.Sale.Event + r.Objects + r.Refused + 1; v.read && (end < e.Sale.Event || v.Head.Events < end) {
		v.fault("the checkpoint has %d events, but the sale ends with event %d", v.Head.Events, end)
	}
}
