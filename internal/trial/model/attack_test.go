//go:build !race

package model

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

// market is what an attacker can bring a ledger to do. It has some objects, each with a truth, in one question. Methods
// return a word for each object: what was given away of it, or "" for nothing.
type market interface {
	// fill carries an order out. The same order may come again.
	fill(order) []string
	// crash has the host die during an order, and start anew. What it returns had been seen by then.
	crash(order, moment) []string
}

// order is what somebody asks for, under an idempotency key.
type order struct {
	key   string
	buyer string // "" if the host itself releases; seller if the terms change
	at    string // ε; of other terms, the highest that is for sale from then on
}

// seller makes orders by which terms change. Nobody sees these, but for what they do to others.
const seller = "the sellers"

// refusedOutcome is the key of the order that terms do not allow.
const refusedOutcome = "refused"

// moment is when a host dies.
type moment int

const (
	never   moment = iota
	asked          // when it was asked for the true values
	between        // when one part of the objects is done, and seen, and the others are not
	done           // when the order is carried out, and before the buyer has been told
)

// step is an order, filled or cut off.
type step struct {
	order
	dies moment
}

// attack is what buyers do that work together.
type attack []step

// oddOrders has levels sold from the middle, down, up and between, to three buyers, repeated, with a host that dies at
// each moment, and under terms that change: one order is refused until they allow it.
var oddOrders = attack{
	{order{"1", "zeta", "1"}, asked},
	{order{"1", "zeta", "1"}, never},
	{order{"2", "acme", "0.25"}, done},
	{order{"2", "acme", "0.25"}, never},
	{order{"3", "", "1.5"}, between},
	{order{"3", "", "1.5"}, never},
	{order{"lower", seller, "0.75"}, never},
	{order{refusedOutcome, "acme", "1.5"}, never},
	{order{"4", "acme", "0.5"}, never},
	{order{"higher", seller, "2"}, never},
	{order{"5", "hooli", "1"}, never},
	{order{"1", "zeta", "1"}, never},
	{order{"6", "acme", "1.5"}, never},
}

// coalition is some who pool what they have seen.
type coalition struct {
	name    string
	members []string
}

// coalitions are buyers alone and together; the last is everybody, those too who read what the host releases.
func coalitions() []coalition {
	return []coalition{
		{"acme", []string{"acme"}}, {"zeta", []string{"zeta"}}, {"zeta and hooli", []string{"zeta", "hooli"}},
		{"everybody", []string{"acme", "zeta", "hooli", ""}},
	}
}

// sees tells which steps a coalition sees, and the highest ε in them.
func (a attack) sees(t testing.TB, c coalition) (steps []int, highest privacy.Epsilon) {
	for i, s := range a {
		for _, member := range c.members {
			if s.buyer != member {
				continue
			}
			steps = append(steps, i)
			if e := Eps(t, s.at); highest.Less(e) {
				highest = e
			}
		}
	}
	return steps, highest
}

// trial is an attack, with what each coalition has seen.
type trial struct {
	testing.TB
	attack
	values   int
	objects  int
	pooled   []coalition
	evidence []*tally
}

func newTrial(t testing.TB, a attack, values int) *trial {
	tr := &trial{TB: t, attack: a, values: values, pooled: coalitions()}
	for range tr.pooled {
		tr.evidence = append(tr.evidence, newTally(values))
	}
	return tr
}

// truths draws lots.
func truths(objects, values int) []int {
	all := make([]int, objects)
	for i := range all {
		all[i] = rand.IntN(values)
	}
	return all
}

// run attacks a market whose objects have these truths. It may be called for many markets.
func (tr *trial) run(m market, truths []int) {
	tr.Helper()
	var seen [][]string
	for _, s := range tr.attack {
		words := []string(nil)
		if s.dies == never {
			words = m.fill(s.order)
		} else {
			words = m.crash(s.order, s.dies)
		}
		check.Need(tr, len(words) == len(truths), "%+v gives %d words of %d objects", s, len(words), len(truths))
		seen = append(seen, words)
	}
	for c, who := range tr.pooled {
		steps, _ := tr.sees(tr, who)
		words := make([]string, len(steps))
		for object, truth := range truths {
			for i, step := range steps {
				words[i] = seen[step][object]
			}
			tr.evidence[c].add(object, truth, words)
		}
	}
	tr.objects += len(truths)
}

// wantInnocent fails if any coalition has learned more than it may: what it has seen may cost the highest ε in it.
func (tr *trial) wantInnocent() {
	tr.Helper()
	for c, who := range tr.pooled {
		steps, highest := tr.sees(tr, who)
		if len(steps) == 0 {
			continue
		}
		v := tr.evidence[c].judge(highest.Float64())
		check.That(tr, !v.guilty(), "%s learned too much: %v", who.name, v)
		tr.Logf("%s, from %d transcripts: %v", who.name, len(tr.evidence[c].cells), v)
	}
}

// wantGuilty fails unless all together have learned more than they may.
func (tr *trial) wantGuilty() {
	tr.Helper()
	last := len(tr.pooled) - 1
	_, highest := tr.sees(tr, tr.pooled[last])
	v := tr.evidence[last].judge(highest.Float64())
	if !v.guilty() {
		tr.Errorf("not noticed in %d objects: %v", tr.objects, v)
	}
	tr.Logf("%d objects: %v", tr.objects, v)
}

func objectName(i int) string { return fmt.Sprintf("object %06d", i) }
