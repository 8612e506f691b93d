//go:build unix && !linux

package ledgerfile

// Identity returns a text that distinguishes a file or a directory from its copies. It stays the
// same until the file is removed, even if the file is renamed. A copy that is written over the file
// has the identity of the file.
func Identity(path string) (string, error) { return statIdentity(path) }
