package state

import "golang.org/x/mod/sumdb/tlog"

// Position is the end of a log: so many events, and the root of their tree. Salts are random, so no two logs that went
// their own ways are ever at the same one.
type Position struct {
	Events uint64
	Root   tlog.Hash
}
