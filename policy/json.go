package policy

import (
	"bytes"
	"cmp"
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

// kinds returns every kind of policy, each without parameters.
func kinds() []rule {
	return []rule{
		fixed{}, linear{}, steps{}, halving{}, noisy{}, unlock{},
		combined{name: "min"}, combined{name: "sum"}, market{},
	}
}

// kindNames returns the names of all kinds of policies.
func kindNames() []string {
	var all []string
	for _, k := range kinds() {
		all = append(all, k.kind())
	}
	return all
}

// Parse reads a policy from JSON, in the form that the package documentation describes. It returns
// an error that wraps [privacy.ErrInvalid] for unknown kinds; for unknown, missing or repeated
// fields and other spellings of a field's name; for values out of range; and for text after the
// object.
func Parse(text []byte) (Policy, error) {
	n, err := parse(text)
	if err != nil {
		return Policy{}, fmt.Errorf("%w: %w", errInvalid, err)
	}
	return Policy{node: n}, nil
}

// parse is [Parse] without the prefix "invalid policy" in its errors. It checks size, encoding and
// syntax of the whole text, so that all other functions may assume valid JSON.
func parse(text []byte) (*node, error) {
	if len(text) > maxJSON {
		return nil, fmt.Errorf("%d bytes of JSON; at most %d are read", len(text), maxJSON)
	}
	if !utf8.Valid(text) {
		return nil, errors.New("not UTF-8") // encoding/json would replace the invalid bytes
	}
	// A struct without fields ignores all fields of the text, so this checks only the syntax.
	if err := json.Unmarshal(text, &struct{}{}); errors.As(err, new(*json.SyntaxError)) {
		if len(text) == 0 || text[0] != '{' {
			return nil, errNoObject
		}
		// The decoder reads only the first value. If that is valid, the fault is after it.
		if json.NewDecoder(bytes.NewReader(text)).Decode(&struct{}{}) == nil {
			return nil, errors.New("text after the JSON object")
		}
		return nil, fmt.Errorf("broken JSON: %w", err)
	}
	return readPolicy(text, 1)
}

var errNoObject = errors.New(`not a JSON object such as {"kind":"fixed","ceiling":"1"}`)

// readPolicy reads a policy at some depth of nesting, checks it and returns its node. text must be
// valid JSON. The outermost policy has depth 1.
func readPolicy(text []byte, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("policies nest deeper than %d", maxDepth)
	}
	left, err := object(text)
	if err != nil {
		return nil, err
	}
	c := &coder{isReading: true, left: left, depth: depth}
	kind := ""
	if c.text("kind", &kind); c.err != nil {
		return nil, c.err
	}
	known := kinds()
	i := slices.IndexFunc(known, func(r rule) bool { return r.kind() == kind })
	if i < 0 {
		return nil, fmt.Errorf("unknown kind %.40q (known: %s)", kind, strings.Join(kindNames(), ", "))
	}
	r := known[i].code(c)
	if c.err == nil && len(c.left) > 0 {
		c.err = fmt.Errorf("unknown field %.40q", c.left[0].name)
	}
	n := &node{}
	if c.err == nil {
		n, c.err = plan(r)
	}
	if c.err != nil {
		return nil, fmt.Errorf("kind %q: %w", kind, c.err)
	}
	return n, nil
}

// canonical returns the canonical JSON of a rule: without spaces, with the fields in a fixed order,
// and with numbers and times in their shortest form.
func canonical(r rule) string {
	c := &coder{buf: []byte("{")}
	kind := r.kind()
	c.text("kind", &kind)
	r.code(c)
	return string(append(c.buf, '}'))
}

// coder reads the fields of a policy from JSON, or writes them. Each kind lists its fields once,
// for both directions.
type coder struct {
	isReading bool
	buf       []byte  // the text written so far
	left      []field // the fields that are not read yet
	depth     int     // the depth of the policy being read
	// err is the first error of reading. Reading continues with zero values after it, so that kinds
	// need not handle errors.
	err error
}

// field is a field of a policy: its name and its JSON.
type field struct {
	name  string
	value []byte
}

// code reads or writes one field, depending on c.isReading. It sets *value to the result of read
// for the field's JSON, or appends the field with write. When reading, a missing or invalid field
// sets c.err. After an error, code sets no values.
func code[T any](c *coder, name string, value *T, read func([]byte) (T, error), write func([]byte, T) []byte) {
	if !c.isReading {
		if len(c.buf) > 1 {
			c.buf = append(c.buf, ',')
		}
		c.buf = write(append(appendText(c.buf, name), ':'), *value)
		return
	}
	raw := c.take(name)
	if c.err != nil {
		return
	}
	var err error
	if *value, err = read(raw); err != nil {
		c.err = fmt.Errorf("field %q: %w", name, err)
	}
}

// take removes a required field from c.left and returns its value as JSON. If the field is missing,
// it sets the error of c, unless there is one already.
func (c *coder) take(name string) []byte {
	i := c.find(name)
	if i < 0 {
		c.err = cmp.Or(c.err, fmt.Errorf("field %q is missing", name))
		return nil
	}
	value := c.left[i].value
	c.left = slices.Delete(c.left, i, i+1)
	return value
}

// find returns the index in c.left of a field that is not read yet, or -1.
func (c *coder) find(name string) int {
	return slices.IndexFunc(c.left, func(one field) bool { return one.name == name })
}

// has returns true if an optional field is present when reading, or has to be written. isSet is
// used for writing only: whether the field has a value.
func (c *coder) has(name string, isSet bool) bool {
	if c.isReading {
		return c.find(name) >= 0
	}
	return isSet
}

// optional reads or writes a field that is left out if isSet returns false for its value. A text
// that contains such a value is refused, because its author may have meant something else.
func optional[T any](
	c *coder, name string, value *T, isSet func(T) bool,
	read func([]byte) (T, error), write func([]byte, T) []byte,
) {
	if !c.has(name, isSet(*value)) {
		return
	}
	code(c, name, value, read, write)
	if c.err == nil && !isSet(*value) {
		c.err = fmt.Errorf("field %q: is 0 or empty, which is ambiguous; leave the field out instead", name)
	}
}

// These methods read or write one field of a type, as [code] does.
func (c *coder) text(name string, v *string)             { code(c, name, v, readText, appendText) }
func (c *coder) epsilon(name string, v *privacy.Epsilon) { code(c, name, v, readEpsilon, appendString) }
func (c *coder) instant(name string, v *instant)         { code(c, name, v, readInstant, appendString) }
func (c *coder) duration(name string, v *time.Duration)  { code(c, name, v, readDuration, appendString) }
func (c *coder) integer(name string, v *int64)           { code(c, name, v, readInteger, appendInteger) }

// readEach returns a function that reads a list with the given function for its elements.
func readEach[T any](read func([]byte) (T, error)) func(raw []byte) ([]T, error) {
	return func(raw []byte) (all []T, err error) {
		list, err := readList(raw)
		for i, one := range list {
			element, err := read(one)
			if err != nil {
				return nil, fmt.Errorf("part %d: %w", i+1, err)
			}
			all = append(all, element)
		}
		return all, err
	}
}

// appendEach returns a function that writes a list with the given function for its elements.
func appendEach[T any](write func([]byte, T) []byte) func([]byte, []T) []byte {
	return func(to []byte, all []T) []byte {
		to = append(to, '[')
		for i, one := range all {
			if i > 0 {
				to = append(to, ',')
			}
			to = write(to, one)
		}
		return append(to, ']')
	}
}

// readPair reads a list of two elements, each with its own function.
func readPair[A, B any](
	raw []byte, readFirst func([]byte) (A, error), readSecond func([]byte) (B, error),
) (first A, second B, err error) {
	two, err := readList(raw)
	if err != nil || len(two) != 2 {
		return first, second, errors.New("not a list of two")
	}
	if first, err = readFirst(two[0]); err == nil {
		second, err = readSecond(two[1])
	}
	return first, second, err
}

// isAny returns true if a list has an element.
func isAny[T any](list []T) bool { return len(list) > 0 }

// readText reads a JSON string.
func readText(raw []byte) (text string, err error) {
	switch {
	case len(raw) == 0 || raw[0] != '"':
		return "", errors.New("must be a JSON string")
	case bytes.IndexByte(raw, '\\') < 0:
		return string(raw[1 : len(raw)-1]), nil
	}
	return text, json.Unmarshal(raw, &text)
}

// readEpsilon reads an ε, which is a JSON string.
func readEpsilon(raw []byte) (e privacy.Epsilon, err error) {
	if len(raw) == 0 || raw[0] != '"' {
		return e, e.UnmarshalJSON(raw) // returns the error that describes the fault
	}
	text, err := readText(raw)
	if err == nil {
		e, err = privacy.ParseEpsilon(text)
	}
	return e, err
}

// readList splits a JSON list into the JSON of its elements. The result shares the memory of the
// text.
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

// readInteger reads a JSON integer of 0 or more that consists of digits only.
func readInteger(raw []byte) (int64, error) {
	n, err := strconv.ParseUint(string(raw), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not an integer from 0 on, written in digits", raw)
	}
	return int64(n), nil
}

// readAmount reads an amount of money, which is a JSON integer in minor units of the currency. For
// an amount with two decimals, the error suggests the integer that may be meant. This is only a
// suggestion: the ledger knows the currency, and some currencies have minor units of another size.
func readAmount(raw []byte) (int64, error) {
	n, err := readInteger(raw)
	if err == nil {
		return n, nil
	}
	const rule = "%w: amounts are in minor units"
	whole, fraction, _ := strings.Cut(strings.Trim(string(raw), `"`), ".")
	hundredths, wrong := strconv.ParseUint(whole+fraction, 10, 63)
	if wrong != nil || len(fraction) != 2 {
		return 0, fmt.Errorf(rule, err)
	}
	return 0, fmt.Errorf(rule+"; if the minor unit is a hundredth, write %d", err, hundredths)
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

// strictRFC3339 returns true if text is strict RFC 3339 with at most 9 decimals. t is the time that
// time.Parse has read from it. time.Parse also accepts hours of one digit, a comma, minutes above
// 59 and an offset of 24 hours. It cuts off decimals after the ninth.
func strictRFC3339(text string, t time.Time) bool {
	rest, ok := strings.CutPrefix(text, t.Format("2006-01-02T15:04:05"))
	if fraction, found := strings.CutPrefix(rest, "."); found {
		rest = strings.TrimLeft(fraction, "0123456789")
		ok = ok && len(fraction)-len(rest) <= 9
	}
	return ok && (rest == "Z" || rest == t.Format("-07:00") && rest[1:3] < "24")
}

// readDuration reads a duration in Go's notation. Unlike [time.ParseDuration], it never rounds.
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

// exactDuration returns the exact number of nanoseconds of a text without a sign that
// [time.ParseDuration] accepts.
func exactDuration(text string) *big.Rat {
	sum := new(big.Rat)
	for rest := text; rest != ""; {
		tail := strings.TrimLeft(rest, ".0123456789") // the text from the next unit on
		number, _ := new(big.Rat).SetString("0" + rest[:len(rest)-len(tail)])
		rest = strings.TrimLeft(tail, "nuµμmsh")
		unit, _ := time.ParseDuration("1" + tail[:len(tail)-len(rest)])
		sum.Add(sum, number.Mul(number, new(big.Rat).SetInt64(int64(unit))))
	}
	return sum
}

// maxFields is the largest number of fields that is read. It is more than any kind has.
const maxFields = 16

// object splits a JSON object into its fields. Unlike encoding/json with a struct, it distinguishes
// upper from lower case and refuses a repeated field, because it is unknown which value was meant.
// The text must be valid JSON. The result shares the memory of the text.
func object(text []byte) ([]field, error) {
	text = trim(text)
	if len(text) == 0 || text[0] != '{' {
		return nil, errNoObject
	}
	all := make([]field, 0, 4) // many parts have two fields
	for rest := trim(text[1:]); rest[0] != '}'; {
		var raw, value []byte
		raw, rest = cutValue(rest)
		value, rest = cutValue(rest)
		name, err := readText(raw)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(one field) bool { return one.name == name }) {
			return nil, fmt.Errorf("field %.40q is given twice", name)
		}
		if len(all) == maxFields {
			return nil, fmt.Errorf("unknown field %.40q, or one of the %d before it", name, maxFields)
		}
		all = append(all, field{name, value})
	}
	return all, nil
}

// cutValue cuts a valid JSON text after its first value. The text is inside of a list or an object,
// whose end follows. cutValue returns the value, and the text after it and after its comma or
// colon. If the list or object ends, the rest begins with its closing bracket.
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

// whiteSpace is the white space of JSON.
const whiteSpace = " \t\n\r"

// trim removes white space at the start, and trimEnd at the end.
func trim(text []byte) []byte    { return bytes.TrimLeft(text, whiteSpace) }
func trimEnd(text []byte) []byte { return bytes.TrimRight(text, whiteSpace) }

// appendText appends text as a JSON string. It escapes the same characters as [json.Marshal], so
// that a policy inside another program's JSON keeps its canonical bytes.
func appendText(to []byte, text string) []byte {
	if strings.ContainsFunc(text, needsEscape) {
		quoted, _ := json.Marshal(text) // never fails for a string
		return append(to, quoted...)
	}
	return append(append(append(to, '"'), text...), '"')
}

// needsEscape returns true if [json.Marshal] may write a rune in escaped form.
func needsEscape(r rune) bool {
	return r < ' ' || r > '~' || r == '"' || r == '\\' || r == '<' || r == '>' || r == '&'
}

// appendString appends the text form of a value as a JSON string.
func appendString[T fmt.Stringer](to []byte, value T) []byte { return appendText(to, value.String()) }
func appendInteger(to []byte, n int64) []byte                { return strconv.AppendInt(to, n, 10) }
