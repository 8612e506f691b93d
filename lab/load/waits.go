package main

import (
	"slices"
	"time"
)

// waits returns the median and the 99th percentile of the waits, as wrk counts them. A caller that
// waits longer than the mean would have called again in that time, and waited for the rest. These
// waits are counted too.
func waits(each [][]time.Duration, of turn) (median, tail time.Duration) {
	all := slices.Concat(each...)
	if len(all) == 0 {
		return 0, 0
	}
	usual := of.took * time.Duration(len(each)) / time.Duration(len(all))
	for _, one := range all {
		for rest := one - usual; one >= 2*usual && rest > usual; rest -= usual {
			all = append(all, rest)
		}
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100]
}
