package ledgerhttp

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// decode reads the body of a request into the struct that into points to. The body must be one JSON
// object in UTF-8. Each of its names occurs at most once, and is spelled exactly as a field of the
// struct. Every required field (see missing) is present. Otherwise decode returns a problem. No
// problem contains a value of the body, because it may be a true value.
func decode(body io.Reader, into any) *api.Problem {
	if err := json.UnmarshalRead(body, into, json.RejectUnknownMembers(true), strictLists()); err != nil {
		return decodeProblem(err)
	}
	if name := missing(reflect.ValueOf(into).Elem()); name != "" {
		return problem.At(name, problem.Invalid, "the field %q is missing, or empty", name)
	}
	return nil
}

// decodeProblem returns the problem of a body that could not be decoded, with the field at fault.
func decodeProblem(err error) *api.Problem {
	var syntax *jsontext.SyntacticError
	var meaning *json.SemanticError
	switch {
	case errors.As(err, &syntax):
		return badField(string(syntax.JSONPointer), "is not valid JSON: it must be UTF-8, and have no name twice")
	case errors.As(err, &meaning):
		why := "has an invalid value"
		switch {
		case errors.Is(err, json.ErrUnknownName):
			why = "is unknown"
		case meaning.GoType != nil:
			why = "has an invalid value: want " + wanted(meaning.GoType)
		}
		return badField(string(meaning.JSONPointer), why)
	}
	return problem.New(problem.Invalid, "the body could not be read")
}

// badField returns the problem of the field at a JSON pointer, or of the whole body if the pointer
// is empty. why follows the name of the field in the text.
func badField(pointer, why string) *api.Problem {
	field := strings.TrimPrefix(pointer, "/")
	if field == "" {
		return problem.New(problem.Invalid, "the body %s", why)
	}
	const most = 300
	if len(field) > most {
		field = strings.ToValidUTF8(field[:most], "") + "…"
	}
	return problem.At(field, problem.Invalid, "the field %q %s", field, why)
}

// wanted describes the JSON form of a field's type. A type is found by its name first, because the
// kinds of these types in Go differ from their JSON.
func wanted(t reflect.Type) string {
	switch t.Name() {
	case "Epsilon":
		return `a decimal in a string, such as "0.5", with at most 9 digits after the point`
	case "Duration":
		return `a duration in a string, such as "15m"`
	case "Policy":
		return "a policy as in docs/reference/json.md"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "an integer"
	case reflect.Slice:
		return "a list"
	default:
		return "an object"
	}
}

// missing returns the path of the first required field that is zero in a struct, such as
// "members/3/object", or "" if there is none. A field is required if its json tag has no options,
// such as omitempty. The fields of an embedded struct are fields of the struct itself.
func missing(of reflect.Value) string {
	for i := range of.NumField() {
		field := of.Type().Field(i)
		if field.Anonymous {
			if name := missing(of.Field(i)); name != "" {
				return name
			}
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if options == "" && of.Field(i).IsZero() {
			return name
		}
		if inner := missingBelow(of.Field(i)); inner != "" {
			return name + "/" + inner
		}
	}
	return ""
}

// missingBelow returns the index and path of the first required field that is zero in an element of
// a list of structs, such as "3/object". It returns "" if there is none, and for any other value.
func missingBelow(rows reflect.Value) string {
	if rows.Kind() != reflect.Slice || rows.Type().Elem().Kind() != reflect.Struct {
		return ""
	}
	for i := range rows.Len() {
		if name := missing(rows.Index(i)); name != "" {
			return strconv.Itoa(i) + "/" + name
		}
	}
	return ""
}

// isJSON reports whether the Content-Type of a request is JSON in UTF-8.
func isJSON(h http.Header) bool {
	media, parameters, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset := parameters["charset"]
	return err == nil && media == "application/json" && (charset == "" || strings.EqualFold(charset, "utf-8"))
}
