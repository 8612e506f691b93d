package main

import (
	"strings"
	"testing"
)

func TestRun_Policies_PrintsCeilingsAndPrices(t *testing.T) {
	var out strings.Builder
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	want := `The largest ε that a first buyer can have on a day, and a third one on day 31; and what Atlas and Cobalt pay for ε = 0.5.
   terms               day 1   day 11   day 21   day 31   third buyer   Atlas   Cobalt   in words
   open                    2        2        2        2             2     40¢      40¢   up to ε = 2, at once
   thrifty                 1        1        1        1             1     45¢      45¢   ε = 0.5 or 1 only, never below 45¢
   patient                 0      0.5        1      1.5           1.5     30¢      30¢   0.5 more every ten days
   one by one            0.5      0.5      0.5      0.5           1.5     50¢      50¢   each buyer unlocks 0.5 more
   wary                    1        1        1        1             1     40¢        –   up to ε = 1, but never to Cobalt
   later more            0.5      0.5        1        1             1     25¢      25¢   ε = 0.5, and 1 from day 15
   donor                   0     0.25      0.5      0.5           0.5       –        –   for free, on days 10 and 20
`
	if out.String() != want {
		t.Errorf("it prints\n%s", &out)
	}
}
