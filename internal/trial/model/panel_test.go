//go:build !race

package model

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/mechanism"
)

// Answers about panels. Each panel has three members, of which one has a random true value.
// Repeated queries about it may distinguish the two datasets by at most the highest ε.

// panels is a market whose objects are panels.
type panels struct {
	*ledgerMarket
	members int
}

const membersOfPanel = 3

// newPanels opens a ledger with a panel for each of the true values. The other members have the
// given values.
func newPanels(t testing.TB, lots []int, others [membersOfPanel - 1]int) *panels {
	t.Helper()
	var members []int
	for _, truth := range lots {
		members = append(append(members, truth), others[:]...)
	}
	k := kind{question: api.Question{Name: question, Values: valueNames(2)}}
	return &panels{newLedgerMarket(t, k, members), len(members)}
}

func (p *panels) fill(o order) []string {
	words := make([]string, p.members/membersOfPanel)
	p.ask(o, words)
	return words
}

// crash asks about half of the panels before the host dies.
func (p *panels) crash(o order, _ moment) []string {
	words := make([]string, p.members/membersOfPanel)
	p.ask(o, words[:len(words)/2])
	p.copyFiles()
	p.reopen()
	return words
}

// ask asks about the first panels, one for each word, concurrently, because they share commits.
func (p *panels) ask(o order, words []string) {
	p.Helper()
	const crowd = 100
	errs := make([]error, len(words))
	var wg sync.WaitGroup
	for from := range crowd {
		wg.Go(func() {
			for i := from; i < len(words); i += crowd {
				words[i], errs[i] = p.answer(o, i)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		check.Must(p, err)
	}
}

func (p *panels) answer(o order, panel int) (string, error) {
	var names []string
	for i := range membersOfPanel {
		names = append(names, objectName(panel*membersOfPanel+i))
	}
	r, err := p.ledger.Answer(p.Context(), api.AnswerRequest{
		Key: fmt.Sprint(o.key, " of ", panel), Question: question, Query: "majority:v1", Epsilon: Eps(p, o.at),
		Objects: names, AcceptLoss: true, Truth: p.truth,
	})
	return r.Answer, err
}

// raisedAnswers asks at a level, lower, higher, between, and again. A crash happens between some
// panels and others.
var raisedAnswers = attack{
	{order{"1", "", "1"}, between},
	{order{"1", "", "1"}, never},
	{order{"2", "", "0.8"}, never},
	{order{"3", "", "1.2"}, never},
	{order{"4", "", "0.9"}, never},
	{order{"5", "", "1"}, never},
}

// Answers keep the promise for panels in which one member decides, and in which none does: there,
// neighbours have the positions −1 and −2.
func TestAttack_PanelAnswers_AreAccepted(t *testing.T) {
	for _, c := range []struct {
		name              string
		others            [membersOfPanel - 1]int
		quick, deep, long int // the number of panels
	}{
		{"at the boundary", [...]int{0, 1}, 150, 500, 20_000},
		{"a step away", [...]int{0, 0}, 100, 300, 20_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, lots := newTrial(t, raisedAnswers, 2), truths(testenv.Tries(c.quick, c.deep, c.long), 2)
			p := newPanels(t, lots, c.others)
			tr.run(p, lots)
			p.end()
			tr.wantPrivate()
			t.Logf("%d panels: an excess of ε = %.2f would be found, if half of them show it", len(lots), noticeable(len(lots), 1.2, mostTests))
		})
	}
}

// freshAnswers is a market that draws an answer again for each order with another ε, for the panel
// at the boundary. That is a fault if only the highest ε is charged.
type freshAnswers struct {
	testing.TB
	truths  []int
	sampler *mechanism.Sampler
	seen    map[string][]string
}

func (f *freshAnswers) fill(o order) []string {
	if words, known := f.seen[o.at]; known {
		return words
	}
	var words []string
	for _, truth := range f.truths {
		answer := check.Value(f.sampler.Draw(mechanism.Place{Order: []int{truth, 1 - truth}}, Eps(f, o.at)))(f)
		words = append(words, fmt.Sprint(answer))
	}
	f.seen[o.at] = words
	return words
}

func (f *freshAnswers) crash(order, moment) []string { return make([]string, len(f.truths)) }

// The attack finds it by the transcript in which all answers are true.
func TestAttack_RedrawnAnswers_AreDetected(t *testing.T) {
	p, q := 1.0, 1.0
	for _, e := range []float64{0.8, 0.9, 1, 1.2} {
		p, q = p*truthful(e), q*(1-truthful(e))
	}
	lots := truths(objectsFor(p, q, 1.2, mostTests), 2)
	tr := newTrial(t, raisedAnswers, 2)
	tr.run(&freshAnswers{t, lots, new(mechanism.Sampler), map[string][]string{}}, lots)
	t.Logf("the ratio is e^%.1f instead of e^1.2", math.Log(p/q))
	tr.wantLeak()
}
