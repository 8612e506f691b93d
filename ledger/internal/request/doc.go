// Package request executes the requests that change a ledger. All kinds of requests follow one
// protocol with four steps: look up the idempotency key, ask the host for true values, decide in a
// transaction, and settle the key.
package request
