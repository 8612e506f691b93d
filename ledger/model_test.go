package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/ledger/store/storetest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Invariants 2, 3, 5, 7, 8 and 9 on random histories: the ledger against a model of it that fits on
// a sheet of paper, in plain integers, with maps for memory.

// paper is the model.
type paper struct {
	events   uint64
	policies map[policy.Policy]bool
	cap      map[string]int64
	spent    map[string]int64
	chains   map[[2]string]*paperChain // by question and object
}

type paperChain struct {
	policy  policy.Policy
	current int64
	levels  map[int64]Response // a zero Response where nobody has looked yet
}

// ruling is what must come of a raise.
type ruling struct {
	result  RaiseResult
	refused []Refusal // of the whole request
	asked   []string  // whose truth was needed
}

func epsilonOf(n int64) privacy.Epsilon {
	e, err := privacy.EpsilonFromNano(n)
	if err != nil {
		panic(err)
	}
	return e
}

// assess returns the verdict on one object, or why it is refused.
func (m *paper) assess(question, name string, e int64) (verdict, Refusal) {
	r := Refusal{Object: name, Asked: epsilonOf(e)}
	c := m.chains[[2]string{question, name}]
	if c == nil {
		r.Reason, r.Helps = NotEnrolled, HelpsEnrolling
		return refused, r
	}
	if _, recorded := c.levels[e]; recorded {
		return reused, r
	}
	if e < c.current {
		return derived, r
	}
	r.Helps, r.Cost = HelpsNothing, epsilonOf(e-c.current)
	if c.policy.IsZero() || e <= c.policy.Limit().Nano() {
		rest := m.cap[name] - m.spent[name]
		r.Reason, r.Ceiling, r.Spent, r.Remaining = ObjectCap, epsilonOf(m.cap[name]), epsilonOf(m.spent[name]), epsilonOf(rest)
		if e-c.current <= rest {
			return drawn, Refusal{}
		}
		return refused, r
	}
	limit := c.policy.Limit().Nano()
	r.Reason, r.Ceiling, r.Spent, r.Remaining = ChainCeiling, epsilonOf(limit), epsilonOf(c.current), epsilonOf(max(limit-c.current, 0))
	return refused, r
}

// rule says what must come of a raise, and does it.
func (m *paper) rule(r RaiseRequest, names []string, truth func(question, name string) string) (out ruling) {
	e := r.Epsilon.Nano()
	verdicts := make([]verdict, len(names))
	var noTruth []Refusal
	for i, name := range names {
		v, refusal := m.assess(r.Question, name, e)
		if v == drawn {
			out.asked = append(out.asked, name)
			if truth(r.Question, name) == "" {
				v, refusal = refused, Refusal{Object: name, Reason: NoTruth, Asked: r.Epsilon, Helps: HelpsTruth}
				noTruth = append(noTruth, refusal)
			}
		}
		if verdicts[i] = v; v == refused {
			out.refused = append(out.refused, refusal)
		}
	}
	if !r.Partial && len(out.refused) > len(noTruth) {
		// Once an order is refused nobody's truth is asked for, so nobody is known to have none.
		out.refused = slices.DeleteFunc(out.refused, func(r Refusal) bool { return r.Reason == NoTruth })
		out.asked = nil
	}
	if len(out.refused) > 0 && !r.Partial {
		return out
	}
	out.result = RaiseResult{Refused: out.refused, First: m.events + 1}
	out.refused = nil
	for i, name := range names {
		m.take(r.Question, name, e, verdicts[i], &out.result)
	}
	m.events++ // it is settled
	out.result.Last = m.events
	return out
}

func (m *paper) take(question, name string, e int64, v verdict, result *RaiseResult) {
	c := m.chains[[2]string{question, name}]
	switch v {
	case reused:
		result.Reused++
		return
	case refused:
		return
	case derived:
		result.Derived++
	case drawn:
		result.Drawn++
		m.spent[name] += e - c.current
		c.current = e
	}
	m.events++
	c.levels[e] = Response{}
}

// enrol does an enrolment, or says why not.
func (m *paper) enrol(r EnrollRequest, names []string) (result EnrollResult, refused []Refusal) {
	for _, name := range names {
		limit, known := m.cap[name]
		c := m.chains[[2]string{r.Question, name}]
		switch {
		case known && !r.Cap.IsZero() && r.Cap.Nano() != limit:
			refused = append(refused, Refusal{Object: name, Reason: CapDiffers, Ceiling: epsilonOf(limit), Spent: epsilonOf(m.spent[name]), Asked: r.Cap, Helps: HelpsNothing})
		case c != nil && c.policy != r.Policy:
			refused = append(refused, Refusal{Object: name, Reason: PolicyDiffers, Spent: epsilonOf(c.current), Helps: HelpsNothing})
		}
	}
	if len(refused) > 0 {
		return result, refused
	}
	result.First = m.events + 1
	for _, name := range names {
		if m.chains[[2]string{r.Question, name}] != nil {
			result.Already++
			continue
		}
		result.Enrolled++
		m.begin(r, name)
	}
	m.events++
	result.Last = m.events
	return result, nil
}

func (m *paper) begin(r EnrollRequest, name string) {
	if !r.Policy.IsZero() && !m.policies[r.Policy] {
		m.policies[r.Policy] = true
		m.events++
	}
	if _, known := m.cap[name]; !known {
		m.cap[name] = privacy.MaxEpsilonNano
		if !r.Cap.IsZero() {
			m.cap[name] = r.Cap.Nano()
		}
	}
	m.chains[[2]string{r.Question, name}] = &paperChain{policy: r.Policy, levels: map[int64]Response{}}
	m.events++
}

// game plays one random history on the ledger and on paper.
type game struct {
	*testing.T
	random *rand.Rand
	paper  paper
	store  *storetest.Memory
	ledger *Ledger
	draws  *rrchain.Sampler
	asked  []string
	past   []move
}

// move is a request of the past that succeeded, to be made again.
type move struct {
	raise  *RaiseRequest
	enroll *EnrollRequest
	result any
}

func TestRandomHistoriesGoAsTheyWouldOnPaper(t *testing.T) {
	const seeds, moves = 300, 60
	draws := rrchain.NewSampler() // one for all, because it keeps the thresholds
	for seed := range uint64(seeds) {
		g := newGame(t, seed, draws)
		for range moves {
			g.move()
		}
		g.compare()
		if t.Failed() {
			t.Fatalf("in the history of seed %d", seed)
		}
	}
}

func newGame(t *testing.T, seed uint64, draws *rrchain.Sampler) *game {
	g := &game{T: t, random: rand.New(rand.NewPCG(seed, 0)), store: &storetest.Memory{}, draws: draws}
	g.paper = paper{policies: map[policy.Policy]bool{}, cap: map[string]int64{}, spent: map[string]int64{}, chains: map[[2]string]*paperChain{}}
	begin(t, g.store)
	g.open()
	for _, q := range []Question{vote(), {"smoker", []string{"yes", "no"}}} {
		define(t, g.ledger, q)
	}
	g.paper.events = stats(t, g.ledger).Events
	return g
}

// open opens the ledger, or does so again: nothing may depend on what is only in memory.
func (g *game) open() {
	g.ledger = openMemory(g, g.store, Options{Now: epoch})
	g.ledger.sampler = g.draws
}

func pick[T any](g *game, from ...T) T { return from[g.random.IntN(len(from))] }

func (g *game) question() string { return pick(g, "vote", "vote", "smoker") }

func (g *game) names() []string {
	names := []string{"ann", "bob", "cid", "dot", "eve", "mute"}
	g.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:1+g.random.IntN(len(names))]
}

// epsilon comes from few values, so that levels are met again, some of them a nano-nat apart.
func (g *game) epsilon() privacy.Epsilon {
	return epsilonOf(pick[int64](g, 1, 2, 100_000_000, 200_000_000, 300_000_000, 300_000_001, 500_000_000, 700_000_000, 1_000_000_000))
}

// truth is what the host knows. It has nothing for one of the objects.
func (g *game) truth(question, name string) string {
	if name == "mute" {
		return ""
	}
	return vote().Values[len(question+name)%2]
}

func (g *game) ask(_ context.Context, question string, objects []string) (values []string, err error) {
	g.asked = append(g.asked, objects...)
	for _, name := range objects {
		values = append(values, g.truth(question, name))
	}
	return values, nil
}

func (g *game) move() {
	g.asked = nil
	switch n := g.random.IntN(20); {
	case n < 4:
		g.enroll()
	case n < 11:
		g.release()
	case n < 16:
		g.raise()
	case n < 19:
		g.again()
	default:
		g.open()
	}
}

func (g *game) key() string { return fmt.Sprint("key ", g.random.Uint64()) }

func (g *game) enroll() {
	r := EnrollRequest{Key: g.key(), Question: g.question(), Objects: g.names()}
	r.Cap = epsilonOf(pick[int64](g, 0, 0, 300_000_000, 1_000_000_000, 1_300_000_001))
	r.Policy = pick(g, policy.Policy{}, policy.Fixed(epsilonOf(300_000_000)), policy.Fixed(epsilonOf(1_000_000_000)))
	want, refused := g.paper.enrol(r, slices.Sorted(slices.Values(r.Objects)))
	got, err := g.ledger.Enroll(g.Context(), r)
	g.verdict(r, got, want, err, refused)
	if err == nil {
		g.past = append(g.past, move{enroll: &r, result: got})
	}
}

func (g *game) release() {
	raise := RaiseRequest{Key: g.key(), Question: g.question(), Objects: g.names()[:1], Epsilon: g.epsilon(), Truth: g.ask}
	want := g.paper.rule(raise, raise.Objects, g.truth)
	got, err := g.ledger.Release(g.Context(), ReleaseRequest{raise.Key, raise.Question, raise.Objects[0], raise.Epsilon, raise.Truth})
	g.verdict(raise, nil, nil, err, want.refused)
	g.wantAsked(want.asked)
	if err == nil {
		g.look(got)
		g.past = append(g.past, move{raise: &raise, result: want.result})
	}
}

func (g *game) raise() {
	r := RaiseRequest{Key: g.key(), Question: g.question(), Epsilon: g.epsilon(), Partial: pick(g, true, false), Truth: g.ask}
	var names []string
	if r.All = pick(g, true, false); r.All {
		for id := range g.paper.chains {
			if id[0] == r.Question {
				names = append(names, id[1])
			}
		}
	} else {
		r.Objects = g.names()
		names = r.Objects
	}
	names = slices.Sorted(slices.Values(names))
	want := g.paper.rule(r, names, g.truth)
	got, err := g.ledger.Raise(g.Context(), r)
	g.verdict(r, got, want.result, err, want.refused)
	g.wantAsked(want.asked)
	if err == nil {
		for _, response := range responses(g, g.ledger, r.Question, r.Epsilon) {
			g.look(response)
		}
		g.past = append(g.past, move{raise: &r, result: got})
	}
}

// verdict compares what came of a request with what must.
func (g *game) verdict(request, got, want any, err error, refused []Refusal) {
	g.Helper()
	if len(refused) > 0 {
		if r := refusals(g, err); !slices.Equal(r, refused) {
			g.Fatalf("%+v\nwas refused for %+v\nwant %+v", request, r, refused)
		}
		return
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		g.Fatalf("%+v\ngot %+v, %v\nwant %+v", request, got, err, want)
	}
}

// wantAsked checks that the truth is asked for where a draw needs it, and nowhere else.
func (g *game) wantAsked(want []string) {
	g.Helper()
	if !slices.Equal(g.asked, want) {
		g.Fatalf("asked for the truth of %q, want %q", g.asked, want)
	}
}

// look notes a response seen for the first time, and compares it with the note ever after.
func (g *game) look(r Response) {
	g.Helper()
	c := g.paper.chains[[2]string{r.Question, r.Object}]
	known, recorded := c.levels[r.Epsilon.Nano()]
	if !recorded || known != (Response{}) && known != r {
		g.Fatalf("the response %+v was %+v before", r, known)
	}
	c.levels[r.Epsilon.Nano()] = r
}

// again makes a request of the past again, or another one with its key.
func (g *game) again() {
	if len(g.past) == 0 {
		return
	}
	one := pick(g, g.past...)
	before := stats(g, g.ledger)
	conflict := pick(g, true, false)
	got, err := g.repeat(one, conflict)
	if conflict {
		wantErr(g, err, ErrKeyConflict)
	} else if err != nil || !reflect.DeepEqual(got, one.result) {
		g.Fatalf("a request came to %+v, and again to %+v, %v", one.result, got, err)
	}
	if after := stats(g, g.ledger); after != before || len(g.asked) > 0 {
		g.Fatalf("a repetition changed %+v to %+v and asked for the truth of %q", before, after, g.asked)
	}
}

func (g *game) repeat(one move, differently bool) (any, error) {
	if one.enroll != nil {
		r := *one.enroll
		if differently {
			r.Cap = epsilonOf(r.Cap.Nano() + 1)
		}
		return g.ledger.Enroll(g.Context(), r)
	}
	r := *one.raise
	if differently {
		r.Epsilon = epsilonOf(r.Epsilon.Nano() + 3)
	}
	return g.ledger.Raise(g.Context(), r)
}

// compare holds the whole state against the paper, and the log against the state.
func (g *game) compare() {
	for name, limit := range g.paper.cap {
		o := objectOf(g, g.ledger, name)
		spent := g.paper.spent[name]
		if o.Cap.Nano() != limit || o.Spent.Nano() != spent || o.Remaining.Nano() != limit-spent {
			g.Errorf("object %q has spent %s of %s, %s remains; want %d of %d", name, o.Spent, o.Cap, o.Remaining, spent, limit)
		}
		for _, c := range o.Chains {
			g.compareChain(name, c)
		}
	}
	if got := stats(g, g.ledger); got.Events != g.paper.events || got.Chains != uint64(len(g.paper.chains)) || got.Objects != uint64(len(g.paper.cap)) {
		g.Errorf("stats are %+v, want %d events, %d chains, %d objects", got, g.paper.events, len(g.paper.chains), len(g.paper.cap))
	}
	audit(g, g.store)
}

func (g *game) compareChain(name string, got ChainState) {
	want := g.paper.chains[[2]string{got.Question, name}]
	if want == nil || got.Epsilon.Nano() != want.current || len(got.Levels) != len(want.levels) {
		g.Errorf("object %q has the chain %+v, want %+v", name, got, want)
		return
	}
	for _, at := range got.Levels {
		known, recorded := want.levels[at.Epsilon.Nano()]
		if !recorded || known != (Response{}) && (known.Value != at.Response || known.Event != at.Event) {
			g.Errorf("object %q has the level %+v, was %+v", name, at, known)
		}
	}
}
