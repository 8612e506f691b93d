// Package access has what a server of a ledger, the command and clients must agree on: the roles of
// callers, files of tokens, the addresses of sockets, and how a server asks a URL for true values.
package access
