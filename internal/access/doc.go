// Package access has what a server of a ledger, the command and clients must agree on: the roles of
// callers, files of tokens, and the addresses of sockets.
package access
