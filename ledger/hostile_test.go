package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/rrchain"
)

// Invariant 11: corrupt files, truncated records and absurd sizes give a typed error. Nothing
// panics, nothing is guessed: a damaged ledger answers as the sound one does, or with ErrCorrupt.

// steadySampler reads the same word for ever, so that draws can be compared: every draw gives the
// first value, and the coin is 1.
func steadySampler() *rrchain.Sampler {
	return &rrchain.Sampler{Random: exact.ReplayBits(func(p []byte) {
		for i := 0; i < len(p); i += 8 {
			binary.BigEndian.PutUint64(p[i:], drawWord(3, ^uint64(0), 0)|1)
		}
	})}
}

// specimen returns all records of a small ledger that has a record of each kind.
func specimen(t testing.TB) []pair {
	t.Helper()
	s := &kv.Memory{}
	begin(t, s)
	l := openMemory(t, s, Options{Now: epoch, TruthKey: truthKey()})
	l.engine.Chances.Values, l.requests.Sampler = steadySampler(), medians()
	voters(t, l, "2", "ann")
	must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "e", Question: "vote", Objects: []string{"bob"}, Policy: policy.Fixed(eps(t, "1")), Cap: boundless()})))
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	release(t, l, releaseOf(t, "2", "bob", "0.5"))
	raise(t, l, partial(raiseOf(t, "3", "0.25", "ann", "zoe")))
	answerTo(t, l, answerRequest(t, "7", "majority:yes", "0.125", ballots("ann"), "ann"))
	enrollUnder(t, l, "vote", market(t, "1"), "2", "cid")
	sell(t, l, soldToAcme(t, "s"))
	reserve(t, l, heldForAcme(t))
	forgetDan(t, l)
	define(t, l, home(9))
	enroll(t, l, "home", "2", "ann")
	release(t, l, homeOf(t, "b", "ann", "0.5"))
	release(t, l, homeOf(t, "b2", "ann", "0.25"))
	return pairs(t, s)
}

// forgetDan records events of an object and then erases them.
func forgetDan(t testing.TB, l *Ledger) {
	t.Helper()
	enrollUnder(t, l, "vote", market(t, "1"), "2", "dan")
	sell(t, l, partialSale(purchase(t, "d", "acme", "0.5", "cid", "dan", "gil")))
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "dan"}))
}

// soldToAcme and heldForAcme are the orders of the specimen.
func soldToAcme(t testing.TB, key string) api.SellRequest {
	r := purchase(t, key, "acme", "0.5", "bob", "cid")
	r.Partial = true // bob is not for sale
	return r
}

func heldForAcme(t testing.TB) api.ReserveRequest {
	return api.ReserveRequest{Key: "h", Order: purchase(t, "", "acme", "1", "cid").Order, For: time.Hour}
}

// fill returns a store with some records.
func fill(t testing.TB, records []pair) *kv.Memory {
	t.Helper()
	s := &kv.Memory{}
	must(t, s.Update(func(w kv.Writer) error {
		for _, p := range records {
			if len(p.key) == 0 || len(p.value) == 0 {
				continue // no store can hold it
			}
			if err := w.Put(p.bucket, p.key, p.value); err != nil {
				return err
			}
		}
		return nil
	}))
	return s
}

// probe is a call whose result must not change.
type probe struct {
	name string
	call func(l *Ledger) (any, error)
}

// probes returns the calls in their order. Only the last ones write.
func probes(t testing.TB) []probe {
	ctx := t.Context()
	return []probe{
		{"About", func(l *Ledger) (any, error) { return l.About(), nil }},
		{"Stats", func(l *Ledger) (any, error) { s, err := l.Stats(ctx); s.Bytes = 0; return s, err }},
		{"Object ann", func(l *Ledger) (any, error) { return l.Object(ctx, "ann") }},
		{"Object bob", func(l *Ledger) (any, error) { return l.Object(ctx, "bob") }},
		{"Questions", func(l *Ledger) (any, error) { return api.Collect(l.Questions(ctx)) }},
		{"Estimate", func(l *Ledger) (any, error) { return l.Estimate(ctx, api.EstimateRequest{Question: "vote"}) }},
		{"Events", func(l *Ledger) (any, error) { return collect(l.Events(ctx, 1)) }},
		{"Responses", func(l *Ledger) (any, error) { return collect(l.Responses(ctx, "vote", eps(t, "0.5"))) }},
		{"Release by its key", func(l *Ledger) (any, error) { return l.Release(ctx, releaseOf(t, "1", "ann", "0.5")) }},
		{"Raise by its key", func(l *Ledger) (any, error) {
			r := partial(raiseOf(t, "3", "0.25", "ann", "zoe"))
			return l.Raise(ctx, r)
		}},
		{"Answer by its key", func(l *Ledger) (any, error) {
			return l.Answer(ctx, answerRequest(t, "7", "majority:yes", "0.125", ballots("ann"), "ann"))
		}},
		{"QuoteAnswer", func(l *Ledger) (any, error) {
			return l.QuoteAnswer(ctx, answerRequest(t, "", "majority:yes", "0.5", nil, "ann"))
		}},
		{"Object cid", func(l *Ledger) (any, error) { return l.Object(ctx, "cid") }},
		{"Buyers", func(l *Ledger) (any, error) { return api.Collect(l.Buyers(ctx)) }},
		{"Sales", func(l *Ledger) (any, error) { return collect(l.Sales(ctx, "")) }},
		{"Deliveries", func(l *Ledger) (any, error) { return collect(l.Deliveries(ctx, 1)) }},
		{"Object dan", func(l *Ledger) (any, error) { return l.Object(ctx, "dan") }},
		{"Deliveries of dan", func(l *Ledger) (any, error) { return collect(l.Deliveries(ctx, 3)) }},
		{"Head", func(l *Ledger) (any, error) { return l.Head(ctx, 0) }},
		{"Consistency", func(l *Ledger) (any, error) { return l.Consistency(ctx, 5, 20) }},
		{"Sell by its key", func(l *Ledger) (any, error) { return l.Sell(ctx, soldToAcme(t, "s")) }},
		{"Reserve by its key", func(l *Ledger) (any, error) { return l.Reserve(ctx, heldForAcme(t)) }},
		{"Quote", func(l *Ledger) (any, error) { return l.Quote(ctx, purchase(t, "", "zeta", "0.75", "cid").Order) }},
		{"resale", func(l *Ledger) (any, error) { return l.Release(ctx, releaseOf(t, "4", "ann", "0.25")) }},
		{"raise", func(l *Ledger) (any, error) {
			return withoutNumbers(l.Release(ctx, releaseOf(t, "5", "bob", "0.75")))("Event")
		}},
		{"answer again", func(l *Ledger) (any, error) {
			return withoutNumbers(l.Answer(ctx, answerRequest(t, "8", "majority:yes", "0.125", ballots("ann"), "ann")))("Event")
		}},
		{"sale again", func(l *Ledger) (any, error) {
			return withoutNumbers(l.Sell(ctx, soldToAcme(t, "t")))("Number", "First", "Last")
		}},
		{"sale of what is held", func(l *Ledger) (any, error) {
			return withoutNumbers(l.Capture(ctx, api.CaptureRequest{Key: "c", Reservation: 2, Truth: sameTruth("yes")}))("First", "Last")
		}},
		{"Responses of home", func(l *Ledger) (any, error) { return collect(l.Responses(ctx, "home", eps(t, "0.5"))) }},
		{"Estimate of homes", func(l *Ledger) (any, error) {
			return l.Estimate(ctx, api.EstimateRequest{Question: "home", Epsilon: eps(t, "0.25")})
		}},
		{"Recount of homes", func(l *Ledger) (any, error) {
			return l.Estimate(ctx, api.EstimateRequest{Question: "home", Include: includeAll})
		}},
		{"home by its key", func(l *Ledger) (any, error) { return l.Release(ctx, homeOf(t, "b", "ann", "0.5")) }},
		{"home raised", func(l *Ledger) (any, error) {
			return withoutNumbers(l.Release(ctx, homeOf(t, "b3", "ann", "1")))("Event")
		}},
		{"raise for another truth", func(l *Ledger) (any, error) {
			_, err := l.Release(ctx, releaseBy(releaseOf(t, "6", "ann", "0.75"), sameTruth("no")))
			var refused *api.RefusedError
			if errors.As(err, &refused) && len(refused.TruthChanged) == 1 {
				return "truth changed", nil
			}
			return "drawn", err
		}},
	}
}

func collect[T any](all func(func(T, error) bool)) (items []T, err error) {
	all(func(item T, fault error) bool {
		if err = fault; fault == nil {
			items = append(items, item)
		}
		return fault == nil
	})
	return items, err
}

// probeRunner runs the probes on damaged copies of the specimen.
type probeRunner struct {
	testing.TB
	sound   []pair
	probes  []probe
	want    []any
	sampler *rrchain.Sampler
	queries *mechanism.Sampler
	faults  int
}

// fault reports an error, and ends the test at the fifth.
func (l *probeRunner) fault(format string, args ...any) {
	l.Helper()
	l.Errorf(format, args...)
	if l.faults++; l.faults == 5 {
		l.Fatal("and so on")
	}
}

func newProbeRunner(t testing.TB) *probeRunner {
	l := &probeRunner{TB: t, sound: specimen(t), probes: probes(t), sampler: steadySampler(), queries: medians()}
	ledger := check.Value(l.open(l.sound))(t)
	for _, p := range l.probes {
		result, err := p.call(ledger)
		check.Need(t, err == nil, "%s: %v", p.name, err)
		l.want = append(l.want, undated(result))
	}
	return l
}

// undated returns a result without the event as of which it holds: a probe that finds damage may
// have recorded none.
func undated(result any) any {
	switch result.(type) {
	case api.ObjectState, api.Quote, api.AnswerQuote, api.Estimate:
		return without(result, "Event")
	}
	return result
}

// without returns a copy of a result with zero values in some fields.
func without(result any, fields ...string) any {
	v := reflect.New(reflect.TypeOf(result)).Elem()
	v.Set(reflect.ValueOf(result))
	for _, name := range fields {
		v.FieldByName(name).SetZero()
	}
	return v.Interface()
}

// withoutNumbers returns the result of a call without numbers that depend on whether the probe
// before it could write.
func withoutNumbers[R any](result R, err error) func(fields ...string) (any, error) {
	return func(fields ...string) (any, error) { return without(result, fields...), err }
}

// isSame compares two results. A policy caches what it has computed, so results with policies are
// the same if they print the same.
func isSame(got, want any) bool {
	return reflect.DeepEqual(got, want) || fmt.Sprintf("%+v", got) == fmt.Sprintf("%+v", want)
}

func (l *probeRunner) open(records []pair) (*Ledger, error) {
	ledger, err := openStore(context.Background(), fill(l, records), Options{Now: epoch, TruthKey: truthKey()})
	if err == nil {
		ledger.engine.Chances.Values, ledger.requests.Sampler = l.sampler, l.queries
	}
	return ledger, err
}

// probe opens a damaged ledger and passes the result of each probe to report. A panic is a fault.
func (l *probeRunner) probe(what string, records []pair, opened func(error), report func(i int, got any, err error)) {
	l.Helper()
	defer func() {
		if p := recover(); p != nil {
			l.fault("%s: panic: %v", what, p)
		}
	}()
	ledger, err := l.open(records)
	if err != nil {
		opened(err)
		return
	}
	for i, p := range l.probes {
		got, err := p.call(ledger)
		report(i, got, err)
	}
}

// wantSameOrDamage checks that every probe of a damaged ledger returns the sound result, or reports
// the damage.
func (l *probeRunner) wantSameOrDamage(what string, records []pair) {
	l.Helper()
	l.probe(what, records, func(err error) { l.wantDamage(what+": Open", err) }, func(i int, got any, err error) {
		if err != nil {
			l.wantDamage(what+": "+l.probes[i].name, err)
		} else if !isSame(undated(got), l.want[i]) {
			l.fault("%s: %s returned\n%+v\nwant\n%+v", what, l.probes[i].name, got, l.want[i])
		}
	})
}

func (l *probeRunner) wantDamage(what string, err error) {
	l.Helper()
	if !errors.Is(err, api.ErrCorrupt) && !errors.Is(err, api.ErrVersion) {
		l.fault("%s: got the error %v, want ErrCorrupt", what, err)
	}
}

// step returns the distance of the bytes of a record that a test damages: 1, or more if hurried.
// The records of a bucket are read by the same code, so the more there are, the fewer bytes of each
// are enough.
func (l *probeRunner) step(bucket string) int {
	n := 0
	for _, p := range l.sound {
		if p.bucket == bucket {
			n++
		}
	}
	return oneIn(n + 4)
}

// with returns the sound records with one replaced.
func (l *probeRunner) with(i int, p pair) []pair {
	records := slices.Clone(l.sound)
	records[i] = p
	return records
}

func flipped(text []byte, bit int) []byte {
	text = slices.Clone(text)
	text[bit/8] ^= 1 << (bit % 8)
	return text
}

// The checksum detects every single flipped bit, and every reader of a record checks it. For the
// probes one bit of each byte is flipped (if hurried, of some bytes, which differ between records).
// The format record has no checksum: all its bits are flipped.
func TestLedger_FlippedBitInRecord_IsCorruptOrHarmless(t *testing.T) {
	l := newProbeRunner(t)
	for i, p := range l.sound {
		step := l.step(p.bucket)
		bare := p.bucket == state.BucketMeta && string(p.key) == state.KeyFormat
		for bit := range 8 * len(p.value) {
			spoilt := pair{p.bucket, p.key, flipped(p.value, bit)}
			if _, err := unsealed(spoilt); !bare && !errors.Is(err, api.ErrCorrupt) {
				l.fault("%s %q, bit %d: got the error %v from the checksum", p.bucket, p.key, bit, err)
			}
			if at := bit / 8; bare || at%step == i%step && bit%8 == (i+at)%8 {
				l.wantSameOrDamage(fmt.Sprintf("%s %q, bit %d", p.bucket, p.key, bit), l.with(i, spoilt))
			}
		}
	}
}

func TestLedger_TruncatedRecord_IsCorruptOrHarmless(t *testing.T) {
	l := newProbeRunner(t)
	for i, p := range l.sound {
		step := l.step(p.bucket)
		for n := 1; n < len(p.value); n++ {
			short := pair{p.bucket, p.key, p.value[:n:n]}
			if _, err := unsealed(short); err == nil && string(p.key) != state.KeyFormat {
				l.fault("%s %q, %d bytes: the checksum is right", p.bucket, p.key, n)
			}
			if n == 1 || n == wire.SumLength || n == len(p.value)-1 || n%step == i%step {
				l.wantSameOrDamage(fmt.Sprintf("%s %q, %d bytes", p.bucket, p.key, n), l.with(i, short))
			}
		}
		l.wantSameOrDamage(fmt.Sprintf("%s %q, one byte more", p.bucket, p.key), l.with(i, pair{p.bucket, p.key, append(slices.Clone(p.value), 0)}))
	}
}

// A sound record in the wrong place is damage too, because the checksum covers the place. If
// hurried, the probes run only for adjacent records, which are most easily confused, and for some
// other pairs.
func TestLedger_SwappedRecords_AreCorruptOrHarmless(t *testing.T) {
	l, step := newProbeRunner(t), oneIn(37)
	for i, p := range l.sound {
		for j, q := range l.sound[:i] {
			if _, err := unsealed(pair{p.bucket, p.key, q.value}); err == nil && string(p.key) != state.KeyFormat {
				l.fault("%s %q for %s %q: the checksum is right", q.bucket, q.key, p.bucket, p.key)
			}
			if j != i-1 && (i+j)%step != 0 {
				continue
			}
			records := l.with(i, pair{p.bucket, p.key, q.value})
			records[j].value = p.value
			l.wantSameOrDamage(fmt.Sprintf("%s %q for %s %q", p.bucket, p.key, q.bucket, q.key), records)
		}
	}
}

// A flipped bit in a key removes one record and adds a wrong one. A scan cannot detect the missing
// record, but every result must be true. If hurried, only some bits are flipped, always including
// the low bits of the last byte, which lead to adjacent keys.
func TestLedger_FlippedBitInKey_GivesNoFalseResult(t *testing.T) {
	l := newProbeRunner(t)
	for i, p := range l.sound {
		step := l.step(p.bucket)
		for bit := range 8 * len(p.key) {
			if low := bit - 8*(len(p.key)-1); low != 0 && low != 1 && bit%step != i%step {
				continue
			}
			l.wantNoFalseResult(fmt.Sprintf("%s %q, bit %d of the key", p.bucket, p.key, bit), l.with(i, pair{p.bucket, flipped(p.key, bit), p.value}))
		}
	}
}

// wantNoFalseResult runs the probes and fails on a panic, or on a response or balance that was
// never recorded.
func (l *probeRunner) wantNoFalseResult(what string, records []pair) {
	l.Helper()
	l.probe(what, records, func(error) {}, func(i int, got any, err error) {
		if err != nil {
			return
		}
		switch got := got.(type) {
		case api.Response, api.ObjectState:
			if !isSame(undated(got), l.want[i]) {
				l.fault("%s: %s returned\n%+v\nwant\n%+v", what, l.probes[i].name, got, l.want[i])
			}
		case []api.Response:
			for _, one := range got {
				if !slices.Contains(l.want[i].([]api.Response), one) {
					l.fault("%s: %s has %+v", what, l.probes[i].name, one)
				}
			}
		}
	})
}

// Damage with a valid checksum is deliberate. It may change results, but nothing panics or hangs.
func TestLedger_ForgedRecord_DoesNotPanic(t *testing.T) {
	l, forgeries := newProbeRunner(t), 60/oneIn(20)
	random := rand.New(rand.NewPCG(1, 2))
	for i, p := range l.sound {
		payload := check.Value(unsealed(p))(t)
		for n := range forgeries {
			forged := forge(random, payload)
			l.wantNoPanic(fmt.Sprintf("%s %q, forgery %d: %x", p.bucket, p.key, n, forged), l.with(i, sealed(p.bucket, p.key, forged)))
		}
	}
}

func sealed(bucket string, key, payload []byte) pair {
	return pair{bucket, key, wire.Seal(bucket, key, slices.Clone(payload))}
}

// forge changes a payload in one of several ways.
func forge(random *rand.Rand, payload []byte) []byte {
	out := slices.Clone(payload)
	at := random.IntN(len(out))
	switch random.IntN(5) {
	case 0:
		return flipped(out, random.IntN(8*len(out)))
	case 1:
		out[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[random.IntN(5)]
		return out
	case 2:
		return out[:at]
	case 3:
		return slices.Insert(out, at, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1)
	default:
		return slices.Delete(out, at, at+1)
	}
}

// wantNoPanic runs the probes and fails only on a panic.
func (l *probeRunner) wantNoPanic(what string, records []pair) {
	l.Helper()
	l.probe(what, records, func(error) {}, func(int, any, error) {})
}

// Records have keys that no ledger writes, and a valid checksum.
func TestLedger_UnknownKeyInBucket_DoesNotPanic(t *testing.T) {
	l, n, step := newProbeRunner(t), 0, oneIn(4)
	for _, bucket := range bucketNames() {
		for _, key := range []string{"q", "q\x00", "q\x00\x00\x00\x00\x01\x00", "n", "p", "h", "\x00", "\x00\x00\x00\x01", "\x00\x00\x00\x01ann\x00",
			"ann\x00\x00\x00\x00", "ann\x00\x00\x00\x00\x02", "\x00\x00\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
			for _, payload := range []string{"\x00", "\x00\x00\x00\x01", "\x00\x00\x00\x01\x01q\x02\x01a\x01b"} {
				if n++; n%step != 0 {
					continue
				}
				l.wantNoPanic(fmt.Sprintf("%s %q", bucket, key), append(slices.Clone(l.sound), sealed(bucket, []byte(key), []byte(payload))))
			}
		}
	}
}

// without returns the sound records except those of a key.
func (l *probeRunner) without(bucket string, key []byte) []pair {
	l.Helper()
	records := slices.DeleteFunc(slices.Clone(l.sound), func(p pair) bool { return p.bucket == bucket && string(p.key) == string(key) })
	if len(records) == len(l.sound) {
		l.Fatalf("there is no record %q in %s", key, bucket)
	}
	return records
}

// Without its counters a ledger would overwrite its log from event 1 on.
func TestOpen_CountersMissing_IsCorrupt(t *testing.T) {
	l := newProbeRunner(t)
	wantErr(t, check.Err(l.open(l.without(state.BucketMeta, []byte(state.KeyCounters)))), api.ErrCorrupt)
}

// A log that ends before its last event is damaged, like one with a gap.
func TestEvents_EventMissing_IsCorrupt(t *testing.T) {
	l := newProbeRunner(t)
	last := uint64(0)
	for _, p := range l.sound {
		if p.bucket == state.BucketEvents {
			last++
		}
	}
	for number := uint64(1); number <= last; number++ {
		ledger := check.Value(l.open(l.without(state.BucketEvents, state.EventKey(number))))(t)
		_, err := collect(ledger.Events(t.Context(), 1))
		check.That(t, errors.Is(err, api.ErrCorrupt), "event %d of %d is missing: got the error %v", number, last, err)
	}
}

// A gap is also found in a log that takes several snapshots to read, at any position.
func TestEvents_EventMissingInLongLog_IsCorrupt(t *testing.T) {
	all := pairs(t, voters(t, inMemory(t, Options{}), "1", crowd(scanSize+500)...).engine.Store)
	for _, number := range []uint64{100, scanSize - 1, scanSize, scanSize + 1, scanSize + 100} {
		s := fill(t, slices.DeleteFunc(slices.Clone(all), func(p pair) bool {
			return p.bucket == state.BucketEvents && string(p.key) == string(state.EventKey(number))
		}))
		_, err := collect(openMemory(t, s, Options{}).Events(t.Context(), 1))
		check.That(t, errors.Is(err, api.ErrCorrupt), "event %d is missing: got the error %v", number, err)
	}
}

// The record of an object has the number of its chains.
func TestObject_ChainMissing_IsCorrupt(t *testing.T) {
	l := newProbeRunner(t)
	for name, records := range map[string][]pair{
		"chain":      l.without(state.BucketChains, state.ChainKey(1, "ann")),
		"membership": l.without(state.BucketObjects, state.MemberKey("ann", 1)),
	} {
		ledger := check.Value(l.open(records))(t)
		o, err := ledger.Object(t.Context(), "ann")
		check.That(t, errors.Is(err, api.ErrCorrupt), "the %s is missing: got %+v, %v", name, o, err)
	}
}

func TestOpen_OtherFormatVersion_IsErrVersion(t *testing.T) {
	l := newProbeRunner(t)
	for _, version := range []uint16{0, 1, state.FormatVersion + 1, 1 << 15, 1<<16 - 1} {
		records := slices.Clone(l.sound)
		for i, p := range records {
			if p.bucket == state.BucketMeta && string(p.key) == state.KeyFormat {
				records[i].value = binary.BigEndian.AppendUint16([]byte(state.FormatName), version)
			}
		}
		wantErr(t, check.Err(l.open(records)), api.ErrVersion)
	}
}

// A file of format 1, which had no sales, is refused before any other record is read, since its
// records would be misread.
func TestOpen_FormatOne_IsErrVersionAndUnchanged(t *testing.T) {
	path := filepath.Join(tests.TempDir(t), "old.db")
	must(t, bolt.Create(path, func(w kv.Writer) error {
		for _, p := range formatOne(t) {
			if err := w.Put(p.bucket, p.key, p.value); err != nil {
				return err
			}
		}
		return nil
	}))
	for _, options := range []Options{{}, {ReadOnly: true}, {TruthKey: truthKey()}} {
		before := check.Value(os.ReadFile(path))(t)
		_, err := Open(t.Context(), path, options)
		wantErr(t, err, api.ErrVersion)
		check.That(t, !errors.Is(err, api.ErrCorrupt), "an old file is called damaged: %v", err)
		after := check.Value(os.ReadFile(path))(t)
		check.That(t, slices.Equal(before, after), "the file has changed")
	}
}

// formatOne returns the first records of a ledger as format 1 wrote them: other counters, and no
// tallies.
func formatOne(t *testing.T) []pair {
	t.Helper()
	return recordsIn(t, `meta 61626f7574 1898b5d9b3d68000010203000000000000000000000000ff03455552036c6f675bdf3030
meta 636f756e74657273 1d1898d9ddcbc5600b000000020000000103041e6497ec
meta 666f726d6174 736c75696365206c6564676572200001
events 0000000000000001 01011898b5d9b3d68000010203000000000000000000000000ff03455552036c6f67e4eb366c`)
}

// An event of a newer encoding with a valid checksum is not reported as damage.
func TestEvents_NewerEventVersion_IsErrVersion(t *testing.T) {
	l := newProbeRunner(t)
	records := slices.Clone(l.sound)
	for i, p := range records {
		if p.bucket == state.BucketEvents {
			payload := check.Value(unsealed(p))(t)
			d := &wire.Decoder{Rest: payload}
			d.U8()      // the form
			d.Uvarint() // the event before
			d.Uvarint() // the length of the public bytes
			version := len(payload) - len(d.Rest)
			payload = slices.Clone(payload)
			payload[version] = event.Version + 1
			records[i] = sealed(p.bucket, p.key, payload)
		}
	}
	ledger := check.Value(l.open(records))(t)
	wantErr(t, firstError(ledger.Events(t.Context(), 1)), api.ErrVersion)
	_, err := ledger.Release(t.Context(), releaseOf(t, "1", "ann", "0.5")) // whose settling event is not understood
	wantErr(t, err, api.ErrVersion)
}

func TestOpen_NotALedger_IsCorrupt(t *testing.T) {
	dir := tests.TempDir(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	foreign := filepath.Join(dir, "foreign.db")
	must(t, bolt.Create(foreign, func(w kv.Writer) error { return w.Put("widgets", []byte("a"), []byte("b")) }))
	halfway := filepath.Join(dir, "halfway.db")
	must(t, bolt.Create(halfway, func(w kv.Writer) error { return w.Put(state.BucketMeta, []byte(state.KeyFormat), formatRecord()) }))
	for name, path := range map[string]string{
		"empty":         write("empty", ""),
		"text":          write("text", "Dear ledger, \n"),
		"zeros":         write("zeros", string(make([]byte, 1<<16))),
		"directory":     dir,
		"other bbolt":   foreign,
		"without about": halfway,
	} {
		_, err := Open(t.Context(), path, Options{})
		check.That(t, errors.Is(err, api.ErrCorrupt), "%s: got the error %v", name, err)
	}
	_, err := Open(t.Context(), filepath.Join(dir, "missing"), Options{})
	check.That(t, errors.Is(err, fs.ErrNotExist), "missing: got the error %v", err)
	err = Create(t.Context(), foreign, CreateOptions{Currency: "USD"})
	check.That(t, errors.Is(err, fs.ErrExist), "creating over a file: got the error %v", err)
	err = Create(t.Context(), filepath.Join(dir, "new"), CreateOptions{Currency: "no\ncurrency"})
	check.That(t, errors.Is(err, api.ErrInvalid), "creating with a bad currency: got the error %v", err)
}
