//go:build !unix || solaris || aix

package serving

// lock locks nothing where directories cannot be locked.
func lock(string) (unlock func(), err error) { return func() {}, nil }
