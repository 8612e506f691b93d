//go:build unix && !linux

package ledgerfile

// Identity returns what tells a file or a directory from its copies. It is the same, under whatever
// name, until the file is removed. A copy that is written over the file has the identity of the
// file.
func Identity(path string) (string, error) { return statIdentity(path) }
