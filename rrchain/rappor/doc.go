// Package rappor collects strings under local differential privacy. Clients hash a string into a
// Bloom filter and report its bits with noise. The server estimates how many clients have each
// string of a list.
//
// It is RAPPOR (Erlingsson, Pihur and Korolova, "RAPPOR: Randomized Aggregatable Privacy-Preserving
// Ordinal Response", CCS 2014) on chains of randomized responses, as proposed in §5.1 of Pan,
// "Randomized Response with Gradual Release of Privacy Budget" (2024, arXiv:2401.13952). RAPPOR
// draws new noise for every report from a permanent noisy filter. Here a client raises its report
// to a higher ε when it is allowed to. Every report is as useful as a fresh one at its ε, and all
// reports together cost the largest ε.
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
// The parameters, the hash and the cohort of a client are public. A cohort contains no information
// about the string, because it is drawn independently of it. A filter has exactly h of its k bits
// set, so two filters differ in at most D = 2·min(h, k−h) bits. A report at ε is a randomized
// response (m = 2) to every bit at ε/D, rounded down to a nano-nat.
//
// So all reports of one client together are ε-differentially private for the largest ε among them.
// For any two strings, the likelihood of any set of reports differs by a factor of at most e^ε
// ([rrchain.Sampler.RaiseBits]). This factor is reached for strings whose filters have as little in
// common as possible. For others the loss is smaller, see [Params.Loss]. If h ≤ k/2, D is the 2h of
// the original.
//
// A client that gets another string, or another cohort, starts a new chain, and the costs of the
// two chains add up. The costs of two clients of one person add up too.
//
// # Choosing parameters
//
// With n clients, the variance of a rare string's estimated share is about (pq/(h(p−q)²) + 1/k)/n.
// Here p = e^x/(e^x+1) and q = 1 − p for the ε of a bit, x = ε/(2h). The first part is the noise.
// It is smallest for one hash. With h hashes it is h times as large for a small ε, and more for a
// large one. The second part comes from strings that share bits. More bits make it smaller, and
// cost only bandwidth. Every cohort has its own hash, so that strings which collide in one cohort
// do not collide in others. A list must be shorter than cohorts × (k−1), and should be much
// shorter.
//
// # What is significant, and how wide intervals are
//
// A string outside of the list may be common. If it shares bits with a candidate, the candidate
// appears common too. With one cohort of k bits and h = 1, this has a probability of 1/k for any
// number of clients. With few cohorts, errors are a few large coincidences, which no standard error
// and no number of degrees of freedom describes. But one fact is exact: no report depends on the
// filters of a string that no client has. The reports do not change if the filters of such a string
// are drawn after all reports. So its p-value is the probability that a candidate with random
// filters would appear as common,
//
//	P( Σ_c w_c Σ_{i ∈ R_c} r_ci  ≥  Σ_c w_c Σ_{i ∈ candidate's bits} r_ci )
//
// where r are the counts minus the part that the other candidates explain, and w_c is the share of
// the clients in cohort c. Each R_c is a set of h of the k bits, uniform and independent for each
// cohort. This is the law of a sum of independent terms. [Tally.Decode] computes it with rounded r,
// and with no other approximation: neither a normal law nor a large number is assumed. The rounding
// is part of the statistic, so the law remains exact.
//
// The law holds for every number of cohorts, bits, hashes and clients, every ε, and any strings
// outside of the list. The probability of a false alarm is over the hash, and includes surveys that
// [Tally.Decode] refuses. With many cohorts the law is close to normal, and the test finds the same
// as a test by standard errors. The smallest p-value is the probability that all bits are in
// common, C(k,h)^−cohorts. A list of m candidates needs more than m/(1 − confidence) possible
// combinations of filters before any candidate can be significant.
//
// The law requires that candidates were not chosen by their hash. The author of the list, or of
// reports, must not have searched for strings that collide, and must not have chosen candidates by
// the reports.
//
// An interval contains the shares s that the same law does not exclude, with (1 − confidence)/2 on
// either side, when s times the candidate's filters is subtracted from the counts. The error from
// assigning the candidate's own clients to cohorts is a normal addend with variance
// s(1−s)·n/(n−1)·(Σ_c b_c²/n_c − 1/n), where a client of the candidate in cohort c has the weight
// b_c/n_c in the estimate. With few cohorts, intervals are not symmetric. They end at 0 or 1, or
// further out, if the counts cannot exclude more.
//
// For the strings outside of the list the roles are exchanged: the candidates' filters are known,
// and the filters of the other strings are random. Errors have the heaviest tails if a single
// unlisted string, of share q, causes all that unlisted strings add to the counts. The interval of
// the others assumes this. q² is the excess of the squared residuals, in units of what a string
// adds to them, times C/(C−1), and at most the square of the hypothetical share. (C is the number
// of cohorts, or 1/Σ w_c². The fit absorbs up to 1/C of what an unlisted string adds. With one
// cohort it may absorb all, and q is the whole share.)
//
// The tests simulate this for 1 to 64 cohorts, 8 to 256 bits, 1 to 4 hashes, ε from 0.5 to 8, and
// lists that contain none to all of the clients' strings, with 11,520 surveys in their long form.
// The probability of a false alarm is proven for the law, and compared with all possible filters
// for a few small parameters. The coverage of intervals is simulated.
//
// [Tally.Decode] describes how the estimates are computed. [Noise] is the original noise, for
// comparison.
package rappor
