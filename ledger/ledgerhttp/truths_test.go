package ledgerhttp

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
)

// If the host has a source of true values, only an operator may send any, on every route. Any value
// is refused with the same text, before the source is called. Without values the request is
// executed.
func TestTruths_WithASource_AreTheOperatorsOnly(t *testing.T) {
	asks, routesOfDesks := 0, 0
	f := serving(t, Options{Truth: func(_ context.Context, _ string, objects []string) ([]string, error) {
		asks++
		return []string{"no", "no", "no"}[:len(objects)], nil
	}})
	for _, r := range routes() {
		if r.in == nil {
			continue
		}
		if _, brings := r.in.FieldByName("Truths"); !brings {
			continue
		}
		for _, role := range r.roles {
			if role == roleOperator {
				continue
			}
			routesOfDesks++
			words := map[string]bool{}
			a := r.request(role)
			sample, at := a.body, strings.Index(a.body, `"truths"`)
			for _, value := range []string{"no", "yes", secretValue, "eleven", ""} {
				a.body = strings.ReplaceAll(sample, `:"no"}`, fmt.Sprintf(":%q}", value))
				status, header, body := f.ask(a)
				p := wantProblem(t, status, header, body, problem.Forbidden)
				check.That(t, p.Field == "truths", "%s of %s: the field is %q", r.id, role, p.Field)
				words[body] = true
			}
			check.That(t, len(words) == 1 && asks == 0,
				"%s of %s: %d answers to five values, and the source is asked %d times", r.id, role, len(words), asks)
			a.body = strings.TrimSuffix(sample[:at], ",") + "}"
			if status, _, body := f.ask(a); status != http.StatusOK || asks != 1 {
				t.Errorf("%s of %s without true values: %d, %s, and the source is asked %d times", r.id, role, status, body, asks)
			}
			asks = 0
		}
	}
	check.That(t, routesOfDesks >= 2,
		"%d routes on which others than operators could bring true values: this test sees nothing", routesOfDesks)
}

// With a truth key, a changed value is refused, so a desk beside a source must not be able to try
// values. An operator can, and so can a desk without a source, which is trusted with the values.
func TestTruths_FromADeskBesideASource_CannotBeTried(t *testing.T) {
	for _, c := range []struct {
		role   string
		source api.TruthFunc
		mayTry bool
	}{{"desk", api.TruthOf("yes"), false}, {"operator", api.TruthOf("yes"), true}, {"desk", nil, true}} {
		l := ledgertest.With(t, ledgertest.Settings{Options: ledger.Options{TruthKey: []byte(strings.Repeat("k", 32))}}).Ledger
		peopleForSale(t, l)
		f := servingOf(t, l, Options{Truth: c.source})
		status := map[string]int{}
		for _, value := range []string{secretValue, "no", "yes"} {
			body := fmt.Sprintf(`{"buyer":"acme","question":"vote","epsilon":"1.5","objects":["17"],"truths":{"17":%q}}`, value)
			status[value], _, _ = f.ask(asked{"POST", "/v1/sales", body, "guess", c.role, nil})
		}
		wanted := map[string]int{secretValue: http.StatusForbidden, "no": http.StatusForbidden, "yes": http.StatusForbidden}
		if c.mayTry {
			wanted = map[string]int{secretValue: http.StatusConflict, "no": http.StatusConflict, "yes": http.StatusOK}
		}
		check.That(t, reflect.DeepEqual(status, wanted), "%s, with a source: %t: %v", c.role, c.source != nil, status)
	}
}

// Only an operator learns for which objects the true value has changed, in the result of a sale and
// in its refusal.
func TestTruthChanged_IsSentToTheOperatorOnly(t *testing.T) {
	for _, role := range []string{roleOperator, roleDesk} {
		l := ledgertest.With(t, ledgertest.Settings{Options: ledger.Options{TruthKey: []byte(strings.Repeat("k", 32))}}).Ledger
		peopleForSale(t, l)
		f := servingOf(t, l, Options{})
		for _, partial := range []bool{false, true} {
			wanted := map[bool]int{false: http.StatusConflict, true: http.StatusOK}[partial]
			body := fmt.Sprintf(`{"buyer":"acme","question":"vote","epsilon":"1.5","objects":["17","19"],"partial":%t,"truths":{"17":"no","19":"no"}}`, partial)
			status, _, text := f.ask(asked{"POST", "/v1/sales", body, "sale", role, nil})
			check.That(t, status == wanted && strings.Contains(text, `"reason":"no-truth"`) &&
				strings.Contains(text, `"truth_changed":["17"]`) == (role == roleOperator), "%s, partial: %t: %d, %s", role, partial, status, text)
			check.That(t, role == roleOperator || !strings.Contains(text, "changed"), "%s reads %s", role, text)
		}
	}
}
