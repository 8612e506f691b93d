package event

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// The form for buyers has the same leaf. It contains neither the withheld part nor a salt with
// which a buyer could find that part by trying.
func TestWithhold_SoldAndSale_KeepsTheLeafAndHidesTheMethod(t *testing.T) {
	salt := Salt{1, 2, 3, 15: 9}
	methods := []Method{MethodRaise, MethodDegrade, MethodInsert, MethodResale}
	for _, method := range methods {
		whole := Event{Number: 7, Time: epoch(), Salt: salt, Change: &Sold{Object: "ann", Sale: 3, Price: 50, Response: Response{Value: Value{Index: 1}, Method: method}}}
		shown := Withhold(whole)
		shown.Change = &Sold{Object: "ann", Sale: 3, Price: 50, Response: Response{Value: Value{Index: 1}}}
		check.That(t, shown.Leaf() == whole.Leaf(), "by %s: what is shown has another leaf", method)
		check.Need(t, shown.Salt != whole.Salt && shown.Withheld != nil, "by %s: %+v", method, shown)
		for _, tried := range methods {
			if sum := sha256.Sum256(append(bytes.Clone(shown.Salt[:]), byte(tried))); Commitment(sum) == *shown.Withheld {
				t.Errorf("by %s: the salt that is shown opens the commitment", method)
			}
		}
		entry := Entry{Event: whole, Hashes: nil}
		erased := entry.Erase()
		check.That(t, erased.Leaf() == whole.Leaf(), "by %s: erased it has another leaf", method)
	}
	made := Event{Number: 7, Time: epoch(), Salt: salt, Change: &SaleMade{Deal: Deal{Sale: 3, Buyer: 1, Question: 1, Objects: 4}, Tally: SaleTally{Draws: 1, Resales: 3, Upgrades: 2}}}
	shown := Withhold(made)
	shown.Change = &SaleMade{Deal: Deal{Sale: 3, Buyer: 1, Question: 1, Objects: 4}, Tally: SaleTally{Upgrades: 2}}
	check.That(t, shown.Leaf() == made.Leaf() && shown.Salt != made.Salt,
		"what is shown of a sale has another leaf, or its salt")
	for _, ev := range []Event{{Salt: salt, Change: &Withdrawn{Object: "ann"}}, {Erased: &Commitment{1}, Change: &Sold{Sale: 1}}} {
		if shown := Withhold(ev); shown.Salt != ev.Salt || shown.Withheld != nil {
			t.Errorf("of %+v nothing is withheld, and it became %+v", ev, shown)
		}
	}
}
