// Package day is a host's day of trade, on which its process is killed again and again. It repeats every request with its key until it is
// through. Then everybody has been told the same bytes every time, and but for the responses themselves the ledger is the one of a host that
// nothing ever happened to. There is nothing in it but tests.
package day
