// Package rules decides who may have what, and draws it: budgets with what other requests hold, the host's source of true
// values, and its keys. A true value comes in here, by [Rules.Ask], and is an argument of the draw; it is kept nowhere.
package rules
