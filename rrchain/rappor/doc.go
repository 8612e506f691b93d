// Package rappor collects strings under local differential privacy: clients hash a string into a
// Bloom filter and report its bits with noise; the server estimates how many clients have each
// string of a list. It is RAPPOR (Erlingsson, Pihur and Korolova, "RAPPOR: Randomized Aggregatable
// Privacy-Preserving Ordinal Response", CCS 2014) on chains of randomized responses, as Pan,
// "Randomized Response with Gradual Release of Privacy Budget" (2024, arXiv:2401.13952) proposes in
// §5.1: instead of blurring a permanent noisy filter anew for every report, a client raises its
// report to a higher ε when it is allowed to. Every report is as useful as a fresh one at its ε,
// and all of them together cost the largest ε.
//
//	params := rappor.Params{Cohorts: 64, Bits: 128, Hashes: 1} // public, the same for all
//	cohort, err := params.DrawCohort()                         // once for each client, and kept
//	client, err := params.NewClient(cohort, "Emma")
//	first, err := client.Raise(sampler, one)   // ε = 1
//	second, err := client.Raise(sampler, four) // ε = 4: costs 3 more, not 4
//
//	tally, err := params.NewTally(four)
//	err = tally.Add(second) // and those of all other clients
//	result, err := tally.Decode([]string{"Emma", "Olivia", "Noah"}, 0.95)
//
// # Privacy
//
// The parameters, the hash and the cohort of a client are public, and a cohort says nothing about
// the string: it is drawn before. A filter has exactly h of its k bits set, so two filters differ
// in at most D = 2·min(h, k−h) bits. A report at ε is a randomized response (m = 2) to every bit at
// ε/D, rounded down to a nano-nat. So the reports of one client, all together, are ε-differentially
// private for the largest ε among them: for no two strings does the likelihood of any set of
// reports differ by a factor above e^ε ([rrchain.Sampler.RaiseBits]). For strings whose filters have as
// little in common as can be that factor is reached. For others the loss is smaller, see
// [Params.Loss]. Where h ≤ k/2, D is the 2h of the original.
//
// A client that gets another string, or another cohort, begins a new chain, and what the two cost
// adds up. Two clients of one person add up too.
//
// # Choosing parameters
//
// From n clients, the variance of a rare string's estimated share is about (pq/(h(p−q)²) + 1/k)/n,
// with p = e^x/(e^x+1) and q = 1 − p for the ε of a bit, x = ε/(2h). The first part is the noise.
// It is smallest for one hash: with h of them it is h times as large for small ε, and more for
// large ones. The second part are strings that share bits. More bits make it smaller and cost
// bandwidth only. Every cohort has a hash of its own, so that strings which collide in one do not
// in others; a list must be shorter than cohorts × (k−1), and should be much shorter.
//
// # What is significant, and how wide intervals are
//
// A string outside of the list may be common. Where it shares bits with a candidate, the candidate
// looks common too. With one cohort of k bits and h = 1 that has a probability of 1/k, however many
// clients report; with few cohorts errors are a few large coincidences, which no standard error and
// no number of degrees of freedom describe. But one thing is known exactly: nobody's reports depend
// on the filters of a string that nobody has. To such a string, its filters are as good as drawn
// after all reports. So its p-value is the probability that a candidate with random filters would
// look as common,
//
//	P( Σ_c w_c Σ_{i ∈ R_c} r_ci  ≥  Σ_c w_c Σ_{i ∈ candidate's bits} r_ci )
//
// where r are the counts less what the other candidates explain of them, w_c is the share of the
// clients that cohort c has, and each R_c is a set of h of the k bits, all equally likely,
// independently for each cohort. That is the law of a sum of independent terms, which
// [Tally.Decode] computes with rounded r (the rounding is part of the statistic, so the law stays
// exact) and nothing else approximated: not by normal, nor by many. It holds for every number of
// cohorts, bits, hashes and clients, every ε, and whatever strings are outside of the list; a false
// alarm is counted over the hash, surveys included that [Tally.Decode] refuses. With many cohorts
// it is close to normal, and finds what a test by standard errors would. The least p-value is that
// of having all bits in common, C(k,h)^−cohorts: a list of m needs more than m/(1 − confidence)
// ways of filters before anything is significant.
//
// The law needs candidates that were not chosen by their hash: not from strings searched for
// collisions, by whoever writes the list or reports, nor by looking at the reports.
//
// Intervals hold those shares s that the same law does not exclude, with (1 − confidence)/2 on
// either side, when s times the candidate's filters is taken off the counts. To it comes, as a
// normal addend, the error from parting the candidate's own clients into cohorts,
// s(1−s)·n/(n−1)·(Σ_c b_c²/n_c − 1/n), if a client of it in cohort c weighs b_c/n_c in the
// estimate. Intervals are not symmetric with few cohorts, and end at 0 or 1, or further out, where
// the counts cannot exclude more. For the strings outside of the list the roles are exchanged: the
// candidates' filters are known, theirs random. Errors have the heaviest tails if all that unlisted
// strings do to the counts is due to one of them, of share q; so that is what the interval of the
// others supposes, with q² the excess of the squared residuals, in units of what a string adds to
// them, times C/(C−1), and at most the square of the hypothetical share. (C is the number of
// cohorts, or 1/Σ w_c². The fit follows up to 1/C of what an unlisted string adds. With one cohort
// it may follow all, and q is the whole share.)
//
// The tests simulate this for 1 to 64 cohorts, 8 to 256 bits, 1 to 4 hashes, ε from 0.5 to 8, and
// lists that hold none to all of the clients' strings, 11,520 surveys in their long form. The
// probability of a false alarm is proven for the law, and compared with all filters there are for a
// few small parameters; the coverage of intervals is what is simulated.
//
// [Tally.Decode] says how the estimates are made. [Noise] is the original noise, for comparison.
package rappor
