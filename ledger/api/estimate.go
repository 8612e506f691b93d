package api

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/privacy"
)

// EstimateRequest requests the estimated shares of a question's values.
type EstimateRequest struct {
	Question string // by its name
	// Epsilon, if above 0, selects the responses recorded at exactly this ε. If it is 0, each
	// object counts once, with its current level.
	Epsilon privacy.Epsilon
	// Confidence is the nominal coverage of the intervals; 0 means 0.95.
	Confidence float64
	// Pool combines levels by their precision instead of their number of objects. It assumes that
	// the level of an object is independent of its value; see [estimate.Options].
	Pool bool
	// Population computes intervals for the shares in a larger population, of which the objects are
	// a random sample. Without it, intervals are for the shares among the objects themselves.
	Population bool
	// Include, if set, limits the estimate to the objects for which it returns true. It must not
	// depend on a response.
	Include func(object string) bool
}

// Estimate is the estimated distribution of a question's values. It is computed from released
// responses only.
type Estimate struct {
	Question string              `json:"question"` // by its name
	N        int64               `json:"n"`        // how many objects are counted
	Values   List[ValueEstimate] `json:"values"`   // in the order of the question's values
	Levels   List[LevelCount]    `json:"levels"`   // in rising ε
	// Method describes how levels are combined. With only one level it is "level". It is
	// "stratified" if each level counts in proportion to its objects, and "pooled" if levels are
	// combined by precision.
	Method string `json:"method"`
	// Covers describes what the intervals are about. It is "panel" for the shares among the objects
	// counted. It is "population" for the shares in a population of which the objects are a random
	// sample.
	Covers string `json:"covers"`
	// Disagreement is a p-value if there are several levels, and nil otherwise. It is the
	// probability that levels differ at least this much if the level of an object is independent of
	// its value. It is 1 if there are too few responses for a test. See [estimate.Disagreement].
	Disagreement *float64 `json:"disagreement,omitempty"`
	// Event is the last event that is taken into account. For a recount it is the last event before
	// the recount began.
	Event uint64 `json:"event"`
}

// ValueEstimate is the estimated share of one value; see [estimate.Frequency].
type ValueEstimate struct {
	Value    string  `json:"value"`    // one of the question's values
	Estimate float64 `json:"estimate"` // an unbiased share; with little data it can be below 0 or above 1
	StdErr   float64 `json:"stderr"`   // the standard error of Estimate
	Low      float64 `json:"low"`      // the lower bound of the interval
	High     float64 `json:"high"`     // the upper bound of the interval
}

// LevelCount is the number of objects counted at one ε.
type LevelCount struct {
	Epsilon privacy.Epsilon `json:"epsilon"` // of the responses
	N       int64           `json:"n"`       // how many objects
}

// ErrNoResponses is returned if there are no responses to estimate from.
var ErrNoResponses = errs.ErrNoResponses
