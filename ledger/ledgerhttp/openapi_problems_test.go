package ledgerhttp

import (
	"net/http"
	"slices"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
)

// problems returns the kinds of problems that a route may answer with, by status, in the order of
// package problem.
func (r *route) problems() map[int][]string {
	may := r.problemKinds()
	all := map[int][]string{}
	for _, kind := range problem.Kinds() {
		if slices.Contains(may, kind) {
			status := problem.New(kind, "").Status
			all[status] = append(all[status], kind)
		}
	}
	return all
}

// problemKinds returns the kinds of problems that a route may answer with. Kinds that are several
// routes' are of the group that they share.
func (r *route) problemKinds() []string {
	kinds := []string{
		problem.Unexpected, problem.Interrupted, problem.Late, problem.Journal, problem.Corrupt, problem.Version, problem.Replaced, problem.InUse,
		problem.Invalid, problem.Closed, problem.Stopped, problem.Behind, problem.Unauthorized, problem.TooMany, problem.Busy,
	}
	if len(r.roles) < len(httpapi.Roles()) {
		kinds = append(kinds, problem.Forbidden)
	}
	if r.method == http.MethodPost {
		kinds = append(kinds, problem.MediaType, problem.TooLarge)
	}
	if r.needsKey {
		kinds = append(kinds, problem.KeyConflict, problem.Forgotten, problem.WrongClock, problem.ReadOnly, problem.Unknown, problem.Refused)
	}
	return append(kinds, ownProblems()[r.id]...)
}

// ownProblems returns the kinds of problems of single routes, by their ids.
func ownProblems() map[string][]string {
	draws := []string{problem.TruthNeeded, problem.TruthFailed, problem.TruthKey, problem.NoiseKey}
	orders := append([]string{problem.Price, problem.QuoteChanged}, draws...)
	signs := []string{problem.Usage, problem.SignerFailed, problem.Unknown}
	unknown := []string{problem.Unknown}
	return map[string][]string{
		"enroll": {problem.NoCap, problem.NotNew, problem.NoiseKey}, "changeTerms": {problem.NoCap},
		"reconcile": {
			problem.Changed, problem.ManyGone, problem.NoCap, problem.Unknown, problem.Refused, problem.ReadOnly, problem.WrongClock,
			problem.NoiseKey,
		},
		"release": draws, "raise": draws, "advance": draws, "answer": append([]string{problem.Displaced}, draws...),
		"quoteAnswer": {problem.Unknown, problem.Refused, problem.Displaced, problem.TruthKey, problem.NoiseKey, problem.WrongClock},
		"beginEpoch":  {problem.TruthKey, problem.NoiseKey}, "forget": {problem.Held}, "compact": {problem.Held, problem.ReadOnly},
		"object": unknown, "levels": unknown, "estimate": {problem.Unknown, problem.NoResponses}, "responses": unknown,
		"budget": {problem.Unknown, problem.Refused}, "quote": {problem.Unknown, problem.Refused, problem.QuoteChanged},
		"sell": orders, "reserve": orders, "capture": append([]string{problem.NotReserved}, orders...), "cancel": {problem.NotReserved},
		"sale": unknown, "deliveries": unknown, "reservation": unknown, "refusals": unknown,
		"receipt": append([]string{problem.Forgotten}, signs...), "statement": signs, "checkpoint": signs,
		"verify": {problem.Checkpoint}, "takeOver": {problem.ReadOnly, problem.Held, problem.WrongClock, problem.Checkpoint},
		"metrics": {problem.NoRoute}, "consistency": unknown,
	}
}
