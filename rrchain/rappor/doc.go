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
//	cohort, err := params.DrawCohort()                         // once for each client, and kept
//	client, err := rappor.NewClient(params, cohort, "Emma")
//	first, err := client.Raise(sampler, one)   // ε = 1
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
// by a factor above e^ε ([rrchain.BitChain]). For strings whose filters have as little in common as can be
// that factor is reached. For others the loss is smaller, see [Params.Loss]. Where h ≤ k/2, D is the 2h of the
// original.
//
// A client that gets another string, or another cohort, begins a new chain, and what the two cost adds
// up. Two clients of one person add up too.
//
// # Choosing parameters
//
// From n clients, the variance of a rare string's estimated share is about (pq/(h(p−q)²) + 1/k)/n, with
// p = e^x/(e^x+1) and q = 1 − p for the ε of a bit, x = ε/(2h). The first part is the noise. It is
// smallest for one hash: with h of them it is h times as large for small ε, and more for large ones. The
// second part are strings that share bits. More bits make it smaller and cost bandwidth only. Every cohort
// has a hash of its own, so that strings which collide in one do not in others; a list must be shorter
// than cohorts × (k−1), and should be much shorter.
//
// [Decode] says how the estimates are made and tested. [Noise] is the original noise, for comparison.
package rappor
