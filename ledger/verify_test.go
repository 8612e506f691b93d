package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/audit"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Invariants 9 and 10: Verify finds every record that differs from the log, and, with a checkpoint,
// a log that differs from the earlier one.

// findings verifies a ledger and returns what was found.
func findings(t testing.TB, l *Ledger, r api.VerifyRequest) []api.Finding {
	t.Helper()
	found, _ := verified(t, l, r, audit.Usual())
	return found
}

func verified(t testing.TB, l *Ledger, r api.VerifyRequest, at audit.Pace) ([]api.Finding, api.Verification) {
	t.Helper()
	var found []api.Finding
	r.Report = func(p api.Finding) { found = append(found, p) }
	done := check.Value(l.verify(t.Context(), r, at))(t)
	check.That(t, done.Problems == uint64(len(found)),
		"%d problems were reported, %d counted", len(found), done.Problems)
	return found, done
}

// wantClean fails if there is any problem.
func wantClean(t testing.TB, l *Ledger, r api.VerifyRequest) {
	t.Helper()
	for _, p := range findings(t, l, r) {
		t.Errorf("found %+v", p)
	}
}

// slow is a pace at which even a small log takes many steps.
func slow() audit.Pace {
	return audit.Pace{Memory: 4 << 10, Events: 7, Bytes: 1 << 20, Records: 5, Batch: 3, Problems: 2, Rest: func() {}}
}

// rich returns a ledger in memory with everything in it: see writeGoldenLedger.
func rich(t *testing.T) *kv.Memory {
	t.Helper()
	s := &kv.Memory{}
	writeGoldenLedger(t, s)
	return s
}

// goldenSigner returns the signer and the verifier of the log that writeGoldenLedger writes.
func goldenSigner(t testing.TB) (note.Signer, note.Verifiers) {
	t.Helper()
	signer, verifier, _ := logKey(t, "example.com/golden", 0)
	return signer, note.VerifierList(verifier)
}

func TestVerify_EveryKindOfEvent_FindsNothing(t *testing.T) {
	signer, keys := goldenSigner(t)
	l := openMemory(t, rich(t), Options{Signer: signer})
	head := check.Value(l.Head(t.Context(), 0))(t)
	r := api.VerifyRequest{Checkpoints: [][]byte{checkpointOf(t, l)}, Verifiers: keys}
	for size := uint64(1); size <= head.Events; size++ {
		at := check.Value(l.Head(t.Context(), size))(t)
		signed := check.Value(l.documents.Sign(at))(t)
		r.Checkpoints = append(r.Checkpoints, signed)
	}
	for name, at := range map[string]audit.Pace{"at once": audit.Usual(), "step by step": slow()} {
		found, done := verified(t, l, r, at)
		for _, p := range found {
			t.Errorf("%s: %+v", name, p)
		}
		check.That(t, done.Head == head && done.Objects == stats(t, l).Objects,
			"%s: verified %+v, want %+v", name, done, head)
	}
}

// An object that is forgotten while an audit goes through a sweep causes no finding, at any
// position of the audit.
func TestVerify_ForgetDuringAuditOfSweep_FindsNothing(t *testing.T) {
	days := check.Value(policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.5")}))(t)
	names := []string{"ann", "bob", "cid", "dan"}
	for _, name := range names {
		for at, last := uint64(1), uint64(1); at <= last; at++ {
			s := &kv.Memory{}
			begin(t, s)
			l := openMemory(t, s, Options{Now: epoch})
			define(t, l, vote())
			enrollUnder(t, l, "vote", days, "5", names...)
			must(t, check.Err(l.Advance(t.Context(), api.AdvanceRequest{Key: "sweeps", Truth: sameTruth("yes")})))
			last = stats(t, l).Events
			forgotten := false
			pace := slow()
			pace.Events, pace.Batch = 1, 1
			found, _ := verified(t, l, api.VerifyRequest{Progress: func(done, _ uint64) {
				if done >= at && !forgotten {
					forgotten = true
					forget(t, l, name)
				}
			}}, pace)
			for _, p := range found {
				t.Errorf("%s forgotten after event %d: %+v", name, at, p)
			}
			check.That(t, forgotten, "no object was forgotten after event %d", at)
		}
	}
}

// A log can be verified by any process that can open the file, which stays as it is.
func TestVerify_ReadOnly_WritesNothing(t *testing.T) {
	path := votersFile(t, "5", "ann", "bob")
	l := open(t, path, Options{})
	raise(t, l, raiseOf(t, "1", "0.5"))
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "2", Object: "ann"}))
	wantClean(t, l, api.VerifyRequest{})
	closed(t, l)
	before := check.Value(os.ReadFile(path))(t)
	for range 2 {
		l := open(t, path, Options{ReadOnly: true})
		wantClean(t, l, api.VerifyRequest{})
		closed(t, l)
	}
	after := check.Value(os.ReadFile(path))(t)
	check.That(t, bytes.Equal(before, after), "the file has changed")
}

func TestVerify_Progress_ReachesTheTotal(t *testing.T) {
	l := openMemory(t, rich(t), Options{})
	events := stats(t, l).Events
	var seen []uint64
	must(t, check.Err(l.verify(t.Context(), api.VerifyRequest{Progress: func(done, total uint64) {
		check.That(t, total == events, "%d events of %d, want of %d", done, total, events)
		seen = append(seen, done)
	}}, slow())))
	check.That(t, slices.IsSorted(seen) && len(seen) >= 10 && seen[len(seen)-1] == events,
		"progress: %d, want up to %d", seen, events)
}

func TestVerify_BadCheckpointOrCanceled_IsAnError(t *testing.T) {
	signer, keys := goldenSigner(t)
	stranger, _, _ := logKey(t, "example.com/golden", 9)
	s := rich(t)
	l := openMemory(t, s, Options{Signer: signer})
	checkpoint := checkpointOf(t, l)
	foreign := checkpointOf(t, openMemory(t, s, Options{Signer: stranger}))
	for name, r := range map[string]api.VerifyRequest{
		"no key":      {Checkpoints: [][]byte{checkpoint}},
		"another key": {Checkpoints: [][]byte{checkpoint, foreign}, Verifiers: keys},
		"no note":     {Checkpoints: [][]byte{[]byte("trust me")}, Verifiers: keys},
	} {
		_, err := l.Verify(t.Context(), r)
		check.That(t, errors.Is(err, api.ErrCheckpoint), "%s: %v", name, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := l.verify(ctx, api.VerifyRequest{Progress: func(uint64, uint64) { cancel() }}, slow())
	wantErr(t, err, context.Canceled)
	must(t, l.Close())
	wantErr(t, check.Err(l.Verify(t.Context(), api.VerifyRequest{})), api.ErrClosed)
}

// Tampering: past the log, with valid checksums.

// alter changes the payload of a record.
func alter(t testing.TB, s kv.Store, bucket string, key []byte, change func(payload []byte) []byte) {
	t.Helper()
	var payload []byte
	must(t, s.View(func(r kv.Reader) error {
		value, err := r.Get(bucket, key)
		if err == nil {
			payload, err = wire.Unseal(bucket, key, value)
		}
		payload = slices.Clone(payload)
		return err
	}))
	putRecord(t, s, bucket, key, change(payload))
}

// edited is alter for a record that can be decoded.
func edited[T interface{ Encode() []byte }](t testing.TB, decode func([]byte) (T, error), change func(*T)) func([]byte) []byte {
	return func(payload []byte) []byte {
		record := check.Value(decode(payload))(t)
		change(&record)
		return record.Encode()
	}
}

func remove(t testing.TB, s kv.Store, bucket string, key []byte) {
	t.Helper()
	must(t, s.Update(func(w kv.Writer) error { return w.Delete(bucket, key) }))
}

// putRaw writes a value without a checksum of its own.
func putRaw(t testing.TB, s kv.Store, bucket string, key, value []byte) {
	t.Helper()
	must(t, s.Update(func(w kv.Writer) error { return w.Put(bucket, key, value) }))
}

// firstKey returns the first key of a bucket from one on.
func firstKey(t testing.TB, s kv.Store, bucket string, from []byte) (key []byte) {
	t.Helper()
	must(t, s.View(func(r kv.Reader) error {
		return r.Scan(bucket, from, func(k, _ []byte) bool { key = slices.Clone(k); return false })
	}))
	check.Need(t, key != nil, "nothing in %s from %x on", bucket, from)
	return key
}

// tampering changes a ledger and returns the findings that are wanted then.
type tampering func(t testing.TB, s kv.Store) []api.Finding

// changed alters a field of a record. The problem that is wanted says what it was and what it is.
func changed[T interface{ Encode() []byte }](bucket string, key []byte, decode func([]byte) (T, error), about func(T) api.Finding, name string, value func(*T) any, change func(*T)) tampering {
	return func(t testing.TB, s kv.Store) []api.Finding {
		var want api.Finding
		alter(t, s, bucket, key, func(payload []byte) []byte {
			record := check.Value(decode(payload))(t)
			want = about(record)
			before := fmt.Sprint(value(&record))
			change(&record)
			is := "is"
			if reflect.TypeOf(value(&record)).Kind() == reflect.Slice {
				is = "are"
			}
			want.Text += fmt.Sprintf(": %s %s %v, the events say %v", name, is, value(&record), before)
			return record.Encode()
		})
		return []api.Finding{want}
	}
}

// then is a change after which these findings are wanted.
func then(change func(t testing.TB, s kv.Store), want ...api.Finding) tampering {
	return func(t testing.TB, s kv.Store) []api.Finding { change(t, s); return want }
}

func objectTampering(name string, value func(*state.Object) any, change func(*state.Object)) tampering {
	return changed(state.BucketObjects, state.ObjectKey("eve"), state.DecodeObject, func(o state.Object) api.Finding {
		return api.Finding{Kind: "object", Event: o.Latest, Object: "eve", Text: `object "eve"`}
	}, name, value, change)
}

func chainTampering(name string, value func(*state.Chain) any, change func(*state.Chain)) tampering {
	return changed(state.BucketChains, state.ChainKey(1, "eve"), state.DecodeChain, aboutEve, name, value, change)
}

func aboutEve(c state.Chain) api.Finding {
	return api.Finding{Kind: "chain", Event: c.Enrolled, Object: "eve", Question: "vote", Text: `chain of "eve" in "vote"`}
}

func sumTampering(name string, value func(*state.Counters) any, change func(*state.Counters)) tampering {
	return changed(state.BucketMeta, []byte(state.KeyCounters), state.DecodeCounters, func(state.Counters) api.Finding {
		return api.Finding{Kind: "counters", Text: "the sums over the log"}
	}, name, value, change)
}

// soldAfterReserving is a sale of the rich ledger that was reserved before.
const soldAfterReserving = 6

func saleTampering(name string, value func(*state.Sale) any, change func(*state.Sale)) tampering {
	return changed(state.BucketSales, state.EventKey(soldAfterReserving), state.DecodeSale, func(r state.Sale) api.Finding {
		return api.Finding{Kind: "sale", Event: r.Event, Text: "sale 6"}
	}, name, value, change)
}

func rfc(at time.Time) string { return at.Format(time.RFC3339Nano) }

// tamperings change one record each.
func tamperings(t *testing.T) map[string]tampering {
	e := func(text string) privacy.Epsilon { return eps(t, text) }
	all := map[string]tampering{
		"object's cap":        objectTampering("the cap", func(o *state.Object) any { return o.Cap }, func(o *state.Object) { o.Cap = e("9") }),
		"object's spent":      objectTampering("spent", func(o *state.Object) any { return o.Spent }, func(o *state.Object) { o.Spent = e("0.4") }),
		"object's chains":     objectTampering("the number of chains", func(o *state.Object) any { return o.Chains }, func(o *state.Object) { o.Chains++ }),
		"object's leaving":    objectTampering("the event of the withdrawal", func(o *state.Object) any { return o.Withdrawn }, func(o *state.Object) { o.Withdrawn = 0 }),
		"object's forgetting": objectTampering("the event by which it was forgotten", func(o *state.Object) any { return o.Forgotten }, func(o *state.Object) { o.Forgotten = 1 }),
		"object's earnings":   objectTampering("earned", func(o *state.Object) any { return o.Earned }, func(o *state.Object) { o.Earned++ }),
		"object's last":       objectTampering("the last event", func(o *state.Object) any { return o.Latest }, func(o *state.Object) { o.Latest-- }),
		"object's events":     objectTampering("the number of events", func(o *state.Object) any { return o.Events }, func(o *state.Object) { o.Events-- }),
		"object's holds":      objectTampering("the reservations", func(o *state.Object) any { return o.Held }, func(o *state.Object) { o.Held = []uint64{9} }),

		"chain's enrolment":       chainTampering("the event of the enrolment", func(c *state.Chain) any { return c.Enrolled }, func(c *state.Chain) { c.Enrolled-- }),
		"chain's policy":          chainTampering("the policy", func(c *state.Chain) any { return c.Policy }, func(c *state.Chain) { c.Policy = 0 }),
		"chain's count of buyers": chainTampering("the number of buyers", func(c *state.Chain) any { return c.Buyers }, func(c *state.Chain) { c.Buyers = 1 }),
		"chain's truth":           chainTampering("the tag of the truth", func(c *state.Chain) any { return tagText(c.Bound) }, func(c *state.Chain) { c.Bound = nil }),
		"chain's answers":         chainTampering("charged by answers", func(c *state.Chain) any { return c.Answered }, func(c *state.Chain) { c.Answered = e("0.1") }),
		"chain's event":           chainTampering("the event at ε=1", func(c *state.Chain) any { return c.Levels[3].Event }, func(c *state.Chain) { c.Levels[3].Event = 5 }),
		"chain's buyers":          chainTampering("the buyers at ε=0.5", func(c *state.Chain) any { return c.Levels[1].Holders }, func(c *state.Chain) { c.Levels[1].Holders = nil }),
		"what a buyer paid":       chainTampering("the buyers at ε=0.5", func(c *state.Chain) any { return slices.Clone(c.Levels[1].Holders) }, func(c *state.Chain) { c.Levels[1].Holders[0].Paid-- }),
		"chain's response": chainTampering("the response at ε=0.25", func(c *state.Chain) any { return fmt.Sprintf("%q", vote().Values[c.Levels[0].Response.Index]) },
			func(c *state.Chain) { c.Levels[0].Response.Index = (c.Levels[0].Response.Index + 1) % 3 }),

		"time":             sumTampering("the time of the last event", func(c *state.Counters) any { return rfc(c.Last) }, func(c *state.Counters) { c.Last = epoch() }),
		"questions":        sumTampering("the number of questions", func(c *state.Counters) any { return c.Questions }, func(c *state.Counters) { c.Questions++ }),
		"policies":         sumTampering("the number of policies", func(c *state.Counters) any { return c.Policies }, func(c *state.Counters) { c.Policies++ }),
		"objects":          sumTampering("the number of objects", func(c *state.Counters) any { return c.Objects }, func(c *state.Counters) { c.Objects++ }),
		"chains":           sumTampering("the number of chains", func(c *state.Counters) any { return c.Chains }, func(c *state.Counters) { c.Chains++ }),
		"buyers":           sumTampering("the number of buyers", func(c *state.Counters) any { return c.Buyers }, func(c *state.Counters) { c.Buyers++ }),
		"numbers of sales": sumTampering("the number of sales and reservations", func(c *state.Counters) any { return c.Sales }, func(c *state.Counters) { c.Sales++ }),
		"sales":            sumTampering("the number of executed sales", func(c *state.Counters) any { return c.Sold }, func(c *state.Counters) { c.Sold++ }),
		"revenue":          sumTampering("the revenue", func(c *state.Counters) any { return c.Revenue }, func(c *state.Counters) { c.Revenue-- }),
		"refusals":         sumTampering("the number of refusals that no request settles", func(c *state.Counters) any { return c.Refused }, func(c *state.Counters) { c.Refused++ }),
		"charges":          sumTampering("the number of objects charged for no answer", func(c *state.Counters) any { return c.Charges.Objects }, func(c *state.Counters) { c.Charges.Objects++ }),
		"charged ε":        sumTampering("the ε of these charges", func(c *state.Counters) any { return c.Charges.Epsilon }, func(c *state.Counters) { c.Charges.Epsilon = e("1") }),
		"question charged": sumTampering("the question of these charges", func(c *state.Counters) any { return c.Charges.Question }, func(c *state.Counters) { c.Charges.Question++ }),
		"erased events":    sumTampering("the number of erased events that belong to no forgotten object", func(c *state.Counters) any { return c.Erased.Events }, func(c *state.Counters) { c.Erased.Events++ }),
		"erased money":     sumTampering("the money in erased events that belongs to no forgotten object", func(c *state.Counters) any { return c.Erased.Earned }, func(c *state.Counters) { c.Erased.Earned = 5 }),
		"sale under way":   sumTampering("the sale that is not complete", func(c *state.Counters) any { return c.Open.Sale }, func(c *state.Counters) { c.Open.Sale = 3 }),

		"sale's status": saleTampering("it", func(r *state.Sale) any {
			return statusText(r.Status)
		}, func(r *state.Sale) { r.Status = state.SaleCancelled }),
		"sale's buyer":       saleTampering("the buyer", func(r *state.Sale) any { return r.Buyer }, func(r *state.Sale) { r.Buyer = 1 }),
		"sale's place":       saleTampering("its place among the orders of its buyer", func(r *state.Sale) any { return r.Ordinal }, func(r *state.Sale) { r.Ordinal++ }),
		"sale's question":    saleTampering("the question", func(r *state.Sale) any { return r.Question }, func(r *state.Sale) { r.Question = 2 }),
		"sale's ε":           saleTampering("ε", func(r *state.Sale) any { return r.Epsilon }, func(r *state.Sale) { r.Epsilon = e("2") }),
		"sale's objects":     saleTampering("the number of objects", func(r *state.Sale) any { return r.Objects }, func(r *state.Sale) { r.Objects++ }),
		"sale's price":       saleTampering("the price", func(r *state.Sale) any { return r.Price }, func(r *state.Sale) { r.Price++ }),
		"sale's refusals":    saleTampering("the number of refused objects", func(r *state.Sale) any { return r.Refused }, func(r *state.Sale) { r.Refused++ }),
		"sale's event":       saleTampering("the event", func(r *state.Sale) any { return r.Event }, func(r *state.Sale) { r.Event-- }),
		"sale's reservation": saleTampering("the event of the reservation", func(r *state.Sale) any { return r.Granted }, func(r *state.Sale) { r.Granted = 1 }),
		"sale's end":         saleTampering("the end of the reservation", func(r *state.Sale) any { return rfc(r.Expires) }, func(r *state.Sale) { r.Expires = epoch() }),
		"sale's promise":     saleTampering("the price reserved", func(r *state.Sale) any { return r.Promised }, func(r *state.Sale) { r.Promised++ }),
	}
	maps.Copy(all, moreTamperings(t))
	return all
}

func moreTamperings(t *testing.T) map[string]tampering {
	e := func(text string) privacy.Epsilon { return eps(t, text) }
	eve := api.Finding{Kind: "chain", Object: "eve", Question: "vote"}
	answersKey := func(t testing.TB, s kv.Store) []byte { return firstKey(t, s, state.BucketAnswers, nil) }
	return map[string]tampering{
		"chain's ε": then(func(t testing.TB, s kv.Store) {
			alter(t, s, state.BucketChains, state.ChainKey(1, "eve"), edited(t, state.DecodeChain, func(c *state.Chain) { c.Levels[3].Epsilon = e("0.9") }))
		}, with(eve, `chain of "eve" in "vote": something is stored at ε=0.9, but the events give nothing`), with(eve, `chain of "eve" in "vote": nothing is stored at ε=1, but the events give something`)),
		"fewer levels": then(func(t testing.TB, s kv.Store) {
			alter(t, s, state.BucketChains, state.ChainKey(1, "eve"), edited(t, state.DecodeChain, func(c *state.Chain) { c.Levels = c.Levels[:3] }))
		}, with(eve, `chain of "eve" in "vote": nothing is stored at ε=1, but the events give something`)),
		"question": then(func(t testing.TB, s kv.Store) {
			alter(t, s, state.BucketQuestions, state.NumberKey(1), func([]byte) []byte {
				e := &wire.Encoder{}
				(&event.QuestionDefined{Number: 1, Question: api.Question{Name: "vote", Values: []string{"yes", "nay", "blank"}, Encoding: "direct"}}).Fields(wire.Writing(e))
				return e.Buf
			})
		}, api.Finding{Kind: "question", Question: "vote", Text: "question 1: the values are [yes nay blank], the events say [yes no blank]"}),
		"name of a question": then(func(t testing.TB, s kv.Store) {
			alter(t, s, state.BucketQuestions, state.NameKey("vote"), func(p []byte) []byte { p[3] = 2; return p })
		}, api.Finding{Kind: "question", Question: "vote", Text: `the number of the question "vote": the number is 2, the events say 1`}),
		"policy": then(func(t testing.TB, s kv.Store) {
			alter(t, s, state.BucketPolicies, state.PolicyNumberKey(1), func([]byte) []byte { return []byte(policy.Fixed(e("9")).String()) })
		}, api.Finding{Kind: "policy", Text: `policy 1: it is "{\"kind\":\"fixed\",\"ceiling\":\"9\"}", the events say "{\"kind\":\"fixed\",\"ceiling\":\"0.000000001\"}"`}),
		"hash of a policy": then(func(t testing.TB, s kv.Store) {
			alter(t, s, state.BucketPolicies, state.PolicyJSONKey(wire.HashText(policy.Fixed(e("0.000000001")).String())), func(p []byte) []byte { p[3] = 3; return p })
		}, api.Finding{Kind: "policy", Text: fmt.Sprintf("the number of the policy with the hash %x: the number is 3, the events say 1", wire.HashText(policy.Fixed(e("0.000000001")).String()))}),
		"buyer": then(func(t testing.TB, s kv.Store) {
			alter(t, s, state.BucketBuyers, state.NumberKey(2), edited(t, state.DecodeBuyer, func(b *state.Buyer) { b.Name = "beta" }))
		}, api.Finding{Kind: "buyer", Text: "buyer 2: the name is beta, the events say zeta"}),
		"name of a buyer": then(func(t testing.TB, s kv.Store) {
			alter(t, s, state.BucketBuyers, state.NameKey("zeta"), func(p []byte) []byte { p[3] = 1; return p })
		}, api.Finding{Kind: "buyer", Text: `the number of the buyer "zeta": the number is 1, the events say 2`}),
		"buyer's sales":  changed(state.BucketBuyers, state.NumberKey(2), state.DecodeBuyer, aboutBuyer, "the number of sales", func(b *state.Buyer) any { return b.Sold }, func(b *state.Buyer) { b.Sold++ }),
		"buyer's orders": changed(state.BucketBuyers, state.NumberKey(2), state.DecodeBuyer, aboutBuyer, "the number of orders", func(b *state.Buyer) any { return b.Orders }, func(b *state.Buyer) { b.Orders++ }),
		"buyer's bill":   changed(state.BucketBuyers, state.NumberKey(2), state.DecodeBuyer, aboutBuyer, "paid", func(b *state.Buyer) any { return b.Paid }, func(b *state.Buyer) { b.Paid-- }),
		"answer": func(t testing.TB, s kv.Store) []api.Finding {
			return answersTampering(answersKey(t, s), "the score at ε=0.25", func(a *state.Answers) any { return (*a)[0].Score }, func(a *state.Answers) { (*a)[0].Score ^= 1 })(t, s)
		},
		"answer's panel": func(t testing.TB, s kv.Store) []api.Finding {
			return answersTampering(answersKey(t, s), "the number of objects at ε=0.25", func(a *state.Answers) any { return (*a)[0].Objects }, func(a *state.Answers) { (*a)[0].Objects++ })(t, s)
		},
		"answer's event": func(t testing.TB, s kv.Store) []api.Finding {
			return answersTampering(answersKey(t, s), "the event at ε=0.5", func(a *state.Answers) any { return (*a)[1].Event }, func(a *state.Answers) { (*a)[1].Event = 1 })(t, s)
		},
		"events of a request": requestTampering(func(r *state.Request) { r.Settled = []uint64{1} }),
		"tally":               tallyTampering("the number of chains with it", func(x *state.Tally) any { return x.Recorded }, func(x *state.Tally) { x.Recorded++ }),
		"current tally":       tallyTampering("the number of chains where it is the current one", func(x *state.Tally) any { return x.Current }, func(x *state.Tally) { x.Current++ }),
		"stranger":            strangerTampering("the last event", func(x *state.Stranger) any { return x.Latest }, func(x *state.Stranger) { x.Latest-- }),
		"stranger's sum":      strangerTampering("the number of events", func(x *state.Stranger) any { return x.Events }, func(x *state.Stranger) { x.Events++ }),
		"birthday":            aboutTampering("the time of creation", func(x *event.About) any { return rfc(x.At) }, func(x *event.About) { x.At = x.At.Add(1) }),
		"id":                  aboutTampering("the id", func(x *event.About) any { return fmt.Sprintf("%x", x.ID) }, func(x *event.About) { x.ID[0]++ }),
		"currency":            aboutTampering("the currency", func(x *event.About) any { return x.Currency }, func(x *event.About) { x.Currency = "USD" }),
		"log key":             aboutTampering("the log key", func(x *event.About) any { return x.LogKey }, func(x *event.About) { x.LogKey += "x" }),
		"format": then(func(t testing.TB, s kv.Store) {
			putRaw(t, s, state.BucketMeta, []byte(state.KeyFormat), append(formatRecord(), 0))
		},
			api.Finding{Kind: "ledger", Text: fmt.Sprintf("the format of the file: is %x00, and should be %x", formatRecord(), formatRecord())}),
		"membership": then(func(t testing.TB, s kv.Store) {
			alter(t, s, state.BucketObjects, state.MemberKey("ann", 2), func(p []byte) []byte { p[3] = 1; return p })
		}, api.Finding{Kind: "object", Object: "ann", Question: "Größe", Text: `object "ann" in question 2: the number is 1, the events say 2`}),
		"truth key": func(t testing.TB, s kv.Store) (want []api.Finding) {
			alter(t, s, state.BucketMeta, []byte(state.KeyTruthKey), func(p []byte) []byte {
				before := fmt.Sprintf("%q", p)
				p[0]++
				want = []api.Finding{{Kind: "ledger", Text: fmt.Sprintf("the check of the truth key: it is %q, the events say %s", p, before)}}
				return p
			})
			return want
		},
	}
}

// with returns a problem with this text. Its event is not compared.
func with(p api.Finding, text string) api.Finding { p.Text = text; return p }

func aboutBuyer(state.Buyer) api.Finding { return api.Finding{Kind: "buyer", Text: "buyer 2"} }

func answersTampering(key []byte, name string, value func(*state.Answers) any, change func(*state.Answers)) tampering {
	return changed(state.BucketAnswers, key, state.DecodeAnswers, func(a state.Answers) api.Finding {
		return api.Finding{Kind: "answers", Event: max(a[0].Event, a[1].Event), Question: "vote", Text: fmt.Sprintf(`answers to "majority:yes" about the panel %x`, key[4:8])}
	}, name, value, change)
}

func requestTampering(change func(*state.Request)) tampering {
	return changed(state.BucketRequests, []byte("paid"), state.DecodeRequest, func(r state.Request) api.Finding {
		return api.Finding{Kind: "request", Event: r.Settled[0], Text: `request "paid"`}
	}, "the events that settle it", func(r *state.Request) any { return r.Settled }, change)
}

func tallyTampering(name string, value func(*state.Tally) any, change func(*state.Tally)) tampering {
	half, _ := privacy.ParseEpsilon("0.5")
	return changed(state.BucketTallies, state.TallyKey{Question: 1, Epsilon: half, Value: 0}.Bytes(), state.DecodeTally, func(state.Tally) api.Finding {
		return api.Finding{Kind: "tally", Question: "vote", Text: `tally of "yes" at ε=0.5`}
	}, name, value, change)
}

func strangerTampering(name string, value func(*state.Stranger) any, change func(*state.Stranger)) tampering {
	return changed(state.BucketStrangers, []byte("a stranger 0"), state.DecodeStranger, func(x state.Stranger) api.Finding {
		return api.Finding{Kind: "stranger", Event: x.Latest, Object: "a stranger 0", Text: `stranger "a stranger 0"`}
	}, name, value, change)
}

func aboutTampering(name string, value func(*event.About) any, change func(*event.About)) tampering {
	return changed(state.BucketMeta, []byte(state.KeyAbout), event.DecodeAbout, func(event.About) api.Finding {
		return api.Finding{Kind: "ledger", Text: "what the ledger was created with"}
	}, name, value, change)
}

// brokenRecords returns changes after which a record is missing, is there without reason, or cannot
// be read.
func brokenRecords(t *testing.T) map[string]tampering {
	e := func(text string) privacy.Epsilon { return eps(t, text) }
	ann := api.Finding{Kind: "object", Object: "ann"}
	return map[string]tampering{
		"a checksum": then(func(t testing.TB, s kv.Store) { breakSum(t, s, state.BucketObjects, state.ObjectKey("ann")) }, with(ann, `object "ann": its checksum is wrong`)),
		"a value without its checksum": then(func(t testing.TB, s kv.Store) {
			alter(t, s, state.BucketObjects, state.ObjectKey("ann"), edited(t, state.DecodeObject, func(o *state.Object) { o.Earned = 3 }))
			breakSum(t, s, state.BucketObjects, state.ObjectKey("ann"))
		}, with(ann, `object "ann": its checksum is wrong`), with(ann, `object "ann": earned is 3, the events say 0`)),
		"a short value": then(func(t testing.TB, s kv.Store) { putRaw(t, s, state.BucketObjects, state.ObjectKey("ann"), []byte{1}) },
			with(ann, `object "ann": its checksum is wrong`), with(ann, `object "ann": it cannot be read: broken number`)),
		"a longer value": then(func(t testing.TB, s kv.Store) {
			alter(t, s, state.BucketObjects, state.ObjectKey("ann"), func(p []byte) []byte { return append(p, 0) })
		}, with(ann, `object "ann": it cannot be read: 1 bytes too many`)),
		"a missing object":     then(func(t testing.TB, s kv.Store) { remove(t, s, state.BucketObjects, state.ObjectKey("ann")) }, with(ann, `object "ann": the record is missing`)),
		"a missing chain":      then(func(t testing.TB, s kv.Store) { remove(t, s, state.BucketChains, state.ChainKey(1, "ann")) }, api.Finding{Kind: "chain", Object: "ann", Question: "vote", Text: `chain of "ann" in "vote": the record is missing`}),
		"a missing membership": then(func(t testing.TB, s kv.Store) { remove(t, s, state.BucketObjects, state.MemberKey("ann", 1)) }, api.Finding{Kind: "object", Object: "ann", Question: "vote", Text: `object "ann" in question 1: the record is missing`}),
		"a missing tombstone":  then(func(t testing.TB, s kv.Store) { remove(t, s, state.BucketObjects, state.ObjectKey("fay")) }, api.Finding{Kind: "object", Object: "fay", Text: `object "fay": the record is missing`}),
		"a missing request":    then(func(t testing.TB, s kv.Store) { remove(t, s, state.BucketRequests, []byte("paid")) }, api.Finding{Kind: "request", Text: `request "paid": the record is missing`}),
		"a missing last one":   then(func(t testing.TB, s kv.Store) { remove(t, s, state.BucketStrangers, []byte("zoë")) }, api.Finding{Kind: "stranger", Object: "zoë", Text: `stranger "zoë": the record is missing`}),
		"a missing order":      then(func(t testing.TB, s kv.Store) { remove(t, s, state.BucketOrders, state.OrderKey(1, 1)) }, api.Finding{Kind: "order", Text: `order 1 of buyer 1: the record is missing`}),
		"another order": then(func(t testing.TB, s kv.Store) {
			putRecord(t, s, state.BucketOrders, state.OrderKey(1, 1), state.EventKey(2))
		},
			api.Finding{Kind: "order", Text: `order 1 of buyer 1: its number is 2, the events say 1`}),
		"missing sums": then(func(t testing.TB, s kv.Store) { remove(t, s, state.BucketMeta, []byte(state.KeyCounters)) }, api.Finding{Kind: "counters", Text: "the sums over the log: the record is missing"}),
		"another object": then(func(t testing.TB, s kv.Store) {
			putRecord(t, s, state.BucketObjects, state.ObjectKey("zoe"), state.Object{Cap: e("9")}.Encode())
		}, api.Finding{Kind: "object", Object: "zoe", Text: `object "zoe": there is such a record, but no event creates it`}),
		"another chain": then(func(t testing.TB, s kv.Store) {
			putRecord(t, s, state.BucketChains, state.ChainKey(2, "bob"), state.Chain{}.Encode())
		},
			api.Finding{Kind: "chain", Object: "bob", Question: "Größe", Text: `chain of "bob" in "Größe": there is such a record, but no event creates it`}),
		"another tally": then(func(t testing.TB, s kv.Store) {
			putRecord(t, s, state.BucketTallies, state.TallyKey{Question: 1, Epsilon: e("7"), Value: 0}.Bytes(), state.Tally{Tallied: state.Tallied{Recorded: 1, Current: 1}}.Encode())
		}, api.Finding{Kind: "tally", Question: "vote", Text: `tally of "yes" at ε=7: there is such a record, but no event creates it`}),
		"another record in meta": then(func(t testing.TB, s kv.Store) { putRecord(t, s, state.BucketMeta, []byte("note"), []byte("hi")) }, api.Finding{Kind: "ledger", Text: `"note": there is such a record, but no event creates it`}),
		"a key that none is": then(func(t testing.TB, s kv.Store) {
			putRecord(t, s, state.BucketSales, []byte("sale"), state.Sale{Status: 1, Objects: 1}.Encode())
		}, api.Finding{Kind: "sale", Text: "key 73616c65: there is such a record, but no event creates it"}),
		"a record under another key": then(func(t testing.TB, s kv.Store) {
			must(t, s.Update(func(w kv.Writer) error {
				value, err := w.Get(state.BucketRequests, []byte("paid"))
				return errors.Join(err, w.Put(state.BucketRequests, []byte("unpaid"), slices.Clone(value)))
			}))
		}, api.Finding{Kind: "request", Text: `request "unpaid": there is such a record, but no event creates it`}, api.Finding{Kind: "request", Text: `request "unpaid": its checksum is wrong`}),
	}
}

// breakSum changes the checksum of a record.
func breakSum(t testing.TB, s kv.Store, bucket string, key []byte) {
	t.Helper()
	must(t, s.Update(func(w kv.Writer) error {
		value, err := w.Get(bucket, key)
		if err != nil {
			return err
		}
		value = slices.Clone(value)
		value[len(value)-1]++
		return w.Put(bucket, key, value)
	}))
}

// wantProblems compares the findings with those that are wanted, and their events where one is
// wanted.
func wantProblems(t testing.TB, found, want []api.Finding) {
	t.Helper()
	for i := range max(len(found), len(want)) {
		switch {
		case i >= len(found):
			t.Errorf("not found: %+v", want[i])
		case i >= len(want):
			t.Errorf("found %+v", found[i])
		default:
			if want[i].Event == 0 {
				found[i].Event = 0
			}
			check.That(t, found[i] == want[i], "found %+v\nwant  %+v", found[i], want[i])
		}
	}
}

func TestVerify_RecordAltered_NamesIt(t *testing.T) {
	original := pairs(t, rich(t))
	all := tamperings(t)
	maps.Copy(all, brokenRecords(t))
	for name, change := range all {
		t.Run(name, func(t *testing.T) {
			s := fill(t, original)
			l := openMemory(t, s, Options{})
			want := change(t, s)
			found := findings(t, l, api.VerifyRequest{})
			again, _ := verified(t, l, api.VerifyRequest{}, slow())
			check.That(t, slices.Equal(again, found), "step by step there is %+v", again)
			wantProblems(t, found, want)
		})
	}
	t.Logf("%d records altered", len(all))
}

// Not only the first alteration is found, but all of them.
func TestVerify_ManyRecordsAltered_FindsAll(t *testing.T) {
	s := rich(t)
	l := openMemory(t, s, Options{})
	var want []string
	all := tamperings(t)
	for _, name := range sortedKeys(all) {
		if name == "fewer levels" || name == "chain's ε" || name == "what a buyer paid" {
			continue // they take away what others alter
		}
		for _, p := range all[name](t, s) {
			want = append(want, p.Text)
		}
	}
	var found []string
	for _, p := range findings(t, l, api.VerifyRequest{}) {
		found = append(found, p.Text)
	}
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
}

func tagText(t *event.Tag) string {
	if t == nil {
		return "none"
	}
	return fmt.Sprintf("%x", t[:])
}

func statusText(s state.SaleStatus) string {
	return map[state.SaleStatus]string{state.SaleReserved: "reserved", state.SaleSold: "sold", state.SaleCancelled: "cancelled"}[s]
}
