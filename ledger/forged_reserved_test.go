package ledger

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// captures are forgeries of whom a sale that was reserved leaves out: cid and eve were, at 0.25.
func (g ground) captures(t *testing.T) map[string]pairOfLogs {
	t.Helper()
	deal := func(objects, refused, price uint64) event.Deal {
		d := aSale(t, third, hooli, "0.25", price)
		d.Objects, d.Refused = objects, refused
		return d
	}
	reserved := withSettled(uint64(len(g.log))+1, []event.Change{
		&event.Reserved{Deal: deal(2, 0, 50), Expires: epoch().Add(200 * time.Hour)},
		&event.Held{Object: "cid", Sale: third, Price: 25, Policy: 2}, &event.Held{Object: "eve", Sale: third, Price: 25, Policy: 3},
	})
	cid := &event.Sold{Object: "cid", Sale: third, Price: 25, Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodDegrade}}
	eve := &event.Sold{Object: "eve", Sale: third, Price: 25, Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}
	captured := func(sold []*event.Sold, tally event.SaleTally, left ...Refusal) []event.Change {
		counts := event.Counts{tally.Draws, 0, tally.Degradations}
		changes := []event.Change{&event.SaleMade{Deal: deal(uint64(len(sold)), uint64(len(left)), 25*uint64(len(sold))), Tally: tally}}
		for _, c := range sold {
			changes = append(changes, c)
		}
		for _, r := range left {
			changes = append(changes, &event.ObjectRefused{Question: 1, Refusal: r})
		}
		return append(append([]event.Change{}, reserved...), append(changes, g.end(func(c *event.Settled) {
			c.Sale, c.Refused, c.Counts = third, uint64(len(left)), counts
		}))...)
	}
	untold := func(name string) Refusal {
		return Refusal{Object: name, Reason: NoTruth, Asked: eps(t, "0.25"), Remedy: vocabulary.RemedyTruth}
	}
	stranger := Refusal{Object: "zoe", Reason: NotEnrolled, Asked: eps(t, "0.25"), Remedy: vocabulary.RemedyEnrolling}
	draw, degrade := event.SaleTally{Draws: 1}, event.SaleTally{Degradations: 1}
	both, noEve := captured([]*event.Sold{cid, eve}, event.SaleTally{Draws: 1, Degradations: 1}), captured([]*event.Sold{cid}, degrade, untold("eve"))
	return map[string]pairOfLogs{
		"captured without cid":               {settled: true, sound: both, forged: captured([]*event.Sold{eve}, draw), why: "names 1 objects sold and 0 refused, of 2 reserved"},
		"captured without eve":               {settled: true, sound: noEve, forged: captured([]*event.Sold{cid}, degrade), why: "names 1 objects sold and 0 refused, of 2 reserved"},
		"captured, and a stranger is out":    {settled: true, sound: both, forged: captured([]*event.Sold{cid, eve}, event.SaleTally{Draws: 1, Degradations: 1}, stranger), why: "names 2 objects sold and 1 refused, of 2 reserved"},
		"captured, a stranger out for eve":   {settled: true, sound: noEve, forged: captured([]*event.Sold{cid}, degrade, stranger), why: "refuses 1 objects that were not reserved"},
		"captured, one without truth is out": {settled: true, sound: noEve, forged: captured([]*event.Sold{cid}, degrade, untold("fay")), why: "refuses 1 objects that were not reserved"},
	}
}

// A capture leaves out everybody who cannot answer any more, each in a way of its own. All of these logs are sound: whole, and when somebody
// is forgotten whom they are about.
func TestWhateverACaptureLeavesOutIsSound(t *testing.T) {
	withdraws := func(t *testing.T, l *Ledger, name string) { must(t, l.Withdraw(t.Context(), "withdraws "+name, name)) }
	back := func(t *testing.T, l *Ledger, name string) {
		_, err := l.Enroll(t.Context(), EnrollRequest{Key: "back " + name, Question: "vote", Policy: market(t, "1"), Cap: eps(t, "2"), Objects: []string{name}})
		must(t, err)
	}
	answers := func(t *testing.T, l *Ledger, name string) { release(t, l, releaseOf(t, "answers "+name, name, "0.1")) }
	renews := func(t *testing.T, l *Ledger, name string) {
		answers(t, l, name)
		must(t, l.BeginEpoch(t.Context(), "renews "+name, "vote", name))
	}
	lowered := func(t *testing.T, l *Ledger, name string) {
		_, err := l.ChangeTerms(t.Context(), ChangeTermsRequest{Key: "lowers " + name, Question: "vote", Objects: []string{name}, Cap: eps(t, "0.2")})
		must(t, err)
	}
	gone := func(t *testing.T, l *Ledger, name string) { forget(t, l, name) }
	type step = func(*testing.T, *Ledger, string)
	for name, one := range map[string]struct {
		before map[string][]step // what becomes of whom, between reservation and capture
		asked  map[string][]step // while the host is asked for truths
		untold string
		left   int // how many the capture names that it leaves out
	}{
		"nobody":                              {},
		"one has no truth":                    {untold: "bob", left: 1},
		"one withdraws":                       {before: map[string][]step{"bob": {withdraws}}, left: 1},
		"one withdraws, and comes back":       {before: map[string][]step{"bob": {withdraws, back}}, left: 1},
		"one begins an epoch":                 {before: map[string][]step{"bob": {renews}}, left: 1},
		"one has a lower cap":                 {before: map[string][]step{"bob": {lowered}}, left: 1},
		"one is forgotten":                    {before: map[string][]step{"bob": {gone}}},
		"one is forgotten, and comes back":    {before: map[string][]step{"bob": {gone, back, answers}}},
		"one is forgotten, two are out":       {before: map[string][]step{"ann": {withdraws}, "bob": {gone}, "cid": {renews}}, left: 2},
		"two are forgotten":                   {before: map[string][]step{"ann": {gone}, "dan": {gone}}},
		"one is forgotten while asked":        {asked: map[string][]step{"bob": {gone}}, left: 1},
		"one is forgotten, another meanwhile": {before: map[string][]step{"ann": {gone}}, asked: map[string][]step{"dan": {gone}}, left: 1},
		"one is forgotten and back meanwhile": {before: map[string][]step{"ann": {gone}}, asked: map[string][]step{"bob": {gone, back}}, left: 1},
		"one withdraws meanwhile":             {asked: map[string][]step{"bob": {withdraws}}, untold: "ann", left: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := &kvtest.Memory{}
			begin(t, s)
			l := sellers(t, openMemory(t, s, Options{Now: epoch}), "1", "2", "ann", "bob", "cid", "dan")
			reserve(t, l, ReserveRequest{Key: "reserves", Order: purchase(t, "", "acme", "0.5", "ann", "bob", "cid", "dan").Order, For: time.Hour})
			do := func(steps map[string][]step) {
				for _, name := range sortedKeys(steps) {
					for _, do := range steps[name] {
						do(t, l, name)
					}
				}
			}
			do(one.before)
			asked := false
			sale, err := l.Capture(t.Context(), CaptureRequest{Key: "captures", Reservation: 1, Partial: true, Truth: func(_ context.Context, _ string, names []string) ([]string, error) {
				values := make([]string, len(names))
				for i, name := range names {
					if values[i] = "yes"; name == one.untold {
						values[i] = ""
					}
				}
				if !asked {
					asked = true
					do(one.asked)
				}
				return values, nil
			}})
			must(t, err)
			if len(sale.Refused) != one.left {
				t.Errorf("left out: %v", sale.Refused)
			}
			auditAll(t, l, s)
			for i, name := range []string{"cid", "bob", "ann", "dan"} {
				must(t, l.Forget(t.Context(), fmt.Sprint("forgets ", i), name))
				auditAll(t, l, s)
			}
		})
	}
}
