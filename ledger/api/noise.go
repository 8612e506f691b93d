package api

// Questions with a mechanism of their own ([Mechanism]) and answers about panels ([Ledger.Answer])
// are drawn from chance all the same.
type NoiseKeys struct {
	// Current names the key of chains that begin from now on, 1 to 256 bytes. If it is empty, they
	// have none.
	Current string
	// Key returns the key of a name, [rrchain.NoiseKeySize] bytes drawn at random, or nil if the
	// host does not have it any more: then chains that began with it only resell what they have
	// released ([NoNoiseKey]). Open calls it for each name that the ledger has seen, and for the
	// current one. The ledger keeps the keys in memory, and in the file only what recognizes them:
	// Open refuses another key under a known name, and a known key under another ([ErrNoiseKey]).
	// If it is nil, the ledger has no keys: chains that began with one cannot be drawn from, and if
	// there are keys that the ledger has seen, nobody can be enrolled ([ErrNoiseKey]), so that no
	// chain begins without a key by mistake.
	Key func(name string) ([]byte, error)
}
