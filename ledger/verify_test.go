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

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Invariants 9 and 10: Verify finds whatever is not as the log says, and, with a checkpoint, a log that is not
// as it was.

// findings verifies a ledger and returns what was found.
func findings(t testing.TB, l *Ledger, r VerifyRequest) []Problem {
	t.Helper()
	found, _ := verified(t, l, r, usualPace())
	return found
}

func verified(t testing.TB, l *Ledger, r VerifyRequest, at pace) ([]Problem, Verification) {
	t.Helper()
	var found []Problem
	r.Report = func(p Problem) { found = append(found, p) }
	done, err := l.verify(t.Context(), r, at)
	must(t, err)
	if done.Problems != uint64(len(found)) {
		t.Errorf("%d problems were reported, %d counted", len(found), done.Problems)
	}
	return found, done
}

// wantClean fails if there is any problem.
func wantClean(t testing.TB, l *Ledger, r VerifyRequest) {
	t.Helper()
	for _, p := range findings(t, l, r) {
		t.Errorf("found %+v", p)
	}
}

// slow is a pace at which even a small log takes many steps.
func slow() pace {
	return pace{memory: 4 << 10, events: 7, bytes: 1 << 20, records: 5, batch: 3, problems: 2}
}

// rich is a ledger in memory with everything in it: see tell.
func rich(t *testing.T) *kvtest.Memory {
	t.Helper()
	s := &kvtest.Memory{}
	tell(t, s)
	return s
}

// goldenSigner is the key of the log that tell writes.
func goldenSigner(t testing.TB) (note.Signer, note.Verifiers) {
	t.Helper()
	signer, verifier, _ := logKey(t, "example.com/golden", 0)
	return signer, note.VerifierList(verifier)
}

func TestARichLedgerVerifies(t *testing.T) {
	signer, keys := goldenSigner(t)
	l := openMemory(t, rich(t), Options{Signer: signer})
	head, err := l.Head(t.Context(), 0)
	must(t, err)
	r := VerifyRequest{Checkpoints: [][]byte{checkpointOf(t, l)}, Verifiers: keys}
	for size := uint64(1); size <= head.Events; size++ {
		at, err := l.Head(t.Context(), size)
		must(t, err)
		signed, err := l.sign(at)
		must(t, err)
		r.Checkpoints = append(r.Checkpoints, signed)
	}
	for name, at := range map[string]pace{"at once": usualPace(), "step by step": slow()} {
		found, done := verified(t, l, r, at)
		for _, p := range found {
			t.Errorf("%s: %+v", name, p)
		}
		if done.Head != head || done.Objects != stats(t, l).Objects {
			t.Errorf("%s: verified %+v, want %+v", name, done, head)
		}
	}
}

// A log is verified as it is, by whoever can open it, and stays as it is.
func TestVerifyWritesNothing(t *testing.T) {
	path := votersFile(t, "5", "ann", "bob")
	l := open(t, path, Options{})
	carryOut(t, l, order(t, "1", "0.5"))
	must(t, l.Forget(t.Context(), "2", "ann"))
	wantClean(t, l, VerifyRequest{})
	closed(t, l)
	before, err := os.ReadFile(path)
	must(t, err)
	for range 2 {
		l := open(t, path, Options{ReadOnly: true})
		wantClean(t, l, VerifyRequest{})
		closed(t, l)
	}
	after, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the file has changed")
	}
}

func TestVerifyTellsHowFarItIs(t *testing.T) {
	l := openMemory(t, rich(t), Options{})
	events := stats(t, l).Events
	var seen []uint64
	_, err := l.verify(t.Context(), VerifyRequest{Progress: func(done, total uint64) {
		if total != events {
			t.Errorf("%d events of %d, want of %d", done, total, events)
		}
		seen = append(seen, done)
	}}, slow())
	must(t, err)
	if !slices.IsSorted(seen) || len(seen) < 10 || seen[len(seen)-1] != events {
		t.Errorf("progress: %d, want up to %d", seen, events)
	}
}

func TestVerifyIsNotCarriedOut(t *testing.T) {
	signer, keys := goldenSigner(t)
	stranger, _, _ := logKey(t, "example.com/golden", 9)
	s := rich(t)
	l := openMemory(t, s, Options{Signer: signer})
	checkpoint := checkpointOf(t, l)
	foreign := checkpointOf(t, openMemory(t, s, Options{Signer: stranger}))
	for name, r := range map[string]VerifyRequest{
		"no key":      {Checkpoints: [][]byte{checkpoint}},
		"another key": {Checkpoints: [][]byte{checkpoint, foreign}, Verifiers: keys},
		"no note":     {Checkpoints: [][]byte{[]byte("trust me")}, Verifiers: keys},
	} {
		if _, err := l.Verify(t.Context(), r); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := l.verify(ctx, VerifyRequest{Progress: func(uint64, uint64) { cancel() }}, slow())
	wantErr(t, err, context.Canceled)
	must(t, l.Close())
	_, err = l.Verify(t.Context(), VerifyRequest{})
	wantErr(t, err, ErrClosed)
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
		record, err := decode(payload)
		must(t, err)
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
	if key == nil {
		t.Fatalf("nothing in %s from %x on", bucket, from)
	}
	return key
}

// tampering changes a ledger and returns what is to be found then.
type tampering func(t testing.TB, s kv.Store) []Problem

// changed alters a field of a record. The problem that is wanted says what it was and what it is.
func changed[T interface{ Encode() []byte }](bucket string, key []byte, decode func([]byte) (T, error), about func(T) Problem, name string, value func(*T) any, change func(*T)) tampering {
	return func(t testing.TB, s kv.Store) []Problem {
		var want Problem
		alter(t, s, bucket, key, func(payload []byte) []byte {
			record, err := decode(payload)
			must(t, err)
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
		return []Problem{want}
	}
}

// then is a change after which these problems are wanted.
func then(change func(t testing.TB, s kv.Store), want ...Problem) tampering {
	return func(t testing.TB, s kv.Store) []Problem { change(t, s); return want }
}

func objectTampering(name string, value func(*object) any, change func(*object)) tampering {
	return changed(bucketObjects, objectKey("eve"), decodeObject, func(o object) Problem {
		return Problem{Kind: "object", Event: o.latest, Object: "eve", Text: `object "eve"`}
	}, name, value, change)
}

func chainTampering(name string, value func(*chain) any, change func(*chain)) tampering {
	return changed(bucketChains, chainKey(1, "eve"), decodeChain, aboutEve, name, value, change)
}

func aboutEve(c chain) Problem {
	return Problem{Kind: "chain", Event: c.enrolled, Object: "eve", Question: "vote", Text: `chain of "eve" in "vote"`}
}

func sumTampering(name string, value func(*counters) any, change func(*counters)) tampering {
	return changed(bucketMeta, []byte(keyCounters), decodeCounters, func(counters) Problem {
		return Problem{Kind: "counters", Text: "the sums over the log"}
	}, name, value, change)
}

// soldReserved is a sale of the rich ledger that was reserved before.
const soldAfterReserving = 6

func saleTampering(name string, value func(*sale) any, change func(*sale)) tampering {
	return changed(bucketSales, eventKey(soldAfterReserving), decodeSale, func(r sale) Problem {
		return Problem{Kind: "sale", Event: r.event, Text: "sale 6"}
	}, name, value, change)
}

func rfc(at time.Time) string { return at.Format(time.RFC3339Nano) }

// tamperings change one record each.
func tamperings(t *testing.T) map[string]tampering {
	e := func(text string) privacy.Epsilon { return eps(t, text) }
	all := map[string]tampering{
		"object's cap":        objectTampering("the cap", func(o *object) any { return o.cap }, func(o *object) { o.cap = e("9") }),
		"object's spent":      objectTampering("spent", func(o *object) any { return o.spent }, func(o *object) { o.spent = e("0.4") }),
		"object's chains":     objectTampering("the number of chains", func(o *object) any { return o.chains }, func(o *object) { o.chains++ }),
		"object's leaving":    objectTampering("the event of the withdrawal", func(o *object) any { return o.withdrawn }, func(o *object) { o.withdrawn = 0 }),
		"object's forgetting": objectTampering("the event by which it was forgotten", func(o *object) any { return o.forgotten }, func(o *object) { o.forgotten = 1 }),
		"object's earnings":   objectTampering("earned", func(o *object) any { return o.earned }, func(o *object) { o.earned++ }),
		"object's last":       objectTampering("the last event", func(o *object) any { return o.latest }, func(o *object) { o.latest-- }),
		"object's events":     objectTampering("the number of events", func(o *object) any { return o.events }, func(o *object) { o.events-- }),
		"object's holds":      objectTampering("the reservations", func(o *object) any { return o.held }, func(o *object) { o.held = []uint64{9} }),

		"chain's enrolment":       chainTampering("the event of the enrolment", func(c *chain) any { return c.enrolled }, func(c *chain) { c.enrolled-- }),
		"chain's policy":          chainTampering("the policy", func(c *chain) any { return c.policy }, func(c *chain) { c.policy = 0 }),
		"chain's count of buyers": chainTampering("the number of buyers", func(c *chain) any { return c.buyers }, func(c *chain) { c.buyers = 1 }),
		"chain's truth":           chainTampering("the tag of the truth", func(c *chain) any { return tagText(c.bound) }, func(c *chain) { c.bound = nil }),
		"chain's answers":         chainTampering("charged by answers", func(c *chain) any { return c.answered }, func(c *chain) { c.answered = e("0.1") }),
		"chain's event":           chainTampering("the event at ε=1", func(c *chain) any { return c.levels[3].event }, func(c *chain) { c.levels[3].event = 5 }),
		"chain's buyers":          chainTampering("the buyers at ε=0.5", func(c *chain) any { return c.levels[1].buyers }, func(c *chain) { c.levels[1].buyers = nil }),
		"chain's response": chainTampering("the response at ε=0.25", func(c *chain) any { return fmt.Sprintf("%q", vote().Values[c.levels[0].Response.Index]) },
			func(c *chain) { c.levels[0].Response.Index = (c.levels[0].Response.Index + 1) % 3 }),

		"time":             sumTampering("the time of the last event", func(c *counters) any { return rfc(c.last) }, func(c *counters) { c.last = epoch() }),
		"questions":        sumTampering("the number of questions", func(c *counters) any { return c.questions }, func(c *counters) { c.questions++ }),
		"policies":         sumTampering("the number of policies", func(c *counters) any { return c.policies }, func(c *counters) { c.policies++ }),
		"objects":          sumTampering("the number of objects", func(c *counters) any { return c.objects }, func(c *counters) { c.objects++ }),
		"chains":           sumTampering("the number of chains", func(c *counters) any { return c.chains }, func(c *counters) { c.chains++ }),
		"buyers":           sumTampering("the number of buyers", func(c *counters) any { return c.buyers }, func(c *counters) { c.buyers++ }),
		"numbers of sales": sumTampering("the number of sales and reservations", func(c *counters) any { return c.sales }, func(c *counters) { c.sales++ }),
		"sales":            sumTampering("the number of sales carried out", func(c *counters) any { return c.sold }, func(c *counters) { c.sold++ }),
		"revenue":          sumTampering("the revenue", func(c *counters) any { return c.revenue }, func(c *counters) { c.revenue-- }),
		"refusals":         sumTampering("the number of refusals that no request settles", func(c *counters) any { return c.refused }, func(c *counters) { c.refused++ }),
		"charges":          sumTampering("the number of objects charged for no answer", func(c *counters) any { return c.charges.objects }, func(c *counters) { c.charges.objects++ }),
		"charged ε":        sumTampering("the ε of these charges", func(c *counters) any { return c.charges.epsilon }, func(c *counters) { c.charges.epsilon = e("1") }),
		"question charged": sumTampering("the question of these charges", func(c *counters) any { return c.charges.question }, func(c *counters) { c.charges.question++ }),
		"erased events":    sumTampering("the number of erased events that belong to no forgotten object", func(c *counters) any { return c.erased.events }, func(c *counters) { c.erased.events++ }),
		"erased money":     sumTampering("the money in erased events that belongs to no forgotten object", func(c *counters) any { return c.erased.earned }, func(c *counters) { c.erased.earned = 5 }),
		"sale under way":   sumTampering("the sale that is not complete", func(c *counters) any { return c.open.sale }, func(c *counters) { c.open.sale = 3 }),

		"sale's status":      saleTampering("it", func(r *sale) any { return statusText(r.status) }, func(r *sale) { r.status = saleCancelled }),
		"sale's buyer":       saleTampering("the buyer", func(r *sale) any { return r.buyer }, func(r *sale) { r.buyer = 1 }),
		"sale's question":    saleTampering("the question", func(r *sale) any { return r.question }, func(r *sale) { r.question = 2 }),
		"sale's ε":           saleTampering("ε", func(r *sale) any { return r.epsilon }, func(r *sale) { r.epsilon = e("2") }),
		"sale's objects":     saleTampering("the number of objects", func(r *sale) any { return r.objects }, func(r *sale) { r.objects++ }),
		"sale's price":       saleTampering("the price", func(r *sale) any { return r.price }, func(r *sale) { r.price++ }),
		"sale's refusals":    saleTampering("the number of refused objects", func(r *sale) any { return r.refused }, func(r *sale) { r.refused++ }),
		"sale's event":       saleTampering("the event", func(r *sale) any { return r.event }, func(r *sale) { r.event-- }),
		"sale's reservation": saleTampering("the event of the reservation", func(r *sale) any { return r.granted }, func(r *sale) { r.granted = 1 }),
		"sale's end":         saleTampering("the end of the reservation", func(r *sale) any { return rfc(r.expires) }, func(r *sale) { r.expires = epoch() }),
		"sale's promise":     saleTampering("the price reserved", func(r *sale) any { return r.promised }, func(r *sale) { r.promised++ }),
	}
	maps.Copy(all, moreTamperings(t))
	return all
}

func moreTamperings(t *testing.T) map[string]tampering {
	e := func(text string) privacy.Epsilon { return eps(t, text) }
	eve := Problem{Kind: "chain", Object: "eve", Question: "vote"}
	answersKey := func(t testing.TB, s kv.Store) []byte { return firstKey(t, s, bucketAnswers, nil) }
	return map[string]tampering{
		"chain's ε": then(func(t testing.TB, s kv.Store) {
			alter(t, s, bucketChains, chainKey(1, "eve"), edited(t, decodeChain, func(c *chain) { c.levels[3].Epsilon = e("0.9") }))
		}, with(eve, `chain of "eve" in "vote": there is a response at ε=0.9, by the events there is none`), with(eve, `chain of "eve" in "vote": there is no response at ε=1, by the events there is one`)),
		"fewer levels": then(func(t testing.TB, s kv.Store) {
			alter(t, s, bucketChains, chainKey(1, "eve"), edited(t, decodeChain, func(c *chain) { c.levels = c.levels[:3] }))
		}, with(eve, `chain of "eve" in "vote": there is no response at ε=1, by the events there is one`)),
		"question": then(func(t testing.TB, s kv.Store) {
			alter(t, s, bucketQuestions, numberKey(1), func([]byte) []byte {
				e := &wire.Encoder{}
				(&event.QuestionDefined{Number: 1, Question: Question{Name: "vote", Values: []string{"yes", "nay", "blank"}, Encoding: Direct}}).Encode(e)
				return e.Buf
			})
		}, Problem{Kind: "question", Question: "vote", Text: "question 1: the values are [yes nay blank], the events say [yes no blank]"}),
		"name of a question": then(func(t testing.TB, s kv.Store) {
			alter(t, s, bucketQuestions, nameKey("vote"), func(p []byte) []byte { p[3] = 2; return p })
		}, Problem{Kind: "question", Question: "vote", Text: `the number of the question "vote": the number is 2, the events say 1`}),
		"policy": then(func(t testing.TB, s kv.Store) {
			alter(t, s, bucketPolicies, policyNumberKey(1), func([]byte) []byte { return []byte(policy.Fixed(e("9")).String()) })
		}, Problem{Kind: "policy", Text: `policy 1: it is "{\"kind\":\"fixed\",\"ceiling\":\"9\"}", the events say "{\"kind\":\"fixed\",\"ceiling\":\"0.000000001\"}"`}),
		"hash of a policy": then(func(t testing.TB, s kv.Store) {
			alter(t, s, bucketPolicies, policyJSONKey(wire.HashText(policy.Fixed(e("0.000000001")).String())), func(p []byte) []byte { p[3] = 3; return p })
		}, Problem{Kind: "policy", Text: fmt.Sprintf("the number of the policy with the hash %x: the number is 3, the events say 1", wire.HashText(policy.Fixed(e("0.000000001")).String()))}),
		"buyer": then(func(t testing.TB, s kv.Store) {
			alter(t, s, bucketBuyers, numberKey(2), edited(t, decodeBuyer, func(b *buyer) { b.name = "beta" }))
		}, Problem{Kind: "buyer", Text: "buyer 2: the name is beta, the events say zeta"}),
		"name of a buyer": then(func(t testing.TB, s kv.Store) {
			alter(t, s, bucketBuyers, nameKey("zeta"), func(p []byte) []byte { p[3] = 1; return p })
		}, Problem{Kind: "buyer", Text: `the number of the buyer "zeta": the number is 1, the events say 2`}),
		"buyer's sales": changed(bucketBuyers, numberKey(2), decodeBuyer, aboutBuyer, "the number of sales", func(b *buyer) any { return b.sold }, func(b *buyer) { b.sold++ }),
		"buyer's bill":  changed(bucketBuyers, numberKey(2), decodeBuyer, aboutBuyer, "paid", func(b *buyer) any { return b.paid }, func(b *buyer) { b.paid-- }),
		"answer": func(t testing.TB, s kv.Store) []Problem {
			return answersTampering(answersKey(t, s), "the score at ε=0.25", func(a *answers) any { return (*a)[0].Score }, func(a *answers) { (*a)[0].Score ^= 1 })(t, s)
		},
		"answer's panel": func(t testing.TB, s kv.Store) []Problem {
			return answersTampering(answersKey(t, s), "the number of objects at ε=0.25", func(a *answers) any { return (*a)[0].objects }, func(a *answers) { (*a)[0].objects++ })(t, s)
		},
		"answer's event": func(t testing.TB, s kv.Store) []Problem {
			return answersTampering(answersKey(t, s), "the event at ε=0.5", func(a *answers) any { return (*a)[1].event }, func(a *answers) { (*a)[1].event = 1 })(t, s)
		},
		"request":             requestTampering("the digest", func(r *request) any { return fmt.Sprintf("%x", r.digest) }, func(r *request) { r.digest[0]++ }),
		"end of a request":    requestTampering("done", func(r *request) any { return r.done }, func(r *request) { r.done = false }),
		"events of a request": requestTampering("the events that settle it", func(r *request) any { return r.settled }, func(r *request) { r.settled = []uint64{1} }),
		"tally":               tallyTampering("the number of chains with it", func(x *tally) any { return x.recorded }, func(x *tally) { x.recorded++ }),
		"current tally":       tallyTampering("the number of chains where it is the current one", func(x *tally) any { return x.current }, func(x *tally) { x.current++ }),
		"stranger":            strangerTampering("the last event", func(x *stranger) any { return x.latest }, func(x *stranger) { x.latest-- }),
		"stranger's sum":      strangerTampering("the number of events", func(x *stranger) any { return x.events }, func(x *stranger) { x.events++ }),
		"birthday":            aboutTampering("the time of creation", func(x *about) any { return rfc(x.at) }, func(x *about) { x.at = x.at.Add(1) }),
		"id":                  aboutTampering("the id", func(x *about) any { return fmt.Sprintf("%x", x.Id) }, func(x *about) { x.Id[0]++ }),
		"currency":            aboutTampering("the currency", func(x *about) any { return x.Currency }, func(x *about) { x.Currency = "USD" }),
		"log key":             aboutTampering("the log key", func(x *about) any { return x.LogKey }, func(x *about) { x.LogKey += "x" }),
		"format": then(func(t testing.TB, s kv.Store) {
			putRaw(t, s, bucketMeta, []byte(keyFormat), append(formatRecord(), 0))
		},
			Problem{Kind: "ledger", Text: fmt.Sprintf("the format of the file: is %x00, and should be %x", formatRecord(), formatRecord())}),
		"membership": then(func(t testing.TB, s kv.Store) {
			alter(t, s, bucketObjects, memberKey("ann", 2), func(p []byte) []byte { p[3] = 1; return p })
		}, Problem{Kind: "object", Object: "ann", Question: "Größe", Text: `object "ann" in question 2: the number is 1, the events say 2`}),
		"truth key": func(t testing.TB, s kv.Store) (want []Problem) {
			alter(t, s, bucketMeta, []byte(keyTruthKey), func(p []byte) []byte {
				before := fmt.Sprintf("%q", p)
				p[0]++
				want = []Problem{{Kind: "ledger", Text: fmt.Sprintf("the check of the truth key: it is %q, the events say %s", p, before)}}
				return p
			})
			return want
		},
	}
}

// with returns a problem with this text. Its event is not compared.
func with(p Problem, text string) Problem { p.Text = text; return p }

func aboutBuyer(buyer) Problem { return Problem{Kind: "buyer", Text: "buyer 2"} }

func answersTampering(key []byte, name string, value func(*answers) any, change func(*answers)) tampering {
	return changed(bucketAnswers, key, decodeAnswers, func(a answers) Problem {
		return Problem{Kind: "answers", Event: max(a[0].event, a[1].event), Question: "vote", Text: fmt.Sprintf(`answers to "majority:yes" about the panel %x`, key[4:8])}
	}, name, value, change)
}

func requestTampering(name string, value func(*request) any, change func(*request)) tampering {
	return changed(bucketRequests, []byte("paid"), decodeRequest, func(r request) Problem {
		return Problem{Kind: "request", Event: r.settled[0], Text: `request "paid"`}
	}, name, value, change)
}

func tallyTampering(name string, value func(*tally) any, change func(*tally)) tampering {
	half, _ := privacy.ParseEpsilon("0.5")
	return changed(bucketTallies, tallyKey{1, half, 0}.bytes(), decodeTally, func(tally) Problem {
		return Problem{Kind: "tally", Question: "vote", Text: `tally of "yes" at ε=0.5`}
	}, name, value, change)
}

func strangerTampering(name string, value func(*stranger) any, change func(*stranger)) tampering {
	return changed(bucketStrangers, []byte("object 0"), decodeStranger, func(x stranger) Problem {
		return Problem{Kind: "stranger", Event: x.latest, Object: "object 0", Text: `stranger "object 0"`}
	}, name, value, change)
}

func aboutTampering(name string, value func(*about) any, change func(*about)) tampering {
	return changed(bucketMeta, []byte(keyAbout), decodeAbout, func(about) Problem {
		return Problem{Kind: "ledger", Text: "what the ledger was created with"}
	}, name, value, change)
}

// brokenRecords are changes after which a record is not there, is there without reason, or cannot be read.
func brokenRecords(t *testing.T) map[string]tampering {
	e := func(text string) privacy.Epsilon { return eps(t, text) }
	ann := Problem{Kind: "object", Object: "ann"}
	return map[string]tampering{
		"a checksum": then(func(t testing.TB, s kv.Store) { breakSum(t, s, bucketObjects, objectKey("ann")) }, with(ann, `object "ann": its checksum is wrong`)),
		"a value without its checksum": then(func(t testing.TB, s kv.Store) {
			alter(t, s, bucketObjects, objectKey("ann"), edited(t, decodeObject, func(o *object) { o.earned = 3 }))
			breakSum(t, s, bucketObjects, objectKey("ann"))
		}, with(ann, `object "ann": its checksum is wrong`), with(ann, `object "ann": earned is 3, the events say 0`)),
		"a short value": then(func(t testing.TB, s kv.Store) { putRaw(t, s, bucketObjects, objectKey("ann"), []byte{1}) },
			with(ann, `object "ann": its checksum is wrong`), with(ann, `object "ann": it cannot be read: broken number`)),
		"a longer value": then(func(t testing.TB, s kv.Store) {
			alter(t, s, bucketObjects, objectKey("ann"), func(p []byte) []byte { return append(p, 0) })
		}, with(ann, `object "ann": it cannot be read: 1 bytes too many`)),
		"a missing object":     then(func(t testing.TB, s kv.Store) { remove(t, s, bucketObjects, objectKey("ann")) }, with(ann, `object "ann": the record is missing`)),
		"a missing chain":      then(func(t testing.TB, s kv.Store) { remove(t, s, bucketChains, chainKey(1, "ann")) }, Problem{Kind: "chain", Object: "ann", Question: "vote", Text: `chain of "ann" in "vote": the record is missing`}),
		"a missing membership": then(func(t testing.TB, s kv.Store) { remove(t, s, bucketObjects, memberKey("ann", 1)) }, Problem{Kind: "object", Object: "ann", Question: "vote", Text: `object "ann" in question 1: the record is missing`}),
		"a missing tombstone":  then(func(t testing.TB, s kv.Store) { remove(t, s, bucketObjects, objectKey("fay")) }, Problem{Kind: "object", Object: "fay", Text: `object "fay": the record is missing`}),
		"a missing request":    then(func(t testing.TB, s kv.Store) { remove(t, s, bucketRequests, []byte("paid")) }, Problem{Kind: "request", Text: `request "paid": the record is missing`}),
		"a missing last one":   then(func(t testing.TB, s kv.Store) { remove(t, s, bucketStrangers, []byte("object 9")) }, Problem{Kind: "stranger", Object: "object 9", Text: `stranger "object 9": the record is missing`}),
		"missing sums":         then(func(t testing.TB, s kv.Store) { remove(t, s, bucketMeta, []byte(keyCounters)) }, Problem{Kind: "counters", Text: "the sums over the log: the record is missing"}),
		"another object": then(func(t testing.TB, s kv.Store) {
			putRecord(t, s, bucketObjects, objectKey("zoe"), object{cap: e("9")}.Encode())
		}, Problem{Kind: "object", Object: "zoe", Text: `object "zoe": there is such a record, and no event makes one`}),
		"another chain": then(func(t testing.TB, s kv.Store) { putRecord(t, s, bucketChains, chainKey(2, "bob"), chain{}.Encode()) },
			Problem{Kind: "chain", Object: "bob", Question: "Größe", Text: `chain of "bob" in "Größe": there is such a record, and no event makes one`}),
		"another tally": then(func(t testing.TB, s kv.Store) {
			putRecord(t, s, bucketTallies, tallyKey{1, e("7"), 0}.bytes(), tally{tallied: tallied{1, 1}}.Encode())
		}, Problem{Kind: "tally", Question: "vote", Text: `tally of "yes" at ε=7: there is such a record, and no event makes one`}),
		"another record in meta": then(func(t testing.TB, s kv.Store) { putRecord(t, s, bucketMeta, []byte("note"), []byte("hi")) }, Problem{Kind: "ledger", Text: `"note": there is such a record, and no event makes one`}),
		"a key that none is": then(func(t testing.TB, s kv.Store) {
			putRecord(t, s, bucketSales, []byte("sale"), sale{status: 1, objects: 1}.Encode())
		}, Problem{Kind: "sale", Text: "key 73616c65: there is such a record, and no event makes one"}),
		"a record under another key": then(func(t testing.TB, s kv.Store) {
			must(t, s.Update(func(w kv.Writer) error {
				value, err := w.Get(bucketRequests, []byte("paid"))
				return errors.Join(err, w.Put(bucketRequests, []byte("unpaid"), slices.Clone(value)))
			}))
		}, Problem{Kind: "request", Text: `request "unpaid": there is such a record, and no event makes one`}, Problem{Kind: "request", Text: `request "unpaid": its checksum is wrong`}),
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

// wantProblems compares what was found with what is wanted, and events only where they are.
func wantProblems(t testing.TB, found, want []Problem) {
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
			if found[i] != want[i] {
				t.Errorf("found %+v\nwant  %+v", found[i], want[i])
			}
		}
	}
}

func TestVerifyNamesWhatWasAltered(t *testing.T) {
	original := pairs(t, rich(t))
	all := tamperings(t)
	maps.Copy(all, brokenRecords(t))
	for name, change := range all {
		t.Run(name, func(t *testing.T) {
			s := fill(t, original)
			l := openMemory(t, s, Options{})
			want := change(t, s)
			found := findings(t, l, VerifyRequest{})
			if again, _ := verified(t, l, VerifyRequest{}, slow()); !slices.Equal(again, found) {
				t.Errorf("step by step there is %+v", again)
			}
			wantProblems(t, found, want)
		})
	}
	t.Logf("%d records altered", len(all))
}

// Not only the first is found: everything that was altered is, whatever else was.
func TestVerifyFindsAllThatWasAltered(t *testing.T) {
	s := rich(t)
	l := openMemory(t, s, Options{})
	var want []string
	all := tamperings(t)
	for _, name := range sortedKeys(all) {
		if name == "fewer levels" || name == "chain's ε" {
			continue // they take away what others alter
		}
		for _, p := range all[name](t, s) {
			want = append(want, p.Text)
		}
	}
	var found []string
	for _, p := range findings(t, l, VerifyRequest{}) {
		found = append(found, p.Text)
	}
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
}
