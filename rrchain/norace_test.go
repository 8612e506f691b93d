//go:build !race

package rrchain

// coarser is how many times larger the faults are that statistical tests look for; see race_test.go.
const coarser = 1
