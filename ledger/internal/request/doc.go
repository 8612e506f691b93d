// Package request executes the requests that change a ledger. All kinds of requests follow one
// protocol. It looks up the idempotency key, asks the host for true values, decides in a
// transaction, and settles the key.
package request
