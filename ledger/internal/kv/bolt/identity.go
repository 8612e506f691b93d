package bolt

// Identity returns what tells a file or a directory from its copies: it is the same as long as this one is not removed, under whatever
// name. "" says that nothing does. A copy that is written over the file has the identity of the file.
func Identity(path string) (string, error) { return identity(path) }
