package names

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	nonJoiner = '\u200c'
	joiner    = '\u200d'
)

// Fault returns what a new name may not have, and the byte where it stands, or "". The name is one that [Check] accepts.
func Fault(name string) (fault string, offset int) {
	for i, r := range name {
		switch {
		case r < utf8.RuneSelf:
		case r == nonJoiner || r == joiner:
			if !joinsLetters(name[:i], r, name[i+utf8.RuneLen(r):]) {
				return fmt.Sprintf("%U, a joiner that its letters do not need,", r), i
			}
		case r == utf8.RuneError:
			// encoding/json puts it in the place of what it cannot read, and two such names would be one.
			return "U+FFFD, the sign of broken text,", i
		case isInvisible(r):
			return fmt.Sprintf("%U, which is invisible,", r), i
		}
	}
	if form := norm.NFC.String(name); form != name {
		return "what is not in Unicode's form NFC", firstOther(name, form)
	}
	return "", 0
}

// firstOther returns where the first character stands by which a text differs from another.
func firstOther(text, other string) (at int) {
	for at < len(text) && at < len(other) && text[at] == other[at] {
		at++
	}
	for at > 0 && (at == len(text) || !utf8.RuneStart(text[at])) {
		at--
	}
	return at
}

// isInvisible tells whether a character shows nothing, or only changes how others are shown.
func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// joinsLetters tells whether a zero-width joiner or non-joiner changes how the letters around it are written (UAX 31,
// section 2.3, with scripts in place of joining types).
func joinsLetters(before string, r rune, behind string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	next, _ := utf8.DecodeRuneInString(behind)
	if !unicode.IsLetter(next) || !unicode.In(last, unicode.L, unicode.M) {
		return false
	}
	const virama = 9 // its canonical combining class, which never changes
	if norm.NFC.PropertiesString(string(last)).CCC() == virama {
		return true
	}
	for _, script := range cursive() {
		if unicode.Is(script, next) {
			return r == nonJoiner && (unicode.Is(script, last) || unicode.Is(unicode.Inherited, last))
		}
	}
	return false
}

// cursive lists the scripts whose letters join.
func cursive() []*unicode.RangeTable {
	return []*unicode.RangeTable{
		unicode.Arabic, unicode.Syriac, unicode.Mandaic, unicode.Mongolian, unicode.Nko, unicode.Phags_Pa, unicode.Manichaean,
		unicode.Psalter_Pahlavi, unicode.Sogdian, unicode.Hanifi_Rohingya, unicode.Adlam,
	}
}
