package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// Running estimates equal those of a recount: the tallies are compared with a model of them, and
// the estimates with the ones that the chains give.

// includeAll includes all objects, which makes an estimate read the chains.
func includeAll(string) bool { return true }

// wantRecount compares the running estimates of a question with those of a recount: at the current
// levels, and at each ε.
func wantRecount(t testing.TB, l *Ledger, question string, levels ...privacy.Epsilon) {
	t.Helper()
	for _, epsilon := range append(levels, privacy.Epsilon{}) {
		r := api.EstimateRequest{Question: question, Epsilon: epsilon}
		got, err := l.Estimate(t.Context(), r)
		r.Include = includeAll
		want, wantErr := l.Estimate(t.Context(), r)
		check.Need(t, reflect.DeepEqual(got, want) && fmt.Sprint(err) == fmt.Sprint(wantErr),
			"%s at ε=%s: the running estimate is\n%+v, %v\nthe recount\n%+v, %v", question, epsilon, got, err, want, wantErr)
	}
}

func talliedPlus(c state.Tallied, current bool) state.Tallied {
	c.Recorded++
	if current {
		c.Current++
	}
	return c
}

// tallyOf decodes a stored tally.
func tallyOf(t testing.TB, p pair) (state.TallyKey, state.Tally) {
	t.Helper()
	key := check.Value(state.DecodeTallyKey(p.key))(t)
	payload := check.Value(unsealed(p))(t)
	tally := check.Value(state.DecodeTally(payload))(t)
	return key, tally
}

// talliesOf returns the stored tallies, decoded.
func talliesOf(t testing.TB, s kv.Store) map[state.TallyKey]state.Tally {
	t.Helper()
	found := map[state.TallyKey]state.Tally{}
	for _, p := range pairs(t, s) {
		if p.bucket == state.BucketTallies {
			k, n := tallyOf(t, p)
			found[k] = n
		}
	}
	return found
}

// auditTallies counts the chains again and compares the tallies.
func auditTallies(t testing.TB, stored []pair) {
	t.Helper()
	got, want := map[state.TallyKey]state.Tally{}, map[state.TallyKey]state.Tally{}
	for _, p := range stored {
		switch p.bucket {
		case state.BucketTallies:
			k, n := tallyOf(t, p)
			got[k] = n
		case state.BucketChains:
			payload := check.Value(unsealed(p))(t)
			c := check.Value(state.DecodeChain(payload))(t)
			for i, l := range c.Levels {
				key := state.TallyKey{Question: binary.BigEndian.Uint32(p.key), Epsilon: l.Epsilon, Value: uint32(l.Response.Index)}
				n := want[key]
				current := i == len(c.Levels)-1
				n.Tallied = talliedPlus(n.Tallied, current)
				if bits := l.Response.Bits.String(); n.Bits == nil && bits != "" {
					n.Bits = make([]state.Tallied, len(bits))
				}
				for v := range n.Bits {
					if l.Response.Bits.Bit(v) == 1 {
						n.Bits[v] = talliedPlus(n.Bits[v], current)
					}
				}
				want[key] = n
			}
		}
	}
	check.That(t, reflect.DeepEqual(got, want), "the tallies are %v, a recount gives %v", got, want)
}

// A file has no tallies until something is released, and no bucket for them.
func TestTallies_FirstRelease_CreatesThem(t *testing.T) {
	path := votersFile(t, "9", "ann", "bob")
	l := open(t, path, Options{ReadOnly: true})
	n := len(talliesOf(t, l.engine.Store))
	check.That(t, n == 0, "%d tallies of nothing", n)
	wantRecount(t, l, "vote")
	closed(t, l)
	l = open(t, path, Options{})
	wantRecount(t, l, "vote")
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	release(t, l, releaseOf(t, "2", "ann", "1.5"))
	closed(t, l)
	l = open(t, path, Options{})
	release(t, l, releaseOf(t, "3", "bob", "0.5"))
	wantRecount(t, l, "vote", eps(t, "0.5"), eps(t, "1.5"), eps(t, "1"))
	auditStore(t, l.engine.Store)
}

func TestTallies_RefusedOrFailedRelease_IsNotCounted(t *testing.T) {
	path := votersFile(t, "1", "ann", "bob")
	l, s := openShim(t, path, Options{})
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	unchanged(t, s, func() {
		_, err := l.Release(t.Context(), releaseOf(t, "2", "ann", "1.5"))
		check.That(t, isRefused(err), "got the error %v, want a refusal", err)
	})
	s.set(failing, nil)
	unchanged(t, s, func() { wantErr(t, check.Err(l.Release(t.Context(), releaseOf(t, "3", "ann", "0.75"))), errDisk) })
	wantRecount(t, l, "vote", eps(t, "0.5"), eps(t, "0.75"))
	s.set(nil, uncertain)
	wantErr(t, check.Err(l.Release(t.Context(), releaseOf(t, "4", "bob", "0.75"))), api.ErrStopped)
	closed(t, l)
	l = open(t, path, Options{})
	wantRecount(t, l, "vote", eps(t, "0.5"), eps(t, "0.75"))
	auditStore(t, l.engine.Store)
}

// An estimate is of one instant: it counts each object once, also during raises.
func TestEstimate_DuringRaises_CountsEachObjectOnce(t *testing.T) {
	const n = 60
	l := voters(t, inMemory(t, Options{}), "9", crowd(n)...)
	raise(t, l, raiseOf(t, "0", "0.001"))
	done := async(func() (bool, error) {
		for i := range tests.Tries(30, 80, 80) {
			r := raiseOf(t, fmt.Sprint(i+1), fmt.Sprintf("0.1%02d", i))
			if _, err := l.Raise(t.Context(), r); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	for raising := true; raising; {
		raising = len(done) == 0
		e := check.Value(l.Estimate(t.Context(), api.EstimateRequest{Question: "vote"}))(t)
		check.Need(t, e.N == n && len(e.Levels) == 1, "%d of %d objects are counted, at %v", e.N, n, e.Levels)
	}
	must(t, await(t, done).err)
}

// A ledger that counts writes.

// putCounter counts the records that are written to each bucket.
type putCounter struct {
	kv.Store
	puts map[string]int
	keys [][]byte // of the tallies, in the order in which they were written
}

type countingWriter struct {
	kv.Writer
	*putCounter
}

func (c *putCounter) Update(fn func(kv.Writer) error) error {
	c.puts, c.keys = map[string]int{}, nil
	return c.Store.Update(func(w kv.Writer) error { return fn(countingWriter{w, c}) })
}

func (w countingWriter) Put(bucket string, key, value []byte) error {
	w.puts[bucket]++
	if bucket == state.BucketTallies {
		w.keys = append(w.keys, key)
	}
	return w.Writer.Put(bucket, key, value)
}

// countingHomes returns a ledger in which n objects have answered a question of m values in some
// encoding.
func countingHomes(t *testing.T, n, m int, encoding string) (*Ledger, *putCounter) {
	t.Helper()
	s := &putCounter{Store: &kv.Memory{}}
	begin(t, s)
	l := openMemory(t, s, Options{Now: epoch})
	define(t, l, api.Question{Name: "home", Values: valuesOf(m), Encoding: encoding})
	enroll(t, l, "home", "9", crowd(n)...)
	raise(t, l, homesOf(t, "all", "0.1"))
	return l, s
}

// A single raise writes the tallies of the new and of the former level, a derived response its own,
// and a resale none, for any number of objects and values.
func TestDraw_AnyNumberOfObjects_WritesTwoTallies(t *testing.T) {
	for _, encoding := range []string{"direct", "unary"} {
		var first map[string]int
		for _, c := range []struct{ objects, values int }{{2, 4}, {2, 1000}, {500, 4}, {500, 1000}} {
			l, s := countingHomes(t, c.objects, c.values, encoding)
			for i, want := range []struct {
				epsilon string
				tallies int
			}{{"2", 2}, {"1", 1}, {"0.05", 1}, {"2", 0}} {
				s.puts = nil
				release(t, l, homeOf(t, fmt.Sprint(i), "person-00000", want.epsilon))
				if first == nil {
					first = s.puts
				}
				check.That(t, i > 0 || reflect.DeepEqual(s.puts, first), "%+v, %s: a raise writes %v, another wrote %v", c, encoding, s.puts, first)
				check.That(t, s.puts[state.BucketTallies] == want.tallies && s.puts[state.BucketChains] <= 1,
					"%+v, %s: ε=%s writes %v, want %d tallies and at most one chain", c, encoding, want.epsilon, s.puts, want.tallies)
			}
			wantRecount(t, l, "home", eps(t, "0.1"), eps(t, "1"), eps(t, "2"))
		}
	}
}

// In one transaction a tally is written once, for any number of draws, and in order.
func TestRaise_WritesEachTallyOnce(t *testing.T) {
	for _, c := range []struct {
		encoding        string
		values, tallies int // for each value, or one with all bits, at each of two levels
	}{{"direct", 3, 6}, {"unary", 40, 2}} {
		l, s := countingHomes(t, 500, c.values, c.encoding)
		raise(t, l, homesOf(t, "2", "2"))
		n, stored := s.puts[state.BucketTallies], len(talliesOf(t, s))
		check.That(t, n == c.tallies && stored == c.tallies, "%s: 500 draws write %d tallies, %d are stored, want %d", c.encoding, n, stored, c.tallies)
		check.That(t, slices.IsSortedFunc(s.keys, slices.Compare), "the tallies are written in the order %x", s.keys)
	}
}

// The counts in memory and the stored ones are the same: a chain that is raised twice in one
// transaction is current only at its last level.
func TestTallies_TwoRaisesInOneTransaction_CountTheLast(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann")
	_, _, err := l.engine.Submit(t.Context(), func(s *state.State) ([]event.Change, error) {
		between := responseOf(t, "ann", "2", 2).(*event.Released)
		between.Method = event.MethodInsert
		return withSettled(s.Counters.Events+1, []event.Change{responseOf(t, "ann", "1", 0), responseOf(t, "ann", "3", 1), between}), nil
	})
	must(t, err)
	want := map[state.TallyKey]state.Tally{{Question: 1, Epsilon: eps(t, "1"), Value: 0}: {Tallied: state.Tallied{Recorded: 1, Current: 0}}, {Question: 1, Epsilon: eps(t, "2"), Value: 2}: {Tallied: state.Tallied{Recorded: 1, Current: 0}}, {Question: 1, Epsilon: eps(t, "3"), Value: 1}: {Tallied: state.Tallied{Recorded: 1, Current: 1}}}
	got := talliesOf(t, l.engine.Store)
	check.That(t, reflect.DeepEqual(got, want), "got %v, want %v", got, want)
	auditStore(t, l.engine.Store)
}

// Tallies take memory for the values that occur, not for all possible ones.
func TestTallies_QuestionOfManyValues_TakeLittleMemory(t *testing.T) {
	s := &kv.Memory{}
	begin(t, s)
	levels := func(v int) []state.Level { return []state.Level{state.NewLevel(eps(t, "1"), event.Value{Index: v}, 0)} }
	large := func(number uint32) *event.Question {
		return &event.Question{Number: number, Values: make([]string, (1 << 20)), Encoding: "direct"}
	}
	one, two := large(1), large(2)
	var before, after runtime.MemStats
	must(t, s.Update(func(w kv.Writer) error {
		st := check.Value(state.Begin(w, epoch()))(t)
		runtime.ReadMemStats(&before)
		must(t, st.CountLevel(one, levels(wire.MaxValues-1), 0))
		must(t, st.CountLevel(two, levels(0), 0))
		must(t, fold.Flush(st))
		runtime.ReadMemStats(&after)
		return nil
	}))
	used := after.TotalAlloc - before.TotalAlloc
	check.That(t, used <= 1<<16, "two tallies took %d bytes", used)
	n := len(talliesOf(t, s))
	check.That(t, n == 2, "%d tallies are stored, want 2", n)
}

// Damage.

func TestEstimate_TallyDamaged_IsCorrupt(t *testing.T) {
	one, two := eps(t, "1"), eps(t, "2")
	numbers := func(n ...uint64) (payload []byte) {
		for _, n := range n {
			payload = binary.AppendUvarint(payload, n)
		}
		return payload
	}
	key := func(epsilon privacy.Epsilon, value uint32) []byte {
		return state.TallyKey{Question: 1, Epsilon: epsilon, Value: value}.Bytes()
	}
	const value = 4 // bytes of a key
	level := func(epsilon privacy.Epsilon) []byte { k := key(epsilon, 0); return k[:len(k)-value] }
	most := level(privacy.MaxEpsilon())
	for name, spoiled := range map[string]struct{ key, payload []byte }{
		"a value the question does not have": {key(one, 3), numbers(1, 1)},
		"the largest value":                  {key(one, 1<<32-1), numbers(1, 1)},
		"more current than recorded":         {key(one, 0), numbers(2, 3)},
		"nothing recorded":                   {key(one, 0), numbers(0, 0)},
		"more than there are chains":         {key(one, 0), numbers(3, 3)},
		"the largest count":                  {key(one, 0), numbers(1<<64-1, 1<<64-1)},
		"more in all than there are chains":  {key(two, 2), numbers(2, 2)},
		"half a record":                      {key(one, 0), numbers(1)},
		"a number too many":                  {key(one, 0), numbers(1, 1, 1)},
		"a record that is not canonical":     {key(one, 0), []byte{0x81, 0, 1}},
		"a key without a value":              {level(one), numbers(1, 1)},
		"a key that is too long":             {append(key(one, 0), 0), numbers(1, 1)},
		"a level above the largest":          {append(binary.BigEndian.AppendUint64(most[:4:4], uint64(privacy.MaxEpsilon().Nano())+1), 0, 0, 0, 0), numbers(1, 1)},
		"a level above all":                  {append(binary.BigEndian.AppendUint64(most[:4:4], 1<<64-1), 0, 0, 0, 0), numbers(1, 1)},
		"a level of 0":                       {append(level(privacy.Epsilon{}), 0, 0, 0, 0), numbers(1, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			l := voters(t, inMemory(t, Options{}), "9", "ann", "bob")
			setResponse(t, l, "ann", "1", 0)
			putRecord(t, l.engine.Store, state.BucketTallies, spoiled.key, spoiled.payload)
			e, err := l.Estimate(t.Context(), api.EstimateRequest{Question: "vote"})
			check.That(t, errors.Is(err, api.ErrCorrupt), "got %+v, %v, want ErrCorrupt", e, err)
			if name != "a value the question does not have" && name != "the largest value" && name != "more in all than there are chains" {
				_, err = api.Collect(l.Levels(t.Context(), "vote")) // which counts each level by itself, and reads no value
				wantErr(t, err, api.ErrCorrupt)
			}
		})
	}
}

// A draw that would make a count wrong is refused, and does not hinder draws at other levels.
func TestDraw_TallyDamaged_IsCorruptForThatTallyOnly(t *testing.T) {
	key := state.TallyKey{Question: 1, Epsilon: eps(t, "1"), Value: 0}.Bytes()
	for name, payload := range map[string][]byte{
		"none current":     {1, 0},
		"too many current": {1, 2},
		"nothing recorded": {0, 0},
		"half a record":    {1},
		"more than events": append(binary.AppendUvarint(nil, 1<<64-1), 1),
		"no tally at all":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			l := voters(t, inMemory(t, Options{}), "9", "ann", "bob")
			setResponse(t, l, "ann", "1", 0)
			if payload == nil {
				l = openMemory(t, fill(t, slices.DeleteFunc(pairs(t, l.engine.Store), func(p pair) bool { return p.bucket == state.BucketTallies })), Options{})
			} else {
				putRecord(t, l.engine.Store, state.BucketTallies, key, payload)
			}
			unchanged(t, l.engine.Store, func() { wantErr(t, tryResponse(t, l, "ann", "1.5", 0), api.ErrCorrupt) })
			must(t, tryResponse(t, l, "bob", "0.75", 0))
		})
	}
}
