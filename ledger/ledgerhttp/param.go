package ledgerhttp

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// param is a query parameter. Names of people, buyers and questions are parameters and never parts
// of a path, because a proxy that cleans paths could turn one name into another.
type param struct {
	name, doc  string
	kind       string   // "text", "number", "limit", "epsilon", "share", "flag", "time", "word" or "words"
	words      []string // of a "word" or "words": the allowed words
	isRequired bool
}

func text(name, doc string) param    { return param{name: name, doc: doc, kind: "text"} }
func number(name, doc string) param  { return param{name: name, doc: doc, kind: "number"} }
func epsilon(name, doc string) param { return param{name: name, doc: doc, kind: "epsilon"} }
func share(name, doc string) param   { return param{name: name, doc: doc, kind: "share"} }
func flag(name, doc string) param    { return param{name: name, doc: doc, kind: "flag"} }
func instant(name, doc string) param { return param{name: name, doc: doc, kind: "time"} }

// word returns a parameter whose value is one of the given words.
func word[T ~string](name, doc string, all ...T) param {
	return param{name: name, doc: doc, kind: "word", words: texts(all)}
}

// words returns a parameter whose value is a list of the given words. The list is separated by
// commas, or the parameter is repeated.
func words[T ~string](name, doc string, all ...T) param {
	return param{name: name, doc: doc, kind: "words", words: texts(all)}
}

// texts converts words to strings.
func texts[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, one := range all {
		out[i] = string(one)
	}
	return out
}

// required returns the parameter as a required one.
func (p param) required() param {
	p.isRequired = true
	return p
}

// describeValues describes the values that the parameter may have: its doc, with the allowed words.
func (p param) describeValues() string {
	if len(p.words) == 0 {
		return p.doc
	}
	return p.doc + ": " + strings.Join(p.words, ", ")
}

// query parses the query of a URL, and returns the values of the given parameters by name. Several
// values of a "words" parameter are joined by commas. It returns a problem for an unknown
// parameter, a missing required one, an invalid value, and any other parameter that occurs twice.
func query(raw string, params []param) (map[string]string, *api.Problem) {
	given, err := url.ParseQuery(raw)
	if err != nil {
		return nil, problem.New(problem.Invalid, "the query is malformed")
	}
	out := map[string]string{}
	for _, p := range params {
		values, isGiven := given[p.name]
		delete(given, p.name)
		switch {
		case len(values) > 1 && p.kind != "words":
			return nil, problem.At(p.name, problem.Invalid, "the parameter %q occurs twice", p.name)
		case p.isRequired && (!isGiven || values[0] == ""):
			return nil, problem.At(p.name, problem.Invalid, "the parameter %q is missing, or empty", p.name)
		case isGiven && !p.fits(strings.Join(values, ",")):
			const what = "the parameter %q has an invalid value: want %s"
			return nil, problem.At(p.name, problem.Invalid, what, p.name, p.describeValues())
		case isGiven:
			out[p.name] = strings.Join(values, ",")
		}
	}
	for name := range given { // the parameters that are left are unknown; one of them is reported
		return nil, problem.At(name, problem.Invalid, "this route has no parameter %.100q", name)
	}
	return out, nil
}

// fits reports whether a value is valid for the kind of the parameter. A "text" is only required to
// be UTF-8.
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
	case "limit":
		n, bad := strconv.Atoi(value)
		return bad == nil && n >= 1 && n <= maxLimit
	case "time":
		_, err = time.Parse(time.RFC3339Nano, value)
	case "word":
		return slices.Contains(p.words, value)
	case "words":
		return !slices.ContainsFunc(listed(value), func(one string) bool { return !slices.Contains(p.words, one) })
	}
	return err == nil && utf8.ValidString(value)
}

// listed splits the value of a "words" parameter at its commas. It returns nil for "".
func listed(value string) []string {
	if value == "" {
		return nil
	}
	return strings.Split(value, ",")
}
