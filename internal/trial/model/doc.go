// Package model plays random games on the ledger and on a model of it, in plain integers with maps
// for memory: what the documentation says, written down a second time. There is nothing in it but
// tests.
//
// Other tests hold what any ledger must do, wherever it is kept: each test runs on a ledger of
// package ledgertest, and on one in a file.
//
// Tests of laws check that responses have the promised laws: by enumeration of all words that a
// draw may read, and by counting.
//
// # Attackers
//
// The attackers buy from a ledger, pool what they bought, and guess. The promise is that all
// responses of an object together are ε-differentially private for the highest ε sold, in whatever
// order, to whomever, and whatever happened to the host in between: for two truths x and y and any
// set S of transcripts,
//
//	Pr(S|x) ≤ e^ε·Pr(S|y).
//
// A transcript is everything that a coalition of buyers was told of one object. The tests know
// nothing of how it comes about, and use what any host can call. They draw the truths of some
// thousand objects by lot, have them sold, count transcripts, and look for sets that break the
// promise: named ones, and those that looked most suspicious in one half of the objects, tested on
// the other. A ledger is rejected if the lower bound of Clopper and Pearson on the ratio of
// likelihoods is above e^ε. The idea is that of StatDP (Ding, Wang, Wang, Zhang and Kifer,
// "Detecting Violations of Differential Privacy", CCS 2018) and DP-Sniper (Bichsel, Steffen,
// Bogunovic and Vechev, "DP-Sniper: Black-Box Discovery of Differential Privacy Violations using
// Classifiers", S&P 2021). A right ledger is rejected with a probability below 1e-9 in a whole run.
//
// That the tests find something is shown by faults that are planted: levels that are drawn
// independently, or again after a crash, for another buyer, for a repeated order, or when terms
// change; lower levels drawn from the truth; a kernel, and an ε, that is off by 3 %; and a ledger
// that is brought back from an older copy. How many objects that takes is computed, not tried.
//
// What the attack cannot see is a response that is drawn anew without the truth (that costs no
// privacy; other tests forbid it), and a small excess. Of two values, in the 6,000 objects of the
// quick form, it is sure to notice if in half of them the odds are e^2.3 where e^1.5 is allowed; in
// the 1,800,000 of the long form, e^1.54. About panels the quick form notices little but answers
// that are always true; the 20,000 of the long form, e^1.57 where e^1.2 is allowed.
//
// Time could tell the truth as well. TestDrawsTakeTheirTime reports how long each draw takes, by
// truth and by outcome, as dudect does (Reparaz, Balasch and Verbauwhede, "Dude, is my code
// constant time?", DATE 2017). It decides nothing; what is decided is that draws read as many
// random words for one truth as for another.
//
// No attacker runs under the race detector, which would find nothing in a single attacker and take
// minutes. A quick form of each test runs with all others. The long form runs if SLUICE_LONG is set
// in the environment:
//
//	SLUICE_LONG=1 go test -timeout 12h -v ./internal/trial/model
//
// The invariants that trials cite by number:
//
//	1 durable before visible    5 same key, same answer     9 the log is the truth
//	2 never over budget         6 truth stays out          10 no quiet rollback
//	3 one answer                7 a refusal explains       11 hostile input is an error
//	4 maximum, not sum          8 an order is whole        12 time does not run back
package model
