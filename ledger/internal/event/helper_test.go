package event

import (
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

func nano(t testing.TB, n int64) privacy.Epsilon {
	t.Helper()
	return check.Value(privacy.EpsilonFromNano(n))(t)
}

// finiteParty returns fixture.Party with the encoding that the ledger sets.
func finiteParty(t testing.TB) api.Question {
	t.Helper()
	q := fixture.Party(t)
	q.Encoding = "finite"
	return q
}

// defined returns the record of a question with an encoding.
func defined(number uint32, q api.Question, encoding string) []byte {
	q.Encoding = encoding
	e := &wire.Encoder{}
	(&QuestionDefined{Number: number, Question: q}).Fields(wire.Writing(e))
	return e.Buf
}

// recordOfQuestion returns the record of a question.
func recordOfQuestion(number uint32, q api.Question) []byte {
	return defined(number, q, q.Encoding)
}
