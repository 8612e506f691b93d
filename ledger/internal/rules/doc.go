// Package rules decides which requests an object allows, and draws what they get: terms of sale,
// budgets with what other requests hold, the host's source of true values, and its keys. A true
// value comes in here, by [Rules.Ask], and is an argument of the draw; it is kept nowhere.
//
// The same rules are compared with a log that is read, by package fold/check. They read the state
// and change nothing.
package rules
