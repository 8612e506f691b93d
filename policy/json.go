package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicedp/sluice/privacy"
)

// kindReader reads the fields of one kind.
type kindReader struct {
	kind string
	read func(*fields) rule
}

// kinds lists every kind of policy.
func kinds() []kindReader {
	return []kindReader{
		{"fixed", readFixed}, {"linear", readLinear}, {"steps", readSteps}, {"halving", readHalving},
		{"noisy-sampling", readNoisy}, {"unlock", readUnlock},
		{"min", readMin}, {"sum", readSum}, {"market", readMarket},
	}
}

// Kinds returns the names of all kinds of policies.
func Kinds() []string {
	var all []string
	for _, k := range kinds() {
		all = append(all, k.kind)
	}
	return all
}

// Parse reads a policy from JSON, as the package documentation describes it. Unknown kinds,
// unknown, missing or repeated fields, other spellings of a field's name, values out of range and
// text after the object are errors that wrap [ErrInvalid].
func Parse(text []byte) (Policy, error) {
	n, err := parse(text)
	if err != nil {
		return Policy{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return Policy{node: n}, nil
}

func parse(text []byte) (*node, error) {
	if len(text) > maxJSON {
		return nil, fmt.Errorf("%d bytes of JSON; at most %d are read", len(text), maxJSON)
	}
	if !utf8.Valid(text) {
		return nil, errors.New("not UTF-8") // encoding/json would patch it up
	}
	if err := json.Unmarshal(text, &struct{}{}); errors.As(err, new(*json.SyntaxError)) {
		if len(text) == 0 || text[0] != '{' {
			return nil, errNoObject
		}
		if json.NewDecoder(bytes.NewReader(text)).Decode(&struct{}{}) == nil {
			return nil, errors.New("text after the JSON object")
		}
		return nil, fmt.Errorf("broken JSON: %w", err)
	}
	return readPolicy(text, 1)
}

var errNoObject = errors.New(`not a JSON object such as {"kind":"fixed","ceiling":"1"}`)

// readPolicy reads a policy at some depth of nesting, and plans it.
func readPolicy(text []byte, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("policies nest deeper than %d", maxDepth)
	}
	left, err := object(text)
	if err != nil {
		return nil, err
	}
	f := &fields{left: left, depth: depth}
	kind := f.text("kind")
	if f.err != nil {
		return nil, f.err
	}
	known := kinds()
	i := slices.IndexFunc(known, func(k kindReader) bool { return k.kind == kind })
	if i < 0 {
		return nil, fmt.Errorf("unknown kind %.40q (there are: %s)", kind, names(known))
	}
	n, err := f.plan(known[i].read)
	if err != nil {
		return nil, fmt.Errorf("of kind %q: %w", kind, err)
	}
	return n, nil
}

func names(known []kindReader) string {
	list := make([]string, len(known))
	for i, k := range known {
		list[i] = k.kind
	}
	return strings.Join(list, ", ")
}

// field is a field of a policy: its name and its JSON.
type field struct {
	name  string
	value []byte
}

// fields are those of one policy that have not been read yet. The first error is kept; reading goes
// on with zero values, so that the readers of kinds are free of error handling.
type fields struct {
	left  []field
	depth int
	err   error
}

// plan reads the fields into a rule and plans it. No field may be left over.
func (f *fields) plan(read func(*fields) rule) (*node, error) {
	r := read(f)
	if f.err != nil {
		return nil, f.err
	}
	if len(f.left) > 0 {
		return nil, fmt.Errorf("unknown field %.40q", f.left[0].name)
	}
	return plan(r)
}

// fail keeps the first error, with the field that it is about.
func (f *fields) fail(name string, err error) {
	if f.err == nil && err != nil {
		f.err = fmt.Errorf("field %q: %w", name, err)
	}
}

// refuse fails if an optional field has the value that stands for its absence: whoever wrote it
// may have meant something else.
func (f *fields) refuse(name string, zero bool) {
	if zero {
		f.fail(name, errors.New("is 0; leave it out instead"))
	}
}

func (f *fields) has(name string) bool {
	return f.find(name) >= 0
}

// find returns the place of a field, or -1.
func (f *fields) find(name string) int {
	return slices.IndexFunc(f.left, func(one field) bool { return one.name == name })
}

// take removes a field and returns its value, nil after a failure.
func (f *fields) take(name string) []byte {
	i := f.find(name)
	if i < 0 {
		if f.err == nil {
			f.err = fmt.Errorf("field %q is missing", name)
		}
		return nil
	}
	value := f.left[i].value
	f.left = slices.Delete(f.left, i, i+1)
	return value
}

// scalar reads a required field.
func scalar[T any](f *fields, name string, read func([]byte) (T, error)) (value T) {
	if raw := f.take(name); f.err == nil {
		var err error
		value, err = read(raw)
		f.fail(name, err)
	}
	return value
}

func (f *fields) text(name string) string             { return scalar(f, name, readText) }
func (f *fields) epsilon(name string) privacy.Epsilon { return scalar(f, name, readEpsilon) }
func (f *fields) instant(name string) instant         { return scalar(f, name, readInstant) }
func (f *fields) duration(name string) time.Duration  { return scalar(f, name, readDuration) }
func (f *fields) integer(name string) int64           { return scalar(f, name, readInteger) }
func (f *fields) list(name string) [][]byte           { return scalar(f, name, readList) }

// names reads an optional list of texts and returns it sorted.
func (f *fields) names(name string) []string {
	if !f.has(name) {
		return nil
	}
	list := f.list(name)
	if f.err == nil && len(list) == 0 {
		f.fail(name, errors.New("is empty, which could mean everybody or nobody; leave it out instead"))
	}
	var texts []string
	for _, raw := range list {
		text, err := readText(raw)
		f.fail(name, err)
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts
}

// epsilons reads an optional list of ε.
func (f *fields) epsilons(name string) (all []privacy.Epsilon) {
	if !f.has(name) {
		return nil
	}
	list := f.list(name)
	if f.err == nil && len(list) == 0 {
		f.fail(name, errors.New("is empty; leave it out instead"))
	}
	for _, raw := range list {
		e, err := readEpsilon(raw)
		f.fail(name, err)
		all = append(all, e)
	}
	return all
}

// policies reads a list of policies.
func (f *fields) policies(name string) []*node {
	list := f.list(name)
	if len(list) > maxOf {
		f.fail(name, fmt.Errorf("has %d parts; at most %d are allowed", len(list), maxOf))
		return nil
	}
	var parts []*node
	for i, raw := range list {
		n, err := readPolicy(raw, f.depth+1)
		if err != nil {
			f.fail(name, fmt.Errorf("part %d: %w", i+1, err))
			return nil
		}
		parts = append(parts, n)
	}
	return parts
}

// pair is a list of two elements.
type pair struct {
	f      *fields
	name   string
	values [][]byte
}

func (p pair) epsilon(i int) privacy.Epsilon { return element(p, i, readEpsilon) }
func (p pair) instant(i int) instant         { return element(p, i, readInstant) }
func (p pair) integer(i int) int64           { return element(p, i, readInteger) }

func element[T any](p pair, i int, read func([]byte) (T, error)) T {
	value, err := read(p.values[i])
	p.f.fail(p.name, err)
	return value
}

// pairs reads a list of pairs.
func (f *fields) pairs(name string) []pair {
	var pairs []pair
	for i, raw := range f.list(name) {
		values, err := readList(raw)
		if err != nil || len(values) != 2 {
			f.fail(name, fmt.Errorf("element %d is not a list of two", i+1))
			return nil
		}
		pairs = append(pairs, pair{f, name, values})
	}
	return pairs
}

func readText(raw []byte) (text string, err error) {
	switch {
	case len(raw) == 0 || raw[0] != '"':
		return "", errors.New("must be a JSON string")
	case bytes.IndexByte(raw, '\\') < 0:
		return string(raw[1 : len(raw)-1]), nil
	}
	return text, json.Unmarshal(raw, &text)
}

func readEpsilon(raw []byte) (e privacy.Epsilon, err error) {
	if len(raw) == 0 || raw[0] != '"' {
		return e, e.UnmarshalJSON(raw) // it says what is wrong
	}
	text, err := readText(raw)
	if err == nil {
		e, err = privacy.ParseEpsilon(text)
	}
	return e, err
}

func readList(raw []byte) ([][]byte, error) {
	if len(raw) == 0 || raw[0] != '[' {
		return nil, errors.New("must be a JSON list")
	}
	var list [][]byte
	for rest := trim(raw[1:]); rest[0] != ']'; {
		var value []byte
		value, rest = cutValue(rest)
		list = append(list, value)
	}
	return list, nil
}

// readInteger reads a JSON integer from 0 on, with nothing in it but digits.
func readInteger(raw []byte) (int64, error) {
	n, err := strconv.ParseUint(string(raw), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not an integer from 0 on, written in digits", raw)
	}
	return int64(n), nil
}

// readInstant reads a time in strict RFC 3339, with any offset.
func readInstant(raw []byte) (instant, error) {
	text, err := readText(raw)
	if err != nil {
		return 0, err
	}
	var t time.Time
	if err := t.UnmarshalText([]byte(text)); err != nil {
		return 0, fmt.Errorf("%.40q is not a time such as 2027-01-01T00:00:00Z", text)
	}
	if !strictRFC3339(text, t) {
		return 0, fmt.Errorf("%.40q is not RFC 3339 with at most 9 decimals", text)
	}
	return instantOf(t), nil
}

// strictRFC3339 refuses what time.Parse lets pass: hours of one digit, a comma, minutes that carry
// over, an offset of 24 hours, and decimals beyond the ninth, which it would cut off.
func strictRFC3339(text string, t time.Time) bool {
	rest, ok := strings.CutPrefix(text, t.Format("2006-01-02T15:04:05"))
	if fraction, found := strings.CutPrefix(rest, "."); found {
		rest = strings.TrimLeft(fraction, "0123456789")
		ok = ok && len(fraction)-len(rest) <= 9
	}
	return ok && (rest == "Z" || rest == t.Format("-07:00") && rest[1:3] < "24")
}

// readDuration reads a duration as Go writes it. Unlike [time.ParseDuration] it does not round.
func readDuration(raw []byte) (time.Duration, error) {
	text, err := readText(raw)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if err != nil || len(text) > 64 || strings.ContainsAny(text[:1], "+-") {
		return 0, fmt.Errorf("%.40q is not a duration such as 720h", text)
	}
	if exactDuration(text).Cmp(new(big.Rat).SetInt64(int64(d))) != 0 {
		return 0, fmt.Errorf("%.40q is not a whole number of nanoseconds", text)
	}
	return d, nil
}

// exactDuration returns the nanoseconds of a text without a sign that [time.ParseDuration] accepts.
func exactDuration(text string) *big.Rat {
	sum := new(big.Rat)
	for rest := text; rest != ""; {
		tail := strings.TrimLeft(rest, ".0123456789")
		number, _ := new(big.Rat).SetString("0" + rest[:len(rest)-len(tail)])
		rest = strings.TrimLeft(tail, "nuµμmsh")
		unit, _ := time.ParseDuration("1" + tail[:len(tail)-len(rest)])
		sum.Add(sum, number.Mul(number, new(big.Rat).SetInt64(int64(unit))))
	}
	return sum
}

// maxFields is more than any kind has.
const maxFields = 16

// object takes a JSON object apart. Unlike a struct given to encoding/json it tells upper from
// lower case and refuses a field given twice: of two ceilings neither is the one that was meant.
// The text must be valid JSON. What it returns is part of the text.
func object(text []byte) ([]field, error) {
	text = trim(text)
	if len(text) == 0 || text[0] != '{' {
		return nil, errNoObject
	}
	all := make([]field, 0, 4) // many parts have two
	for rest := trim(text[1:]); rest[0] != '}'; {
		var raw, value []byte
		raw, rest = cutValue(rest)
		value, rest = cutValue(rest)
		name, err := readText(raw)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(one field) bool { return one.name == name }) {
			return nil, fmt.Errorf("field %.40q given twice", name)
		}
		if len(all) == maxFields {
			return nil, fmt.Errorf("unknown field %.40q, or one of the %d before it", name, maxFields)
		}
		all = append(all, field{name, value})
	}
	return all, nil
}

// cutValue cuts a valid JSON text after its first value. It returns the value, and what follows it
// and its comma or colon.
func cutValue(text []byte) (value, rest []byte) {
	depth, quoted := 0, false
	for i := 0; ; i++ {
		switch c := text[i]; {
		case quoted:
			if c == '\\' {
				i++
			}
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '[' || c == '{':
			depth++
		case depth > 0:
			if c == ']' || c == '}' {
				depth--
			}
		case c == ',' || c == ':':
			return trimEnd(text[:i]), trim(text[i+1:])
		case c == ']' || c == '}':
			return trimEnd(text[:i]), text[i:]
		}
	}
}

// white is the white space of JSON.
const white = " \t\n\r"

func trim(text []byte) []byte    { return bytes.TrimLeft(text, white) }
func trimEnd(text []byte) []byte { return bytes.TrimRight(text, white) }
