// Package ledgerhttp serves a ledger to other programs. It provides an [http.Handler] that a host
// mounts next to its own handlers, or a complete server.
//
//	handler, err := ledgerhttp.New(l, ledgerhttp.Options{Gate: tokens.Admit})
//	err = handler.Server().Serve(handler.Listener(listener))
//
// There is a route for each call of package ledger, with its JSON. The API document at
// /openapi.json is the file openapi.json of this directory. A test generates it from the table of
// routes and from the types that the routes read and write. No token is needed to read it. Lists
// are read in pages or, with an Accept header, as streams. Errors are problems by RFC 9457
// ([api.Problem]). A request that changes the ledger has its idempotency key in the header
// Idempotency-Key. Each principal has a namespace of keys. Package ledgerclient is the client for
// Go.
//
// # Access
//
// [Options.Gate] returns the caller of a request. Each route lists the roles that may use it.
// There is no default gate. [OpenTokens] returns a gate that reads a file of hashed tokens.
//
// # True values
//
// True values come with a request, or from [Options.Truth]. If a request needs values that neither
// provides, it changes nothing, and the answer lists the objects whose values it needs. The caller
// repeats the request with the same key and these values, and it is executed. So a caller sends
// only those true values that a draw needs. No log line, trace, cache or answer contains them. If
// [Options.Truth] is set, only operators may send true values. Without it, desks must send them,
// and are trusted with them.
//
// # Limits
//
// [Limits] bound what requests take: bytes, time, requests at a time, and connections. Deadlines
// measure the progress of bodies and of answers. So a caller that does not send, or does not read,
// delays no other caller. A request that panics is answered with the status 500, and the ledger
// keeps running.
package ledgerhttp
