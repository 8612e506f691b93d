package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
)

// Answer answers a query about a panel by the mechanism that is optimal at ε
// ([mechanism.Sampler.Draw]). If one changed value could change the answer, the mechanism is
// randomized response. Otherwise the answer is more likely to be true the more values would have to
// change. The answer is ε-differentially private for each object's value. The membership of the
// panel is not hidden.
//
// Answer charges every object of the panel, in the transaction that records the answer, under the
// same ceilings as releases. The costs of answers about a question add up with each other and with
// the object's chain. If any object is refused, nothing happens, unless the request is partial. A
// partial request answers about the panel without the refused objects; an empty panel is refused.
//
// A charge, however small, may leave too little budget for a level on offer ([api.Displaced]). Such
// an answer is refused with a [*api.DisplacedError], unless the request accepts the loss. This is
// decided in the transaction that charges the panel, and also before true values are requested.
//
// A repeated query about the same panel returns the recorded answer at the same ε. At a lower ε an
// answer is derived at no cost. At a higher ε a majority or threshold, or any query about two
// values, is raised, and the difference is charged: all answers together cost the largest ε
// ([mechanism.Score]). Other queries are drawn again at a higher ε, and the full ε is charged.
//
// An answer is also drawn again if an object of the panel was forgotten or began a new epoch
// ([Ledger.BeginEpoch]). The same is true if a partial request leaves an object out. An answer that
// leaves an object out is only returned to partial requests for the same objects. A partial request
// that leaves no object out is treated as a whole request.
//
// No result, error, log entry or file contains the distance to another answer, or anything else
// that is computed from true values. The exception is a score: the signed distance with
// ε-differentially private noise.
func (l *Ledger) Answer(ctx context.Context, r api.AnswerRequest) (api.AnswerResult, error) {
	return l.requests.Answer(ctx, r)
}

// QuoteAnswer returns what [Ledger.Answer] would charge and which objects it would refuse. It
// changes nothing and requests no true value. It ignores the Key and the Truth of the request.
func (l *Ledger) QuoteAnswer(ctx context.Context, r api.AnswerRequest) (api.AnswerQuote, error) {
	return l.requests.QuoteAnswer(ctx, r)
}
