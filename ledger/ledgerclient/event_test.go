package ledgerclient

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/httpapi"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
	"github.com/sluicedp/sluice/ledger/ledgertest"
)

// Of each answer of a standby, also a problem or a list, a caller learns as of which event it is; of
// others, and of what is no number, it learns nothing.
func TestWithEvent_AnswersOfAStandby_AreNoted(t *testing.T) {
	l := ledgertest.New(t).Ledger
	h, err := ledgerhttp.New(l, ledgerhttp.Options{Gate: ledgerhttp.Holder{Name: "test", Role: ledgerhttp.Operator}.Admit})
	must(t, err)
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
	c, err := Dial(ctx, server.URL, Options{})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	ask := func(want ...uint64) {
		t.Helper()
		noted = nil
		_, err := c.Stats(ctx)
		must(t, err)
		if _, err := c.Sale(ctx, 99); err == nil {
			t.Error("there is a sale")
		}
		for _, err := range c.Sales(ctx, "") {
			must(t, err)
		}
		if !slices.Equal(noted, want) {
			t.Errorf("with the header %q: as of %v, want %v", event, noted, want)
		}
	}
	ask(7, 7, 7)
	for _, event = range []string{"", "-1", "x"} {
		ask()
	}
	event = "7"
	if _, err := c.Stats(t.Context()); err != nil || len(noted) > 0 {
		t.Errorf("a caller that does not ask: %v, %v", noted, err)
	}
}
