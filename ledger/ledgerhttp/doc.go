// Package ledgerhttp serves a ledger to other programs: an [http.Handler] that a host mounts beside
// its own, or the whole of a server.
//
//	handler, err := ledgerhttp.New(l, ledgerhttp.Options{Gate: tokens.Admit})
//	err = handler.Server().Serve(handler.Listener(listener))
//
// What can be asked is what package ledger has: a route for each call, with its JSON. The document
// of the API, at /openapi.json, is openapi.json in this directory. A test makes it from the table
// of routes and from the types that are read and written. No token is needed to read it. Lists are
// read in parts or, with an Accept header, as streams. Errors are problems by RFC 9457
// ([api.Problem]). Requests that change something take their idempotency key in the header
// Idempotency-Key. Each principal has keys of its own. Package ledgerclient is the other end, for
// Go.
//
// # Who may do what
//
// [Options.Gate] returns the caller of a request, and each route has the roles that may use it.
// There is no gate unless one is chosen. [OpenTokens] returns one that reads a file of hashed tokens.
//
// # True values
//
// They come with a request, or from [Options.Truth]. A request that needs some that are neither
// here nor there changes nothing, and is answered with whose they are; repeated with its key, and
// their values, it is carried out. So nobody's value is sent that no draw needs. They are in no log
// line, trace, cache or answer. Where there is [Options.Truth], only operators may bring some;
// without it, desks must, and are trusted with them.
//
// # What it costs
//
// [Limits] bound what requests take, such as bytes, time and places, and connections.
// Deadlines measure progress, of bodies and of answers, so that a caller that does not send, or
// does not read, holds up no other. A request that panics is answered with the status 500, and the
// ledger lives.
package ledgerhttp
