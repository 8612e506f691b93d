package ledgerhttp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// A request is read strictly also inside an api.List: a misspelled member must not be taken for one
// that is absent.
func TestDecode_ListInARequest_IsReadStrictly(t *testing.T) {
	for questions, field := range map[string]string{
		`[{"question":"vote","refusd":[]}]`:                               "expected/questions/0/refusd",
		`[{"question":"vote"},{"question":"vote","Refused":[]}]`:          "expected/questions/1/Refused",
		`[{"question":"vote","refused":[{"object":"17","reasn":"cap"}]}]`: "expected/questions/0/refused/0/reasn",
		`[{"question":"vote","new":{"count":1,"frist":["17"]}}]`:          "expected/questions/0/new/frist",
		`[{"question":"vote","new":{"count":1,"first":[17]}}]`:            "expected/questions/0/new/first/0",
		`[{"question":"vote","question":"vote"}]`:                         "expected/questions/0/question",
		`{}`: "expected/questions",
		`[{"question":"vote","refused":[{"object":"17","object":"18"}]}]`: "expected/questions/0/refused/0/object",
	} {
		body := `{"members":[{"object":"17","question":"vote"}],"expected":{"questions":` + questions + `}}`
		var in httpapi.Reconcile
		bad := decode(strings.NewReader(body), &in)
		check.That(t, bad != nil && bad.Kind == problem.Invalid && bad.Field == field, "%s: %+v, want the field %s", questions, bad, field)
	}
}

// A misspelled list of outputs must not be taken for none: the outputs would be called by numbers,
// for ever.
func TestDecode_MechanismInARequest_IsReadStrictly(t *testing.T) {
	design := check.Value(finite.SubsetSelection(3, 1))(t)
	family := check.Value(json.Marshal(check.Value(design.Family(check.Eps(t, "1"), check.Eps(t, "2")))(t)))(t)
	for outputs, field := range map[string]string{
		`"outpts":[["a","b","c"]]`: "mechanism/outpts", `"Outputs":[["a","b","c"]]`: "mechanism/Outputs",
		`"outputs":[],"outputs":[]`: "mechanism/outputs", `"outputs":[["a","b","c"],["a","b","c"]]`: "",
	} {
		body := `{"question":"vote","values":["a","b","c"],"encoding":"finite","mechanism":{"family":` + string(family) + "," + outputs + `}}`
		var in httpapi.NewQuestion
		bad := decode(strings.NewReader(body), &in)
		if field == "" {
			check.That(t, bad == nil && len(in.Mechanism.Outputs) == 2, "%s: %+v", outputs, bad)
			continue
		}
		check.That(t, bad != nil && bad.Kind == problem.Invalid && bad.Field == field, "%s: %+v, want the field %s", outputs, bad, field)
	}
}

// A list without elements is nil in a request, as in the results that it is compared with.
func TestDecode_ListWithoutElements_IsNil(t *testing.T) {
	for _, empty := range []string{`[]`, `null`} {
		body := `{"members":[{"object":"17","question":"vote"}],"expected":{"questions":[{"question":"vote","refused":` + empty + `}]}}`
		var in httpapi.Reconcile
		bad := decode(strings.NewReader(body), &in)
		check.Need(t, bad == nil && len(in.Expected.Questions) == 1, "%s: %+v", body, bad)
		one := in.Expected.Questions[0]
		check.That(t, one.Question == "vote" && one.Refused == nil && one.New.First == nil, "%s: %#v", empty, one)
	}
}

// An answer has [] where a list has no elements, at any depth; a list is written as a slice is.
func TestEncoded_Lists_AreWrittenAsSlices(t *testing.T) {
	text, err := encoded(api.ObjectState{Chains: []api.ChainState{{Question: "a<b"}}})
	check.That(t, err == nil && strings.Contains(string(text), `"levels":[]`) && strings.Contains(string(text), `"a<b"`), "%s, %v", text, err)
	text, err = encoded(&api.ObjectState{})
	check.That(t, err == nil && strings.Contains(string(text), `"chains":[]`), "%s, %v", text, err)

	var nested api.List[api.List[api.List[string]]]
	var plain [][][]string
	for range 100 {
		nested = append(nested, api.List[api.List[string]]{{"yes", "no"}, {}, nil})
		plain = append(plain, [][]string{{"yes", "no"}, {}, nil})
	}
	first, firstErr := encoded(nested)
	second, secondErr := encoded(plain)
	check.That(t, firstErr == nil && secondErr == nil && string(first) == string(second), "%s, %v, want %s, %v", first, firstErr, second, secondErr)
}
