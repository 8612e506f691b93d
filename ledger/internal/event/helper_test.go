package event

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

func eps(t testing.TB, text string) privacy.Epsilon {
	t.Helper()
	e, err := privacy.ParseEpsilon(text)
	must(t, err)
	return e
}

func nano(t testing.TB, n int64) privacy.Epsilon {
	t.Helper()
	e, err := privacy.EpsilonFromNano(n)
	must(t, err)
	return e
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got the error %v, want %v", err, target)
	}
}

// party is a question of four values: a response is a pair of them at ε=0.5, and one at 1 and 2.
func party(t testing.TB) vocabulary.Question {
	t.Helper()
	singles := []string{"A", "B", "C", "D"}
	return vocabulary.Question{Name: "party", Values: singles, Mechanism: &vocabulary.Mechanism{
		Family:  familyOf(t, subsetsAt(t, 4, 2, "0.5"), subsetsAt(t, 4, 1, "1"), subsetsAt(t, 4, 1, "2")),
		Outputs: [][]string{{"AB", "AC", "AD", "BC", "BD", "CD"}, singles, singles},
	}}
}

// finiteParty is party with what the ledger fills in.
func finiteParty(t testing.TB) vocabulary.Question {
	t.Helper()
	q := party(t)
	q.Encoding = vocabulary.Finite
	return q
}

func oddsQuestion(t testing.TB) vocabulary.Question {
	t.Helper()
	return vocabulary.Question{Name: "odds", Values: []string{"no", "yes"}, Mechanism: &vocabulary.Mechanism{
		Family: skewed(t), Outputs: [][]string{{"N", "Y"}, {"N", "Y"}, {"N", "never", "Y"}, {"N1", "N2", "Y1", "Y2"}},
	}}
}

func familyOf(t testing.TB, levels ...*finite.Matrix) *finite.Family {
	t.Helper()
	f, err := finite.NewFamily(levels...)
	must(t, err)
	return f
}

// skewed is a family at the odds 3/2, 2, 3 and 5. The highest level has two outputs for each input, of equal
// probabilities, so that the channel from it is not the only one; at the odds 3, output 1 never occurs.
func skewed(t testing.TB) *finite.Family {
	t.Helper()
	return familyOf(t,
		matrixOf(t, "3/5 2/5", "2/5 3/5"), matrixOf(t, "2/3 1/3", "1/3 2/3"), matrixOf(t, "3/4 0 1/4", "1/4 0 3/4"),
		matrixOf(t, "5/12 5/12 1/12 1/12", "1/12 1/12 5/12 5/12"))
}

// subsetsAt is subset selection at one ε.
func subsetsAt(t testing.TB, inputs, size int, epsilon string) *finite.Matrix {
	t.Helper()
	design, err := finite.SubsetSelection(inputs, size)
	must(t, err)
	m, err := design.At(eps(t, epsilon))
	must(t, err)
	return m
}

// matrixOf is a matrix of rows of fractions, such as "1/2 1/3 1/6".
func matrixOf(t testing.TB, rows ...string) *finite.Matrix {
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

// defined is the record of a question.
func defined(number uint32, q vocabulary.Question, encoding vocabulary.Encoding) []byte {
	q.Encoding = encoding
	e := &wire.Encoder{}
	(&QuestionDefined{Number: number, Question: q}).Encode(e)
	return e.Buf
}

// written as the record of a question.
func recordOfQuestion(number uint32, q vocabulary.Question) []byte {
	return defined(number, q, q.Encoding)
}
