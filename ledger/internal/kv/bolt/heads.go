package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// A file that is overwritten in place (cp backup.db live.db) keeps its inode and its lock, and bbolt would go on with what it
// knows of the former one: where pages are free, above all. So the meta pages, one of which changes with each commit, are
// compared with what this process wrote there, or found when it opened the file.

// headSize is how much of a meta page is compared: its head, its fields and their checksum.
const headSize = headerSize + metaSize + 8

// heads are the beginnings of both meta pages.
type heads [metaPages][headSize]byte

// known is what a file should be like.
type known struct {
	heads
	length  int64 // at least, in bytes
	writing int   // the head that a commit may be changing, or whose commit failed; none if below 0
}

// are tells whether a file with such heads is the one that is known.
func (k *known) are(now *heads) bool {
	for id := range now {
		if id != k.writing && now[id] != k.heads[id] {
			return false
		}
	}
	return true
}

// transaction returns the number of the transaction that wrote a head, if it is whole.
func (h *heads) transaction(id int) (number uint64, whole bool) {
	fields := h[id][headerSize : headerSize+metaSize]
	return binary.NativeEndian.Uint64(fields[48:]), metaSum(fields) == binary.NativeEndian.Uint64(h[id][headerSize+metaSize:])
}

func (d *database) readHeads() (now heads, err error) {
	for id := range now {
		if _, err := d.file.ReadAt(now[id][:], int64(id)*int64(d.pageSize)); err != nil && !errors.Is(err, io.EOF) {
			return now, err
		}
	}
	return now, nil
}

// length returns how many bytes a file has at least that has such heads.
func (h *heads) length() int64 {
	newest := 0
	first, whole := h.transaction(0)
	if second, both := h.transaction(1); !whole || both && second > first {
		newest = 1
	}
	fields := h[newest][headerSize:]
	return int64(binary.NativeEndian.Uint32(fields[8:])) * int64(binary.NativeEndian.Uint64(fields[40:]))
}

// learn remembers the heads of a file that was just opened and is locked.
func (d *database) learn() error {
	d.pageSize = d.db.Info().PageSize
	now, err := d.readHeads()
	if err != nil {
		return err
	}
	d.known.Store(&known{now, now.length(), -1})
	return nil
}

// writes says that the commit of a transaction begins.
func (d *database) writes(transaction uint64) {
	k := *d.known.Load()
	k.writing = int(transaction % metaPages)
	d.known.Store(&k)
}

// wrote learns what that commit has written.
func (d *database) wrote(transaction uint64) error {
	before := d.known.Load()
	now, err := d.readHeads()
	if err != nil {
		return err
	}
	if number, whole := now.transaction(before.writing); !whole || number != transaction || !before.are(&now) {
		return d.overwrite()
	}
	d.known.Store(&known{now, now.length(), -1})
	return nil
}

// overwrite notes that somebody has written to the file. Nothing more is done with it.
func (d *database) overwrite() error {
	d.overwritten.Store(true)
	return errOverwritten()
}

func errOverwritten() error {
	return fmt.Errorf("%w: it is not what this process wrote or found there", kv.ErrOverwritten)
}

// checkKnown refuses a file with other heads than it should have.
func (d *database) checkKnown(read func() (heads, error)) error {
	for {
		k := d.known.Load()
		now, err := read()
		if err != nil || k.are(&now) {
			return err
		}
		if d.known.Load() == k { // else a commit has come in between
			return d.overwrite()
		}
	}
}

// checkFile looks at the file by other means than mapped memory, which ends where the file does.
func (d *database) checkFile() error {
	info, err := d.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < d.known.Load().length {
		return d.overwrite()
	}
	return d.checkKnown(d.readHeads)
}

// checkMapped looks at the file by the memory that a transaction has mapped.
func (t *transaction) checkMapped() error {
	return t.in.checkKnown(func() (now heads, _ error) {
		for id := range now {
			copy(now[id][:], t.mapped[id*t.in.pageSize:])
		}
		return now, nil
	})
}

// blame replaces the error of somebody who met damage in a file that was overwritten meanwhile.
func (d *database) blame(err *error) {
	uncertain := errors.Is(*err, kv.ErrUncertain)
	if !uncertain && !errors.Is(*err, kv.ErrCorrupt) || !errors.Is(d.checkFile(), kv.ErrOverwritten) {
		return
	}
	if *err = errOverwritten(); uncertain {
		*err = fmt.Errorf("%w: %w", kv.ErrUncertain, *err)
	}
}
