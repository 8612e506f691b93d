// Package callback calls the functions of the host: its logger, its observer, its progress
// functions and its journal. Each is called outside of commits and snapshots, where a panic, a
// delay or a call of the ledger cannot harm another caller.
package callback
