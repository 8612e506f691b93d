// Package rappor collects strings under local differential privacy: clients hash a string into a Bloom
// filter and report its bits with noise; the server estimates how many clients have each string of a
// list. It is RAPPOR (Erlingsson, Pihur and Korolova, "RAPPOR: Randomized Aggregatable
// Privacy-Preserving Ordinal Response", CCS 2014) on chains of randomized responses, as Pan, "Randomized
// Response with Gradual Release of Privacy Budget" (2024, arXiv:2401.13952) proposes in §5.1: instead of
// blurring a permanent noisy filter anew for every report, a client raises its report to a higher ε
// when it is allowed to. Every report is as useful as a fresh one at its ε, and all of them together
// cost the largest ε.
//
//	params := rappor.Params{Cohorts: 64, Bits: 128, Hashes: 1} // public, the same for all
//	cohort, err := params.DrawCohort()                          // once for each client, kept
//	client, err := rappor.NewClient(params, cohort, "Emma")
//	first, err := client.Raise(sampler, one)  // ε = 1
//	second, err := client.Raise(sampler, four) // ε = 4: costs 3 more, not 4
//
//	tally, err := rappor.NewTally(params, four)
//	err = tally.Add(second) // and those of all other clients
//	result, err := rappor.Decode(tally, []string{"Emma", "Olivia", "Noah"}, 0.95)
//
// # Privacy
//
// The parameters, the hash and the cohort of a client are public, and a cohort says nothing about the
// string: it is drawn before. A filter has exactly h of its k bits set, so two filters differ in at
// most D = 2·min(h, k−h) bits. A report at ε is a randomized response (m = 2) to every bit at ε/D,
// rounded down to a nano-nat. So the reports of one client, all together, are ε-differentially private
// for the largest ε among them: for no two strings does the likelihood of any set of reports differ
// by a factor above e^ε ([rrchain.BitChain]). The bound is exact for strings without a common bit. For
// others the loss is smaller, see [Params.Loss]. D is what the original calls 2h, for h ≤ k/2.
//
// A client that gets another string, or another cohort, begins a new chain, and what the two cost adds
// up. Two clients of one person add up too.
//
// # Choosing parameters
//
// At the same ε one hash is best for estimates of a list's strings: with h hashes each bit gets only
// ε/(2h), and the variance grows h-fold for small ε and faster for large ones. More bits tell more
// strings apart and cost bandwidth only; above a report ε of about 4 the error is mostly that of
// strings that share bits, of variance 1/(nk). Cohorts each have a hash of their own, so that strings
// which collide in one do not in others. A list needs (much) fewer strings than cohorts × bits.
//
// [Decode] says how the estimates are made and tested. [Noise] is the original noise, for comparison.
package rappor
