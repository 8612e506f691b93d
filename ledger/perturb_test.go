package ledger

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// everything returns the log of a ledger that records events of every kind, and refuses for every
// reason except the lack of a key.
func everything(t *testing.T) []event.Event {
	t.Helper()
	s := &kv.Memory{}
	beginWithKey(t, s, goldenLogKey(t, "example.com/perturbed"))
	at := epoch()
	l := openMemory(t, s, Options{Now: func() time.Time { return at }, TruthKey: truthKey(), NoiseKey: noiseKeys("2025")})
	l.engine.Chances.Values, l.requests.Sampler = steadySampler(), medians()
	timed, err := policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.5")}, policy.Step{At: epoch().Add(10 * time.Hour), Ceiling: eps(t, "1")})
	must(t, err)
	terms := market(t, "1.5", func(m *policy.Market) {
		m.Stride, m.Holders, m.Barred, m.Until = eps(t, "0.25"), 1, []string{"initech"}, epoch().Add(100*time.Hour)
	})
	later := market(t, "1.5", func(m *policy.Market) { m.From = epoch().Add(50 * time.Hour) })
	must(t, l.DefineQuestion(t.Context(), "define", vote()))
	define(t, l, smoker())
	enrollUnder(t, l, "vote", timed, "2", "ann", "bob")
	enroll(t, l, "smoker", "2", "ann", "bob")
	enrollUnder(t, l, "vote", terms, "2", "cid", "dan")
	enrollUnder(t, l, "vote", policy.Fixed(eps(t, "0.3")), "0.2", "eve")
	enrollUnder(t, l, "vote", market(t, "1.5"), "2", "gus")
	enrollUnder(t, l, "vote", later, "2", "hal")
	enroll(t, l, "vote", "2", "fay")
	raise := func(key, e string, names ...string) {
		r := raiseOf(t, key, e, names...)
		r.Partial, r.Truth = true, truthsOf(map[string]string{"ann": "yes", "eve": "yes", "fay": "no", "dan": "no"})
		raise(t, l, r)
	}
	buy := func(key, buyer, e string, names ...string) {
		r := purchase(t, key, buyer, e, names...)
		r.Partial = true
		sell(t, l, r)
	}
	answer := func(key, e string, names ...string) {
		r := answerRequest(t, key, "majority:yes", e, ballots("ann"), names...)
		r.Partial = true
		answerTo(t, l, r)
	}
	raise("r1", "0.25", "ann", "bob", "eve", "zoe")
	raise("r2", "0.75", "ann", "fay")
	raise("r3", "0.5", "fay")
	raise("r5", "0.5", "fay")
	buy("s1", "acme", "0.5", "ann", "cid", "gus", "zoe")
	buy("s2", "zeta", "0.5", "cid", "gus", "hal")
	buy("s3", "initech", "0.75", "dan", "gus")
	buy("s4", "acme", "0.6", "dan", "gus")
	held := reserve(t, l, api.ReserveRequest{Key: "h1", Order: purchase(t, "", "acme", "1", "ann", "cid", "gus").Order, Partial: true, For: time.Hour})
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w1", Object: "cid"}))
	_, err = l.Enroll(t.Context(), api.EnrollRequest{Key: "back", Question: "vote", Objects: []string{"cid"}, Policy: terms})
	must(t, err)
	_, err = l.Capture(t.Context(), api.CaptureRequest{Key: "c1", Reservation: held.Number, Partial: true, Truth: sameTruth("yes")})
	must(t, err)
	lost := reserve(t, l, api.ReserveRequest{Key: "h2", Order: purchase(t, "", "zeta", "1.25", "gus").Order, For: time.Hour})
	must(t, l.Cancel(t.Context(), "c2", lost.Number))
	answer("a1", "0.1", "ann", "bob")
	answer("a2", "0.125", "ann", "bob")
	answer("a3", "0.05", "ann", "fay", "zoe")
	answer("a4", "0.05", "ann", "fay", "zoe")
	answer("a5", "0.02", "ann", "fay", "zoe")
	answer("a6", "0.4", "ann", "eve", "fay")
	at = at.Add(11 * time.Hour)
	_, err = l.Advance(t.Context(), api.AdvanceRequest{Key: "day", Truth: truthsOf(map[string]string{"ann": "yes", "eve": "yes"})})
	must(t, err)
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w2", Object: "dan"}))
	raise("r4", "1", "dan", "fay")
	makeStatement(t, l, "fay")
	change := func(r api.ChangeTermsRequest) {
		r.Question, r.Partial = "vote", true
		must(t, check.Err(l.ChangeTerms(t.Context(), r)))
	}
	dearer := market(t, "1.25", func(m *policy.Market) { m.Floor = 120 })
	change(api.ChangeTermsRequest{Key: "t1", Objects: []string{"gus", "hal"}, Policy: &dearer})
	change(api.ChangeTermsRequest{Key: "t2", Objects: []string{"fay", "gus", "zoe"}, Cap: eps(t, "1.5")})
	change(api.ChangeTermsRequest{Key: "t3", Objects: []string{"fay", "gus"}, Cap: eps(t, "5")})
	change(api.ChangeTermsRequest{Key: "t4", Objects: []string{"gus"}, Cap: eps(t, "5"), Consent: "form 17"})
	reserve(t, l, api.ReserveRequest{Key: "h3", Order: purchase(t, "", "zeta", "1.25", "gus").Order, For: time.Hour})
	_, err = l.Enroll(t.Context(), api.EnrollRequest{Key: "again", Question: "vote", Objects: []string{"fay", "hal"}, Policy: dearer, Cap: eps(t, "2"), Partial: true})
	must(t, err)
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "bob"}))
	auditStore(t, s)
	return logOf(t, pairs(t, s))
}

// kindOf returns the kind of an event. Refusals of an enrollment or of a change of terms have a
// kind of their own, because they are checked differently.
func kindOf(c event.Change) string {
	if r, is := c.(*event.ObjectRefused); is && (slices.Contains([]api.Reason{api.CapDiffers, api.PolicyDiffers, api.NeedsConsent}, r.Reason) || r.Reason == api.NotEnrolled && r.Asked.IsZero()) {
		return "not-agreed"
	}
	return c.Kind().String()
}

// leafOf is a part of a change that can be altered, with its path.
type leafOf struct {
	path string
	at   reflect.Value
}

// leavesOf appends the smallest parts of a value.
func leavesOf(all []leafOf, path string, v reflect.Value) []leafOf {
	if v.CanAddr() {
		v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem() // fields that are not exported can be set by this
	}
	switch v.Interface().(type) {
	case privacy.Epsilon, time.Time, *api.Mechanism:
		return append(all, leafOf{path, v})
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			below := path + "." + f.Name
			if f.Anonymous {
				below = path
			}
			all = leavesOf(all, below, v.Field(i))
		}
		return all
	case reflect.Slice:
		all = append(all, leafOf{path, v})
		if v.Type().Elem().Kind() == reflect.Struct {
			for i := range v.Len() {
				all = leavesOf(all, path+"[]", v.Index(i))
			}
		}
		return all
	}
	return append(all, leafOf{path, v})
}

// variants returns other values for a part.
func variants(of leafOf) (all []any) {
	v := of.at
	switch x := v.Interface().(type) {
	case privacy.Epsilon:
		all = append(all, epsilonOf(x.Nano()+1))
		if !x.IsZero() {
			all = append(all, epsilonOf(x.Nano()-1), privacy.Epsilon{})
		}
		return all
	case time.Time:
		return []any{x.Add(1), x.Add(-1)}
	case *api.Mechanism:
		return nil
	case api.Reason:
		return others(x, event.ReasonCodes()...)
	case string:
		words := map[string][]string{".Encoding": {"direct", "unary"}, ".Remedy": event.RemedyCodes()}[path.Ext(of.path)]
		if words != nil {
			return others(x, words...)
		}
	}
	other := reflect.New(v.Type()).Elem()
	add := func() { all = append(all, other.Interface()) }
	switch v.Kind() {
	case reflect.Bool:
		other.SetBool(!v.Bool())
		add()
	case reflect.Int, reflect.Int64:
		for _, d := range []int64{1, -1} {
			other.SetInt(v.Int() + d)
			add()
		}
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		other.SetUint(v.Uint() + 1)
		add()
		if v.Uint() > 0 {
			other.SetUint(v.Uint() - 1)
			add()
		}
	case reflect.String:
		return others(v.String(), v.String()+"x", "ann", "gus")
	case reflect.Array:
		if other.Type().Elem().Kind() == reflect.Uint8 {
			other.Set(v)
			other.Index(0).SetUint(v.Index(0).Uint() ^ 1)
			add()
			return all
		}
		for i := range v.Len() {
			other.Set(v)
			other.Index(i).SetUint(v.Index(i).Uint() + 1)
			add()
		}
	case reflect.Slice:
		if v.Len() > 0 {
			all = append(all, v.Slice(0, v.Len()-1).Interface())
		}
	}
	return all
}

// others returns all values except one.
func others[T comparable](but T, values ...T) (all []any) {
	for _, one := range values {
		if one != but {
			all = append(all, one)
		}
	}
	return all
}

// twin copies a change, so that the copy can be altered.
func twin(c event.Change) reflect.Value {
	old := reflect.ValueOf(c).Elem()
	v := reflect.New(old.Type())
	v.Elem().Set(old)
	deepen(v.Elem())
	return v
}

func deepen(v reflect.Value) {
	if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() {
		for i := range v.NumField() {
			f := v.Field(i)
			deepen(reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem())
		}
	}
	if v.Kind() == reflect.Slice && v.Len() > 0 {
		other := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(other, v)
		v.Set(other)
	}
}

// Each field of each event of a log is altered, in several ways, and the log is folded again, so
// that its tree and its state fit. The log must be refused, or checked-fields.md must give a reason
// why the field may differ. A new field must get a row there.
func TestReplay_AnyEventFieldAltered_IsRefused(t *testing.T) {
	log := everything(t)
	must(t, replayWhole(&kv.Memory{}, log))
	tried, accepted := map[string]int{}, map[string][]string{}
	rows, most := fieldsOfEvents(t), tests.Tries(6, math.MaxInt, math.MaxInt) // of the variants of a field that is checked
	for i, ev := range log {
		if ev.Erased != nil {
			continue
		}
		for n := range leavesOf(nil, kindOf(ev.Change), twin(ev.Change).Elem()) {
			original := leavesOf(nil, kindOf(ev.Change), twin(ev.Change).Elem())[n]
			for _, to := range variants(original) {
				v := twin(ev.Change)
				leavesOf(nil, "", v.Elem())[n].at.Set(reflect.ValueOf(to).Convert(original.at.Type()))
				forged := slices.Clone(log)
				forged[i].Change = v.Interface().(event.Change)
				if forged[i].Leaf() == ev.Leaf() {
					continue // a part that the event does not have: it is not encoded
				}
				if rows[original.path] == "" && tried[original.path] >= most {
					continue
				}
				tried[original.path]++
				if replayWhole(&kv.Memory{}, forged) == nil {
					accepted[original.path] = append(accepted[original.path], fmt.Sprintf("event %d: %v for %v", ev.Number, to, original.at))
				}
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(accepted)) {
		if rows[path] == "" {
			t.Errorf("%s is not checked: %s", path, strings.Join(accepted[path], "; "))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(rows)) {
		check.That(t, rows[path] == "" || len(accepted[path]) != 0 || tried[path] == 0,
			"%s is checked: its row says %q", path, rows[path])
	}
	for path := range fieldPaths(t) {
		if reason, known := rows[path]; !known || reason == "" && tried[path] == 0 && testedElsewhere()[path] == "" {
			t.Errorf("%s has no row, or is never perturbed", path)
		}
	}
}

// goldenEntries returns events of every kind, from the golden file of package event.
func goldenEntries(t *testing.T) (all []event.Entry) {
	t.Helper()
	content := check.Value(os.ReadFile(filepath.Join("internal", "event", "testdata", "golden", "events-v5.txt")))(t)
	for line := range strings.Lines(string(content)) {
		if line[0] == '#' || line[0] == '\t' {
			continue
		}
		var kind string
		var payload []byte
		must(t, check.Err(fmt.Sscanf(line, "%s %x", &kind, &payload)))
		n := check.Value(event.DecodeEntry(uint64(len(all)+1), payload))(t)
		all = append(all, n)
	}
	return all
}

// fieldPaths returns the fields of all kinds of events.
func fieldPaths(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, n := range goldenEntries(t) {
		for _, one := range leavesOf(nil, kindOf(n.Change), twin(n.Change).Elem()) {
			all[one.path] = true
		}
	}
	return all
}

// fieldsOfEvents returns for each field of an event the reason in checked-fields.md why it may
// differ, or "" if it may not.
func fieldsOfEvents(t *testing.T) map[string]string {
	t.Helper()
	text := check.Value(os.ReadFile(filepath.Join("..", "docs", "reference", "checked-fields.md")))(t)
	all := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.+) \\|$").FindAllStringSubmatch(string(text), -1) {
		if all[row[1]] = ""; strings.HasPrefix(row[2], "none") {
			all[row[1]] = row[2]
		}
	}
	return all
}

// testedElsewhere lists fields that this log does not have, or that have no other value, with the
// tests that cover them.
func testedElsewhere() map[string]string {
	return map[string]string{
		"epoch.Object":       "TestApply_ChangeUnderAnotherIdentity_IsRefused",
		"epoch.Question":     "TestApply_ChangeUnderAnotherIdentity_IsRefused",
		"question.Mechanism": "TestApply_ForgedFiniteResponses_AreRefused",
		"refused.Why":        "the codec: a refusal for another reason has no such text",
	}
}
