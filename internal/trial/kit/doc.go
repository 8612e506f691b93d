// Package kit is what trials of the ledger have in common: ledgers, requests, and what is read and
// checked. It uses nothing but what every host can use.
//
// The invariants that trials cite by number:
//
//	1 durable before visible    5 same key, same answer     9 the log is the truth
//	2 never over budget         6 truth stays out          10 no quiet rollback
//	3 one answer                7 a refusal explains       11 hostile input is an error
//	4 maximum, not sum          8 an order is whole        12 time does not run back
package kit
