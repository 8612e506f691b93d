// Package levelscan reads one level of each chain of a question, in the order of the names: a snapshot after the other, the next
// ones in the background.
package levelscan
