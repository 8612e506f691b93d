package rappor_test

import (
	"fmt"
	"log"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/rappor"
)

// 4,000 clients report their favourite editor twice, and the server learns how common each is, but
// not whose it is. Both reports of a client together cost the ε of the second.
func Example() {
	params := rappor.Params{Cohorts: 16, Bits: 64, Hashes: 1}
	sampler := new(rrchain.Sampler)
	tally, err := params.NewTally(epsilon("6"))
	check(err)
	for i := range 4000 {
		cohort, err := params.DrawCohort()
		check(err)
		client, err := params.NewClient(cohort, []string{"vi", "vi", "vi", "ed", "cat"}[i%5])
		check(err)
		_, err = client.Raise(sampler, epsilon("2"))
		check(err)
		report, err := client.Raise(sampler, epsilon("6"))
		check(err)
		check(tally.Add(report))
	}

	result, err := tally.Decode([]string{"emacs", "vi", "ed"}, 0.95)
	check(err)
	for _, share := range result.Shares[:2] {
		fmt.Printf("%s: about %.0f0 %%, found: %v\n", share.String, 10*share.Estimate, share.Significant)
	}
	fmt.Printf("others: about %.0f0 %%\n", 10*result.Others.Estimate)
	// Output:
	// vi: about 60 %, found: true
	// ed: about 20 %, found: true
	// others: about 20 %
}

// Between two names a report at ε = 2 may cost less than 2: in two of three cohorts
// these have a bit in common.
func ExampleParams_Loss() {
	params := rappor.Params{Cohorts: 3, Bits: 8, Hashes: 2}
	for cohort := range params.Cohorts {
		loss, err := params.Loss(cohort, "Emma", "Noah", epsilon("2"))
		check(err)
		fmt.Printf("cohort %d: %v\n", cohort, loss)
	}
	// Output:
	// cohort 0: 1
	// cohort 1: 2
	// cohort 2: 1
}

// The original RAPPOR noise, as its experiments had it. (p and q are the other way round there.)
func ExampleNoise_Loss() {
	noise := rappor.Noise{F: 0.5, P: 0.75, Q: 0.5}
	for _, reports := range []int{1, 10, 1000} {
		loss, err := noise.Loss(rappor.Params{Cohorts: 1, Bits: 128, Hashes: 2}, reports)
		check(err)
		fmt.Printf("%4d reports cost ε = %.3f\n", reports, loss)
	}
	// Output:
	//    1 reports cost ε = 1.074
	//   10 reports cost ε = 4.299
	// 1000 reports cost ε = 4.394
}

func epsilon(text string) privacy.Epsilon {
	e, err := privacy.ParseEpsilon(text)
	check(err)
	return e
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
