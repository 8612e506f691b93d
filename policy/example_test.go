package policy_test

import (
	"fmt"
	"time"

	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

func Example() {
	p, err := policy.Parse([]byte(`{"kind":"linear","from":"0.1","to":"1","start":"2027-01-01T00:00:00Z","end":"2027-01-10T00:00:00Z","stride":"0.1"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fourth := time.Date(2027, 1, 4, 12, 0, 0, 0, time.UTC)
	fmt.Println("now", p.Ceiling(fourth, 0), "in the end", p.Limit())
	for _, s := range p.Releases(fourth, 0) {
		fmt.Println(s.At.Format(time.DateOnly), s.Ceiling)
	}
	// Output:
	// now 0.4 in the end 1
	// 2027-01-01 0.1
	// 2027-01-02 0.2
	// 2027-01-03 0.3
	// 2027-01-04 0.4
}

func ExampleMin() {
	one, _ := privacy.ParseEpsilon("1")
	half, _ := privacy.ParseEpsilon("0.5")
	market, err := policy.Market{Max: one, Prices: []policy.Price{{Epsilon: half, Amount: 100}, {Epsilon: one, Amount: 180}}}.Policy()
	if err != nil {
		fmt.Println(err)
		return
	}
	gradual, err := policy.Unlock(one, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := policy.Min(market, gradual)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("after two orders:", p.Ceiling(time.Now(), 2))
	fmt.Println("an upgrade from 0.5 to 1:", p.Terms().Upgrade(half, one, 100))
	// Output:
	// after two orders: 0.5
	// an upgrade from 0.5 to 1: 80
}

func ExamplePolicy_AtMost() {
	market := func(price int64) policy.Policy {
		p, err := policy.Market{Max: privacy.MustEpsilon("1"), Prices: []policy.Price{{Epsilon: privacy.MustEpsilon("1"), Amount: price}}}.Policy()
		if err != nil {
			fmt.Println(err)
		}
		return p
	}
	fmt.Println(market(200).AtMost(market(180), time.Now()))
	fmt.Println(market(150).AtMost(market(180), time.Now()))
	// Output:
	// <nil>
	// the policy may allow more: about ε=1 costs 150.00 minor units, less than 180.00 before
}
