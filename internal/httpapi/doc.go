// Package httpapi has what a server of a ledger, the command and clients must agree on: the roles of
// callers, files of tokens, the addresses of sockets, how a server asks a URL for true values, and what
// requests and results are in JSON. These are those of package api, with what is sent in place of
// functions.
package httpapi
