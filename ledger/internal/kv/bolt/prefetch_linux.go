//go:build amd64 || arm64

package bolt

import (
	"bytes"
	"slices"
	"syscall"
)

// mostPrefetched is how many keys are looked for at a time. What is behind them is read when it is
// needed.
const mostPrefetched = 1 << 12

// sought is a page, with the keys that it leads to.
type sought struct {
	page uint64
	keys [][]byte
}

// Prefetch implements [kv.Prefetcher]. It asks the operating system for all pages of one level of
// the tree at once, then for those of the next: so there are as many waits as levels, not as pages.
// Where a page is not as it should be, it ends, and whoever reads the record will meet that.
func (s *snapshot) Prefetch(bucket string, keys [][]byte) {
	t, err := s.find(bucket)
	if t == nil || err != nil || t.root == 0 { // Get will say it; a small bucket has no page of its own
		return
	}
	level := []sought{{t.root, keys[:min(len(keys), mostPrefetched)]}}
	for depth := 0; len(level) > 0 && depth < deepest; depth++ {
		level = s.descend(level)
	}
}

// descend asks for the pages of a level, waits for those that lead on, and returns the next level.
func (s *snapshot) descend(level []sought) (next []sought) {
	if len(level) > 1 { // else there is nothing to be read meanwhile
		for _, one := range level {
			_ = s.ask(one.page) // if that fails, it is read later
		}
	}
	space := make([]byte, s.pageSize)
	for _, one := range level {
		// This waits no longer than a look at the mapped page would, and the system reads what is
		// near, too.
		_, _ = s.in.file.ReadAt(space, int64(one.page*s.pageSize))
		p, err := s.page(one.page)
		if err != nil || p.leaf() {
			return nil
		}
		if next, err = p.spread(one.keys, next); err != nil {
			return nil
		}
	}
	return next
}

// ask has a page read in the background. It returns 0, or why that cannot be.
func (s *snapshot) ask(page uint64) syscall.Errno {
	const willNeed = 3 // POSIX_FADV_WILLNEED
	at, size := uintptr(page*s.pageSize), uintptr(s.pageSize)
	_, _, failed := syscall.Syscall6(syscall.SYS_FADVISE64, s.in.file.Fd(), at, size, willNeed, 0, 0)
	return failed
}

// spread adds the pages under which a branch page has some keys, each once.
func (p page) spread(keys [][]byte, found []sought) ([]sought, error) {
	for len(keys) > 0 {
		at, err := p.under(keys[0])
		if err != nil {
			return nil, err
		}
		n := len(keys)
		if at+1 < p.count() {
			behind, _ := p.key(at + 1)
			n, _ = slices.BinarySearchFunc(keys, behind, bytes.Compare)
			n = max(n, 1) // a damaged page may have no such key
		}
		found = append(found, sought{p.leadsTo(at), keys[:n]})
		keys = keys[n:]
	}
	return found, nil
}
