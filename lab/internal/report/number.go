package report

import (
	"strconv"
	"strings"
)

// Rounded returns a number with the precision of [Number].
func Rounded(v float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil { // nothing that was formatted is out of range
		return v
	}
	return rounded
}

// Number formats a number with three significant digits, and commas.
func Number(v float64) string {
	if v == 0 {
		return "0"
	}
	text := strconv.FormatFloat(Rounded(v), 'f', -1, 64)
	digits, fraction, _ := strings.Cut(text, ".")
	if fraction != "" {
		return text
	}
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
