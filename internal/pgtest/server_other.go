//go:build !unix

// Package pgtest starts PostgreSQL servers for tests. There is nothing of it on this system.
package pgtest
