package keyholder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sluicedp/sluice/ledger/journal"
)

// The beginnings of files.
const (
	keyMagic  = "sluice key 1"
	keptMagic = "sluice kept 1"
	markMagic = "sluice mark 1"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed puts a checksum behind bytes.
func sealed(name string, b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Update(crc32.Checksum([]byte(name), castagnoli), castagnoli, b))
}

// opened takes magic and checksum off the bytes of a file.
func opened(name, magic string, b []byte) ([]byte, error) {
	n := len(b) - 4
	if n < len(magic) || string(b[:len(magic)-1]) != magic[:len(magic)-1] {
		return nil, fmt.Errorf("%w: no file that begins with %q", journal.ErrCorrupt, magic)
	}
	if string(b[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: a file that begins with %q", journal.ErrVersion, b[:len(magic)])
	}
	if string(sealed(name, b[:n:n])) != string(b) {
		return nil, fmt.Errorf("%w: a file that begins with %q does not have its checksum", journal.ErrCorrupt, magic)
	}
	return b[len(magic):n], nil
}

func appendSegment(b []byte, s Segment) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, s.Term), s.Number)
}

func cutSegment(b []byte) (Segment, []byte) {
	return Segment{Term: binary.BigEndian.Uint64(b), Number: binary.BigEndian.Uint64(b[8:])}, b[16:]
}

func keyFile(name string, s Segment, k Key) []byte {
	return sealed(name, append(appendSegment([]byte(keyMagic), s), k[:]...))
}

func parseKey(text []byte, name string, of Segment) (k Key, err error) {
	b, err := opened(name, keyMagic, text)
	if err != nil {
		return k, err
	}
	if len(b) != 16+len(k) {
		return k, fmt.Errorf("%w: a key of %d bytes", journal.ErrCorrupt, len(b))
	}
	s, b := cutSegment(b)
	if s != of {
		return k, fmt.Errorf("%w: the key of segment %v in the place of that of %v", journal.ErrCorrupt, s, of)
	}
	copy(k[:], b)
	return k, nil
}

func keptFile(name string, k kept) []byte {
	b := appendSegment([]byte(keptMagic), k.below)
	for _, s := range k.live {
		b = appendSegment(b, s)
	}
	return sealed(name, b)
}

func readKept(path, name string) (k kept, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, err
	}
	b, err := opened(name, keptMagic, text)
	if err != nil {
		return k, err
	}
	if len(b) == 0 || len(b)%16 != 0 {
		return k, fmt.Errorf("%w: %d bytes of what is kept", journal.ErrCorrupt, len(b))
	}
	for k.below, b = cutSegment(b); len(b) > 0; {
		var s Segment
		s, b = cutSegment(b)
		k.live = append(k.live, s)
	}
	return k, nil
}

// shred overwrites a file with zeros, flushes and unlinks it.
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

// syncFolder makes the names in a directory durable.
func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrInvalid) {
		err = nil // a system that does not flush directories
	}
	return errors.Join(err, dir.Close())
}

const (
	markSize  = len(markMagic) + 8 + 8 + 32 + 4
	markSlots = 2
	markSpace = 512 // from slot to slot: what a power cut tears is one of them
	markFlush = time.Second
)

// markFile is a file with the last two marks.
type markFile struct {
	name    string // of the journal
	path    string
	file    *os.File
	opened  fs.FileInfo // of the file
	last    Mark
	slot    int64     // that of last
	flushed time.Time // when it was flushed
}

// openMark opens the file of the marks, and makes it if there is none.
func openMark(path, name string) (m *markFile, err error) {
	m = &markFile{name: name, path: path, slot: -1}
	_, err = os.Stat(path)
	made := errors.Is(err, fs.ErrNotExist)
	if m.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if made {
		err = syncFolder(filepath.Dir(path))
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

// read finds the last mark. One of the two may be torn.
func (m *markFile) read() error {
	var torn error
	for slot := range int64(markSlots) {
		b := make([]byte, markSize)
		n, err := m.file.ReadAt(b, slot*markSpace)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if string(b[:n]) == string(make([]byte, n)) {
			continue // never written
		}
		found, err := parseMark(b, m.name)
		switch {
		case errors.Is(err, journal.ErrVersion):
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

func parseMark(text []byte, name string) (m Mark, err error) {
	b, err := opened(name, markMagic, text)
	if err != nil {
		return m, err
	}
	m.Term, m.Position.Events = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	copy(m.Position.Root[:], b[16:])
	return m, nil
}

// note writes a mark over the older one of the two.
func (m *markFile) note(mark Mark) error {
	if mark.Compare(m.last) <= 0 {
		return m.check()
	}
	b := binary.BigEndian.AppendUint64([]byte(markMagic), mark.Term)
	b = binary.BigEndian.AppendUint64(b, mark.Position.Events)
	b = append(b, mark.Position.Root[:]...)
	slot := (m.slot + 1) % markSlots
	if _, err := m.file.WriteAt(sealed(m.name, b), slot*markSpace); err != nil {
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

// check returns an error wrapping [journal.ErrReplaced] unless the path leads to the file: a mark
// in another would not be found.
func (m *markFile) check() error {
	now, err := os.Stat(m.path)
	if err != nil {
		return fmt.Errorf("%w: %w", journal.ErrReplaced, err)
	}
	if !os.SameFile(now, m.opened) {
		return fmt.Errorf("%w: %s", journal.ErrReplaced, m.path)
	}
	return nil
}

func (m *markFile) close() error { return errors.Join(m.file.Sync(), m.file.Close()) }
