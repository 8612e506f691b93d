package ledgerclient

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
	"github.com/sluicedp/sluice/ledger/ledgertest"
)

// Of each answer of a standby, also a problem or a list, a caller learns as of which event it is; of
// others, and of what is no number, it learns nothing.
func TestWithEvent_AnswersOfAStandby_AreNoted(t *testing.T) {
	l := ledgertest.New(t).Ledger
	h, err := ledgerhttp.New(l, ledgerhttp.Options{Gate: ledgerhttp.Holder{Name: "test", Role: "operator"}.Admit})
	check.Must(t, err)
	event := "7"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if event != "" {
			w.Header().Set(httpapi.EventHeader, event)
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	var noted []uint64
	ctx := WithEvent(t.Context(), func(event uint64) { noted = append(noted, event) })
	c := check.Value(Dial(ctx, server.URL, Options{}))(t)
	t.Cleanup(func() { _ = c.Close() })
	ask := func(want ...uint64) {
		t.Helper()
		noted = nil
		check.Must(t, check.Err(c.Stats(ctx)))
		_, err = c.Sale(ctx, 99)
		check.That(t, err != nil, "there is a sale")
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
	_, err = c.Stats(t.Context())
	check.That(t, err == nil && len(noted) == 0, "a caller that does not ask: %v, %v", noted, err)
}
