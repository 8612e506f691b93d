package event

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	nonJoiner = '\u200c'
	joiner    = '\u200d'
)

// faultOf returns what is invalid in a name of valid UTF-8, and the byte where it begins. For a
// valid name it returns "" and 0.
func faultOf(name string) (fault string, offset int) {
	for i, r := range name {
		after := name[i+utf8.RuneLen(r):]
		if r == ' ' {
			fault = faultOfSpace(name[:i], after)
		} else if (r != nonJoiner && r != joiner) || !joinsLetters(name[:i], r, after) {
			fault = faultOfRune(r)
		}
		if fault != "" {
			return fault, i
		}
	}
	if form := norm.NFC.String(name); form != name {
		return "a character that is not in Unicode's form NFC", firstDifference(name, form)
	}
	return "", 0
}

// faultOfSpace returns what is wrong with a space in a name, or "". before and after are the parts
// of the name before and after this space.
func faultOfSpace(before, after string) string {
	switch {
	case before == "":
		return "a space at its start"
	case strings.Trim(after, " ") == "":
		return "a space at its end"
	case after[0] == ' ':
		return "two spaces in a row"
	}
	return ""
}

// faultOfRune returns why a character other than the space is invalid in a name, or "". Joiners are
// invalid here; [faultOf] accepts them where they have an effect. Unassigned characters are
// refused. A later version of Unicode could make them invisible or give them another normal form. A
// sound log would then become unsound.
func faultOfRune(r rune) string {
	switch {
	case r == utf8.RuneError:
		// encoding/json replaces invalid bytes by this character, so two names would become the
		// same name.
		return "U+FFFD, the replacement for unreadable text"
	case unicode.IsControl(r):
		return fmt.Sprintf("%U, a control character", r)
	case unicode.In(r, unicode.Z) || looksLikeSpace(r):
		return fmt.Sprintf("%U, which looks like a space", r)
	case r == nonJoiner || r == joiner:
		return fmt.Sprintf("%U, a joiner that changes nothing between these letters", r)
	case isInvisible(r):
		return fmt.Sprintf("%U, which is invisible", r)
	case unicode.Is(unicode.Co, r):
		return fmt.Sprintf("%U, a private character that looks different everywhere", r)
	case !unicode.IsPrint(r):
		return fmt.Sprintf("%U, which is no character of Unicode %s", r, unicode.Version)
	}
	return ""
}

// looksLikeSpace reports whether a character of another category looks like a space: the Hangul
// fillers, the empty braille cell, an empty note head and two empty hieroglyphs.
func looksLikeSpace(r rune) bool {
	switch r {
	case 0x115f, 0x1160, 0x2800, 0x3164, 0xffa0, 0x13441, 0x13442, 0x1d159:
		return true
	}
	return false
}

// isInvisible reports whether a character is invisible, or only changes how others are shown. Two
// are of other categories: the object replacement character and the Khitan filler.
func isInvisible(r rune) bool {
	return r == 0xfffc || r == 0x16fe4 ||
		unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// firstDifference returns the byte index of the first character of text that differs from other. If
// text is only the beginning of other, that is the last character of text.
func firstDifference(text, other string) (at int) {
	for at < len(text) && at < len(other) && text[at] == other[at] {
		at++
	}
	// go back to the first byte of the character
	for at > 0 && (at == len(text) || !utf8.RuneStart(text[at])) {
		at--
	}
	return at
}

// joinsLetters reports whether r, a zero-width joiner or non-joiner, changes how the letters around
// it are written. Either may follow a virama. A non-joiner may also be between two Arabic letters
// that would join (UAX 31, section 2.3, rules A1, A2 and B). before and after are the texts around
// r.
func joinsLetters(before string, r rune, after string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	next, _ := utf8.DecodeRuneInString(after)
	if !unicode.IsLetter(next) || !unicode.In(last, unicode.L, unicode.M) {
		return false
	}
	const virama = 9 // its canonical combining class, which never changes
	if norm.NFC.PropertiesString(string(last)).CCC() == virama {
		return true
	}
	return r == nonJoiner && joinsAfter(lastLetter(before)) && joinsBefore(next)
}

// lastLetter returns the last character of a text that is not a combining mark.
func lastLetter(text string) rune {
	r, _ := utf8.DecodeLastRuneInString(strings.TrimRightFunc(text, unicode.IsMark))
	return r
}

// joinsAfter reports whether an Arabic letter joins the letter after it (joining type D in block
// Arabic).
func joinsAfter(r rune) bool {
	return unicode.Is(&unicode.RangeTable{R16: []unicode.Range16{
		{0x620, 0x620, 1}, {0x626, 0x626, 1}, {0x628, 0x628, 1}, {0x62a, 0x62e, 1}, {0x633, 0x63f, 1},
		{0x641, 0x647, 1}, {0x649, 0x64a, 1}, {0x66e, 0x66f, 1}, {0x679, 0x687, 1}, {0x69a, 0x6bf, 1},
		{0x6c1, 0x6c2, 1}, {0x6cc, 0x6cc, 1}, {0x6ce, 0x6ce, 1}, {0x6d0, 0x6d1, 1}, {0x6fa, 0x6fc, 1},
		{0x6ff, 0x6ff, 1},
	}}, r)
}

// joinsBefore reports whether an Arabic letter joins the letter before it (joining types D and R in
// block Arabic).
func joinsBefore(r rune) bool {
	return joinsAfter(r) || unicode.Is(&unicode.RangeTable{R16: []unicode.Range16{
		{0x622, 0x625, 1}, {0x627, 0x627, 1}, {0x629, 0x629, 1}, {0x62f, 0x632, 1}, {0x648, 0x648, 1},
		{0x671, 0x673, 1}, {0x688, 0x699, 1}, {0x6c0, 0x6c0, 1}, {0x6c3, 0x6cb, 1}, {0x6cd, 0x6cd, 1},
		{0x6cf, 0x6cf, 1}, {0x6d2, 0x6d3, 1}, {0x6d5, 0x6d5, 1}, {0x6ee, 0x6ef, 1},
	}}, r)
}
