// Package engine keeps a ledger: it has requests decided one after the other, each against the state that those before it
// leave, commits several at once, and lets others read snapshots. Nobody is told anything before it is durable. Whether the
// file is still the one that this process left is checked at both ends of each transaction.
package engine
