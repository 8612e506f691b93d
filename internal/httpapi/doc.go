// Package httpapi has what servers of a ledger, clients and the command share: the roles of
// callers, files of tokens, addresses of sockets, the request for true values to a URL, and the
// JSON of requests and results. The JSON types are those of package api, with additional fields
// instead of functions.
package httpapi
