package event

import (
	"math"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/privacy"
)

// Result is the result of a panel query. It is an output or, for a query with two outputs and a
// boundary between them, a score, which can be raised.
type Result struct {
	Scored bool  `audit:"whether there is a score"` // whether Score was drawn, and not Output
	Output int   // index of the answer among those of the query
	Score  int64 // between -maxScore and maxScore
}

// maxScore is the largest absolute value that the log accepts for a [mechanism.Score].
const maxScore = 1 << 61

// answer returns the output. A score has output 1 if it is not negative, and output 0 otherwise.
func (r Result) answer() int {
	if r.Scored {
		return mechanism.Score{Value: r.Score}.Output()
	}
	return r.Output
}

// Fields describes a flag, and then an output or a score. The score is in zigzag encoding: 2s for s
// ≥ 0, and −2s−1 otherwise. So small scores of both signs have few bytes. Decoding fails for a
// score that no mechanism draws.
func (r *Result) Fields(x wire.Codec) {
	// n is the number to encode; if x decodes, it is overwritten
	n := uint64(r.Output)
	if r.Scored {
		n = uint64(r.Score<<1 ^ r.Score>>63)
	}
	scored, d := x.Flag(&r.Scored), x.Reads()
	if d != nil && !scored {
		r.Output = d.Output()
		return
	}
	if x.Uvarint(&n); !scored || d == nil {
		return // an output was encoded, or x encodes
	}
	if r.Score = int64(n>>1) ^ -int64(n&1); r.Score < -maxScore || r.Score > maxScore {
		d.Fail("the score is beyond ±2^61")
	}
}

// ResponseText returns the text form of the response of an object at an ε. It returns
// [errs.ErrCorrupt] if the question cannot have this response.
func (q *Question) ResponseText(object string, epsilon privacy.Epsilon, v Value) (string, error) {
	if !q.Has(epsilon, v) {
		return "", errs.Corrupt(nil, "object %q: invalid response: %v", object, v)
	}
	return q.Text(epsilon, v), nil
}

// AnswerText returns the text form of an answer to a query. It returns [errs.ErrCorrupt] if the
// query is invalid or cannot have this answer. Only a query with two possible answers can have a
// score.
func (q *Question) AnswerText(query string, r Result) (string, error) {
	parsed, err := q.parseQuery(query)
	if err != nil {
		return "", err
	}
	if n := parsed.Outputs(len(q.Values)); r.Scored && n != 2 {
		return "", errs.Corrupt(nil, "query %q: a score, but the query has %d answers", query, n)
	}
	output := r.answer()
	texts, err := parsed.Answers(q.Values)
	if err != nil || output >= len(texts) {
		return "", errs.Corrupt(nil, "query %q: invalid answer %d", query, output)
	}
	return texts[output], nil
}

// CheckAnswer returns [errs.ErrCorrupt] if an answer has probability 0 for every panel of so many
// objects, regardless of their true values.
//
// If all panels of that size have the same true answer, the answer is certain. It is recorded as an
// output, and any other answer has probability 0. Otherwise a query with two outputs has a score,
// and every answer is possible.
func (q *Question) CheckAnswer(query string, objects uint64, r Result) error {
	if _, err := q.AnswerText(query, r); err != nil {
		return err
	}
	parsed, err := q.parseQuery(query)
	if err != nil {
		return err
	}
	// Whether all panels have the same answer does not depend on the panel, so any one will do:
	// here, all objects have the first value.
	counts := make([]int64, len(q.Values))
	counts[0] = int64(min(objects, math.MaxInt64))
	at, err := parsed.Place(counts)
	if err != nil {
		return errs.Corrupt(nil, "query %q: %v", query, err)
	}
	certain := at.Distance < 0 // no panel has another answer
	scored := !certain && parsed.Outputs(len(q.Values)) == 2
	if r.Scored != scored || certain && r.Output != at.Color() {
		return errs.Corrupt(nil, "query %q about %d objects: the answer %v has probability 0",
			query, objects, r)
	}
	return nil
}

// parseQuery parses a query of a recorded answer. It returns [errs.ErrCorrupt] if the query is
// invalid.
func (q *Question) parseQuery(query string) (mechanism.Query, error) {
	parsed, err := mechanism.ParseQuery(query, q.Values)
	if err != nil {
		return parsed, errs.Corrupt(nil, "query %q: %v", query, err)
	}
	return parsed, nil
}
