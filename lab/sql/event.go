package main

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/privacy"
)

// The log of a book is that of Sluice: events with the same bytes, which the package documentation
// of ledger specifies, a commitment to the hidden part of an event, and the hashes of the Merkle
// tree that the event completes. A test compares the sizes.

// event is a row of the table events.
type event struct {
	number   uint64
	previous uint64 // the previous event about the same object, or 0
	public   []byte
	hidden   []byte // begins with a salt
	hashes   []byte // of the subtrees that the event completes, from its leaf up
}

// The kinds of events, and the methods of draws, by their numbers in Sluice's log.
const (
	kindEnrolled = 5
	kindReleased = 6
	kindSettled  = 7

	methodRaise   = 1
	methodDegrade = 2
	methodInsert  = 3
)

// theQuestion is the number of the only question.
const theQuestion = 1

// header returns the beginning of the public bytes of an event.
func header(kind byte, at time.Time) []byte {
	const version = 4
	b := append(make([]byte, 0, 96), version, kind)
	return binary.BigEndian.AppendUint64(b, uint64(at.UnixNano()))
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func appendEpsilon(b []byte, e privacy.Epsilon) []byte {
	return binary.AppendUvarint(b, uint64(e.Nano()))
}

func appendFlag(b []byte, flag bool) []byte {
	if flag {
		return append(b, 1)
	}
	return append(b, 0)
}

// enrolledBytes appends the hidden bytes of an enrolment's event to its salt.
func enrolledBytes(salted []byte, o *object) []byte {
	b := appendText(salted, o.name)
	b = binary.BigEndian.AppendUint32(b, theQuestion)
	b = binary.BigEndian.AppendUint32(b, 1) // policy: the ceiling
	b = binary.BigEndian.AppendUint32(b, 0) // no noise key
	return appendEpsilon(b, o.cap)
}

// releasedBytes appends the hidden bytes of a response's event to its salt.
func releasedBytes(salted []byte, name string, l level, method byte) []byte {
	b := appendText(salted, name)
	b = binary.BigEndian.AppendUint32(b, theQuestion)
	b = appendEpsilon(b, l.Epsilon)
	return append(binary.AppendUvarint(b, uint64(l.Response)), method)
}

// identity identifies the content of a request.
type identity struct {
	digest [sha256.Size]byte
	marks  []byte // a checksum of a byte for each field, which shows the field that differs
	names  []byte // digest and checksum of the objects that the request names, if there are several
}

// identify returns the identity of a request with the given fields.
func identify(fields ...[]byte) identity {
	id, castagnoli := identity{}, crc32.MakeTable(crc32.Castagnoli)
	all := make([]byte, 0, 256)
	for _, field := range fields {
		all = append(all, field...)
		id.marks = append(id.marks, byte(crc32.Checksum(field, castagnoli)))
	}
	id.digest = sha256.Sum256(all)
	return id
}

func (id identity) append(b []byte) []byte {
	b = append(append(b, id.digest[:]...), byte(len(id.marks)))
	return append(b, id.marks...)
}

// appendIdentity appends the identity of a request, and for which question and ε it returned
// responses that were recorded before, if any.
func (s settlement) appendIdentity(b []byte) []byte {
	if b = s.id.append(b); s.counts[1] == 0 {
		return append(b, 0)
	}
	return appendEpsilon(append(b, theQuestion), s.epsilon)
}

// settlement is the content of an event that settles a request, or a part of one.
type settlement struct {
	key            string
	id             identity
	alone          string // the only object that the request names, or ""
	cursor         string // the last object of a part that is not the last
	first, through uint64
	final          bool
	epsilon        privacy.Epsilon // of the responses that the request wants
	counts         [3]uint64       // numbers of responses drawn, recorded before, and derived; or of objects enrolled
	spent          uint64          // cost for all objects together, in nano-nats
	dealt          uint64          // number of objects done, if the request names objects and this is not its last part
}

func (s settlement) publicBytes(public []byte) []byte {
	b := appendText(public, s.key)
	b = appendFlag(b, s.alone != "")
	if s.alone == "" {
		b = s.appendIdentity(appendFlag(b, s.id.names != nil))
	}
	b = binary.AppendUvarint(b, s.first)
	b = binary.AppendUvarint(b, s.through)
	b = appendFlag(b, s.final)
	for _, n := range s.counts {
		b = binary.AppendUvarint(b, n)
	}
	b = binary.AppendUvarint(b, s.spent)
	b = append(b, 0, 0, 0, 0) // no refusals, sweeps, answer or sale
	return binary.AppendUvarint(b, s.dealt)
}

func (s settlement) hiddenBytes(salted []byte) []byte {
	if s.alone == "" {
		return append(appendText(salted, s.cursor), s.id.names...)
	}
	return s.appendIdentity(appendText(salted, s.alone))
}

// tree is the frontier of the log's Merkle tree (RFC 6962): for each bit i of the number of leaves,
// the hash of the complete subtree with 2^i leaves. An append needs no other hashes.
type tree struct {
	size     uint64
	frontier [64]tlog.Hash
}

// add appends an event, and sets its hashes.
func (t *tree) add(e *event) {
	commitment := sha256.Sum256(e.hidden)
	leaf := append(make([]byte, 0, 128), e.public...)
	hash := tlog.RecordHash(append(leaf, commitment[:]...))
	e.hashes = append(make([]byte, 0, tlog.HashSize*completes(t.size)), hash[:]...)
	at := 0
	for ; t.size>>at&1 == 1; at++ {
		hash = tlog.NodeHash(t.frontier[at], hash)
		e.hashes = append(e.hashes, hash[:]...)
	}
	t.frontier[at] = hash
	t.size++
}

// completes returns the number of hashes that the leaf after size others completes.
func completes(size uint64) int { return 1 + bits.TrailingZeros64(^size) }

// loadTree reads the frontier of the tree from the events that completed it.
func loadTree(size uint64, hashes func(event uint64) ([]byte, error)) (tree, error) {
	t := tree{size: size}
	for at := range t.frontier {
		if size>>at&1 == 0 {
			continue
		}
		last := size >> at << at // the event with the subtree's last leaf
		stored, err := hashes(last)
		if err != nil {
			return t, fmt.Errorf("event %d: %w", last, err)
		}
		if len(stored) < tlog.HashSize*(at+1) {
			return t, fmt.Errorf("event %d has %d bytes of hashes", last, len(stored))
		}
		copy(t.frontier[at][:], stored[tlog.HashSize*at:])
	}
	return t, nil
}

// salts generates the random bytes at the beginning of the hidden parts of events.
type salts struct{ from io.Reader }

func newSalts() salts { return salts{bufio.NewReader(rand.Reader)} }

// next returns a salt, with capacity for the bytes to append.
func (s salts) next() ([]byte, error) {
	const size = 16
	b := make([]byte, size, 96)
	_, err := io.ReadFull(s.from, b)
	return b, err
}
