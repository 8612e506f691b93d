package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
)

// Answer answers a query about a panel by the mechanism that is optimal at ε: randomized response
// for a panel that one changed value could bring to another answer, and the likelier true the more
// changes it would take ([mechanism.Sampler.Draw]). The answer is ε-differentially private for each
// object's value. Who belongs to the panel is not hidden.
//
// It charges every object of the panel, in the transaction that records the answer, under the
// ceilings that bind releases: answers about a question add up with each other and with its chain.
// If any object is refused, nothing happens, unless the request is partial: then the panel is what
// is left, and an empty panel is refused.
//
// A charge, however small, may leave too little for a level on offer ([api.Displaced]). Such an answer
// is refused with a [*api.DisplacedError], unless the request accepts the loss. This is decided in the
// transaction that charges the panel, and also before true values are requested.
//
// A query that is repeated about the same panel has the recorded answer at the same ε. At a lower ε
// an answer is derived for free. At a higher ε a majority or threshold, or any query about two
// values, is raised, and the difference is charged: all answers together cost the largest ε
// ([mechanism.Score]). Other queries are drawn again at a higher ε, and the full ε is charged. So
// are panels of which an object was forgotten, or began a new epoch ([Ledger.BeginEpoch]), and
// partial requests that leave an object out: such an answer is only for partial requests for the
// same objects. A partial request that leaves no object out is one like any other.
//
// Neither the distance to another answer nor anything else that is computed from true values
// appears in a result, an error, the log or the file, except a score: the signed distance with
// ε-differentially private noise.
func (l *Ledger) Answer(ctx context.Context, r api.AnswerRequest) (api.AnswerResult, error) {
	return l.requests.Answer(ctx, r)
}

// QuoteAnswer tells what [Ledger.Answer] would charge and whom it would refuse. It changes nothing
// and asks for no truth; the Key and the Truth of the request are not used.
func (l *Ledger) QuoteAnswer(ctx context.Context, r api.AnswerRequest) (api.AnswerQuote, error) {
	return l.requests.QuoteAnswer(ctx, r)
}
