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

// OneLine keeps a message on one line, and what is in it from steering the terminal.
func OneLine(text string) string {
	return escaped(strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "))
}

// escaped replaces characters that cannot be seen, ends of lines among them: by them a name could steer
// the terminal, or have what follows it shown in another order. Two of them join letters.
func escaped(text string) string {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && r != nonJoiner && r != joiner {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// Quoted quotes a value that could be taken for more than one field.
func Quoted(value string) string {
	ambiguous := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '=' || r == '"' }
	if strings.IndexFunc(value, ambiguous) >= 0 {
		return strconv.Quote(value)
	}
	return value
}

// Percent shows a share to a hundredth of a per cent.
func Percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }

// Listed joins values for people, leaving out the middle of a long list.
func Listed(values []string) string {
	const most = 12
	if len(values) <= most {
		return strings.Join(values, ", ")
	}
	return fmt.Sprintf("%s, …, %s (%d values)", strings.Join(values[:most-1], ", "), values[len(values)-1], len(values))
}

// ListedQuoted is Listed of values that are quoted, so that each is seen to its ends.
func ListedQuoted(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = strconv.Quote(v)
	}
	return Listed(quoted)
}

// Counted is a number with a word, which takes an s.
func Counted(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return strconv.Itoa(n) + " " + word + "s"
}

// Stamp writes a moment as logs do.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// ListedValues lists a few of many values.
func ListedValues(values []string) string {
	const few, most = 5, 20
	if len(values) <= most {
		return Listed(values)
	}
	return fmt.Sprintf("%s and %d more", Listed(values[:few]), len(values)-few)
}

// Brief shortens a response in unary encoding for people.
func Brief(response string) string {
	const most = 40
	if len(response) <= most || strings.Trim(response, "01") != "" {
		return response
	}
	return fmt.Sprintf("%d of %d bits set", strings.Count(response, "1"), len(response))
}

// IsPlain reports whether a shell reads a name as nothing but the name. Others are not completed:
// the person who chose a name may be a stranger.
func IsPlain(name string) bool {
	other := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.:/@+,%", r)
	}
	return name != "" && name[0] != '-' && strings.IndexFunc(name, other) < 0
}

// WrongValue says what is wrong with the value of a flag, "" if it is something else that is wrong.
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
