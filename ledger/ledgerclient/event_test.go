package ledgerclient

import (
	"net/http"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/ledger/ledgertest"
)

// Of each answer of a standby, also a problem or a list, a caller learns as of which event it is;
// of others, and of what is no number, it learns nothing.
func TestWithEvent_AnswersOfAStandby_AreNoted(t *testing.T) {
	event := "7"
	c := around(t, ledgertest.New(t).Ledger, "", func(h http.Handler, w http.ResponseWriter, r *http.Request) {
		if event != "" {
			w.Header().Set(httpapi.EventHeader, event)
		}
		h.ServeHTTP(w, r)
	})
	var noted []uint64
	ctx := WithEvent(t.Context(), func(event uint64) { noted = append(noted, event) })
	ask := func(want ...uint64) {
		t.Helper()
		noted = nil
		check.Must(t, check.Err(c.Stats(ctx)))
		check.That(t, check.Err(c.Sale(ctx, 99)) != nil, "there is a sale")
		for _, err := range c.Sales(ctx, "") {
			check.Must(t, err)
		}
		check.That(t, slices.Equal(noted, want), "with the header %q: as of %v, want %v", event, noted, want)
	}
	ask(7, 7, 7)
	for _, event = range []string{"", "-1", "x"} {
		ask()
	}
	event = "7"
	_, err := c.Stats(t.Context())
	check.That(t, err == nil && len(noted) == 0, "a caller that does not ask: %v, %v", noted, err)
}
