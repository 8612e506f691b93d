//go:build race

package rrchain

// coarser is how many times larger the faults are that statistical tests look for, in a sixteenth of the draws. The race
// detector makes draws about ten times as slow, and in a single goroutine it has nothing to find: what such a test
// teaches about the law, it teaches without.
const coarser = 4
