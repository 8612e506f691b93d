package ledgerhttp

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/problem"
)

// Every route refuses every name in its sample, and its key, with a blank that cannot be seen at
// the end. A route without names is listed here.
func TestEveryRoute_NameThatLooksLikeAnother_IsInvalid(t *testing.T) {
	f := serving(t, Options{})
	nameless := map[string]bool{
		"about": true, "stats": true, "health": true, "questions": true, "compact": true, "sale": true, "deliveries": true, "receipt": true, "reservation": true,
		"buyers": true, "checkpoint": true, "metrics": true, "head": true, "consistency": true, "events": true, "verify": true, "takeOver": true, "backup": true,
	}
	for _, r := range routes() {
		names := 0
		refused := func(what string, a asked) {
			names++
			status, header, body := f.ask(a)
			if status != http.StatusBadRequest {
				t.Errorf("%s, %s: %d, %s", r.id, what, status, body)
				return
			}
			p := wantProblem(t, status, header, body, problem.Invalid)
			check.That(t, p.Name != nil && strings.HasPrefix(p.Name.Fault, "U+00A0"), "%s, %s: %s", r.id, what, body)
		}
		for _, name := range []string{"vote", "acme", "19", "17", "20", "21", "age", "young", "sell"} {
			if r.id == "changeTerms" && name == "20" {
				continue // it is the cap
			}
			a := r.request(roleOperator)
			a.body = strings.ReplaceAll(a.body, `"`+name+`"`, `"`+name+"\u00a0"+`"`)
			if strings.HasSuffix(a.target, "="+name) || strings.Contains(a.target, "="+name+"&") {
				a.target = strings.ReplaceAll(a.target, "="+name, "="+name+"%C2%A0")
			}
			if sample := r.request(roleOperator); a.body != sample.body || a.target != sample.target {
				refused(name, a)
			}
		}
		if r.needsKey {
			a := r.request(roleOperator)
			a.key = `%"key%c2%a0"`
			refused("the key", a)
		}
		check.That(t, (names == 0) == nameless[r.id], "%s: %d names are tried", r.id, names)
	}
}

// A desk and a buyer cannot distinguish an invalid true value from a missing one.
func TestSell_ValueOfNoQuestion_IsMissingForAllButOperators(t *testing.T) {
	for _, role := range []string{roleOperator, roleDesk} {
		for _, partial := range []string{"true", "false"} {
			var said [2]string
			for i, value := range []string{"", "maybe"} {
				f := serving(t, Options{})
				body := `{"buyer":"acme","question":"vote","epsilon":"1.5","objects":["17","19"],"partial":` + partial + `,"truths":{"17":"no","19":"` + value + `"}}`
				_, _, said[i] = f.ask(asked{"POST", "/v1/sales", body, `"wrong value"`, role, nil})
				check.That(t, strings.Contains(said[i], `"reason":"no-truth"`) && !strings.Contains(said[i], "maybe") &&
					strings.Contains(said[i], `"truth_invalid":["19"]`) == (role == roleOperator && value != ""), "%s, partial %s, %q: %s", role, partial, value, said[i])
			}
			if said[0], said[1] = withoutTime(said[0]), withoutTime(said[1]); role == roleDesk && said[0] != said[1] {
				t.Errorf("partial %s: a desk reads %s and %s", partial, said[0], said[1])
			}
		}
	}
}

// withoutTime cuts the time out of a sale.
func withoutTime(text string) string {
	before, after, found := strings.Cut(text, `"time":"`)
	if _, rest, closed := strings.Cut(after, `"`); found && closed {
		return before + rest
	}
	return text
}
