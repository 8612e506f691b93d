// Package model plays random games on the ledger and on a model of it. The model has plain integers
// and keeps its state in maps: it is what the documentation says, written a second time. The
// package has only tests.
//
// Other tests check what every ledger must do. Each runs on a ledger of package ledgertest in
// memory, and on one in a file.
//
// Tests of laws check that responses have the promised distributions: by enumeration of all words
// that a draw may read, and by counting.
//
// # Attackers
//
// The attackers buy from a ledger, pool what they bought, and guess. The promise is that all
// responses of an object together are ε-differentially private for the highest ε sold, in any order
// of sales, to any buyers, and with any crashes of the host in between: for two true values x and y
// and any set S of transcripts,
//
//	Pr(S|x) ≤ e^ε·Pr(S|y).
//
// A transcript is everything that a coalition of buyers saw of one object. The tests do not know
// how it is made, and make only calls that any host can make. They draw the true values of some
// thousand objects at random, sell them, count transcripts, and search for sets that break the
// promise: named sets, and those that are most suspicious in one half of the objects, tested on the
// other half. A ledger is rejected if the lower bound of Clopper and Pearson on the ratio of
// likelihoods is above e^ε. The idea is that of StatDP (Ding, Wang, Wang, Zhang and Kifer,
// "Detecting Violations of Differential Privacy", CCS 2018) and DP-Sniper (Bichsel, Steffen,
// Bogunovic and Vechev, "DP-Sniper: Black-Box Discovery of Differential Privacy Violations using
// Classifiers", S&P 2021). A right ledger is rejected with a probability below 1e-9 in a whole run.
//
// Planted faults show that the tests find something: levels that are drawn independently, or again
// after a crash, for another buyer, for a repeated order, or when terms change; lower levels drawn
// from the true value; a kernel, and an ε, that is off by 3 %; and a ledger that is restored from
// an older copy. The number of objects for that is computed.
//
// The attack cannot find a response that is drawn again without the true value (that costs no
// privacy; other tests forbid it), nor a small excess. With two values and the 6,000 objects of the
// quick form, it surely finds odds of e^2.3 in half of the objects where e^1.5 is allowed; with the
// 1,800,000 of the long form, e^1.54. For panels, the quick form finds little except answers that
// are always true. The 20,000 panels of the long form find e^1.57 where e^1.2 is allowed.
//
// Timing could reveal the true value as well. TestDraws_Durations_AreReported reports the duration
// of each draw, by true value and by outcome, as dudect does (Reparaz, Balasch and Verbauwhede,
// "Dude, is my code constant time?", DATE 2017). It cannot fail. Another test requires that draws
// read equally many random words for each true value.
//
// No attacker runs under the race detector, which finds nothing in a single goroutine and would
// take minutes. A quick form of each test runs with all other tests. The long form runs if
// SLUICE_LONG is set in the environment:
//
//	SLUICE_LONG=1 go test -timeout 12h -v ./internal/trial/model
//
// The invariants that tests cite by number:
//
//	1 durable before visible    5 same key, same answer     9 the log is the truth
//	2 never over budget         6 truth stays out          10 no quiet rollback
//	3 one answer                7 a refusal explains       11 hostile input is an error
//	4 maximum, not sum          8 an order is whole        12 time does not run back
package model
