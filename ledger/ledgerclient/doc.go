// Package ledgerclient calls a ledger that another process has open and serves (package
// ledgerhttp). A [Client] has the methods of [ledger.Ledger], with the same requests, results and
// errors, so that a program can be written for either:
//
//	l, err := ledgerclient.Dial(ctx, "https://ledger.example", ledgerclient.Options{Token: token})
//	sale, err := l.Sell(ctx, request)
//
// There are three differences. Progress is not reported. An estimate cannot be limited to objects
// by a function. Some errors, which are a [*api.Problem], exist only for a ledger in another
// process. After an error that leaves it unknown whether a request was executed, such as
// "unreachable", repeat the request with its key, as with [ledger.Ledger].
//
// Only those true values are sent that a draw needs. A request is first sent without any, and the
// server answers with the objects whose values it needs. [Client.Release] with a true value in the
// request is the exception.
package ledgerclient
