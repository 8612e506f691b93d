package ledgerhttp

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/problem"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// param is a parameter of a query. Names of people, buyers and questions are parameters, never parts of a path: who cleans a path on the
// way could make another name of one.
type param struct {
	name, doc string
	kind      string // "text", "number", "epsilon", "share", "flag" or "states"
	needed    bool
}

func text(name, doc string) param    { return param{name, doc, "text", false} }
func number(name, doc string) param  { return param{name, doc, "number", false} }
func epsilon(name, doc string) param { return param{name, doc, "epsilon", false} }
func flag(name, doc string) param    { return param{name, doc, "flag", false} }

// need returns the parameter as one that must be there.
func (p param) need() param {
	p.needed = true
	return p
}

// query reads the parameters of a query: those that are known, each once and readable.
func query(raw string, params []param) (map[string]string, *problem.Problem) {
	given, err := url.ParseQuery(raw)
	if err != nil {
		return nil, problem.New(problem.Invalid, "the query cannot be read")
	}
	out := map[string]string{}
	for _, p := range params {
		values, there := given[p.name]
		delete(given, p.name)
		switch {
		case len(values) > 1:
			return nil, problem.New(problem.Invalid, "the parameter %q is there twice", p.name).At(p.name)
		case p.needed && (!there || values[0] == ""):
			return nil, problem.New(problem.Invalid, "the parameter %q is missing, or empty", p.name).At(p.name)
		case there && !p.fits(values[0]):
			return nil, problem.New(problem.Invalid, "the parameter %q is not what it must be: %s", p.name, p.doc).At(p.name)
		case there:
			out[p.name] = values[0]
		}
	}
	for name := range given {
		return nil, problem.New(problem.Invalid, "there is no parameter %.100q here", name).At(name)
	}
	return out, nil
}

func (p param) fits(value string) bool {
	var err error
	switch p.kind {
	case "number":
		_, err = strconv.ParseUint(value, 10, 64)
	case "epsilon":
		_, err = privacy.ParseEpsilon(value)
	case "share":
		_, err = strconv.ParseFloat(value, 64)
	case "flag":
		return value == "true" || value == "false"
	case "states":
		return !slices.ContainsFunc(statesIn(value), func(one ledger.ReservationState) bool { return !slices.Contains(vocabulary.ReservationStates(), one) })
	}
	return err == nil && utf8.ValidString(value)
}

// statesIn returns the states of reservations that a parameter lists.
func statesIn(value string) (all []ledger.ReservationState) {
	for one := range strings.SplitSeq(value, ",") {
		all = append(all, ledger.ReservationState(one))
	}
	return all
}
