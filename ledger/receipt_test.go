package ledger

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// A buyer keeps a receipt, and needs to trust only the log key.

func receiptOf(t testing.TB, l *Ledger, sale uint64) evidence.Receipt {
	t.Helper()
	return check.Value(l.Receipt(t.Context(), sale))(t)
}

// issuerWithSales returns an issuer that has sold the votes of three objects to two buyers, by
// every method.
func issuerWithSales(t testing.TB) *issuer {
	t.Helper()
	o := newIssuer(t, 1)
	sellers(t, o.Ledger, "2", "5", "ann", "bob", "cid")
	for _, r := range []api.SellRequest{
		purchase(t, "1", "acme", "0.5", "ann", "bob", "cid"),  // draws
		purchase(t, "2", "zeta", "0.5", "ann", "cid"),         // resales
		purchase(t, "3", "acme", "1", "ann", "bob"),           // upgrades
		purchase(t, "4", "zeta", "0.75", "ann", "bob", "cid"), // two insertions and a draw
		purchase(t, "5", "acme", "0.25", "ann", "bob"),        // degradations, for nothing
	} {
		o.advanceClock()
		sell(t, o.Ledger, r)
	}
	o.advanceClock()
	return o
}

func TestReceipt_LedgerDeleted_StillVerifies(t *testing.T) {
	signer, verifier, public := logKey(t, issuerName, 3)
	path := filepath.Join(tests.TempDir(t), "ledger.db")
	must(t, Create(t.Context(), path, CreateOptions{Currency: "USD", LogKey: public}))
	l := open(t, path, Options{Signer: signer})
	sellers(t, l, "2", "5", "ann", "bob")
	sold := sell(t, l, purchase(t, "order", "acme", "0.5"))
	want := delivered(t, l, sold.Number)
	kept := text(t, receiptOf(t, l, sold.Number))
	closed(t, l)
	must(t, os.Remove(path))

	r := check.Value(evidence.ReadReceipt(kept))(t)
	wantSound(t, "the receipt", r, note.VerifierList(verifier))
	if r.Sale != sold.Number || r.Buyer != "acme" || r.Question != "vote" || r.Epsilon != sold.Epsilon || r.Price != sold.Price || !r.Time.Equal(sold.Time) ||
		r.Objects != 2 || r.Upgrades != 0 || r.Currency != "USD" || !slices.Equal(r.Values, vote().Values) || r.LogKey != public {
		t.Errorf("%+v", r)
	}
	for _, one := range r.Responses {
		d := want[one.Object]
		check.That(t, one.Response == d.Value && one.Price == d.Price && one.Event == d.Sold,
			"%+v, delivered was %+v", one, d)
	}
	head := r.Verify(note.VerifierList(verifier)).Head
	check.That(t, head.Origin == issuerName && head.Events == sold.Last, "the head is %+v", head)
}

func TestReceipt_EveryKindOfSale_Verifies(t *testing.T) {
	o := issuerWithSales(t)
	for number, want := range map[uint64]event.SaleTally{1: {Draws: 3}, 2: {Resales: 2}, 3: {Draws: 2, Upgrades: 2}, 4: {Insertions: 2, Draws: 1, Upgrades: 2}, 5: {Degradations: 2}} {
		r := receiptOf(t, o.Ledger, number)
		wantSound(t, fmt.Sprint("sale ", number), r, o.keys)
		if s, err := o.Sale(t.Context(), number); err != nil || r.Upgrades != want.Upgrades || s.Draws != want.Draws || s.Insertions != want.Insertions || s.Degradations != want.Degradations || s.Resales != want.Resales {
			t.Errorf("sale %d: %+v, want %+v (%v)", number, s, want, err)
		}
		wantWithheld(t, o, r)
		back := check.Value(evidence.ReadReceipt(text(t, r)))(t)
		check.That(t, reflect.DeepEqual(back, r), "%+v became %+v", r, back)
	}
	free := receiptOf(t, o.Ledger, 5)
	check.That(t, free.Price == 0, "what is below the level that acme holds costs %d", free.Price)
}

// wantWithheld checks that a receipt shows neither the methods of its responses nor a salt with
// which they could be found by trying.
func wantWithheld(t *testing.T, o *issuer, r evidence.Receipt) {
	t.Helper()
	data := text(t, r)
	for _, ev := range logOf(t, pairs(t, o.store)) {
		switch ev.Change.(type) {
		case *event.SaleMade, *event.Sold:
			check.That(t, !bytes.Contains(data, []byte(hex.EncodeToString(ev.Salt[:]))),
				"receipt %d has the salt of event %d", r.Sale, ev.Number)
		}
	}
	for _, word := range []string{"method", "raise", "degrade", "insert", "resale", "draws"} {
		check.That(t, !bytes.Contains(data, []byte(word)), "receipt %d has the word %s", r.Sale, word)
	}
}

func TestReceipt_PartialSale_CountsRefusedObjects(t *testing.T) {
	o := newIssuer(t, 1)
	sellers(t, o.Ledger, "2", "5", "ann", "bob", "cid", "dot")
	r := purchase(t, "order", "acme", "0.5", "ann", "bob", "stranger", "cid", "dot")
	r.Partial, r.Truth = true, truthsOf(map[string]string{"ann": "yes", "cid": "no"})
	sell(t, o.Ledger, r)
	got := receiptOf(t, o.Ledger, 1)
	wantSound(t, "a partial sale", got, o.keys)
	check.That(t, got.Refused == 3 && got.Objects == 2 && !strings.Contains(string(text(t, got)), "stranger"), "%+v", got)
}

func TestReceipt_SaleFromReservation_Verifies(t *testing.T) {
	o := newIssuer(t, 1)
	sellers(t, o.Ledger, "2", "5", "ann", "bob")
	held := reserve(t, o.Ledger, api.ReserveRequest{Key: "r", Order: purchase(t, "", "acme", "0.5").Order, For: time.Hour})
	_, err := o.Receipt(t.Context(), held.Number)
	check.That(t, errors.Is(err, api.ErrUnknown), "the receipt of a reservation: %v", err)
	define(t, o.Ledger, smoker())
	o.clock.set(epoch().Add(time.Minute))
	capture(t, o.Ledger, "c", held.Number)
	r := receiptOf(t, o.Ledger, held.Number)
	wantSound(t, "a sale from a reservation", r, o.keys)
	check.That(t, r.Evidence.Buyer.Event < r.Evidence.Sale.Event-3 && r.Time.Equal(epoch().Add(time.Minute)), "%+v", r)
}

func TestReceipt_UnknownSaleOrNoSigner_IsAnError(t *testing.T) {
	o := issuerWithSales(t)
	for _, number := range []uint64{0, 6, math.MaxUint64} {
		wantErr(t, check.Err(o.Receipt(t.Context(), number)), api.ErrUnknown)
	}
	wantErr(t, check.Err(openMemory(t, o.store, Options{}).Receipt(t.Context(), 1)), api.ErrNoSigner)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, check.Err(o.Receipt(ctx, 1)), context.Canceled)
	reader := openMemory(t, o.store, Options{ReadOnly: true, Signer: o.documents.Signer})
	r := check.Value(reader.Receipt(t.Context(), 1))(t)
	wantSound(t, "of a ledger that is only read", r, o.keys)
}

func TestReceipt_DamagedLog_IsCorrupt(t *testing.T) {
	for name, damage := range map[string]func(*event.Entry){
		"salt": func(n *event.Entry) { n.Salt[3]++ },
		"leaf": func(n *event.Entry) { n.Hashes[0][3]++ },
		"time": func(n *event.Entry) { n.Time = n.Time.Add(1); n.Hashes[0] = n.Leaf() },
		"sale": func(n *event.Entry) { n.Change.(*event.Sold).Sale = 2; n.Hashes[0] = n.Leaf() },
	} {
		o := issuerWithSales(t)
		number := receiptOf(t, o.Ledger, 1).Responses[1].Event
		var n event.Entry
		must(t, o.engine.View(t.Context(), func(s *state.State) (err error) {
			n, err = s.Entry(number)
			return err
		}))
		damage(&n)
		putRecord(t, o.store, state.BucketEvents, state.EventKey(number), n.Encode())
		_, err := o.Receipt(t.Context(), 1)
		check.That(t, errors.Is(err, api.ErrCorrupt), "%s: %v", name, err)
	}
}

// receiptWithErased returns an issuer and a receipt with everything that one can have, an erased
// response included.
func receiptWithErased(t *testing.T) (*issuer, evidence.Receipt) {
	t.Helper()
	o := issuerWithSales(t)
	must(t, o.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "bob"}))
	return o, receiptOf(t, o.Ledger, 4)
}

func TestReceiptVerify_AnyFieldAltered_NamesIt(t *testing.T) {
	o, r := receiptWithErased(t)
	wantSound(t, "the receipt", r, o.keys)
	names := map[string]string{
		".Format": "format", ".Ledger": "ledger", ".Created": "ledger", ".Currency": "ledger", ".LogKey": "ledger",
		".Sale": "the sale", ".Epsilon": "the sale", ".Objects": "the sale", ".Price": "the sale", ".Refused": "the sale", ".Time": "the sale",
		".Upgrades": "the sale", ".Evidence.Withheld": "withheld",
		".Buyer": "the buyer", ".Question": "the question", ".Values": "the question", ".Encoding": "question",
		".Evidence.Created.": "the ledger", ".Evidence.Question.": "the question", ".Evidence.Buyer.": "the buyer", ".Evidence.Sale.Salt": "the sale",
		".Evidence.Sale.Leaf": "the sale", ".Evidence.Sale.Event": "is expected here", ".Evidence.Proof": "do not give the root", ".Evidence.Checkpoint": "the checkpoint",
		".Evidence.Created.Event": "begins with that", ".Evidence.Question.Event": "the proof", ".Evidence.Buyer.Event": "the proof",
	}
	seen, n := map[string]bool{}, 0
	eachAltered(t, r, func(way string, other evidence.Receipt) {
		n++
		c := other.Verify(o.keys)
		check.That(t, !c.OK() && (len(other.Verify(nil).Faults) != 0 || way == ".Evidence.Checkpoint"),
			"%s: Verify reports no fault", way)
		var i int
		if _, err := fmt.Sscanf(way, ".Responses[%d]", &i); err == nil {
			seen[way[strings.LastIndex(way, "."):]] = true
			if !slices.ContainsFunc(c.Faults, func(f evidence.Fault) bool { return f.Item == i+1 }) {
				t.Errorf("%s: not named, but %q", way, faults(c))
			}
			if slices.ContainsFunc(c.Faults, func(f evidence.Fault) bool { return f.Item != i+1 && f.Item != 0 && f.Item != i+2 }) {
				t.Errorf("%s: others are named: %q", way, faults(c))
			}
			return
		}
		want := ""
		for prefix := range names {
			if strings.HasPrefix(way, prefix) && len(prefix) >= len(want) {
				want = prefix
			}
		}
		if seen[want] = true; want == "" || !strings.Contains(strings.Join(faults(c), "\n"), names[want]) {
			t.Errorf("%s: not named, but %q", way, faults(c))
		}
	})
	for _, field := range []string{".Object", ".Response", ".Price", ".Withheld", ".Event", ".Salt", ".Erased", ".Commitment", ".Leaf"} {
		check.That(t, seen[field], "no response was altered in %s", field)
	}
	for name := range names {
		check.That(t, seen[name] || name == ".Evidence.Created.", "nothing was altered in %s", name)
	}
	check.That(t, n >= 60, "only %d fields", n)
}

// Receipts and statements are parsed strictly, in any time zone, and do not verify with another
// key. Every byte of them matters.
func TestDocuments_AreReadStrictly(t *testing.T) {
	o, r := receiptWithErased(t)
	t.Run("receipt", func(t *testing.T) {
		wantEveryByteChecked(t, r, o.keys, evidence.ReadReceipt)
		wantStrict(t, r, evidence.ReadReceipt, func(r *evidence.Receipt) { r.Epsilon = eps(t, "0.5") })
	})
	t.Run("statement", func(t *testing.T) {
		_, st := fullStatement(t)
		wantStrict(t, st, evidence.ReadStatement, func(s *evidence.Statement) { s.Released[0].Epsilon = eps(t, "0.5") })
		o := newIssuer(t, 1)
		sellers(t, o.Ledger, "2", "5", "ann")
		sell(t, o.Ledger, purchase(t, "sale", "acme", "0.5", "ann"))
		must(t, o.Withdraw(t.Context(), api.ObjectRequest{Key: "out", Object: "ann"}))
		wantEveryByteChecked(t, statementOf(t, o.Ledger, "ann's", "ann"), o.keys, evidence.ReadStatement)
	})
}

// wantStrict makes the checks that apply to any document. Half gives a copy of it a level of ε=0.5,
// which can be spelled in several ways.
func wantStrict[D document](t *testing.T, d D, read func([]byte) (D, error), half func(*D)) {
	t.Helper()
	wantOtherKeysRefused(t, d)
	wantStrictInAnyZone(t, d, read)
	other := copyOf(t, d)
	half(&other)
	wantStrictReader(t, other, read)
}

// A key vouches for one log: checkpoints of other logs do not fit, even those by the same key.
func TestReceiptVerify_OtherCheckpoint_IsAFault(t *testing.T) {
	o, r := receiptWithErased(t)
	for name, test := range map[string]struct {
		change func(*merkle.Checkpoint)
		words  string
	}{
		"other root":   {func(c *merkle.Checkpoint) { c.Root[0]++ }, "do not give the root"},
		"other size":   {func(c *merkle.Checkpoint) { c.Size *= 2 }, "proof"},
		"smaller size": {func(c *merkle.Checkpoint) { c.Size = 3 }, "has no leaf with index"},
		"size 0":       {func(c *merkle.Checkpoint) { c.Size = 0 }, "has 0 events"},
	} {
		other := copyOf(t, r)
		other.Evidence.Checkpoint = signChanged(t, o, test.change)
		wantFault(t, name, other, o.keys, test.words)
	}
	elsewhere := newIssuer(t, 1) // the same name, key and id
	sellers(t, elsewhere.Ledger, "2", "5", "ann", "bob", "cid")
	for len(events(t, elsewhere.Ledger)) < len(events(t, o.Ledger)) {
		define(t, elsewhere.Ledger, api.Question{Name: fmt.Sprint(stats(t, elsewhere.Ledger).Events), Values: vote().Values, Encoding: "direct"})
	}
	other := copyOf(t, r)
	other.Evidence.Checkpoint = string(checkpointOf(t, elsewhere.Ledger))
	wantFault(t, "another log", other, o.keys, "do not give the root")

	signer, verifier, _ := logKey(t, "example.com/else", 1)
	head := check.Value(o.Head(t.Context(), 0))(t)
	signed, err := merkle.Checkpoint{Origin: "example.com/else", Size: head.Events, Root: head.Root}.Sign(signer)
	must(t, err)
	other.Evidence.Checkpoint = string(signed)
	wantFault(t, "another name", other, note.VerifierList(verifier), "the checkpoint is of the log")
}

func TestReceiptVerify_Spliced_IsAFault(t *testing.T) {
	o := issuerWithSales(t)
	one, two := receiptOf(t, o.Ledger, 4), receiptOf(t, o.Ledger, 1)
	check.Need(t, one.Objects == two.Objects, "the sales should be of one size")
	for name, test := range map[string]struct {
		change func(*evidence.Receipt)
		words  string
	}{
		"responses of another sale": {func(r *evidence.Receipt) { r.Responses = two.Responses }, "is expected here"},
		"one of another sale":       {func(r *evidence.Receipt) { r.Responses[1] = two.Responses[1] }, "no. 2, event"},
		"evidence of another sale":  {func(r *evidence.Receipt) { r.Evidence = two.Evidence }, "the sale"},
		"head of another sale": {func(r *evidence.Receipt) {
			responses := r.Responses
			*r = two
			r.Responses = responses
		}, "is expected here"},
		"swapped":               {func(r *evidence.Receipt) { r.Responses[0], r.Responses[1] = r.Responses[1], r.Responses[0] }, "the names are in order"},
		"dropped":               {func(r *evidence.Receipt) { r.Responses = r.Responses[:2] }, "the receipt has 2 responses, the sale 3"},
		"dropped in the middle": {func(r *evidence.Receipt) { r.Responses = slices.Delete(r.Responses, 1, 2) }, "is expected here"},
		"dropped and counted so": {func(r *evidence.Receipt) {
			r.Price -= r.Responses[2].Price
			r.Responses, r.Objects = r.Responses[:2], 2
		}, "the sale (its number"},
		"none":         {func(r *evidence.Receipt) { r.Responses = nil }, "the receipt has 0 responses"},
		"none of none": {func(r *evidence.Receipt) { r.Responses, r.Objects = nil, 0 }, "the receipt has 0 responses"},
		"twice":        {func(r *evidence.Receipt) { r.Responses = append(r.Responses, r.Responses[2]) }, "each once"},
		"one more": {func(r *evidence.Receipt) {
			more := r.Responses[2]
			more.Event, more.Object = more.Event+1, "dot"
			r.Responses = append(r.Responses, more)
		}, "no. 4"},
		"another buyer": {func(r *evidence.Receipt) {
			r.Buyer, r.Evidence.Buyer = two.Buyer, two.Evidence.Buyer
		}, "the sale"},
		"names swapped": {func(r *evidence.Receipt) {
			r.Responses[0].Object, r.Responses[1].Object = r.Responses[1].Object, r.Responses[0].Object
		}, "no. 1"},
		"prices swapped":                    {func(r *evidence.Receipt) { r.Responses[0].Price++; r.Responses[2].Price-- }, "no. 3"},
		"dearer":                            {func(r *evidence.Receipt) { r.Responses[0].Price += 5; r.Price += 5 }, "no. 1"},
		"negative":                          {func(r *evidence.Receipt) { r.Responses[0].Price = -5 }, "the price is -5"},
		"overflowing":                       {func(r *evidence.Receipt) { r.Responses[0].Price, r.Responses[1].Price = math.MaxInt64, math.MaxInt64 }, "do not add up"},
		"erased":                            {func(r *evidence.Receipt) { erase(&r.Responses[1], nil, nil) }, "commitment or leaf"},
		"erased and whole":                  {func(r *evidence.Receipt) { r.Responses[1].Erased = true }, "nothing else"},
		"erased with a salt":                {func(r *evidence.Receipt) { erase(&r.Responses[1], says.Hex{1}, nil) }, "nothing else"},
		"whole with a commitment":           {func(r *evidence.Receipt) { r.Responses[1].Commitment = make(says.Hex, 32) }, "a response that is shown has a commitment"},
		"another spelling of the id":        {func(r *evidence.Receipt) { r.Ledger = strings.ToUpper(r.Ledger) }, "not a UUID in its standard form"},
		"another spelling of the signature": {func(r *evidence.Receipt) { r.Evidence.Checkpoint = respellSignature(t, r.Evidence.Checkpoint) }, "not canonical base64"},
		"a sale that ends later":            {func(r *evidence.Receipt) { r.Refused += 1000 }, "the sale ends with event"},
		"question defined later":            {func(r *evidence.Receipt) { r.Evidence.Question.Time = r.Time.Add(1) }, "does not come before the sale"},
		"question after the sale":           {func(r *evidence.Receipt) { r.Evidence.Question.Event = r.Evidence.Sale.Event + 1 }, "does not come before the sale"},
		"buyer before the ledger":           {func(r *evidence.Receipt) { r.Evidence.Buyer.Time = r.Created.Add(-1) }, "does not come before the sale"},
		"more upgrades than objects":        {func(r *evidence.Receipt) { r.Upgrades = 4 }, "the sale counts 4 upgrades"},
		"hash dropped":                      {func(r *evidence.Receipt) { r.Evidence.Proof = r.Evidence.Proof[1:] }, "too short"},
		"hash added":                        {func(r *evidence.Receipt) { r.Evidence.Proof = append(r.Evidence.Proof, tlog.Hash{}) }, "too long"},
		"time far away":                     {func(r *evidence.Receipt) { r.Time = r.Time.AddDate(0, 0, 0).Add(1<<63 - 1).Add(1<<63 - 1).Add(2) }, "not a time that a log can have"},
		"other methods": {func(r *evidence.Receipt) {
			r.Responses[0].Withheld, r.Responses[2].Withheld = r.Responses[2].Withheld, r.Responses[0].Withheld
		}, "no. 1"},
		"other tally":    {func(r *evidence.Receipt) { r.Evidence.Withheld = r.Responses[0].Withheld }, "what is withheld"},
		"short methods":  {func(r *evidence.Receipt) { r.Responses[0].Withheld = r.Responses[0].Withheld[1:] }, "is withheld has 31 bytes"},
		"no tally":       {func(r *evidence.Receipt) { r.Evidence.Withheld = nil }, "is withheld has 0 bytes"},
		"erased methods": {func(r *evidence.Receipt) { erase(&r.Responses[1], nil, r.Responses[1].Withheld) }, "nothing else"},
	} {
		r := copyOf(t, one)
		test.change(&r)
		wantFault(t, name, r, o.keys, test.words)
		wantFault(t, name, r, nil, test.words)
	}
}

// Verify accepts any receipt that a program has built.
func TestReceiptVerify_Nonsense_IsAFaultWithoutPanic(t *testing.T) {
	o, r := receiptWithErased(t)
	wantFault(t, "nothing", evidence.Receipt{}, nil, "format")
	huge := copyOf(t, r)
	huge.Sale, huge.Objects, huge.Refused, huge.Price = math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MinInt64
	huge.Upgrades = math.MaxUint64
	huge.Created, huge.Time = time.Time{}, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	huge.Evidence.Sale.Event, huge.Evidence.Question.Number = math.MaxUint64, math.MaxUint32
	for i := range huge.Responses {
		huge.Responses[i].Event, huge.Responses[i].Price, huge.Responses[i].Salt = math.MaxUint64, math.MaxInt64, nil
	}
	wantFault(t, "large numbers", huge, o.keys, "not a time that a log can have")
	wantFault(t, "nothing but a checkpoint", evidence.Receipt{Evidence: evidence.Evidence{Checkpoint: r.Evidence.Checkpoint}}, o.keys, "the ledger's is")
}

func TestReceipt_ObjectForgotten_VerifiesBeforeAndAfter(t *testing.T) {
	o := issuerWithSales(t)
	before := text(t, receiptOf(t, o.Ledger, 4))
	must(t, o.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "bob"}))
	o.advanceClock()
	early := check.Value(evidence.ReadReceipt(before))(t)
	wantSound(t, "taken before", early, o.keys)
	late := receiptOf(t, o.Ledger, 4)
	wantSound(t, "taken after", late, o.keys)
	if early.Responses[1].Object != "bob" || !late.Responses[1].Erased || late.Responses[1].Price != early.Responses[1].Price || late.Responses[1].Leaf != early.Responses[1].Leaf {
		t.Errorf("%+v became %+v", early.Responses[1], late.Responses[1])
	}
	for _, gone := range []string{"bob", hex.EncodeToString(early.Responses[1].Salt)} {
		check.That(t, !bytes.Contains(text(t, late), []byte(gone)), "%q is in a receipt made after", gone)
	}
	must(t, o.Forget(t.Context(), api.ObjectRequest{Key: "forget ann", Object: "ann"}))
	must(t, o.Forget(t.Context(), api.ObjectRequest{Key: "forget cid", Object: "cid"}))
	wantSound(t, "with all objects forgotten", receiptOf(t, o.Ledger, 4), o.keys)
	for number := uint64(1); number <= 5; number++ {
		wantSound(t, fmt.Sprint("sale ", number), receiptOf(t, o.Ledger, number), o.keys)
	}
}

// A receipt is the same whenever it is made, so that it says nothing of events after its sale.
func TestReceipt_MadeLater_IsTheSame(t *testing.T) {
	o := issuerWithSales(t)
	early := receiptOf(t, o.Ledger, 2)
	made := check.Value(o.Sale(t.Context(), 2))(t)
	if head := early.Verify(o.keys).Head; head.Events != made.Last {
		t.Errorf("the receipt of a sale that ends with event %d is of %d events", made.Last, head.Events)
	}
	for i := range 9 {
		define(t, o.Ledger, api.Question{Name: fmt.Sprint("more ", i), Values: vote().Values, Encoding: "direct"})
		late := receiptOf(t, o.Ledger, 2)
		check.That(t, reflect.DeepEqual(late, early), "%+v\nbecame\n%+v", early, late)
	}
	third := receiptOf(t, o.Ledger, 3)
	wantExtended(t, o, early.Evidence.Checkpoint, third.Evidence.Checkpoint)
	mixed := copyOf(t, early)
	mixed.Evidence.Checkpoint = third.Evidence.Checkpoint
	wantFault(t, "a checkpoint without its proof", mixed, o.keys, "the")
}

// erase turns a response into an erased one, except for a salt and what is withheld of it.
func erase(r *evidence.SoldResponse, salt, withheld says.Hex) {
	*r = evidence.SoldResponse{Price: r.Price, Event: r.Event, Leaf: r.Leaf, Erased: true, Commitment: make(says.Hex, 32), Salt: salt, Withheld: withheld}
}

// Invariant 6: nothing in a receipt depends on true values except the responses, and it names no
// requests.
func TestReceipt_TrueValuesAndKeys_AreNotInIt(t *testing.T) {
	o := newIssuer(t, 1)
	o.engine.Chances.Values = uniformSampler(5)
	sellers(t, o.Ledger, "2", "5", "ann", "bob")
	r := purchase(t, "SECRET-KEY", "acme", "0.5")
	r.Truth = truthsOf(map[string]string{"ann": "no", "bob": "blank"})
	sell(t, o.Ledger, r)
	got := receiptOf(t, o.Ledger, 1)
	wantSound(t, "the receipt", got, o.keys)
	data := string(text(t, got))
	for _, ev := range logOf(t, pairs(t, o.store)) {
		if c, ok := ev.Change.(*event.TruthBound); ok && (strings.Contains(data, hex.EncodeToString(c.Tag[:])) || strings.Contains(data, hex.EncodeToString(ev.Salt[:]))) {
			t.Error("the truth tag of a chain is in a receipt")
		}
	}
	for _, secret := range []string{"SECRET", "previous", "bound", "truth", "define vote", "enrol"} {
		check.That(t, !strings.Contains(data, secret), "%q is in a receipt", secret)
	}
	// With the same responses, other truths make the same receipt.
	other := newIssuer(t, 1)
	other.engine.Chances.Values = uniformSampler(5)
	sellers(t, other.Ledger, "2", "5", "ann", "bob")
	r.Truth = truthsOf(map[string]string{"ann": "yes", "bob": "yes"})
	sell(t, other.Ledger, r)
	same := receiptOf(t, other.Ledger, 1)
	check.That(t, reflect.DeepEqual(got.Responses, same.Responses) && got.Price == same.Price,
		"%+v\nbecame\n%+v", got, same)
}

// Names may have characters that JSON spells in more than one way.
func TestReceipt_NamesWithSeveralJSONSpellings_Verifies(t *testing.T) {
	o := newIssuer(t, 1)
	odd := []string{`"`, "<b>&amp;", "\\u0041", "é", strings.Repeat("ü", 128), "😀"}
	q := api.Question{Name: "a<b", Values: []string{"&\u00a7", "<", "\\"}}
	define(t, o.Ledger, q)
	enrollUnder(t, o.Ledger, q.Name, market(t, "2"), "5", odd...)
	s, err := o.Sell(t.Context(), api.SellRequest{Key: "k", Order: api.Order{Buyer: "\\<'&\">", Question: q.Name, Epsilon: eps(t, "0.5"), All: true}, Truth: sameTruth("<")})
	must(t, err)
	r := check.Value(evidence.ReadReceipt(text(t, receiptOf(t, o.Ledger, s.Number))))(t)
	wantSound(t, "odd names", r, o.keys)
	check.That(t, r.Objects == uint64(len(odd)) && r.Buyer == "\\<'&\">", "%+v", r)
}

// Objects are forgotten while a receipt of several snapshots is made.
func TestReceipt_ConcurrentForgetting_Verifies(t *testing.T) {
	o := newIssuer(t, 1)
	names := crowd(2*scanSize + 100)
	sellers(t, o.Ledger, "2", "5", names...)
	sell(t, o.Ledger, purchase(t, "order", "acme", "0.5"))
	var wait sync.WaitGroup
	for from := range 3 {
		wait.Go(func() {
			for i := from; i < len(names); i += 997 {
				check.OK(t, o.Forget(context.Background(), api.ObjectRequest{Key: "forget " + names[i], Object: names[i]}))
			}
		})
	}
	for range 3 {
		wantSound(t, "a receipt", receiptOf(t, o.Ledger, 1), o.keys)
	}
	wait.Wait()
	last := receiptOf(t, o.Ledger, 1)
	wantSound(t, "the last receipt", last, o.keys)
	check.That(t, slices.ContainsFunc(last.Responses, func(one evidence.SoldResponse) bool { return one.Erased }), "no response is erased")
}

// goldenKey is the key that signed the golden documents, which must verify for ever.
const goldenKey = "example.com/office+9fdd85bd+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c"

func goldenKeys(t testing.TB) note.Verifiers {
	t.Helper()
	v := check.Value(note.NewVerifier(goldenKey))(t)
	return note.VerifierList(v)
}

func TestGoldenReceipt_MadeAgain_IsTheSameAndVerifies(t *testing.T) {
	_, r := receiptWithErased(t)
	golden(t, "receipt-v4.json", string(text(t, r)))
	data := check.Value(os.ReadFile(filepath.Join("testdata", "golden", "receipt-v4.json")))(t)
	kept := check.Value(evidence.ReadReceipt(data))(t)
	wantSound(t, "the golden receipt", kept, goldenKeys(t))
}

// BenchmarkReceipt makes and verifies the receipt of a large sale.
func BenchmarkReceipt(b *testing.B) {
	usualGarbage(b)
	const objects = 100_000
	signer, verifier, public := logKey(b, issuerName, 1)
	path := filepath.Join(b.TempDir(), "ledger.db")
	must(b, Create(b.Context(), path, CreateOptions{Currency: "USD", LogKey: public}))
	l := open(b, path, Options{Signer: signer})
	define(b, l, vote())
	enrollUnder(b, l, "vote", market(b, "2"), "5", crowd(objects)...)
	sell(b, l, purchase(b, "order", "acme", "0.5"))
	r := receiptOf(b, l, 1)
	data := text(b, r)
	for name, do := range map[string]func(){
		"make":   func() { receiptOf(b, l, 1) },
		"write":  func() { text(b, r) },
		"read":   func() { must(b, check.Err(evidence.ReadReceipt(data))) },
		"verify": func() { check.Need(b, r.Verify(note.VerifierList(verifier)).OK(), "it is wrong") },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				do()
			}
			b.ReportMetric(float64(len(data))/objects, "bytes/response")
		})
	}
}
