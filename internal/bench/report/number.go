package report

import (
	"fmt"
	"strconv"
	"strings"
)

// Number writes a number with three digits that count, and commas.
func Number(v float64) string {
	if v == 0 {
		return "0"
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		return fmt.Sprint(v)
	}
	text := strconv.FormatFloat(rounded, 'f', -1, 64)
	digits, fraction, _ := strings.Cut(text, ".")
	if fraction != "" {
		return text
	}
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
