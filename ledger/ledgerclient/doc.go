// Package ledgerclient calls a ledger that another process has open and serves (package
// ledgerhttp). A [Client] has the methods of [ledger.Ledger], with the same requests, results and
// errors, so that a program can be written for either:
//
//	l, err := ledgerclient.Dial(ctx, "https://ledger.example.com", ledgerclient.Options{Token: token})
//	sale, err := l.Sell(ctx, request)
//
// What differs: progress is not told; an estimate cannot be limited to objects by a function; and
// there are errors that only a ledger elsewhere has, which are a [*api.Problem]. After an error
// that leaves open whether a request was carried out, such as "unreachable", repeat it with
// its key, as after any other of the kind.
//
// True values are sent only of those whom a draw needs: a request is sent without any at first, and
// the server answers with whose it needs.
package ledgerclient
