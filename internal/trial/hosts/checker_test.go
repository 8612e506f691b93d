package hosts

import (
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/sluicedp/sluice/ledger/api"
)

// told is a deed with one person, in the course of two ticks.
type told struct {
	call, till int64
	deed
}

// history makes told deeds one, behind an enrolment in both questions.
func history(t *testing.T, all ...told) (operations []porcupine.Operation) {
	t.Helper()
	rules, err := newTerms(0, lifetime)
	if err != nil {
		t.Fatal(err)
	}
	enrolled := []told{
		{1, 2, deed{what: toEnroll, request: request{question: vote}, first: 1, last: 2, tally: []int{1, 0}}},
		{3, 4, deed{what: toEnroll, request: request{question: diary}, first: 3, last: 4, tally: []int{1, 0}}},
	}
	for i, one := range append(enrolled, all...) {
		d := one.deed
		d.object, d.call, d.terms, d.shown.epsilon = "ann", i, &rules, d.epsilon
		if d.clocks == nil {
			d.clocks = window{lifetime}
		}
		d.log[1] = max(d.log[0], d.log[1])
		operations = append(operations, porcupine.Operation{ClientId: i, Input: &d, Call: one.call, Return: one.till})
	}
	return operations
}

// The checker must know a right history from one that is nearly right.
func TestTheCheckerTellsRightFromWrong(t *testing.T) {
	ask := func(question, epsilon int) request { return request{question: question, epsilon: epsilon} }
	release := func(question, epsilon int, value string, event uint64) deed {
		return deed{what: toRelease, request: ask(question, epsilon), shown: level{value: value, event: event}}
	}
	look := func(epsilon int, value string, event uint64) deed {
		return deed{what: toReadLevel, request: ask(vote, epsilon), found: value != "", shown: level{value: value, event: event}}
	}
	sell := func(buyer, epsilon int, price int64, method string, event, first, last uint64) deed {
		return deed{what: toSell, request: request{question: vote, epsilon: epsilon, buyer: buyer}, price: price, method: method, first: first, last: last, shown: level{value: "yes", event: event}}
	}
	overCap := func(asked, spent, cost int) deed {
		return deed{what: toRelease, request: ask(diary, asked), failed: true, refusal: &api.Refusal{
			Reason: api.ObjectCap, Ceiling: tenths(most), Spent: tenths(spent), Asked: tenths(asked), Cost: tenths(cost),
			Remaining: tenths(most - spent), Remedy: api.RemedyLess, Largest: tenths(most - spent),
		}}
	}
	raise := deed{what: toRaise, request: ask(vote, 5), first: 5, last: 7, tally: []int{1, 0, 0}}
	reserve := deed{what: toReserve, request: request{question: vote, epsilon: 10, buyer: 1}, price: 70, number: 1, expires: 50, first: 5, last: 8}
	commit := deed{what: toCommit, request: request{question: vote, epsilon: 10, buyer: 1}, number: 1, price: 70, method: "raise", first: 9, last: 11, shown: level{value: "yes", event: 10}}
	late := deed{what: toCommit, request: request{question: vote, epsilon: 10, buyer: 1}, number: 1, notReserved: true}
	terms := func(limit int, dear, agreed bool, event uint64) deed {
		return deed{what: toTerms, request: request{question: vote, cap: limit, dear: dear, agreed: agreed}, first: event, last: event + 1, tally: []int{1, 0}}
	}
	short := deed{what: toCommit, request: request{question: vote, epsilon: 16, buyer: 1}, number: 1, failed: true, refusal: &api.Refusal{
		Reason: api.ChainCeiling, Ceiling: tenths(lessForSale), Asked: tenths(16), Cost: tenths(16), Remaining: tenths(lessForSale), Remedy: api.RemedyNothing,
	}}
	hold := deed{what: toReserve, request: request{question: vote, epsilon: 16, buyer: 1}, price: 112, number: 1, expires: 50, first: 5, last: 8}
	at := func(d deed, first, last int64) deed {
		d.log = [2]int64{first, last}
		return d
	}
	after := func(d deed, event, first, last uint64) deed {
		d.shown.event, d.first, d.last = event, first, last
		return d
	}
	for _, test := range []struct {
		name  string
		right bool
		all   []told
	}{
		{"a response read after it was shown", true, []told{{5, 6, release(vote, 5, "yes", 6)}, {7, 8, look(5, "yes", 6)}}},
		{"a response not read after it was shown", false, []told{{5, 6, release(vote, 5, "yes", 6)}, {7, 8, look(5, "", 0)}}},
		{"a response not read while it is drawn", true, []told{{5, 8, release(vote, 5, "yes", 6)}, {6, 7, look(5, "", 0)}}},
		{"a response read while it is drawn", true, []told{{5, 8, release(vote, 5, "yes", 6)}, {6, 7, look(5, "yes", 6)}}},
		{"a response read, and then not, while it is drawn", false, []told{{5, 10, release(vote, 5, "yes", 6)}, {6, 7, look(5, "yes", 6)}, {8, 9, look(5, "", 0)}}},
		{"a response read that nobody drew", false, []told{{5, 6, look(5, "yes", 4)}}},
		{"two responses at one ε", false, []told{{5, 6, release(vote, 5, "yes", 6)}, {7, 8, release(vote, 5, "no", 6)}}},
		{"one response at one ε, drawn twice", false, []told{{5, 6, release(vote, 5, "yes", 6)}, {7, 8, release(vote, 5, "yes", 8)}}},
		{"a first draw for many, read twice", true, []told{{5, 6, raise}, {7, 8, look(5, "no", 6)}, {9, 10, look(5, "no", 6)}}},
		{"a first draw for many, read as two", false, []told{{5, 6, raise}, {7, 8, look(5, "no", 6)}, {9, 10, look(5, "yes", 6)}}},
		{"a draw with an event that was there", false, []told{{5, 6, raise}, {7, 8, release(vote, 9, "yes", 6)}}},
		{"a refusal of what is too much", true, []told{{5, 6, release(vote, 20, "yes", 6)}, {7, 8, overCap(6, 20, 6)}}},
		{"a refusal of what fits", false, []told{{5, 6, release(vote, 19, "yes", 6)}, {7, 8, overCap(6, 19, 6)}}},
		{"a refusal before there was a reason", false, []told{{5, 6, overCap(6, 20, 6)}, {7, 8, release(vote, 20, "yes", 6)}}},
		{"a refusal while the reason comes about", true, []told{{5, 8, overCap(6, 20, 6)}, {6, 7, release(vote, 20, "yes", 6)}}},
		{"a refusal with another sum", false, []told{{5, 6, release(vote, 20, "yes", 6)}, {7, 8, overCap(6, 19, 6)}}},
		{"more than the cap", false, []told{{5, 6, release(vote, 20, "yes", 6)}, {7, 8, release(diary, 6, "no", 8)}}},
		{"more than the cap, at the same time", false, []told{{5, 8, release(vote, 20, "yes", 6)}, {6, 7, release(diary, 6, "no", 8)}}},
		{"an upgrade at the difference", true, []told{{5, 6, sell(1, 5, 35, "raise", 7, 5, 8)}, {7, 8, sell(1, 10, 35, "raise", 11, 9, 12)}}},
		{"an upgrade at the full price", false, []told{{5, 6, sell(1, 5, 35, "raise", 7, 5, 8)}, {7, 8, sell(1, 10, 70, "raise", 11, 9, 12)}}},
		{"a resale to a second buyer", true, []told{{5, 6, sell(1, 5, 35, "raise", 7, 5, 8)}, {7, 8, sell(2, 5, 35, "resale", 7, 9, 12)}}},
		{"a third holder of two", false, []told{{5, 6, sell(1, 5, 35, "raise", 7, 5, 8)}, {7, 8, sell(2, 5, 35, "resale", 7, 9, 12)}, {9, 10, sell(0, 5, 35, "resale", 7, 13, 15)}}},
		{"sales not in the order of the log", false, []told{{5, 6, sell(1, 10, 70, "raise", 11, 9, 12)}, {7, 8, sell(2, 5, 35, "degrade", 7, 5, 8)}}},
		{"a reservation carried out", true, []told{{5, 6, reserve}, {7, 8, commit}}},
		{"a reservation carried out twice", false, []told{{5, 6, reserve}, {7, 8, commit}, {9, 10, commit}}},
		{"a reservation gone too early", false, []told{{5, 6, reserve}, {7, 8, at(late, 40, 49)}}},
		{"a reservation that may have expired", true, []told{{5, 6, reserve}, {7, 8, at(late, 40, 50)}}},
		{"an upgrade at the new price, less what was paid", true, []told{{5, 6, sell(1, 5, 35, "raise", 7, 5, 8)}, {7, 8, terms(most, true, false, 9)}, {9, 10, sell(1, 10, 55, "raise", 13, 11, 14)}}},
		{"an upgrade at the old price", false, []told{{5, 6, sell(1, 5, 35, "raise", 7, 5, 8)}, {7, 8, terms(most, true, false, 9)}, {9, 10, sell(1, 10, 35, "raise", 13, 11, 14)}}},
		{"either, while terms change", true, []told{{5, 6, sell(1, 5, 35, "raise", 7, 5, 8)}, {7, 10, terms(most, true, false, 13)}, {8, 9, sell(1, 10, 35, "raise", 11, 9, 12)}}},
		{"more without consent", false, []told{{5, 6, terms(most, true, false, 5)}, {7, 8, terms(most, false, false, 7)}}},
		{"more with consent", true, []told{{5, 6, terms(most, true, false, 5)}, {7, 8, terms(most, false, true, 7)}}},
		{"a higher cap without consent", false, []told{{5, 6, terms(lessInAll, false, false, 5)}, {7, 8, terms(most, false, false, 7)}}},
		{"more than a lower cap", false, []told{{5, 6, terms(lessInAll, false, false, 5)}, {7, 8, release(vote, 19, "yes", 9)}}},
		{"a reservation at its old price", true, []told{{5, 6, reserve}, {7, 8, terms(most, true, false, 9)}, {9, 10, after(commit, 12, 11, 13)}}},
		{"a reservation whose budget is taken back", true, []told{{5, 6, hold}, {7, 8, terms(most, true, false, 9)}, {9, 10, short}}},
		{"a reservation whose budget is not", false, []told{{5, 6, hold}, {7, 8, terms(lessInAll, false, false, 9)}, {9, 10, short}}},
		{"a sale after a withdrawal", false, []told{{5, 6, deed{what: toWithdraw}}, {7, 8, sell(1, 5, 35, "raise", 7, 5, 8)}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := checkOrder(history(t, test.all...))
			if test.right && err != nil {
				t.Error(err)
			}
			if !test.right && (err == nil || !strings.Contains(err.Error(), byOrder)) {
				t.Errorf("found nothing: %v", err)
			}
		})
	}
}

// What is printed of a wrong history is what is wrong with it.
func TestAWrongHistoryIsCutShort(t *testing.T) {
	show := func(epsilon int, event uint64) deed {
		return deed{what: toReadLevel, request: request{question: vote, epsilon: epsilon}, found: event > 0, shown: level{value: "yes", event: event}}
	}
	all := []told{{5, 6, deed{what: toRelease, request: request{question: vote, epsilon: 5}, shown: level{value: "yes", event: 6}}}}
	for n := range int64(20) {
		all = append(all, told{10 + 2*n, 11 + 2*n, show(5, 6)})
	}
	all = append(all, told{100, 101, show(7, 6)}) // nobody drew that
	for n := range int64(20) {
		all = append(all, told{110 + 2*n, 111 + 2*n, show(9, 0)})
	}
	cut := shorten(history(t, all...))
	if len(cut) != 4 || cut[3].Input.(*deed).epsilon != 7 {
		t.Errorf("cut to %v", cut)
	}
}
