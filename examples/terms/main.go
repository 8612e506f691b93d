// Terms shows terms of sale for the same answer: at once or in steps, to all buyers or to some, at
// a price that grows with ε. A policy is a line of JSON. It sets the largest ε at which the answer
// may be sold at any time.
//
//	go run ./examples/terms
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

func main() { kit.Exit(run(os.Stdout)) }

// seller is a person with a policy. In the policy, DAY n is the midnight before a day of the month,
// and prices are in cents.
type seller struct{ name, words, policy string }

// sellers returns seven people with different terms.
func sellers() []seller {
	return []seller{
		{"open", "up to ε = 2, at once",
			`{"kind": "market", "max": "2", "price": [["0.5", 40], ["1", 70], ["2", 120]]}`},
		{"thrifty", "ε = 0.5 or 1 only, never below 45¢",
			`{"kind": "market", "max": "1", "price": [["0.5", 30], ["1", 60]], "stride": "0.5", "floor": 45}`},
		{"patient", "0.5 more every ten days", `{"kind": "min", "of": [
			{"kind": "linear", "from": "0", "to": "1.5", "start": "DAY 1", "end": "DAY 31", "stride": "0.5"},
			{"kind": "market", "max": "1.5", "price": [["1.5", 90]]}]}`},
		{"one by one", "each buyer unlocks 0.5 more", `{"kind": "min", "of": [
			{"kind": "unlock", "total": "2", "orders": 4}, {"kind": "market", "max": "2", "price": [["2", 200]]}]}`},
		{"wary", "up to ε = 1, but never to Cobalt",
			`{"kind": "market", "max": "1", "price": [["1", 80]], "barred": ["Cobalt"]}`},
		{"later more", "ε = 0.5, and 1 from day 15", `{"kind": "min", "of": [
			{"kind": "steps", "steps": [["DAY 1", "0.5"], ["DAY 15", "1"]]},
			{"kind": "market", "max": "1", "price": [["1", 50]]}]}`},
		{"donor", "for free, on days 10 and 20", `{"kind": "steps", "steps": [["DAY 10", "0.25"], ["DAY 20", "0.5"]]}`},
	}
}

func midnight(day int) time.Time { return time.Date(2027, 1, day, 0, 0, 0, 0, time.UTC) }

// run prints a row for each seller: the largest ε that a first buyer can have on four days of a
// month, and a third buyer on its last day, and what two buyers pay for ε = 0.5.
func run(out io.Writer) error {
	fmt.Fprintln(out, "The largest ε that a first buyer can have on a day, and a third one on day 31; "+
		"and what Atlas and Cobalt pay for ε = 0.5.")
	rows := kit.HeadedTable(out, "terms\tday 1\tday 11\tday 21\tday 31\tthird buyer\tAtlas\tCobalt\t   in words")
	for _, s := range sellers() {
		text := s.policy
		for day := 31; day > 0; day-- {
			text = strings.ReplaceAll(text, fmt.Sprintf("DAY %d", day), midnight(day).Format(time.RFC3339))
		}
		p, err := policy.Parse([]byte(text))
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(rows, "%s\t", kit.Left(s.name))
		for _, day := range []int{1, 11, 21, 31} {
			fmt.Fprintf(rows, "%s\t", p.Ceiling(midnight(day), 1))
		}
		fmt.Fprintf(rows, "%s\t%s\t%s\t   %s\n",
			p.Ceiling(midnight(31), 3), price(p, "Atlas"), price(p, "Cobalt"), s.words)
	}
	return rows.Flush()
}

// price returns the price of ε = 0.5 for a buyer, or "–" if the terms do not allow the sale.
func price(p policy.Policy, buyer string) string {
	level := privacy.MustEpsilon("0.5")
	if terms := p.Terms(); terms != nil && terms.Allows(buyer) && terms.Offers(level) {
		return fmt.Sprintf("%d¢", terms.Price(level))
	}
	return "–"
}
