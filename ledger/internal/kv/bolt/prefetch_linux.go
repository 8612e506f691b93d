//go:build amd64 || arm64

package bolt

import (
	"bytes"
	"slices"
	"syscall"
)

// maxPrefetched is the maximum number of keys per call. Pages for further keys are read when they
// are needed.
const maxPrefetched = 1 << 12

// pageKeys is a page with the keys that are on it or below it.
type pageKeys struct {
	page uint64
	keys [][]byte
}

// Prefetch implements [kv.Prefetcher]. It asks the operating system for all pages of one level of
// the tree at once, then for those of the next level. So it waits once for each level, not once for
// each page. It ends at a damaged page, which the reader of the record will find.
func (s *snapshot) Prefetch(bucket string, keys [][]byte) {
	t, err := s.find(bucket)
	if t == nil || err != nil || t.root == 0 { // Get returns the error; a small bucket has no pages
		return
	}
	level := []pageKeys{{t.root, keys[:min(len(keys), maxPrefetched)]}}
	for depth := 0; len(level) > 0 && depth < maxDepth; depth++ {
		level = s.descend(level)
	}
}

// descend requests the pages of a level, and waits for each. It returns the pages of the next level
// that lead to the keys, or nil if this level has leaves or a damaged page.
func (s *snapshot) descend(level []pageKeys) (next []pageKeys) {
	if len(level) > 1 { // with only one page, no other read could run concurrently
		for _, one := range level {
			_ = s.requestPage(one.page) // if the request fails, the page is read later
		}
	}
	space := make([]byte, s.pageSize)
	for _, one := range level {
		// This read waits no longer than an access to the mapped page. The system also reads
		// neighboring pages.
		_, _ = s.in.file.ReadAt(space, int64(one.page*s.pageSize))
		p, err := s.page(one.page)
		if err != nil || p.isLeaf() {
			return nil
		}
		if next, err = p.childrenOf(one.keys, next); err != nil {
			return nil
		}
	}
	return next
}

// requestPage requests that the system reads a page in the background. It returns 0, or an error
// number.
func (s *snapshot) requestPage(page uint64) syscall.Errno {
	const willNeed = 3 // POSIX_FADV_WILLNEED
	at, size := uintptr(page*s.pageSize), uintptr(s.pageSize)
	_, _, failed := syscall.Syscall6(syscall.SYS_FADVISE64, s.in.file.Fd(), at, size, willNeed, 0, 0)
	return failed
}

// childrenOf appends to found the pages below a branch page that lead to keys, each page once, with
// its keys. keys must rise. It returns an error if the page is damaged.
func (p page) childrenOf(keys [][]byte, found []pageKeys) ([]pageKeys, error) {
	for len(keys) > 0 {
		at, err := p.childIndex(keys[0])
		if err != nil {
			return nil, err
		}
		n := len(keys) // number of keys that lead to this child
		if at+1 < p.count() {
			nextKey, _ := p.key(at + 1)
			n, _ = slices.BinarySearchFunc(keys, nextKey, bytes.Compare)
			n = max(n, 1) // on a damaged page no key may be below that one
		}
		found = append(found, pageKeys{p.child(at), keys[:n]})
		keys = keys[n:]
	}
	return found, nil
}
