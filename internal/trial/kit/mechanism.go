package kit

import (
	"bytes"
	"encoding/json"
	rational "math/big"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// SubsetsAt is subset selection at one ε.
func SubsetsAt(t testing.TB, inputs, size int, epsilon string) *finite.Matrix {
	t.Helper()
	design, err := finite.SubsetSelection(inputs, size)
	Must(t, err)
	m, err := design.At(Eps(t, epsilon))
	Must(t, err)
	return m
}

// FamilyOf is the family of some matrices.
func FamilyOf(t testing.TB, levels ...*finite.Matrix) *finite.Family {
	t.Helper()
	f, err := finite.NewFamily(levels...)
	Must(t, err)
	return f
}

// MatrixOf is a matrix of rows of fractions, such as "1/2 1/3 1/6".
func MatrixOf(t testing.TB, rows ...string) *finite.Matrix {
	t.Helper()
	var all [][]*rational.Rat
	for _, row := range rows {
		var numbers []*rational.Rat
		for _, text := range strings.Fields(row) {
			x, ok := new(rational.Rat).SetString(text)
			if !ok {
				t.Fatalf("%q is no fraction", text)
			}
			numbers = append(numbers, x)
		}
		all = append(all, numbers)
	}
	m, err := finite.NewMatrix(all)
	Must(t, err)
	return m
}

// Party is a question of four values: a response is a pair of them at ε=0.5, and one at 1 and 2.
func Party(t testing.TB) ledger.Question {
	t.Helper()
	singles := []string{"A", "B", "C", "D"}
	return ledger.Question{Name: "party", Values: singles, Mechanism: &ledger.Mechanism{
		Family:  FamilyOf(t, SubsetsAt(t, 4, 2, "0.5"), SubsetsAt(t, 4, 1, "1"), SubsetsAt(t, 4, 1, "2")),
		Outputs: [][]string{{"AB", "AC", "AD", "BC", "BD", "CD"}, singles, singles},
	}}
}

// Skewed is a family at the odds 3/2, 2, 3 and 5. The highest level has two outputs for each input, of equal
// probabilities, so that the channel from it is not the only one; at the odds 3, output 1 never occurs.
func Skewed(t testing.TB) *finite.Family {
	t.Helper()
	return FamilyOf(t,
		MatrixOf(t, "3/5 2/5", "2/5 3/5"), MatrixOf(t, "2/3 1/3", "1/3 2/3"), MatrixOf(t, "3/4 0 1/4", "1/4 0 3/4"),
		MatrixOf(t, "5/12 5/12 1/12 1/12", "1/12 1/12 5/12 5/12"))
}

// OtherChannels is a family like skewed with the highest level's first two outputs in each other's place in the channel.
func OtherChannels(t testing.TB, f *finite.Family) *finite.Family {
	t.Helper()
	var all struct {
		Levels   []any        `json:"levels"`
		Channels [][][]string `json:"channels"`
	}
	Must(t, json.Unmarshal(Text(t, f), &all))
	top := all.Channels[len(all.Channels)-1]
	top[0], top[1] = top[1], top[0]
	other := &finite.Family{}
	Must(t, json.Unmarshal(Text(t, all), other))
	if bytes.Equal(Text(t, f), Text(t, other)) {
		t.Fatal("the channels are the same")
	}
	return other
}
