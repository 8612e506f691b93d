package privacy

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	decimals = 9
	// maxText limits the length of a text that parse accepts. No exact value needs more characters.
	maxText = 64
)

// ParseError is the error for a text that is not a valid ε or δ.
type ParseError struct {
	Kind   string // "epsilon" or "delta"
	Text   string // the given text, shortened
	Reason string // what is wrong with it
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("invalid %s %q: %s", e.Kind, e.Text, e.Reason)
}

// number is a parsed decimal: digits without leading zeros, multiplied by ten to the power of exp.
type number struct {
	digits string
	exp    int
}

// parse returns the value of text in counts of 10⁻⁹, or a [*ParseError]. kind is "epsilon" or
// "delta". limit is the largest allowed count, and limitText is its decimal form.
func parse(kind, text string, limit int64, limitText string) (int64, error) {
	fail := func(reason string) (int64, error) {
		return 0, &ParseError{Kind: kind, Text: shorten(text), Reason: reason}
	}
	num, reason := split(text)
	if reason != "" {
		return fail(reason)
	}
	if num.exp < -decimals {
		return fail("has more than 9 decimals, and is never rounded")
	}
	count, ok := num.scaled(decimals, limit)
	if !ok {
		return fail("is above " + limitText)
	}
	return count, nil
}

// split parses text as a JSON number without a sign. If that fails, reason says what is wrong.
// Otherwise reason is "".
func split(text string) (num number, reason string) {
	switch {
	case text == "":
		return num, "is empty"
	case len(text) > maxText:
		return num, "is longer than 64 characters"
	case text[0] == '-' || text[0] == '+':
		return num, "has a sign"
	}
	whole, rest := leadingDigits(text)
	if whole == "" {
		return num, "is not a decimal number"
	}
	if len(whole) > 1 && whole[0] == '0' {
		return num, "has a leading zero"
	}
	fraction := ""
	if after, found := strings.CutPrefix(rest, "."); found {
		if fraction, rest = leadingDigits(after); fraction == "" {
			return num, "has no digit after the point"
		}
	}
	exp := 0
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		if exp, reason = exponent(rest[1:]); reason != "" {
			return num, reason
		}
		rest = ""
	}
	if rest != "" {
		return num, "is not a decimal number"
	}
	return number{strings.TrimLeft(whole+fraction, "0"), exp - len(fraction)}, ""
}

// exponent parses the text after the letter e of a number. If that fails, reason says what is
// wrong. Otherwise reason is "".
func exponent(text string) (exp int, reason string) {
	unsigned := text
	if text != "" && (text[0] == '-' || text[0] == '+') {
		unsigned = text[1:]
	}
	digits, rest := leadingDigits(unsigned)
	if digits == "" || rest != "" {
		return 0, "is not a decimal number"
	}
	if len(digits) > 3 {
		return 0, "has an exponent of more than 3 digits"
	}
	exp, err := strconv.Atoi(text)
	if err != nil {
		return 0, "is not a decimal number"
	}
	return exp, ""
}

// leadingDigits cuts text after its leading decimal digits, of which there may be none.
func leadingDigits(text string) (digits, rest string) {
	n := 0
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return text[:n], text[n:]
}

// scaled returns num times 10^places. It returns false if that is above limit. The caller ensures
// that exp+places is not negative, so no digit is lost.
func (num number) scaled(places int, limit int64) (int64, bool) {
	if num.digits == "" {
		return 0, true
	}
	var count int64
	for i := range len(num.digits) + num.exp + places {
		digit := int64(0)
		if i < len(num.digits) {
			digit = int64(num.digits[i] - '0')
		}
		// limit is far below a tenth of the largest int64, so this cannot overflow.
		if count = count*10 + digit; count > limit {
			return 0, false
		}
	}
	return count, true
}

// format returns a count of 10⁻⁹ as the shortest exact decimal.
func format(count int64) string {
	text := strconv.FormatInt(count/nanos, 10)
	if fraction := count % nanos; fraction != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%09d", fraction), "0")
	}
	return text
}

// shorten limits the length of a text in an error message, because the text may be hostile input.
func shorten(text string) string {
	const most = 40
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
