//go:build unix && !linux

package bolt

func identity(path string) (string, error) { return statIdentity(path) }
