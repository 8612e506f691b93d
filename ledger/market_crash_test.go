package ledger

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/history"
	"github.com/sluicedp/sluice/policy"
)

// Invariants 1, 5 and 9 for a host that is killed again and again in the middle of its day. It repeats
// every request with its key until it is through. Then everybody has been told the same bytes every time,
// and but for the responses themselves the ledger is the one of a host that nothing ever happened to.

const (
	dayPath  = "SLUICE_TEST_DAY_PATH"  // tells a process that it is the host
	dayTold  = "SLUICE_TEST_DAY_TOLD"  // the file of what was told before
	dayRound = "SLUICE_TEST_DAY_ROUND" // how often it was started
	dayCalls = 320
)

// reply is what a call of the day came to.
type reply struct {
	N      int
	Result json.RawMessage
	Err    string
}

// day is a host's day: its calls, one after the other, each at its own minute. What it calls for depends on
// nothing but the number of the call and what came of those before.
type day struct {
	ledger   *Ledger
	clock    *fakeClock
	truth    TruthFunc
	reserved map[int]Reservation // by the number of the call
	guests   []string            // who came for a while, and are forgotten
}

// dawn is later than the creation of any file of the test.
func dawn() time.Time { return time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC) }

// dayPolicies are by question; the last is not for sale, and comes by itself.
func dayPolicies() (map[string]policy.Policy, error) {
	level := func(tenths int64) policy.Price {
		return policy.Price{Epsilon: epsilonOf(tenths * 100_000_000), Amount: 7 * tenths}
	}
	sold, err := policy.Sell(policy.Market{Max: epsilonOf(2_000_000_000), Prices: []policy.Price{level(5), level(20)}, Floor: 3})
	if err != nil {
		return nil, err
	}
	growing, err := policy.Linear(epsilonOf(200_000_000), epsilonOf(2_000_000_000), dawn(), dawn().Add(dayCalls*time.Minute), epsilonOf(100_000_000))
	if err != nil {
		return nil, err
	}
	both, err := policy.Min(growing, sold)
	return map[string]policy.Policy{"vote": both, "smoker": sold, "diary": growing}, err
}

// call makes the n-th call of the day.
func (d *day) call(n int) (result any, err error) {
	d.clock.set(dawn().Add(time.Duration(n) * time.Minute))
	ctx, random, key := context.Background(), rand.New(rand.NewPCG(uint64(n), 42)), fmt.Sprint("call ", n)
	terms, err := dayPolicies()
	if err != nil {
		return nil, err
	}
	question := []string{"vote", "smoker"}[random.IntN(2)]
	names := crowd(12)
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:1+random.IntN(5)]
	o := Order{Buyer: []string{"acme", "zeta", "hooli"}[random.IntN(3)], Question: question, Epsilon: epsilonOf(int64(1+min(random.IntN(20), random.IntN(20))) * 100_000_000), Objects: names}
	some := random.IntN(3) > 0
	switch {
	case n == 0:
		return nil, d.ledger.DefineQuestion(ctx, key, vote())
	case n == 1:
		return nil, d.ledger.DefineQuestion(ctx, key, Question{Name: "smoker", Values: []string{"yes", "no"}, Encoding: Direct})
	case n == 2:
		return nil, d.ledger.DefineQuestion(ctx, key, Question{Name: "diary", Values: []string{"yes", "no"}, Encoding: Direct})
	case n < 6:
		q := []string{"vote", "smoker", "diary"}[n%3]
		return d.ledger.Enroll(ctx, EnrollRequest{Key: key, Question: q, Objects: crowd(12), Policy: terms[q], Cap: epsilonOf(5_000_000_000)})
	}
	switch pick := random.IntN(100); {
	case pick < 34:
		return d.delivered(d.ledger.Sell(ctx, SellRequest{Key: key, Order: o, Partial: some, Truth: d.truth}))
	case pick < 37:
		guest := fmt.Sprint("guest ", n)
		done, err := d.ledger.Enroll(ctx, EnrollRequest{Key: key, Question: "diary", Objects: []string{guest, "friend of " + guest}, Policy: terms["diary"], Cap: epsilonOf(5_000_000_000)})
		d.guests = append(d.guests, guest)
		return done, err
	case pick < 40 && len(d.guests) > 0:
		guest := d.guests[0]
		d.guests = d.guests[1:]
		return nil, d.ledger.Forget(ctx, key, guest)
	case pick < 60:
		r, err := d.ledger.Reserve(ctx, ReserveRequest{Key: key, Order: o, For: time.Duration(1+random.IntN(40)) * time.Minute, Partial: some})
		if err == nil {
			d.reserved[n] = r
		}
		return r, err
	case pick < 75:
		return d.delivered(d.ledger.Capture(ctx, CaptureRequest{Key: key, Reservation: d.someReservation(n, random), Partial: some, Truth: d.truth}))
	case pick < 79:
		return nil, d.ledger.Cancel(ctx, key, d.someReservation(n, random))
	case pick < 82:
		return nil, d.ledger.Withdraw(ctx, key, names[0])
	case pick < 88:
		return d.ledger.Enroll(ctx, EnrollRequest{Key: key, Question: question, Objects: crowd(12), Policy: terms[question], Cap: epsilonOf(5_000_000_000)})
	case pick < 94:
		return d.ledger.Advance(ctx, AdvanceRequest{Key: key, Truth: d.truth})
	default:
		return d.ledger.Release(ctx, ReleaseRequest{Key: key, Question: question, Object: names[0], Epsilon: o.Epsilon, Truth: d.truth})
	}
}

// someReservation returns the number of one of the latest reservations, or one that there is not.
func (d *day) someReservation(n int, random *rand.Rand) uint64 {
	for back := 1 + random.IntN(8); back < 40; back++ {
		if r, made := d.reserved[n-back]; made {
			return r.Number
		}
	}
	return 1 << 40
}

// delivered returns a sale with everything it delivers.
func (d *day) delivered(s Sale, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	all, err := collect(d.ledger.Deliveries(context.Background(), s.Number))
	return struct {
		Sale       Sale
		Deliveries []Delivery
	}{s, all}, err
}

// votesOfTheDay are the host's truths.
func votesOfTheDay(_ context.Context, _ string, objects []string) (values []string, err error) {
	for _, name := range objects {
		values = append(values, []string{"yes", "no"}[int(name[len(name)-1])%2])
	}
	return values, nil
}

func newDay(path string) (*day, error) {
	d := &day{clock: newClock(dawn()), reserved: map[int]Reservation{}}
	var err error
	d.ledger, err = Open(path, Options{Now: d.clock.read, ClockAhead: dawn().AddDate(0, 0, 1)})
	return d, err
}

// live makes all calls of the day and passes what each came to to tell. Calls told before are repeated
// without their truths, except those that failed: nobody repeats what was refused.
func (d *day) live(before map[int]reply, tell func(reply)) {
	for n := range dayCalls {
		old, told := before[n]
		if told && old.Err != "" {
			continue
		}
		d.truth = votesOfTheDay
		if told {
			d.truth = func(context.Context, string, []string) ([]string, error) { return nil, errors.New("asked again") }
		}
		result, err := d.call(n)
		one := reply{N: n}
		if err != nil {
			one.Err = err.Error()
		}
		if one.Result, err = json.Marshal(result); err != nil {
			one.Err = err.Error()
		}
		tell(one)
	}
}

func TestADayOfKillsEndsAsAQuietOne(t *testing.T) {
	path := create(t)
	told, rounds := map[int]reply{}, 0
	for through := false; !through; rounds++ {
		if rounds == 20*dayCalls {
			t.Fatal("the day does not end")
		}
		through = liveAndDie(t, path, rounds, told)
	}
	rough := open(t, path, Options{Now: func() time.Time { return dawn().Add(dayCalls * time.Minute) }})
	auditAll(t, rough, rough.engine.Store)
	wantSameAsQuiet(t, rough, told)
	failed := 0
	for _, one := range told {
		if one.Err != "" {
			failed++
		}
	}
	t.Logf("%d calls, %d of them refused, in %d lives: %+v", len(told), failed, rounds, stats(t, rough))
}

// liveAndDie starts a host, lets it repeat what was told and go on, and kills it after a few calls. It adds
// what was told now, and tells whether the host came to the end of its day.
func liveAndDie(t *testing.T, path string, round int, told map[int]reply) (through bool) {
	t.Helper()
	before, err := json.Marshal(told)
	must(t, err)
	file := filepath.Join(t.TempDir(), "told.json")
	must(t, os.WriteFile(file, before, 0o600))
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDayChild$")
	child.Env = append(os.Environ(), dayPath+"="+path, dayTold+"="+file, dayRound+"="+strconv.Itoa(round))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	kill := func() { _ = child.Process.Kill() }
	fresh, most := 0, rand.IntN(9)
	if most == 0 { // while it opens the file, or repeats what was told before
		time.AfterFunc(time.Duration(rand.IntN(40))*time.Millisecond, kill)
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Logf("reading: %v", err)
			}
			break // the rest of a line that was cut off was told to nobody
		}
		var one reply
		if err := json.Unmarshal(line, &one); err != nil {
			if bytes.HasPrefix(line, []byte("PASS")) {
				through = true
				continue
			}
			if through {
				continue // what package testing says of coverage
			}
			t.Fatalf("the host says %s", line)
		}
		if old, known := told[one.N]; known {
			if one.Err != "" || !bytes.Equal(one.Result, old.Result) {
				t.Fatalf("call %d came to\n%s\nand after a crash to\n%s %s", one.N, old.Result, one.Result, one.Err)
			}
			continue
		}
		told[one.N] = one
		if fresh++; fresh == most {
			time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, kill)
		}
	}
	if err := child.Wait(); err == nil && !through {
		t.Fatal("the host went without a word")
	}
	return through
}

// wantSameAsQuiet compares a ledger with that of the same day without a crash.
func wantSameAsQuiet(t *testing.T, rough *Ledger, told map[int]reply) {
	t.Helper()
	d, err := newDay(create(t))
	must(t, err)
	defer d.ledger.Close()
	d.live(nil, func(quiet reply) {
		if got := told[quiet.N]; withoutResponses(t, got.Result) != withoutResponses(t, quiet.Result) || got.Err != quiet.Err {
			t.Errorf("call %d came to\n%s %s\nwithout a crash to\n%s %s", quiet.N, got.Result, got.Err, quiet.Result, quiet.Err)
		}
	})
	d.clock.set(dawn().Add(dayCalls * time.Minute)) // as that of the other
	got, want := withoutTheirBirth(t, rough), withoutTheirBirth(t, d.ledger)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("event %d is\n%+v\nwithout a crash\n%+v", i+2, got[min(i, len(got)-1)], want[min(i, len(want)-1)])
		}
	}
	for _, name := range crowd(12) {
		a, err := json.Marshal(objectOf(t, rough, name))
		must(t, err)
		b, err := json.Marshal(objectOf(t, d.ledger, name))
		must(t, err)
		if withoutResponses(t, a) != withoutResponses(t, b) {
			t.Errorf("an object is\n%s\nwithout a crash\n%s", a, b)
		}
	}
	if a, b := buyersOf(t, rough), buyersOf(t, d.ledger); !reflect.DeepEqual(a, b) {
		t.Errorf("the buyers are %+v, without a crash %+v", a, b)
	}
	a, b := stats(t, rough), stats(t, d.ledger)
	if a.Bytes = b.Bytes; a != b {
		t.Errorf("%+v, without a crash %+v", a, b)
	}
}

// withoutTheirBirth returns the log behind its first event, which names the ledger, without responses.
func withoutTheirBirth(t *testing.T, l *Ledger) []Event {
	t.Helper()
	log := events(t, l)[1:]
	for i := range log {
		log[i].Says = withoutChance(log[i].Says)
	}
	return log
}

// withoutChance returns a detail without its response, and without its policy, of which two equal ones need not be deeply equal.
func withoutChance(d history.Detail) history.Detail {
	switch d := d.(type) {
	case history.Released:
		d.Response = ""
		return d
	case history.Sold:
		d.Response = ""
		return d
	case history.Answered:
		d.Response = ""
		return d
	case history.PolicyDefined:
		return history.PolicyDefined{}
	case history.Enrolled:
		d.Policy = nil
		return d
	}
	return d
}

// withoutResponses blanks the responses in a JSON text.
func withoutResponses(t *testing.T, text []byte) string {
	t.Helper()
	if len(text) == 0 {
		return ""
	}
	var all any
	must(t, json.Unmarshal(text, &all))
	var blank func(any)
	blank = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if _, is := v["response"]; is {
				v["response"] = "?"
			}
			for _, one := range v {
				blank(one)
			}
		case []any:
			for _, one := range v {
				blank(one)
			}
		}
	}
	blank(all)
	out, err := json.Marshal(all)
	must(t, err)
	return string(out)
}

// TestDayChild is the host that gets killed. In any other process it does nothing.
func TestDayChild(t *testing.T) {
	path := os.Getenv(dayPath)
	if path == "" {
		return
	}
	before := map[int]reply{}
	text, err := os.ReadFile(os.Getenv(dayTold))
	must(t, err)
	must(t, json.Unmarshal(text, &before))
	d, err := newDay(path)
	must(t, err)
	d.live(before, func(one reply) {
		line, _ := json.Marshal(one)
		_, _ = os.Stdout.Write(append(line, '\n'))
	})
	must(t, d.ledger.Close())
}
