// Package month holds no code of its own: its tests let a month of a market pass on the public API, over the health
// insurance survey of 1996. People sell their answers to two questions, each on terms of their own, to three buyers. One
// buyer comes back for more, two pool what they bought, somebody withdraws and is forgotten, and the host pauses for six
// days. In the end the books are closed: what buyers paid is what sellers earned, nobody is over budget, and a subscriber
// who saw nothing but the events has come to the same accounts.
//
// The quick form takes every tenth person and runs with all other tests; the long form takes all 8,802. To read the report
// of such a month:
//
//	SLUICE_LONG=1 go test -v -run TestMonth ./internal/trial/month
package month
