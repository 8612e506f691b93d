// Package api defines the requests, results and errors of a ledger. Package ledger, its server and
// its client (packages ledgerhttp and ledgerclient) share them.
//
// A host defines a [Question] and enrolls objects ([EnrollRequest]). It releases responses
// ([ReleaseRequest], [RaiseRequest]) or sells them ([Order], [SellRequest]). A refused object has a
// [Refusal] with a [Reason] and with what would help.
//
// The package links neither a database nor a server. A client, or a program that verifies a
// receipt, can import it without them.
//
// The JSON tags of the types are the names that the HTTP API and the command use. The meaning of a
// name, reason or encoding never changes.
package api
