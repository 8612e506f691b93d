package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// result is what a command found out. Its JSON form has the documented keys.
type result interface {
	// table writes it for people. Tabs align the columns.
	table(w io.Writer)
}

// print writes a result to stdout at once, unless that has a file instead.
func (a *app) print(r result) error {
	if a.taken {
		return nil
	}
	if a.json {
		return writeJSON(a.stdout, r)
	}
	var text bytes.Buffer
	aligned := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	r.table(aligned)
	if err := aligned.Flush(); err != nil {
		return err
	}
	_, err := a.stdout.Write(text.Bytes())
	return err
}

// writeJSON writes one JSON value on one line.
func writeJSON(w io.Writer, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(text.Bytes())
	return err
}

// number is a float64 that JSON holds with 17 significant digits, enough to read the same one back.
// What JSON has no number for is null.
type number float64

// MarshalJSON implements [json.Marshaler].
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', 17, 64), nil
}

// money shows an amount, which may be in cents or yen, without a guess at where the point belongs.
func money(amount int64, currency string) string {
	return fmt.Sprintf("%d %s (minor units)", amount, currency)
}

// percent shows a share to a hundredth of a per cent.
func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }

// listed joins values for people, leaving out the middle of a long list.
func listed(values []string) string {
	const most = 12
	if len(values) <= most {
		return strings.Join(values, ", ")
	}
	return fmt.Sprintf("%s, …, %s (%d values)", strings.Join(values[:most-1], ", "), values[len(values)-1], len(values))
}
