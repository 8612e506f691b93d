package output

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"
)

// OneLine returns a message on one line, without characters that control the terminal.
func OneLine(text string) string {
	return escaped(strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "))
}

// escaped replaces invisible characters, including line ends. With them a name could control the
// terminal, or reverse the order of the text after it. The two characters that join letters stay.
func escaped(text string) string {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && r != nonJoiner && r != joiner {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// Quoted returns a value for a line of key=value fields. It is in quotes if it has a space, "=", a
// quote or an invisible character, and could be mistaken for more than one field.
func Quoted(value string) string {
	ambiguous := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '=' || r == '"' }
	if strings.IndexFunc(value, ambiguous) >= 0 {
		return strconv.Quote(value)
	}
	return value
}

// Percent formats a share in per cent with two decimals.
func Percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }

// Listed joins values with commas. Of more than twelve values it shows the first eleven, the last,
// and their number.
func Listed(values []string) string {
	const most = 12
	if len(values) <= most {
		return strings.Join(values, ", ")
	}
	return fmt.Sprintf("%s, …, %s (%d values)", strings.Join(values[:most-1], ", "), values[len(values)-1], len(values))
}

// ListedQuoted is Listed with quotes around each value, so that its spaces are visible.
func ListedQuoted(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = strconv.Quote(v)
	}
	return Listed(quoted)
}

// Counted returns a number with a noun, which gets an s in the plural.
func Counted(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return strconv.Itoa(n) + " " + word + "s"
}

// Stamp formats a time as logs do, in RFC 3339.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// ListedValues is Listed, but of more than twenty values it shows only the first five and the
// number of the others.
func ListedValues(values []string) string {
	const few, most = 5, 20
	if len(values) <= most {
		return Listed(values)
	}
	return fmt.Sprintf("%s and %d more", Listed(values[:few]), len(values)-few)
}

// Brief returns a response for people. A row of more than forty bits, as in unary encoding, is
// replaced by how many of them are set.
func Brief(response string) string {
	const most = 40
	if len(response) <= most || strings.Trim(response, "01") != "" {
		return response
	}
	return fmt.Sprintf("%d of %d bits set", strings.Count(response, "1"), len(response))
}

// IsPlain reports whether a name has no special characters for a shell. Only such names are
// completed, because a stranger may have chosen a name.
func IsPlain(name string) bool {
	other := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.:/@+,%", r)
	}
	return name != "" && name[0] != '-' && strings.IndexFunc(name, other) < 0
}

// WrongValue describes what is wrong with the value of a flag. It returns "" for other errors.
func WrongValue(err error) string {
	var wrong *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &wrong) {
		return ""
	}
	flag, kinds := wrong.GetFlag(), map[string]string{"uint64": "a whole number from 0 on", "bool": "true or false",
		"float64": "a number"}
	switch {
	case !errors.As(err, &number):
		return fmt.Sprintf("--%s: %v", flag.Name, wrong.Unwrap())
	case errors.Is(err, strconv.ErrRange):
		return fmt.Sprintf("--%s: %q is too large, or too small", flag.Name, wrong.GetValue())
	}
	return fmt.Sprintf("--%s: %q is not %s", flag.Name, wrong.GetValue(),
		cmp.Or(kinds[flag.Value.Type()], "a whole number"))
}
