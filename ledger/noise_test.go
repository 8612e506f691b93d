package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/rrchain"
)

// Responses that are drawn from a key of the host: they depend on the key, the question, the
// object, ε and the true value alone.

// theNoiseKey returns the key of a name, a different one for each name.
func theNoiseKey(name string) []byte {
	key := sha256.Sum256([]byte("for tests, the key " + name))
	return key[:]
}

// noiseKeys is a host with a key of every name.
func noiseKeys(current string) api.NoiseKeys {
	return api.NoiseKeys{Current: current, Key: func(name string) ([]byte, error) { return theNoiseKey(name), nil }}
}

// cities returns a question with so many values that responses seldom agree by chance.
func cities(encoding string) api.Question {
	q := api.Question{Name: fmt.Sprint("city ", map[string]int{"direct": 1, "unary": 2}[encoding]), Encoding: encoding}
	for i := range 97 {
		q.Values = append(q.Values, fmt.Sprint("city ", i))
	}
	return q
}

// cityOf is a source with a city for each object.
func cityOf(q api.Question) api.TruthFunc {
	return func(_ context.Context, _ string, objects []string) (values []string, err error) {
		for _, name := range objects {
			values = append(values, q.Values[len(name)*int(name[len(name)-1])%len(q.Values)])
		}
		return values, nil
	}
}

// keyed opens a new ledger in memory whose responses are drawn from a key, with some questions
// about objects that sell.
func keyed(t *testing.T, keys api.NoiseKeys, names []string, questions ...api.Question) *Ledger {
	t.Helper()
	l := inMemory(t, Options{NoiseKey: keys})
	for _, q := range questions {
		define(t, l, q)
		enrollUnder(t, l, q.Name, market(t, "9"), "40", names...)
	}
	return l
}

// allResponses returns the responses of a ledger, by question, object and ε.
func allResponses(t *testing.T, l *Ledger, names []string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range names {
		for _, c := range objectOf(t, l, name).Chains {
			for _, at := range c.Levels {
				all[fmt.Sprint(c.Question, " ", name, " ", at.Epsilon)] = at.Response
			}
		}
	}
	return all
}

// hostCalls returns calls that a host repeats in the same way: releases, raises of all, sales.
func hostCalls(t *testing.T, l *Ledger, names []string, q api.Question) (all []func()) {
	truth := cityOf(q)
	add := func(do func()) { all = append(all, do) }
	for _, epsilon := range []string{"0.5", "1.5", "6"} {
		for _, name := range names[:3] {
			r := api.ReleaseRequest{Key: fmt.Sprint("release ", q.Name, name, epsilon), Question: q.Name, Object: name, Epsilon: eps(t, epsilon), Truth: truth}
			add(func() { release(t, l, r) })
		}
	}
	for _, epsilon := range []string{"0.75", "3"} {
		r := api.RaiseRequest{Key: "raise " + q.Name + epsilon, Question: q.Name, Epsilon: eps(t, epsilon), All: true, Truth: truth}
		add(func() { raise(t, l, r) })
	}
	for i, epsilon := range []string{"0.25", "1", "2", "1.5"} {
		r := purchase(t, fmt.Sprint("sell ", q.Name, i), []string{"acme", "zeta"}[i%2], epsilon, names...)
		r.Question, r.Truth = q.Name, truth
		add(func() { sell(t, l, r) })
	}
	return all
}

// A lost file is rebuilt by the same calls in another order: all responses are the same, byte for
// byte. A replica with fewer calls agrees in all responses that it has.
func TestNoiseKey_LedgerRebuilt_GivesTheSameResponses(t *testing.T) {
	names, questions := crowd(6), []api.Question{cities("direct"), cities("unary")}
	made := func(seed uint64, current string, oneIn int) map[string]string {
		random := rand.New(rand.NewPCG(seed, 7))
		asked := slices.Clone(questions)
		random.Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] }) // their numbers do not matter
		l := keyed(t, noiseKeys(current), names, asked...)
		var todo []func()
		for _, q := range questions {
			todo = append(todo, hostCalls(t, l, names, q)...)
		}
		random.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
		for _, do := range todo[:len(todo)/oneIn] {
			do()
		}
		auditStore(t, l.engine.Store)
		wantClean(t, l, api.VerifyRequest{})
		return allResponses(t, l, names)
	}
	want := made(1, "2026", 1)
	for seed := range uint64(5) {
		got := made(seed+2, "2026", 1)
		check.That(t, maps.Equal(got, want), "in the order of seed %d the responses are\n%.300v\nwant\n%.300v", seed, got, want)
		replica := made(seed+2, "2026", 3)
		check.That(t, len(replica) > 0 && len(replica) < len(want), "the replica has %d of %d responses", len(replica), len(want))
		for of, response := range replica {
			check.That(t, response == want[of], "seed %d: a replica has %q of %s, want %q", seed, response, of, want[of])
		}
	}
	for _, other := range []string{"2027", ""} { // another key, or none, gives others
		if got := made(1, other, 1); len(got) != len(want) || maps.Equal(got, want) {
			t.Errorf("with the key %q the responses are the same", other)
		}
	}
}

// After a backup is restored, the responses given since then are given again. There is no second
// draw.
func TestNoiseKey_BackupRestored_GivesTheSameResponses(t *testing.T) {
	names, q := crowd(5), cities("direct")
	path, copied := create(t), filepath.Join(tests.TempDir(t), "copy.db")
	l := open(t, path, Options{NoiseKey: noiseKeys("2026")})
	define(t, l, q)
	enrollUnder(t, l, q.Name, market(t, "9"), "40", names...)
	todo := hostCalls(t, l, names, q)
	for _, do := range todo[:4] {
		do()
	}
	must(t, check.Err(l.Backup(t.Context(), copied, nil)))
	for _, do := range todo[4:] {
		do()
	}
	want := allResponses(t, l, names)
	closed(t, l)
	restored := open(t, copied, Options{NoiseKey: noiseKeys("2026")})
	todo = hostCalls(t, restored, names, q)
	slices.Reverse(todo)
	for _, do := range todo {
		do()
	}
	got := allResponses(t, restored, names)
	check.That(t, maps.Equal(got, want), "the backup gives\n%.300v\nand gave\n%.300v", got, want)
}

// agreement returns how many objects give the same response in two ledgers, drawn at a small ε.
func agreement(t *testing.T, a, b *Ledger, questionA, questionB api.Question, names []string) (n int) {
	t.Helper()
	at := func(l *Ledger, q api.Question) map[string]api.Response {
		raise(t, l, api.RaiseRequest{Key: "agree", Question: q.Name, Epsilon: eps(t, "0.01"), Objects: names, Truth: sameTruth(q.Values[0])})
		return responses(t, l, q.Name, eps(t, "0.01"))
	}
	ones, others := at(a, questionA), at(b, questionB)
	for _, name := range names {
		if ones[name].Value == others[name].Value {
			n++
		}
	}
	return n
}

// The noise belongs to the definition of the question. Of 400 objects, independent responses out of
// 97 agree in about 4, and in more than 40 with a probability below 1e-25 (of 200, in more than 20:
// 1e-13). Rows of 97 bits never agree.
func TestNoiseKey_OtherQuestionObjectOrKey_HasOtherNoise(t *testing.T) {
	t.Run("direct", func(t *testing.T) { wantOtherNoise(t, cities("direct")) })
	t.Run("unary", func(t *testing.T) { wantOtherNoise(t, cities("unary")) })
}

func wantOtherNoise(t *testing.T, q api.Question) {
	t.Helper()
	few := 40 / oneIn(2)
	names := crowd(10 * few)
	with := func(edit func(*api.Question)) api.Question {
		other := api.Question{Name: q.Name, Values: slices.Clone(q.Values), Encoding: q.Encoding}
		edit(&other)
		return other
	}
	n := agreement(t, keyed(t, noiseKeys("2026"), names, q), keyed(t, noiseKeys("2026"), names, q), q, q, names)
	check.That(t, n == len(names), "the same question: %d of %d agree", n, len(names))
	for what, other := range map[string]api.Question{
		"another name":     with(func(q *api.Question) { q.Name += "!" }),
		"another value":    with(func(q *api.Question) { q.Values[96] = "elsewhere" }),
		"one value more":   with(func(q *api.Question) { q.Values = append(q.Values, "elsewhere") }),
		"one value less":   with(func(q *api.Question) { q.Values = q.Values[:96] }),
		"in another order": with(func(q *api.Question) { q.Values[95], q.Values[96] = q.Values[96], q.Values[95] }),
	} {
		n := agreement(t, keyed(t, noiseKeys("2026"), names, q), keyed(t, noiseKeys("2026"), names, other), q, other, names)
		check.That(t, n <= few, "%s: %d of %d agree", what, n, len(names))
	}
	n = agreement(t, keyed(t, noiseKeys("2026"), names, q), keyed(t, noiseKeys("2027"), names, q), q, q, names)
	check.That(t, n <= few, "another key: %d of %d agree", n, len(names))
	l := keyed(t, noiseKeys("2026"), names, q)
	raise(t, l, api.RaiseRequest{Key: "all", Question: q.Name, Epsilon: eps(t, "0.01"), All: true, Truth: sameTruth(q.Values[0])})
	values, same := responses(t, l, q.Name, eps(t, "0.01")), 0
	for i, name := range names {
		if values[name].Value == values[names[(i+1)%len(names)]].Value {
			same++
		}
	}
	check.That(t, same <= few, "another object: %d of %d agree", same, len(names))
}

// keyOf returns the name of the key that a chain is drawn from.
func keyOf(t *testing.T, l *Ledger, question uint32, name string) (key string) {
	t.Helper()
	c := chainOf(t, l, question, name)
	must(t, l.engine.View(t.Context(), func(s *state.State) error {
		known, err := s.NoiseKeys()
		if c.Noise != 0 {
			key = known[c.Noise-1].Name
		}
		return err
	}))
	return key
}

// A rotated key is for new chains. A chain keeps the key that it began with. A chain that was
// forgotten and begins again has none: its object may return with another true value, and the same
// noise on both would reveal both.
func TestNoiseKey_Rotated_AppliesToNewChainsOnly(t *testing.T) {
	path := create(t)
	q := cities("direct")
	reopen := func(l *Ledger, keys api.NoiseKeys) *Ledger {
		if l != nil {
			closed(t, l)
		}
		return open(t, path, Options{NoiseKey: keys})
	}
	l := reopen(nil, api.NoiseKeys{})
	define(t, l, q)
	enroll(t, l, q.Name, "40", "old")
	l = reopen(l, noiseKeys("2026"))
	enroll(t, l, q.Name, "40", "ann", "bob", "cid")
	l = reopen(l, noiseKeys("2027"))
	enroll(t, l, q.Name, "40", "dan")
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "leave", Object: "bob"}))
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "cid"}))
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "back", Question: q.Name, Objects: []string{"ann", "bob", "cid", "old"}})
	must(t, err)
	l = reopen(l, noiseKeys("2026")) // and back
	enroll(t, l, q.Name, "40", "eve")
	l = reopen(l, noiseKeys(""))
	enroll(t, l, q.Name, "40", "fay")
	want := map[string]string{"old": "", "ann": "2026", "bob": "2026", "cid": "", "dan": "2027", "eve": "2026", "fay": ""}
	for name, key := range want {
		got := keyOf(t, l, 1, name)
		check.That(t, got == key, "%s is drawn from the key %q, want %q", name, got, key)
	}
	var recorded []string
	for _, ev := range events(t, l) {
		if d, is := ev.Says.(says.NoiseKeySet); is {
			recorded = append(recorded, d.Name)
		}
	}
	check.That(t, slices.Equal(recorded, []string{"2026", "2027"}), "the log has the keys %q", recorded)
	raise(t, l, api.RaiseRequest{Key: "all", Question: q.Name, Epsilon: eps(t, "0.01"), All: true, Truth: cityOf(q)})
	wantDrawnFrom(t, l, q, want)
	auditStore(t, l.engine.Store)
	wantClean(t, l, api.VerifyRequest{})
}

// wantDrawnFrom checks responses at ε = 0.01 against those of package rrchain.
func wantDrawnFrom(t *testing.T, l *Ledger, q api.Question, keys map[string]string) {
	t.Helper()
	id, got := event.NewQuestion(&event.QuestionDefined{Question: q}).ID, responses(t, l, q.Name, eps(t, "0.01"))
	for name, key := range keys {
		if key == "" {
			continue
		}
		k := check.Value(rrchain.NewNoiseKey(theNoiseKey(key)))(t)
		truth := check.Value(cityOf(q)(t.Context(), q.Name, []string{name}))(t)
		of := rrchain.Staircase{Question: string(id[:]), Object: name, Values: len(q.Values)}
		n := check.Value(k.Response(of, eps(t, "0.01"), slices.Index(q.Values, truth[0])))(t)
		check.That(t, got[name].Value == q.Values[n],
			"%s answers %q, by the key %q it is %q", name, got[name].Value, key, q.Values[n])
	}
}

func TestOpen_WrongNoiseKey_IsRefused(t *testing.T) {
	path := create(t)
	closed(t, open(t, path, Options{NoiseKey: noiseKeys("2026")}))
	other := func(key []byte, err error) func(string) ([]byte, error) {
		return func(string) ([]byte, error) { return key, err }
	}
	changed := theNoiseKey("2026")
	changed[31] ^= 1
	unreachable := errors.New("the vault is closed")
	for name, one := range map[string]struct {
		keys api.NoiseKeys
		want error
	}{
		"another key":               {api.NoiseKeys{Current: "2026", Key: other(changed, nil)}, api.ErrNoiseKey},
		"another key, not current":  {api.NoiseKeys{Current: "2027", Key: other(changed, nil)}, api.ErrNoiseKey},
		"another key, none current": {api.NoiseKeys{Current: "", Key: other(changed, nil)}, api.ErrNoiseKey},
		"too short":                 {api.NoiseKeys{Current: "2026", Key: other(changed[:31], nil)}, api.ErrInvalid},
		"too long":                  {api.NoiseKeys{Current: "2026", Key: other(append(changed, 0), nil)}, api.ErrInvalid},
		"no bytes":                  {api.NoiseKeys{Current: "2026", Key: other(nil, nil)}, api.ErrNoiseKey},
		"another name of a key":     {api.NoiseKeys{Current: "2027", Key: other(theNoiseKey("2026"), nil)}, api.ErrNoiseKey},
		"an error":                  {api.NoiseKeys{Current: "2026", Key: other(nil, unreachable)}, unreachable},
		"a name that cannot be":     {api.NoiseKeys{Current: "20\n26", Key: noiseKeys("").Key}, api.ErrInvalid},
		"a name that is too long":   {api.NoiseKeys{Current: strings.Repeat("n", 257), Key: noiseKeys("").Key}, api.ErrInvalid},
		"nothing to get keys from":  {api.NoiseKeys{Current: "2026"}, api.ErrInvalid},
	} {
		for _, only := range []bool{false, true} {
			if only && (strings.HasPrefix(name, "a name") || name == "another name of a key") {
				continue // a ledger that is only read begins no key
			}
			l, err := Open(t.Context(), path, Options{NoiseKey: one.keys, ReadOnly: only})
			if err == nil {
				t.Errorf("%s (read-only: %t): opened", name, only)
				closed(t, l)
				continue
			}
			wantErr(t, err, one.want)
			check.That(t, !strings.Contains(err.Error(), string(changed[:4])),
				"%s: the error has the key: %v", name, err)
		}
	}
	l := open(t, path, Options{NoiseKey: noiseKeys("2026")}) // and the refused opens left no lock
	n := countKind(events(t, l), "noise-key")
	check.That(t, n == 1, "%d noise-key events", n)
}

// Without its key a chain returns its recorded responses, and nothing more.
func TestNoiseKey_Missing_AllowsOnlyResales(t *testing.T) {
	path := create(t)
	l := open(t, path, Options{NoiseKey: noiseKeys("2026")})
	define(t, l, vote())
	enrollUnder(t, l, "vote", market(t, "3"), "9", "ann", "bob")
	first := release(t, l, releaseOf(t, "1", "ann", "1"))
	closed(t, l)
	l = open(t, path, Options{NoiseKey: noiseKeys("")})
	enroll(t, l, "vote", "9", "cid") // begun without a key
	closed(t, l)
	l = open(t, path, Options{})
	for name, call := range map[string]func() error{
		"raise":            func() error { _, err := l.Release(t.Context(), releaseOf(t, "2", "ann", "2")); return err },
		"degrade":          func() error { _, err := l.Release(t.Context(), releaseOf(t, "3", "ann", "0.5")); return err },
		"begin":            func() error { _, err := l.Release(t.Context(), releaseOf(t, "4", "bob", "0.5")); return err },
		"an order for all": func() error { return check.Err(l.Raise(t.Context(), raiseOf(t, "5", "0.5"))) },
		"a sale":           func() error { _, err := l.Sell(t.Context(), purchase(t, "7", "acme", "2", "ann")); return err },
	} {
		unchanged(t, l.engine.Store, func() {
			var refused *api.RefusedError
			if err := call(); !errors.As(err, &refused) || refused.Refused[0].Reason != api.NoNoiseKey {
				t.Errorf("%s: got the error %v", name, err)
			}
		})
	}
	again := release(t, l, releaseOf(t, "8", "ann", "1"))
	check.That(t, again == first, "%v, then %v", first, again)
	sell(t, l, purchase(t, "9", "acme", "1", "ann"))
	release(t, l, releaseOf(t, "10", "cid", "1"))
	answerTo(t, l, answerRequest(t, "11", "majority:yes", "0.5", ballots("ann"), "ann", "bob", "cid")) // is drawn at random
	got := objectOf(t, l, "ann")
	check.That(t, len(got.Chains[0].Levels) == 1, "ann is %+v", got)
	wantClean(t, l, api.VerifyRequest{})
	closed(t, l)
	l = open(t, path, Options{NoiseKey: noiseKeys("2026")}) // the calls' keys are free
	release(t, l, releaseOf(t, "2", "ann", "2"))
	auditStore(t, l.engine.Store)
}

func TestOpen_ReadOnlyWithNoiseKey_RecordsNoKey(t *testing.T) {
	path := votersFile(t, "3", "ann")
	before := check.Value(os.ReadFile(path))(t)
	l := open(t, path, Options{NoiseKey: noiseKeys("2026"), ReadOnly: true})
	n := countKind(events(t, l), "noise-key")
	check.That(t, n == 0, "%d noise-key events", n)
	wantClean(t, l, api.VerifyRequest{})
	closed(t, l)
	after := check.Value(os.ReadFile(path))(t)
	check.That(t, bytes.Equal(before, after), "the file was changed")
}

// No file, log line or error contains a part of the key, even after failures.
func TestNoiseKey_FilesLogsAndErrors_DoNotContainIt(t *testing.T) {
	dir := tests.TempDir(t)
	path := filepath.Join(dir, "ledger.db")
	must(t, Create(t.Context(), path, CreateOptions{Currency: "USD"}))
	var output bytes.Buffer
	options := Options{NoiseKey: noiseKeys("2026"), Logger: zerolog.New(&output).Level(zerolog.TraceLevel)}
	l, s := openShim(t, path, options)
	voters(t, l, "3", "ann", "bob")
	release(t, l, releaseOf(t, "1", "ann", "1"))
	s.set(failing, nil)
	_, err := l.Release(t.Context(), releaseOf(t, "2", "ann", "2"))
	wantErr(t, err, errDisk)
	output.WriteString(err.Error())
	s.set(nil, nil)
	closed(t, l)
	l = open(t, path, options)
	must(t, check.Err(l.Backup(t.Context(), filepath.Join(dir, "copy.db"), nil)))
	closed(t, l)
	changed := theNoiseKey("2026")
	changed[0] ^= 1
	options.NoiseKey.Key = func(string) ([]byte, error) { return changed, nil }
	_, err = Open(t.Context(), path, options)
	wantErr(t, err, api.ErrNoiseKey)
	output.WriteString(err.Error())
	must(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			data, readErr := os.ReadFile(name)
			output.Write(data)
			err = readErr
		}
		return err
	}))
	sum := rules.NoiseCheck(theNoiseKey("2026"))
	check.That(t, bytes.Contains(output.Bytes(), sum[:]), "the check of the key is not found where it must be")
	for _, key := range [][]byte{theNoiseKey("2026"), changed} {
		for i := range len(key) - 8 {
			if bytes.Contains(output.Bytes(), key[i:i+8]) {
				t.Fatalf("%q, a part of the key, is in the output", key[i:i+8])
			}
		}
	}
}

// The host may erase its copy of the key once the ledger is open.
func TestNoiseKey_WipedByTheHost_StaysInUse(t *testing.T) {
	names, q := crowd(50), cities("direct")
	key := theNoiseKey("2026")
	l := keyed(t, api.NoiseKeys{Current: "2026", Key: func(string) ([]byte, error) { return key, nil }}, names, q)
	clear(key)
	n := agreement(t, l, keyed(t, noiseKeys("2026"), names, q), q, q, names)
	check.That(t, n == len(names), "%d of %d agree", n, len(names))
}

// The commit that records a key fails, before or after it is durable. Opened again, the ledger has
// the key once.
func TestOpen_CommitOfNoiseKeyFails_RecordsTheKeyOnce(t *testing.T) {
	s := &kv.Memory{}
	begin(t, s)
	for name, fault := range map[string]func(*shim){
		"before": func(x *shim) { x.set(uncertain, nil) },
		"after":  func(x *shim) { x.set(nil, uncertain) },
	} {
		x := &shim{Store: s}
		fault(x)
		_, err := openStore(t.Context(), x, Options{Now: epoch, NoiseKey: noiseKeys(name)})
		check.That(t, errors.Is(err, kv.ErrUncertain), "%s: got the error %v", name, err)
		l := openMemory(t, s, Options{NoiseKey: noiseKeys(name)})
		check.That(t, l.rules.Noise.Current != 0, "%s: no key", name)
	}
	l := openMemory(t, s, Options{NoiseKey: noiseKeys("")})
	n := countKind(events(t, l), "noise-key")
	check.That(t, n == 2, "%d noise-key events, want 2", n)
	auditStore(t, s)
}

// Receipts and statements do not depend on how a response was drawn.
func TestEvidence_KeyedChains_IsSound(t *testing.T) {
	signer, verifier, public := logKey(t, issuerName, 9)
	s := &kv.Memory{}
	beginWithKey(t, s, public)
	l := openMemory(t, s, Options{Signer: signer, NoiseKey: noiseKeys("2026"), TruthKey: truthKey()})
	for _, q := range []api.Question{vote(), cities("unary")} {
		define(t, l, q)
		enrollUnder(t, l, q.Name, market(t, "9"), "40", "ann", "bob")
		for _, epsilon := range []string{"2", "0.5", "1"} {
			r := purchase(t, q.Name+epsilon, "acme", epsilon, "ann", "bob")
			r.Question, r.Truth = q.Name, sameTruth(q.Values[1])
			sell(t, l, r)
		}
	}
	keys := note.VerifierList(verifier)
	for sale := range uint64(6) {
		wantSound(t, fmt.Sprint("the receipt of sale ", sale+1), receiptOf(t, l, sale+1), keys)
	}
	st := statementOf(t, l, "ann's", "ann")
	wantSound(t, "the statement", st, keys)
	eachAltered(t, st, func(way string, other evidence.Statement) {
		check.That(t, !strings.Contains(way, "NoiseKey") || !other.Verify(keys).OK(),
			"%s is altered, and Verify reports no fault", way)
	})
	check.That(t, bytes.Contains(text(t, st), []byte(`"noise_key":1`)),
		"the statement does not say that the chain is drawn from a key")
	auditStore(t, s)
}

func TestVerify_NoiseKeyRecordAltered_IsNamed(t *testing.T) {
	chain := func(noise uint32) func(kv.Store) {
		return func(s kv.Store) {
			alter(t, s, state.BucketChains, state.ChainKey(1, "ann"), edited(t, state.DecodeChain, func(c *state.Chain) { c.Noise = noise }))
		}
	}
	key := func(change func([]byte) []byte) func(kv.Store) {
		return func(s kv.Store) { alter(t, s, state.BucketMeta, state.NoiseKey(2), change) }
	}
	for name, one := range map[string]struct {
		alter func(s kv.Store)
		text  string
	}{
		"a chain's key": {chain(2), `chain of "ann" in "vote": the noise key is 2, the events say 1`},
		"no key":        {chain(0), `chain of "ann" in "vote": the noise key is 0, the events say 1`},
		"the sum": {func(s kv.Store) {
			alter(t, s, state.BucketMeta, []byte(state.KeyCounters), edited(t, state.DecodeCounters, func(c *state.Counters) { c.Noises = 1 }))
		}, "the sums over the log: the number of noise keys is 1, the events say 2"},
		"a check":      {key(func(p []byte) []byte { p[len(p)-1]++; return p }), "noise key 00000002"},
		"a name":       {key(func(p []byte) []byte { p[5]++; return p }), "noise key 00000002"},
		"one key gone": {func(s kv.Store) { remove(t, s, state.BucketMeta, state.NoiseKey(1)) }, "noise key 00000001"},
		"one key more": {func(s kv.Store) {
			e := &wire.Encoder{}
			(&event.NoiseKeySet{Number: 3, Name: "2028", Check: event.Tag{}}).Fields(wire.Writing(e))
			putRecord(t, s, state.BucketMeta, state.NoiseKey(3), e.Buf)
		}, "noise key 00000003"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &kv.Memory{}
			begin(t, s)
			voters(t, openMemory(t, s, Options{NoiseKey: noiseKeys("2026")}), "3", "ann")
			l := openMemory(t, s, Options{NoiseKey: noiseKeys("2027")})
			release(t, l, releaseOf(t, "1", "ann", "1"))
			wantClean(t, l, api.VerifyRequest{})
			one.alter(s)
			if found := findings(t, l, api.VerifyRequest{}); len(found) != 1 || !strings.Contains(found[0].Text, one.text) {
				t.Errorf("found %+v, want %q", found, one.text)
			}
		})
	}
}

func TestApply_ForgedNoiseKeyEvent_IsCorrupt(t *testing.T) {
	s := &kv.Memory{}
	begin(t, s)
	l := openMemory(t, s, Options{NoiseKey: noiseKeys("2026")})
	define(t, l, vote())
	enroll(t, l, "vote", "3", "ann", "bob")
	release(t, l, releaseOf(t, "1", "ann", "1"))
	l = openMemory(t, s, Options{NoiseKey: noiseKeys("2027")})
	log := logOf(t, pairs(t, s))
	var forget event.Change
	must(t, l.engine.View(t.Context(), func(s *state.State) (err error) {
		forget, err = forgetObject(s, "ann")
		return err
	}))
	in := func(name string, noise uint32) event.Change {
		return &event.Enrolled{Object: name, Question: 1, Policy: 0, Noise: noise, Cap: eps(t, "3")}
	}
	key := func(number uint32, name string) []event.Change {
		return []event.Change{&event.NoiseKeySet{Number: number, Name: name, Check: event.Tag{1}}}
	}
	gone := &event.Withdrawn{Object: "ann"}
	for name, one := range map[string]soundAndForged{
		"a gap":                       {sound: key(3, "2028"), forged: key(4, "2028"), why: `noise key 4, "2028", follows noise key 2`},
		"a number twice":              {sound: key(3, "2028"), forged: key(2, "2028"), why: "follows noise key 2"},
		"number 0":                    {sound: key(3, "2028"), forged: key(0, "2028"), why: "follows noise key 2"},
		"a name twice":                {sound: key(3, "2028"), forged: key(3, "2026"), why: `noise key "2026" is set twice`},
		"no name":                     {sound: key(3, "2028"), forged: key(3, ""), why: "follows noise key 2"},
		"an odd name":                 {sound: key(3, "2028"), forged: key(3, "20\n28"), why: "follows noise key 2"},
		"drawn from no key there is":  {sound: []event.Change{in("cid", 2)}, forged: []event.Change{in("cid", 3)}, why: "question 1, policy"},
		"back with another key":       {sound: []event.Change{gone, in("ann", 1)}, forged: []event.Change{gone, in("ann", 2)}, why: "with another noise key than its chain began with"},
		"back without a key":          {sound: []event.Change{gone, in("ann", 1)}, forged: []event.Change{gone, in("ann", 0)}, why: "with another noise key than its chain began with"},
		"forgotten, and twice back":   {sound: []event.Change{forget, in("ann", 0), gone, in("ann", 0)}, forged: []event.Change{forget, in("ann", 0), gone, in("ann", 1)}, why: "with another noise key"},
		"forgotten, and back to it":   {sound: []event.Change{forget, in("ann", 0)}, forged: []event.Change{forget, in("ann", 1)}, why: "with another noise key"},
		"a second key for a new name": {sound: append(key(3, "2028"), key(4, "2029")...), forged: append(key(3, "2028"), key(4, "2028")...), why: "is set twice"},
	} {
		t.Run(name, func(t *testing.T) {
			follow := func(changes []event.Change) error {
				return replayWhole(&kv.Memory{}, followedBy(withSettled(uint64(len(log))+1, changes)...)(slices.Clone(log)))
			}
			must(t, follow(one.sound))
			wantForged(t, follow(one.forged), one.why)
		})
	}
}

// A ledger with the maximum number of noise keys opens with any of them, and with no other. No log
// has more.
func TestNoiseKeys_MoreThanAllowed_AreRefused(t *testing.T) {
	s := &kv.Memory{}
	begin(t, s)
	name := func(i int) string { return fmt.Sprint("key ", i) }
	set := func(from, to int) error {
		return s.Update(func(w kv.Writer) error {
			st, err := state.Begin(w, epoch())
			if err != nil {
				return err
			}
			st.Salts = steadySalts(2)
			var changes []event.Change
			for i := from; i <= to; i++ {
				changes = append(changes, &event.NoiseKeySet{Number: uint32(i), Name: name(i), Check: rules.NoiseCheck(theNoiseKey(name(i)))})
			}
			if _, _, err := fold.Record(st, changes); err != nil {
				return err
			}
			return fold.Flush(st)
		})
	}
	must(t, set(1, event.MaxNoiseKeys))
	_, err := openStore(t.Context(), s, Options{NoiseKey: noiseKeys("new")})
	wantErr(t, err, api.ErrInvalid)
	if !strings.Contains(err.Error(), "the largest number") {
		t.Error(err)
	}
	wantErr(t, set(event.MaxNoiseKeys+1, event.MaxNoiseKeys+1), api.ErrCorrupt)
	must(t, openMemory(t, s, Options{NoiseKey: noiseKeys(name(event.MaxNoiseKeys / 2))}).Close())
}

// A file that claims more noise keys than it has is damaged, and the claim takes no memory.
func TestOpen_FalseNoiseKeyCount_IsCorruptWithoutAllocating(t *testing.T) {
	s := &kv.Memory{}
	begin(t, s)
	openMemory(t, s, Options{NoiseKey: noiseKeys("2026")})
	alter(t, s, state.BucketMeta, []byte(state.KeyCounters), edited(t, state.DecodeCounters, func(c *state.Counters) { c.Noises = 1<<32 - 1 }))
	var err error
	n := fixture.Allocated(func() { _, err = openStore(t.Context(), s, Options{NoiseKey: noiseKeys("2026")}) })
	check.That(t, n <= 1<<20, "%d bytes are allocated", n)
	wantErr(t, err, api.ErrCorrupt)
}
