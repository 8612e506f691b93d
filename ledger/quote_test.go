package ledger

import (
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
)

// The ID of a quote names the ledger: the same order quoted by another ledger, such as a test
// system, is another offer.
func TestQuote_OfAnotherLedger_HasAnotherID(t *testing.T) {
	quote := func() string {
		l := sellers(t, newLedger(t), "1", "1", "ann")
		q, err := l.Quote(t.Context(), api.Order{Buyer: "acme", Question: "vote", Epsilon: eps(t, "0.5"), Objects: []string{"ann"}})
		must(t, err)
		return q.ID
	}
	one, other := quote(), quote()
	check.That(t, one != other, "two ledgers quote the same order as %s", one)
}
