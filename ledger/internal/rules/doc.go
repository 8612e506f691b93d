// Package rules decides which requests an object allows, and draws the responses. It has the terms
// of sale, the budgets including what other requests hold, the host's source of true values, and
// the host's keys. A true value enters the ledger here, by [Rules.Ask], and is an argument of the
// draw. It is stored nowhere.
//
// Package fold/check checks a log against the same rules. The rules read the state and do not
// change it.
package rules
