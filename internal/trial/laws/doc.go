// Package laws checks that what a ledger tells has the laws it promises: by enumeration of all words that a draw may see, and by
// counting. There is nothing in it but tests.
package laws
