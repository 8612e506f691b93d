// Package api has the requests, results and errors of a ledger: what package ledger, its server and
// its client (packages ledgerhttp and ledgerclient) have in common. A [Question] is defined, an
// object enrolled ([EnrollRequest]), a response released ([ReleaseRequest], [RaiseRequest]) or sold
// ([Order], [SellRequest]); a refused object has a [Refusal] that gives a [Reason] and what would help.
//
// It links no database and no server: a client, or a program that verifies a receipt, imports it
// without them.
//
// The JSON tags of the types are the names that the HTTP API and the command use. No name, reason
// or encoding is ever given a second meaning.
package api
