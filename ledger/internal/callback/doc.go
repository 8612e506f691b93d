// Package callback calls the functions of the host: its logger, its observer, its progress
// functions and its journal. Each is called where a panic, a delay or a call of the ledger can harm
// no other caller: outside of commits and snapshots.
package callback
