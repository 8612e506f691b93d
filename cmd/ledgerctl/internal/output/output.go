// Package output prints the results and errors of commands, as tables for people or as JSON for
// programs.
package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/schollz/progressbar/v3"

	"github.com/sluicedp/sluice/ledger/api"
)

// Result is the result of a command. Its JSON form has the documented keys.
type Result interface {
	// Table adds the result to a table for people.
	Table(t *Table)
}

// Fields is a result that lists its values in order: each has a key in JSON, a label in the table,
// or both.
type Fields []field

// field is one value of a result. Some values have a meaning of their own: with neither key nor
// label, a struct adds all its members to the JSON form, and a function adds lines to the table.
type field struct {
	key, label string
	value      any
}

// Add adds a value. Without a key it is not in the JSON form. Without a label it is not in the
// table.
func (f *Fields) Add(key, label string, value any) { *f = append(*f, field{key, label, value}) }

// AddNonZero adds a value, unless it is the zero value of its type or an empty slice.
func (f *Fields) AddNonZero(key, label string, value any) {
	v := reflect.ValueOf(value)
	if !v.IsZero() && (v.Kind() != reflect.Slice || v.Len() > 0) {
		f.Add(key, label, value)
	}
}

// AddMoney adds an amount in minor units of a currency.
func (f *Fields) AddMoney(key, label string, amount int64, currency string) {
	f.Add(key, "", amount)
	f.Add("currency", "", currency)
	f.Add("", label, Money(amount, currency))
}

// Inline adds all members of a struct to the JSON form, and those in rows to the table. A row is a
// key in JSON, or "key label".
func (f *Fields) Inline(value any, rows ...string) {
	f.Add("", "", value)
	*f = append(*f, rowsOf(value, rows)...)
}

// InlineDone is Inline for the result of a request. The range of the events that the request wrote
// has the key "events" in place of the keys "first" and "last" of the API.
func (f *Fields) InlineDone(done any, rows ...string) {
	var events Span
	for _, m := range membersOf(reflect.ValueOf(done)) {
		switch {
		case m.key == "first":
			events.First = m.value.(uint64)
		case m.key == "last":
			events.Last = m.value.(uint64)
		case !m.isHidden:
			f.Add(m.key, "", m.value)
		}
	}
	*f = append(*f, rowsOf(done, rows)...)
	f.AddNonZero("events", "events", events)
}

// Span is a range of events, by their numbers.
type Span struct {
	First uint64 `json:"first"` // the first event; the range may include events of other requests
	Last  uint64 `json:"last"`  // the last event
}

// String implements [fmt.Stringer].
func (s Span) String() string { return fmt.Sprintf("%d to %d", s.First, s.Last) }

// Section adds the lines that write adds to the table, at this place. They are not in the JSON
// form.
func (f *Fields) Section(write func(t *Table)) { f.Add("", "", write) }

// Below is Section for lines after all others of the table, also after those that are added later.
func (f *Fields) Below(write func(t *Table)) { f.Add("", "", below(write)) }

// below is the value of a field that [Fields.Below] has added.
type below func(t *Table)

// Table implements [Result].
func (f Fields) Table(t *Table) {
	var last []below
	for _, one := range f {
		switch value := one.value.(type) {
		case func(*Table):
			value(t)
		case below:
			last = append(last, value)
		default:
			if one.label != "" {
				t.Row(one.label, value)
			}
		}
	}
	for _, write := range last {
		write(t)
	}
}

// MarshalJSON implements [json.Marshaler]. A field without key and label is a struct, whose members
// are added to the object: its braces are removed.
func (f Fields) MarshalJSON() ([]byte, error) {
	var members [][]byte
	for _, one := range f {
		if reflect.ValueOf(one.value).Kind() == reflect.Func || one.key == "" && one.label != "" {
			continue
		}
		var text bytes.Buffer
		if err := WriteJSON(&text, one.value); err != nil {
			return nil, err
		}
		member := bytes.TrimSpace(text.Bytes())
		if one.key == "" {
			member = bytes.TrimSuffix(bytes.TrimPrefix(member, []byte("{")), []byte("}"))
		} else {
			member = append(strconv.AppendQuote(nil, one.key), append([]byte(":"), member...)...)
		}
		if len(member) > 0 {
			members = append(members, member)
		}
	}
	return append(append([]byte("{"), bytes.Join(members, []byte(","))...), '}'), nil
}

// List returns a result with one list, which is printed as a table with columns (see [Rows]).
func List[T any](key string, items []T, columns, currency string) Fields {
	var out Fields
	out.Add(key, "", items)
	out.Section(func(t *Table) {
		if len(items) == 0 {
			t.Line("no %s", key)
		}
		Rows(t, columns, currency, items)
	})
	return out
}

// Printer prints the results, warnings and errors of one run of the program.
type Printer struct {
	Stdout, Stderr io.Writer                // the standard streams
	JSON           bool                     `flag:"json"`  // results and errors are JSON
	Quiet          bool                     `flag:"quiet"` // no warnings are printed
	Taken          bool                     // standard output is a file of the command, so the result is not printed
	Pager          string                   // command for tables that are longer than the terminal; "" for none
	warned         []string                 // the warnings so far
	bar            *progressbar.ProgressBar // on the terminal; nil for none
}

// Print writes a result to standard output, unless standard output is a file of the command.
func (p *Printer) Print(r Result) error {
	p.clearBar()
	if p.Taken {
		return nil
	}
	if p.JSON {
		return WriteJSON(p.Stdout, r)
	}
	var t Table
	r.Table(&t)
	return p.show([]byte(t.String()))
}

// PrintDone prints the result of a request that is done permanently. If printing fails, the error
// says that the request is done, and has the key for printing the result again, unless key is "".
func (p *Printer) PrintDone(done, key string, r Result) error {
	signal.Ignore(syscall.SIGPIPE) // it must be reported even if standard output is closed
	err := Unfinished(done+", but the result is not printed", 0, p.Print(r))
	if key == "" {
		return err
	}
	return WithKey(key, err)
}

// Fail prints an error on standard error and returns the exit code. jsonAsked means that the
// command line has --json, even if it could not be parsed.
func (p *Printer) Fail(err error, jsonAsked bool) ExitCode {
	p.clearBar()
	var refused *api.RefusedError
	if errors.As(err, &refused) {
		p.WarnTruths(refused.TruthChanged, refused.TruthInvalid)
	}
	f, code := Explain(err)
	if p.JSON || jsonAsked {
		// An error in writing to stderr cannot be reported.
		_ = WriteJSON(p.Stderr, map[string]Report{"error": f})
		return code
	}
	text := "ledgerctl: " + f.Message
	if f.Details.Hint != "" {
		text += " (hint: " + f.Details.Hint + ")"
	}
	fmt.Fprintln(p.Stderr, OneLine(text))
	return code
}

// Warn prints a warning once, unless --quiet is given.
func (p *Printer) Warn(text string) {
	p.clearBar()
	known := slices.Contains(p.warned, text)
	p.warned = append(p.warned, text)
	switch {
	case p.Quiet || known:
	case p.JSON:
		_ = json.NewEncoder(p.Stderr).Encode(map[string]map[string]string{"warning": {"message": text}})
	default:
		fmt.Fprintln(p.Stderr, "ledgerctl: warning: "+OneLine(text))
	}
}

// WarnTruths lists the people whose true value has changed since the last draw, and those whose
// value the question does not have. Results, which other parties may read, only say "no-truth". The
// list is therefore printed once on standard error, and does not change the exit code.
func (p *Printer) WarnTruths(changed, invalid []string) {
	p.warnOf("the true value is not the one drawn from before", changed)
	p.warnOf("the true value is not a value of the question", invalid)
}

// warnOf prints a warning with a fault and the names of the people that have it: the first twenty.
func (p *Printer) warnOf(fault string, people []string) {
	if len(people) == 0 {
		return
	}
	const most = 20
	shown := make([]string, 0, most+1)
	for i, name := range people {
		if i == most {
			shown = append(shown, fmt.Sprintf("and %d more", len(people)-most))
			break
		}
		shown = append(shown, fmt.Sprintf("%q", name))
	}
	p.Warn("confidential: " + fault + ", for " + strings.Join(shown, ", "))
}

// withLists returns a copy of a value without nil slices, so that no list is null in JSON.
func withLists(value any) any {
	v := reflect.New(reflect.TypeOf(value)).Elem()
	v.Set(reflect.ValueOf(value))
	fillLists(v)
	return v.Interface()
}

// fillLists replaces nil slices by empty ones: in v, in the fields of a struct, and in the items of
// a slice of structs, recursively.
func fillLists(v reflect.Value) {
	switch {
	case !v.CanSet():
	case v.Kind() == reflect.Slice && v.IsNil():
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			fillLists(v.Index(i))
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fillLists(v.Field(i))
		}
	}
}

// WriteJSON writes one JSON value on one line. Fractions have 17 significant digits, so that the
// same number can be read back.
func WriteJSON(w io.Writer, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(withLists(value)); err != nil {
		return err
	}
	_, err := w.Write(withAllDigits(text.Bytes()))
	return err
}

// withAllDigits rewrites the fractions in a JSON text, which encoding/json has written, with 17
// significant digits. It copies texts and integers as they are.
func withAllDigits(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		end := i + 1
		switch c := text[i]; {
		case c == '"': // a text: skip it, up to a quote that is not escaped
			for ; text[end] != '"'; end++ {
				if text[end] == '\\' {
					end++
				}
			}
			end++
		case c == '-' || '0' <= c && c <= '9':
			for strings.IndexByte("0123456789.e+-", text[end]) >= 0 {
				end++
			}
			if number := text[i:end]; bytes.ContainsAny(number, ".e") {
				value, _ := strconv.ParseFloat(string(number), 64) // which encoding/json has written
				out, i = strconv.AppendFloat(out, value, 'g', 17, 64), end
			}
		}
		out = append(out, text[i:end]...)
		i = end
	}
	return out
}
