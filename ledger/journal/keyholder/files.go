package keyholder

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// The first bytes of files. The last one is the version.
const (
	keyMagic  = "sluice key 1"
	keptMagic = "sluice kept 1"
	markMagic = "sluice mark 1"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed returns the content of a file of a journal: a magic, the fields, and a checksum over the
// journal's name, the magic and the fields.
func sealed(journal, magic string, fields []byte) []byte {
	b := append([]byte(magic), fields...)
	return binary.BigEndian.AppendUint32(b, crc32.Update(crc32.Checksum([]byte(journal), castagnoli), castagnoli, b))
}

// unsealed checks the magic and the checksum of a file of the journal with this name, and returns a
// decoder of the fields. It returns [errs.ErrVersion] if only the last byte of the magic is another
// one, because that is the version. It returns [errs.ErrCorrupt] for any other difference.
func unsealed(name, magic string, b []byte) (*wire.Decoder, error) {
	n := len(b) - 4 // without the checksum
	if n < len(magic) || string(b[:len(magic)-1]) != magic[:len(magic)-1] {
		return nil, fmt.Errorf("%w: the file does not begin with %q", errs.ErrCorrupt, magic)
	}
	if string(b[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: the file begins with %q", errs.ErrVersion, b[:len(magic)])
	}
	fields := b[len(magic):n]
	if !bytes.Equal(sealed(name, magic, fields), b) {
		return nil, fmt.Errorf("%w: the checksum of a file that begins with %q is wrong", errs.ErrCorrupt, magic)
	}
	return &wire.Decoder{Rest: fields}, nil
}

// The fields below are used in files, and in requests and their answers ([Handler]). Each put
// function encodes them, and the take function of the same name decodes them.

// putSegment encodes a segment: term and number.
func putSegment(e *wire.Encoder, s Segment) {
	e.U64(s.Term)
	e.U64(s.Number)
}

// takeSegment decodes a segment.
func takeSegment(d *wire.Decoder) (s Segment) {
	s.Term = d.U64()
	s.Number = d.U64()
	return s
}

// putMark encodes a mark: its term, its number of events and its root.
func putMark(e *wire.Encoder, m Mark) {
	e.U64(m.Term)
	e.U64(m.Position.Events)
	e.Raw(m.Position.Root[:])
}

// takeMark decodes a mark.
func takeMark(d *wire.Decoder) (m Mark) {
	m.Term = d.U64()
	m.Position.Events = d.U64()
	d.Array(m.Position.Root[:])
	return m
}

// putKept encodes the arguments of Keep: below, and then each live segment.
func putKept(e *wire.Encoder, k kept) {
	putSegment(e, k.below)
	for _, s := range k.live {
		putSegment(e, s)
	}
}

// takeKept decodes the arguments of Keep. The live segments have no count: they extend to the end
// of the fields.
func takeKept(d *wire.Decoder) (k kept) {
	k.below = takeSegment(d)
	for len(d.Rest) > 0 {
		k.live = append(k.live, takeSegment(d))
	}
	return k
}

// encoded returns the bytes that the function put writes for some fields.
func encoded[T any](put func(*wire.Encoder, T), fields T) []byte {
	e := &wire.Encoder{}
	put(e, fields)
	return e.Buf
}

// keyFile returns the content of the key file of a segment, for the journal with this name.
func keyFile(name string, s Segment, k Key) []byte {
	return sealed(name, keyMagic, append(encoded(putSegment, s), k[:]...))
}

// parseKey returns the key in the text of a key file of the journal with this name. It returns
// [errs.ErrCorrupt] if the file is damaged, or is that of another segment, and the errors of
// [unsealed].
func parseKey(text []byte, name string, of Segment) (k Key, err error) {
	d, err := unsealed(name, keyMagic, text)
	if err != nil {
		return k, err
	}
	s := takeSegment(d)
	d.Array(k[:])
	if s != of {
		d.Fail("the key is that of segment %v, not %v", s, of)
	}
	return k, d.Done()
}

// readKept reads the file with the arguments of the last Keep for the journal with this name. If
// the file does not exist, it returns the zero kept: no key was destroyed.
func readKept(path, name string) (k kept, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, err
	}
	d, err := unsealed(name, keptMagic, text)
	if err != nil {
		return k, err
	}
	return takeKept(d), d.Done()
}

// shred overwrites a file with zeros, flushes it, and then unlinks it. If it cannot overwrite the
// file, it does not unlink it either, so that a later call tries again.
func shred(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		_, err = f.WriteAt(make([]byte, info.Size()), 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Remove(path)
}

const (
	markSize  = len(markMagic) + 8 + 8 + 32 + 4
	markSlots = 2
	markSpace = 512 // bytes from slot to slot, so that a power failure damages at most one of them
	markFlush = time.Second
)

// markFile is a file with the last two marks in two slots.
type markFile struct {
	name    string // of the journal
	path    string
	file    *os.File
	opened  fs.FileInfo // identifies the file
	last    Mark
	slot    int64     // the slot of last; -1 for none
	flushed time.Time // the time of the last flush
}

// openMark opens the file of the marks of the journal with this name, and reads the last mark. It
// creates the file if it does not exist.
func openMark(path, name string) (m *markFile, err error) {
	m = &markFile{name: name, path: path, slot: -1}
	_, err = os.Stat(path)
	made := errors.Is(err, fs.ErrNotExist)
	if m.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if made {
		err = ledgerfile.TrySyncDir(filepath.Dir(path))
	}
	if err == nil {
		m.opened, err = m.file.Stat()
	}
	if err == nil {
		err = m.read()
	}
	if err != nil {
		return nil, errors.Join(err, m.file.Close())
	}
	return m, nil
}

// read sets m.last and m.slot to the higher of the marks in the two slots. It leaves them unchanged
// if none was written yet. One slot may be damaged by a power failure, and is then ignored. If both
// are damaged, or if one has another version, read returns an error.
func (m *markFile) read() error {
	var torn error // of a damaged slot
	for slot := range int64(markSlots) {
		b := make([]byte, markSize) // the file may end before the second slot; then b stays zero
		n, err := m.file.ReadAt(b, slot*markSpace)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if string(b[:n]) == string(make([]byte, n)) {
			continue // never written
		}
		found, err := parseMark(b, m.name)
		switch {
		case errors.Is(err, errs.ErrVersion):
			return err
		case err != nil && torn != nil:
			return err
		case err != nil:
			torn = err
		case m.slot < 0 || found.Compare(m.last) > 0:
			m.last, m.slot = found, slot
		}
	}
	return nil
}

// parseMark decodes the mark in the text of a slot, for the journal with this name. It returns the
// errors of [unsealed].
func parseMark(text []byte, name string) (m Mark, err error) {
	d, err := unsealed(name, markMagic, text)
	if err != nil {
		return m, err
	}
	return takeMark(d), d.Done()
}

// record writes a mark over the older one of the two, if it is higher than the last. Otherwise it
// writes nothing. It flushes the file at most once every [markFlush], so that a crash of the
// machine can undo the marks of about that time ([Holder.Mark]). It returns [errs.ErrReplaced] if
// the file was replaced ([markFile.check]).
func (m *markFile) record(mark Mark) error {
	if mark.Compare(m.last) <= 0 {
		return m.check()
	}
	slot := (m.slot + 1) % markSlots
	if _, err := m.file.WriteAt(sealed(m.name, markMagic, encoded(putMark, mark)), slot*markSpace); err != nil {
		return err
	}
	if err := m.check(); err != nil {
		return err
	}
	m.last, m.slot = mark, slot
	if now := time.Now(); now.Sub(m.flushed) >= markFlush {
		if err := m.file.Sync(); err != nil {
			return err
		}
		m.flushed = now
	}
	return nil
}

// check returns [errs.ErrReplaced] unless the path still leads to the open file. A mark that is
// written to a file without that path is not found when the directory is opened again.
func (m *markFile) check() error {
	now, err := os.Stat(m.path)
	if err != nil {
		return fmt.Errorf("%w: %w", errs.ErrReplaced, err)
	}
	if !os.SameFile(now, m.opened) {
		return fmt.Errorf("%w: %s", errs.ErrReplaced, m.path)
	}
	return nil
}

// close flushes and closes the file.
func (m *markFile) close() error { return errors.Join(m.file.Sync(), m.file.Close()) }
