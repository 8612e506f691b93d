package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// What Verify finds in the log itself.

// alterEvent changes the record of an event.
func alterEvent(t testing.TB, s kv.Store, number uint64, change func(*event.Entry)) {
	t.Helper()
	alter(t, s, state.BucketEvents, state.EventKey(number), func(payload []byte) []byte {
		n := check.Value(event.DecodeEntry(number, payload))(t)
		change(&n)
		return n.Encode()
	})
}

// foundAfter opens a ledger with some records, damages them, and returns the findings.
func foundAfter(t testing.TB, records []pair, damage func(s kv.Store)) []api.Finding {
	t.Helper()
	s := fill(t, records)
	l := openMemory(t, s, Options{})
	damage(s)
	return findings(t, l, api.VerifyRequest{})
}

// Each event of a rich ledger is altered in ways that no rule forbids: the tree identifies the
// event.
func TestVerify_EventAltered_NamesIt(t *testing.T) {
	original := pairs(t, rich(t))
	log, step := logOf(t, original), oneIn(3)
	for i := rand.IntN(step); i < len(log); i += step {
		ev := log[i]
		for what, change := range map[string]func(*event.Entry){
			"salt":       func(n *event.Entry) { n.Salt[3]++ },
			"commitment": func(n *event.Entry) { n.Erased[3]++ },
			"leaf":       func(n *event.Entry) { n.Hashes[0][3]++ },
		} {
			if (what == "salt") != (ev.Erased == nil) && what != "leaf" {
				continue
			}
			found := foundAfter(t, original, func(s kv.Store) { alterEvent(t, s, ev.Number, change) })
			check.That(t, len(found) != 0 && found[0].Kind == "tree" && found[0].Event == ev.Number &&
				strings.HasPrefix(found[0].Text, "the leaf is ") && found[0].Object == event.ObjectOf(ev), "%s of event %d: found %+v", what, ev.Number, found)
			check.That(t, what == "leaf" || len(found) == 1, "%s of event %d: found %+v", what, ev.Number, found)
		}
	}
}

func TestVerify_HashAltered_NamesIt(t *testing.T) {
	original := pairs(t, rich(t))
	for _, number := range []uint64{2, 4, 64, 96, 112} {
		top := 0
		found := foundAfter(t, original, func(s kv.Store) {
			alterEvent(t, s, number, func(n *event.Entry) { top = len(n.Hashes) - 1; n.Hashes[top][0]++ })
		})
		check.That(t, len(found) != 0 && found[0].Kind == "tree" && found[0].Event == number &&
			strings.HasPrefix(found[0].Text, fmt.Sprintf("the hash of the %d events up to here is ", 1<<top)), "hash %d of event %d: found %+v", top, number, found)
		check.That(t, len(found) <= 2, "hash %d of event %d: found %d problems", top, number, len(found)) // itself, and where it is used
	}
}

func TestVerify_LinkAltered_NamesTheEvent(t *testing.T) {
	original := pairs(t, rich(t))
	for _, n := range eventsOf(t, fill(t, original)) {
		found := foundAfter(t, original, func(s kv.Store) { alterEvent(t, s, n.Number, func(n *event.Entry) { n.Previous++ }) })
		want := fmt.Sprintf("%s: the event before it about the same object is %d, the events say %d", n.Change.Kind(), n.Previous+1, n.Previous)
		if !slices.ContainsFunc(found, func(p api.Finding) bool { return p.Kind == "event" && p.Event == n.Number && p.Text == want }) {
			t.Errorf("event %d: found %+v", n.Number, found)
		}
		check.That(t, len(found) <= 3, "event %d: found %d problems: %+v", n.Number, len(found), found) // a statement may follow the link too
	}
}

// Any change of the stored budgets alone is found, with the object's name.
func TestVerify_BudgetForged_NamesTheObject(t *testing.T) {
	original := pairs(t, rich(t))
	lower := func(e *privacy.Epsilon) {
		*e, _ = privacy.EpsilonFromNano(max(0, e.Nano()-1))
	}
	tries := 0
	try := func(name, what string, p pair, payload []byte) {
		if bytes.Equal(payload, p.value[:len(p.value)-wire.SumLength]) {
			return // there was nothing to take away
		}
		tries++
		found := foundAfter(t, original, func(s kv.Store) { putRecord(t, s, p.bucket, p.key, payload) })
		if len(found) == 0 || slices.ContainsFunc(found, func(p api.Finding) bool { return p.Object != name }) {
			t.Errorf("%s of %q: found %+v", what, name, found)
		}
	}
	for _, p := range original {
		payload, _ := unsealed(p)
		switch {
		case p.bucket == state.BucketObjects && bytes.Count(p.key, []byte{0}) == 1:
			name := strings.TrimSuffix(string(p.key), "\x00")
			for what, change := range map[string]func(*state.Object){
				"spent":     func(o *state.Object) { lower(&o.Spent) },
				"cap":       func(o *state.Object) { o.Cap = privacy.MaxEpsilon() },
				"all":       func(o *state.Object) { *o = state.Object{Cap: o.Cap} },
				"holds":     func(o *state.Object) { o.Held = nil },
				"leaving":   func(o *state.Object) { o.Withdrawn = 0 },
				"tombstone": func(o *state.Object) { o.Forgotten = 0 },
			} {
				try(name, what, p, edited(t, state.DecodeObject, change)(payload))
			}
		case p.bucket == state.BucketChains:
			name := string(p.key[4:])
			for what, change := range map[string]func(*state.Chain){
				"levels":   func(c *state.Chain) { c.Levels = nil },
				"answers":  func(c *state.Chain) { lower(&c.Answered) },
				"policy":   func(c *state.Chain) { c.Policy = 0 },
				"buyers":   func(c *state.Chain) { c.Buyers += 9 },
				"truth":    func(c *state.Chain) { c.Bound = nil },
				"enrolled": func(c *state.Chain) { c.Enrolled++ },
				"level": func(c *state.Chain) {
					if n := len(c.Levels); n > 0 {
						lower(&c.Levels[n-1].Epsilon)
					}
				},
			} {
				try(name, what, p, edited(t, state.DecodeChain, change)(payload))
			}
		}
	}
	check.That(t, tries >= 50, "only %d tries", tries)
}

// Nothing is drawn from a damaged budget.
func TestRelease_BudgetDamaged_IsCorrupt(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "1", "ann")
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	original := pairs(t, l.engine.Store)
	for _, p := range original {
		if p.bucket != state.BucketObjects && p.bucket != state.BucketChains || len(p.key) > len("ann")+4 {
			continue
		}
		for i := range p.value {
			for bit := range 8 {
				s := fill(t, original)
				value := slices.Clone(p.value)
				value[i] ^= 1 << bit
				putRaw(t, s, p.bucket, p.key, value)
				l := openMemory(t, s, Options{})
				for key, epsilon := range map[string]string{"less": "0.75", "more": "1.25"} {
					if _, err := l.Release(t.Context(), releaseOf(t, key, "ann", epsilon)); !errors.Is(err, api.ErrCorrupt) {
						t.Errorf("byte %d of %s %q: ε=%s: %v", i, p.bucket, p.key, epsilon, err)
					}
				}
			}
		}
	}
}

// If the whole log and the state are written again, the file alone does not reveal it. A checkpoint
// does.
func TestVerify_LogRewritten_ContradictsTheCheckpoint(t *testing.T) {
	for name, change := range rewritings(t) {
		t.Run(name, func(t *testing.T) {
			l := sellers(t, inMemory(t, Options{}), "3", "2", "ann", "bob")
			sell(t, l, purchase(t, "1", "acme", "0.5", "ann", "bob"))
			sell(t, l, purchase(t, "2", "zeta", "0.5", "ann"))
			trusted := trustedHead(t, l.engine.Store)
			wantClean(t, l, trusted)
			forged := &kv.Memory{}
			log := logOf(t, pairs(t, l.engine.Store))
			must(t, replay(forged, change(log)))
			l = openMemory(t, forged, Options{})
			wantClean(t, l, api.VerifyRequest{})
			found := findings(t, l, trusted)
			check.That(t, len(found) == 1 && found[0].Kind == "checkpoint" && found[0].Event == uint64(len(log)) &&
				strings.HasPrefix(found[0].Text, "rolled back: "), "found %+v", found)
		})
	}
}

func rewritings(t *testing.T) map[string]func([]event.Event) []event.Event {
	return map[string]func([]event.Event) []event.Event{
		"another response": func(log []event.Event) []event.Event {
			for _, ev := range log {
				if c, ok := ev.Change.(*event.Sold); ok && c.Object == "ann" {
					c.Value.Index = (c.Value.Index + 1) % 3
				}
			}
			return log
		},
		"another price": func(log []event.Event) []event.Event {
			cheap := market(t, "3", func(m *policy.Market) { m.Prices = []policy.Price{{Epsilon: eps(t, "3"), Amount: 30}} })
			for _, ev := range log {
				switch c := ev.Change.(type) {
				case *event.PolicyDefined:
					c.JSON = cheap.String()
				case *event.SaleMade:
					c.Price = 5 * c.Objects
				case *event.Sold:
					c.Price = 5
				}
			}
			return log
		},
		"another time": func(log []event.Event) []event.Event {
			for i := range log {
				log[i].Time = log[i].Time.Add(time.Minute)
			}
			return log
		},
		"another salt": func(log []event.Event) []event.Event { log[3].Salt[0]++; return log },
		"less of an order": func(log []event.Event) []event.Event {
			i := slices.IndexFunc(log, func(ev event.Event) bool { _, ok := ev.Change.(*event.SaleMade); return ok })
			return log[:i-1]
		},
	}
}

// An older copy of a file is sound, like a rewritten log. A checkpoint reveals it.
func TestVerify_OlderCopy_ContradictsTheCheckpoint(t *testing.T) {
	path, options := fileWithLogKey(t, "ann", "bob")
	l := open(t, path, options)
	older := filepath.Join(tests.TempDir(t), "older.db")
	must(t, check.Err(l.Backup(t.Context(), older, nil)))
	before := checkpointOf(t, l)
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	after := checkpointOf(t, l)
	foreign, _, key := logKey(t, "elsewhere", 3)
	other := signedLedger(t, key, Options{Signer: foreign})
	_, ours, _ := logKey(t, "sluice-test", 1)
	_, theirs, _ := logKey(t, "elsewhere", 3)
	r := api.VerifyRequest{Verifiers: note.VerifierList(ours, theirs), Checkpoints: [][]byte{checkpointOf(t, other), after, before}}
	found := findings(t, open(t, older, Options{ReadOnly: true}), r)
	head := check.Value(evidence.OpenCheckpoint(after, r.Verifiers))(t)
	wantProblems(t, found, []api.Finding{
		{Kind: "checkpoint", Event: 1, Text: `rolled back: the checkpoint is of the log "elsewhere", the ledger's is "sluice-test"`},
		{Kind: "checkpoint", Event: head.Events, Text: fmt.Sprintf("rolled back: the checkpoint is of %d events, the ledger has %d", head.Events, stats(t, open(t, older, Options{ReadOnly: true})).Events)},
	})
	r.Checkpoints = r.Checkpoints[1:]
	wantClean(t, l, r)
}

// Only Forget may erase events.
func TestVerify_ErasedWithoutForget_IsFound(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "5", "ann", "bob")
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	number := release(t, l, releaseOf(t, "2", "ann", "1")).Event
	alterEvent(t, l.engine.Store, number, func(n *event.Entry) { *n = n.Erase() })
	found := findings(t, l, api.VerifyRequest{})
	for _, want := range []api.Finding{
		{Kind: "object", Object: "ann", Text: `object "ann": spent is 1, the events say 0.5`},
		{Kind: "counters", Text: "the sums over the log: the number of erased events that belong to no forgotten object is 0, the events say 1"},
		{Kind: "chain", Object: "ann", Question: "vote", Text: `chain of "ann" in "vote": something is stored at ε=1, but the events give nothing`},
	} {
		if !slices.ContainsFunc(found, func(p api.Finding) bool { p.Event = 0; return p == want }) {
			t.Errorf("found %+v, want %+v among it", found, want)
		}
	}
}

func TestVerify_ForgottenEventPutBack_IsFound(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "5", "ann", "bob")
	number := release(t, l, releaseOf(t, "1", "ann", "0.5")).Event
	var whole event.Entry
	must(t, l.engine.View(t.Context(), func(s *state.State) (err error) { whole, err = s.Entry(number); return err }))
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "2", Object: "ann"}))
	wantClean(t, l, api.VerifyRequest{})
	alterEvent(t, l.engine.Store, number, func(n *event.Entry) { *n = whole })
	found := findings(t, l, api.VerifyRequest{})
	if !slices.ContainsFunc(found, func(p api.Finding) bool { return p.Event == number && p.Object == "ann" }) {
		t.Errorf("found %+v", found)
	}
}

// An attacker who has an older copy can put all erased events back.
func TestVerify_AllForgottenEventsPutBack_AreFound(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "5", "ann", "bob")
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	before := eventsOf(t, l.engine.Store)
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "2", Object: "ann"}))
	for _, n := range before {
		putRecord(t, l.engine.Store, state.BucketEvents, state.EventKey(n.Number), n.Encode())
	}
	var want []api.Finding
	for _, number := range []uint64{uint64(len(before)) - 1, uint64(len(before))} { // the response, and the request for it
		want = append(want, api.Finding{
			Kind: "event", Event: number, Object: "ann", Text: fmt.Sprintf("forgotten: the object is forgotten, but not all events about it are erased: the last of them is event %d", number),
		})
	}
	found := findings(t, l, api.VerifyRequest{})
	wantProblems(t, slices.DeleteFunc(found, func(p api.Finding) bool { return p.Kind == "request" }), want)
}

// A damaged event on which many others depend is reported once, and the others are audited all the
// same.
func TestVerify_DefinitionDamaged_ContinuesAndReportsOnce(t *testing.T) {
	names := crowd(100)
	l := sellers(t, inMemory(t, Options{TruthKey: truthKey()}), "5", "5", names...)
	sell(t, l, purchase(t, "1", "acme", "0.5", names...))
	sell(t, l, purchase(t, "2", "zeta", "1", names...))
	original := pairs(t, l.engine.Store)
	log := logOf(t, original)
	for _, ev := range log {
		switch ev.Change.Kind() {
		case event.KindCreated, event.KindTruthKey, event.KindQuestion, event.KindPolicy, event.KindBuyer, event.KindSale, event.KindSettled:
		default:
			continue
		}
		for how, damage := range map[string]func(s kv.Store){
			"missing":    func(s kv.Store) { remove(t, s, state.BucketEvents, state.EventKey(ev.Number)) },
			"unreadable": func(s kv.Store) { putRaw(t, s, state.BucketEvents, state.EventKey(ev.Number), []byte("damaged")) },
			"early":      func(s kv.Store) { alterEvent(t, s, ev.Number, func(n *event.Entry) { n.Time = time.Unix(0, 0) }) },
			"late": func(s kv.Store) {
				alterEvent(t, s, ev.Number, func(n *event.Entry) { n.Time = n.Time.Add(time.Hour) })
			},
		} {
			found := foundAfter(t, original, func(s kv.Store) {
				damage(s)
				alter(t, s, state.BucketObjects, state.ObjectKey(names[99]), edited(t, state.DecodeObject, func(o *state.Object) { o.Spent = eps(t, "0.1") }))
			})
			want := api.Finding{Kind: "object", Object: names[99], Text: fmt.Sprintf("object %q: spent is 0.1, the events say 1", names[99])}
			if len(found) < 2 || len(found) > 10 || !slices.ContainsFunc(found, func(p api.Finding) bool { p.Event = 0; return p == want }) {
				t.Errorf("event %d (%s) is %s: found %d problems: %.3000v", ev.Number, ev.Change.Kind(), how, len(found), found)
			}
			if !slices.ContainsFunc(found, func(p api.Finding) bool { return p.Event == ev.Number }) {
				t.Errorf("event %d (%s) is %s: it is not reported: %.3000v", ev.Number, ev.Change.Kind(), how, found)
			}
		}
	}
}

func TestVerify_EventsMissing_AreReportedOnce(t *testing.T) {
	s := rich(t)
	l := openMemory(t, s, Options{})
	for number := uint64(93); number <= 105; number++ {
		remove(t, s, state.BucketEvents, state.EventKey(number))
	}
	found := findings(t, l, api.VerifyRequest{})
	if want := (api.Finding{Kind: "event", Event: 93, Text: "the events 93 to 105 are missing"}); len(found) == 0 || found[0] != want {
		t.Errorf("found %+v", found)
	}
	putRaw(t, s, state.BucketEvents, []byte("now"), []byte("and then"))
	putRaw(t, s, state.BucketEvents, state.EventKey(0), []byte("in the beginning"))
	putRaw(t, s, state.BucketEvents, state.EventKey(1<<63), []byte("in the end"))
	want := []string{
		"there is an event 0, but events are numbered from 1", "the events 93 to 105 are missing", "a record with the key 6e6f77 among the events",
		fmt.Sprintf("the events %d to %d are missing", stats(t, l).Events+1, uint64(1)<<63-1), fmt.Sprintf("event %d: record ends early", uint64(1)<<63),
	}
	texts := map[string]bool{}
	for _, p := range findings(t, l, api.VerifyRequest{}) {
		texts[p.Text] = true
	}
	for _, text := range want {
		check.That(t, texts[text], "not found: %s\nbut %v", text, texts)
	}
}

// A damaged page is reported, with what it held, and the rest of the file is audited.
func TestVerify_PageDamaged_AuditsTheRest(t *testing.T) {
	path := filepath.Join(tests.TempDir(t), "ledger.db")
	bigLedger(t, path, 3000)
	data := check.Value(os.ReadFile(path))(t)
	page := os.Getpagesize()
	at := bytes.Index(data, []byte("person-0000100")) / page * page
	marked := 0
	for ; marked == 0; at += page { // a leaf of the chains: its elements are not larger than 100 bytes
		if binary.NativeEndian.Uint16(data[at+8:]) == 2 && bytes.Contains(data[at:at+page], []byte("\x00\x00\x00\x01person-0000100")) && inUse(t, data, at/page) {
			marked = at
		}
	}
	copy(data[marked:], "this page is not what it was")
	must(t, os.WriteFile(path, data, 0o600))
	l := open(t, path, Options{})
	alter(t, l.engine.Store, state.BucketObjects, state.ObjectKey("person-0000490"), edited(t, state.DecodeObject, func(o *state.Object) { o.Spent = eps(t, "0.1") }))
	files, missing, forged, others := 0, 0, 0, 0
	for _, p := range findings(t, l, api.VerifyRequest{}) {
		switch {
		case p.Kind == "file" && strings.Contains(p.Text, fmt.Sprintf("page %d ", marked/page)):
			files++
		case p.Kind == "chain" && strings.HasSuffix(p.Text, "the record is missing"):
			missing++
		case p.Kind == "object" && p.Object == "person-0000490":
			forged++
		default:
			others++
			t.Errorf("found %+v", p)
		}
	}
	check.That(t, files == 1 && missing >= 5 && missing <= 200 && forged == 1,
		"found %d damaged pages, %d missing chains, %d forged objects", files, missing, forged)
}

// inUse reports whether a page belongs to the present records, by whether a store can be read
// without it.
func inUse(t testing.TB, data []byte, page int) bool {
	t.Helper()
	path := filepath.Join(tests.TempDir(t), "without.db")
	without := slices.Clone(data)
	clear(without[page*os.Getpagesize():][:16])
	must(t, os.WriteFile(path, without, 0o600))
	s := check.Value(bolt.Open(path, true))(t)
	defer s.Close()
	faults := 0
	must(t, s.Inspect(func(kv.Fault) { faults++ }, func(r kv.Reader) error {
		return r.Scan(state.BucketChains, nil, func(_, _ []byte) bool { return true })
	}))
	return faults > 0
}

// brokenStore is a store whose scans of one bucket fail at a key.
type brokenStore struct {
	kv.Store
	bucket string
	at     []byte
}

type brokenReader struct {
	kv.Reader
	*brokenStore
}

func (b *brokenStore) View(fn func(kv.Reader) error) error {
	return b.Store.View(func(r kv.Reader) error { return fn(brokenReader{r, b}) })
}

func (r brokenReader) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	broken := false
	err := r.Reader.Scan(bucket, from, func(key, value []byte) bool {
		broken = bucket == r.bucket && bytes.Compare(key, r.at) >= 0
		return !broken && visit(key, value)
	})
	if broken {
		err = fmt.Errorf("%w: page 7", api.ErrCorrupt)
	}
	return err
}

// A store that cannot be read to the end is a finding too, and not the end of the audit.
func TestVerify_BucketUnreadable_IsReported(t *testing.T) {
	memory := rich(t)
	for bucket, want := range map[string]api.Finding{
		state.BucketEvents:  {Kind: "file", Event: 101, Text: `the events from 101 on cannot be read: page 7, in the bucket "events"`},
		state.BucketObjects: {Kind: "file", Text: `not all records can be read: page 7, in the bucket "objects"`},
	} {
		at := map[string][]byte{state.BucketEvents: state.EventKey(101), state.BucketObjects: state.ObjectKey("bob")}[bucket]
		l := openMemory(t, &brokenStore{memory, bucket, at}, Options{})
		found := findings(t, l, api.VerifyRequest{})
		check.That(t, slices.Contains(found, want) && len(found) >= 5, "found %+v", found)
		again, _ := verified(t, l, api.VerifyRequest{}, slow())
		again = slices.DeleteFunc(again, func(p api.Finding) bool { return p != want })
		check.That(t, len(again) == 1, "step by step it is found %d times", len(again))
	}
}
