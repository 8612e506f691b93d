//go:build amd64 || arm64

package bolt

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"sort"
	"syscall"
)

// mostPrefetched is how many keys are looked for at a time. What is behind them is read when it is needed.
const mostPrefetched = 1 << 12

// Prefetch implements [kv.Prefetcher]. It asks the operating system for all pages of one level of the tree at once, then
// for those of the next: so there are as many waits as levels, not as pages. bbolt, which reads through mapped memory, would
// wait for each page by itself. Pages are read with as little trust as by [Store.Inspect]; where one is not as it should
// be, it ends, and whoever reads the record will meet that.
func (s *snapshot) Prefetch(bucket string, keys [][]byte) {
	t, err := s.find(bucket)
	if t == nil || err != nil || t.root == 0 { // Get will say it; a small bucket has no page of its own
		return
	}
	p := prefetch{file: s.in.file, page: make([]byte, s.pageSize)}
	level := []sought{{t.root, keys[:min(len(keys), mostPrefetched)]}}
	for depth := 0; len(level) > 0 && depth < deepest; depth++ {
		level = p.descend(level)
	}
}

type prefetch struct {
	file *os.File
	page []byte // the one looked at
}

// sought is a page, with the keys that it leads to.
type sought struct {
	page uint64
	keys [][]byte
}

// descend asks for the pages of a level, waits for those that lead on, and returns the next level.
func (p prefetch) descend(level []sought) (next []sought) {
	if len(level) > 1 { // else there is nothing to be read meanwhile
		for _, one := range level {
			_ = p.ask(one.page) // if that fails, it is read later
		}
	}
	for _, one := range level {
		if !p.load(one.page) {
			return nil
		}
		next = p.branch(one.keys, next)
	}
	return next
}

// ask has a page read in the background. It returns 0, or why that cannot be.
func (p prefetch) ask(page uint64) syscall.Errno {
	const willNeed = 3 // POSIX_FADV_WILLNEED
	size := uintptr(len(p.page))
	_, _, failed := syscall.Syscall6(syscall.SYS_FADVISE64, p.file.Fd(), uintptr(page)*size, size, willNeed, 0, 0)
	return failed
}

// load reads a page, and tells whether it leads on. A damaged number leads nowhere.
func (p prefetch) load(page uint64) bool {
	at := int64(page) * int64(len(p.page))
	if _, err := p.file.ReadAt(p.page, at); err != nil {
		return false
	}
	return binary.NativeEndian.Uint64(p.page) == page && binary.NativeEndian.Uint16(p.page[8:]) == branchPage
}

// branch adds the pages under which a branch page has some keys, each once.
func (p prefetch) branch(keys [][]byte, found []sought) []sought {
	count := int(binary.NativeEndian.Uint16(p.page[10:]))
	if count == 0 || count*elementSize > len(p.page)-headerSize {
		return found
	}
	at := func(n int) element {
		return parseElement(p.page, branchPage, uint64(headerSize+n*elementSize), uint64(count-n)*elementSize)
	}
	for len(keys) > 0 {
		behind := 1 + sort.Search(count-1, func(n int) bool { return bytes.Compare(at(n+1).key, keys[0]) > 0 })
		n := len(keys)
		if behind < count {
			n, _ = slices.BinarySearchFunc(keys, at(behind).key, bytes.Compare) // not 0: that key is above keys[0]
		}
		found = append(found, sought{at(behind - 1).page, keys[:n]})
		keys = keys[n:]
	}
	return found
}
