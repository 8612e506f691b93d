// Package familytest has the families of mechanisms, and the questions with mechanisms of their
// own, that tests of several packages ask. It is for tests only.
package familytest

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Subsets is subset selection at one ε.
func Subsets(t testing.TB, inputs, size int, epsilon string) *finite.Matrix {
	t.Helper()
	design, err := finite.SubsetSelection(inputs, size)
	must(t, err)
	e, err := privacy.ParseEpsilon(epsilon)
	must(t, err)
	m, err := design.At(e)
	must(t, err)
	return m
}

// Family is the family of some matrices.
func Family(t testing.TB, levels ...*finite.Matrix) *finite.Family {
	t.Helper()
	f, err := finite.NewFamily(t.Context(), levels...)
	must(t, err)
	return f
}

// Matrix is a matrix of rows of fractions, such as "1/2 1/3 1/6".
func Matrix(t testing.TB, rows ...string) *finite.Matrix {
	t.Helper()
	var all [][]*big.Rat
	for _, row := range rows {
		var numbers []*big.Rat
		for _, text := range strings.Fields(row) {
			x, ok := new(big.Rat).SetString(text)
			if !ok {
				t.Fatalf("%q is no fraction", text)
			}
			numbers = append(numbers, x)
		}
		all = append(all, numbers)
	}
	m, err := finite.NewMatrix(all)
	must(t, err)
	return m
}

// Party is a question of four values: a response is a pair of them at ε=0.5, and one at 1 and 2.
func Party(t testing.TB) vocabulary.Question {
	t.Helper()
	singles := []string{"A", "B", "C", "D"}
	return vocabulary.Question{Name: "party", Values: singles, Mechanism: &vocabulary.Mechanism{
		Family:  Family(t, Subsets(t, 4, 2, "0.5"), Subsets(t, 4, 1, "1"), Subsets(t, 4, 1, "2")),
		Outputs: [][]string{{"AB", "AC", "AD", "BC", "BD", "CD"}, singles, singles},
	}}
}

// Skewed is a family at the odds 3/2, 2, 3 and 5. The highest level has two outputs for each input,
// of equal probabilities, so that the channel from it is not the only one; at the odds 3, output 1
// never occurs.
func Skewed(t testing.TB) *finite.Family {
	t.Helper()
	return Family(t,
		Matrix(t, "3/5 2/5", "2/5 3/5"), Matrix(t, "2/3 1/3", "1/3 2/3"), Matrix(t, "3/4 0 1/4", "1/4 0 3/4"),
		Matrix(t, "5/12 5/12 1/12 1/12", "1/12 1/12 5/12 5/12"))
}

// OtherChannels is a family like skewed with the highest level's first two outputs in each other's
// place in the channel.
func OtherChannels(t testing.TB, f *finite.Family) *finite.Family {
	t.Helper()
	var all struct {
		Levels   []any        `json:"levels"`
		Channels [][][]string `json:"channels"`
	}
	must(t, json.Unmarshal(text(t, f), &all))
	top := all.Channels[len(all.Channels)-1]
	top[0], top[1] = top[1], top[0]
	other := &finite.Family{}
	must(t, json.Unmarshal(text(t, all), other))
	if bytes.Equal(text(t, f), text(t, other)) {
		t.Fatal("the channels are the same")
	}
	return other
}

// Odds is a question of two values that is answered by [Skewed]. At the odds 3 it has an output
// that never occurs.
func Odds(t testing.TB) vocabulary.Question {
	t.Helper()
	return vocabulary.Question{Name: "odds", Values: []string{"no", "yes"}, Mechanism: &vocabulary.Mechanism{
		Family: Skewed(t), Outputs: [][]string{{"N", "Y"}, {"N", "Y"}, {"N", "never", "Y"}, {"N1", "N2", "Y1", "Y2"}},
	}}
}

func text(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
