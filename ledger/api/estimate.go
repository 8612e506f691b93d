package api

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/privacy"
)

// EstimateRequest asks for the shares of a question's values.
type EstimateRequest struct {
	Question string // by its name
	// Epsilon, if above 0, takes the responses recorded at exactly this ε; otherwise each object
	// counts once, with its current level.
	Epsilon privacy.Epsilon
	// Confidence is the nominal coverage of the intervals; 0 means 0.95.
	Confidence float64
	// Pool combines levels by precision, not by their number of objects. It assumes that the level
	// of an object is independent of its value; see [estimate.Options].
	Pool bool
	// Population makes intervals cover the shares in a larger population of which the objects are a
	// random sample, not those among the objects themselves.
	Population bool
	// Include, if set, limits the estimate to some objects. It must not depend on a response.
	Include func(object string) bool
}

// Estimate is the estimated distribution of a question's values, from released responses alone.
type Estimate struct {
	Question string              `json:"question"` // by its name
	N        int64               `json:"n"`        // objects counted
	Values   List[ValueEstimate] `json:"values"`   // in the order of the question's
	Levels   List[LevelCount]    `json:"levels"`   // by rising ε
	// Method is how levels are combined: "level" if there is one alone, "stratified" if each counts
	// in proportion to its objects, "pooled" if by precision.
	Method string `json:"method"`
	// Covers is what intervals are about: "panel", the shares among the objects counted, or
	// "population", those of which the objects are a random sample.
	Covers string `json:"covers"`
	// Disagreement is a p-value, where there are several levels: the probability that levels differ
	// as much or more if the level of an object is independent of its value. It is 1 if there are
	// too few responses for a test. See [estimate.Disagreement].
	Disagreement *float64 `json:"disagreement,omitempty"`
	Event        uint64   `json:"event"` // the last one that all this counts; of a recount, the last before it began
}

// ValueEstimate is the estimated share of one value; see [estimate.Frequency].
type ValueEstimate struct {
	Value    string  `json:"value"`    // one of the question's
	Estimate float64 `json:"estimate"` // a share, unbiased: with little data it may lie outside of 0 to 1
	StdErr   float64 `json:"stderr"`   // the standard error of Estimate
	Low      float64 `json:"low"`      // the lower end of the interval
	High     float64 `json:"high"`     // the upper end
}

// LevelCount tells how many objects were counted at one ε.
type LevelCount struct {
	Epsilon privacy.Epsilon `json:"epsilon"` // of the responses
	N       int64           `json:"n"`       // objects
}

// ErrNoResponses says that there is nothing to estimate from.
var ErrNoResponses = errs.ErrNoResponses
