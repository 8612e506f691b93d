// Package journalfile stores a journal in a directory of segment files. A ledger uses this journal
// unless its options name another.
//
// # The directory
//
//	00000007.segment   groups, from the position in its header on; numbers rise
//	00000008.new       an unfinished segment: never read
//	00000006.gone      a segment that is being destroyed: never read
//
// The directory itself is created under the name DIR.new, and destroyed under the name DIR.gone.
// [Sweep] removes what a crash left of either. Only the owner has access to the files.
//
// # Segments
//
// Numbers are big-endian. A segment begins with a header:
//
//	magic(16) ledger(16) journal(16) number(8) term(8) events(8) root(32) zero(4) crc(4)
//
// The magic is "sluice journal 2", where 2 is the version. events and root are the position at
// which the segment begins. crc is the CRC-32C of all bytes before it. Frames follow, each at a
// multiple of 8 bytes, padded with 1 to 8 bytes 0xff:
//
//	length(4) kind(4) content crc(4) frame crc(4) content filler
//
// length is the length of the content, from 1 to 1 MiB. kind has two bits: 1 if a group begins with
// this frame, 2 if a group ends with it. The content crc is the CRC-32C of the content. The frame
// crc continues the header's crc, over the frame's offset in the file (8 bytes) and the twelve
// bytes before it. A frame is therefore valid at one place of one segment only. The contents of a
// group's frames, concatenated, are
//
//	term(8) before: events(8) root(32) after: events(8) root(32)
//	number of records: uvarint, and for each: length: uvarint, bytes
//
// After the frames, the file is filled with zeros in advance. An append then changes no metadata
// and needs one fdatasync.
//
// # Reading
//
// The groups of a segment count up to the position where the next segment begins. They must lead to
// that position, number and root, which shows that no group is missing between. The last segment
// ends where no whole group follows. If a frame that begins a group is found anywhere after that,
// the group before it was acknowledged and is damaged: ErrCorrupt. Otherwise the rest is the last
// group. Either it is torn, and is dropped. Or it is damaged, which is ErrCorrupt, because it may
// have been acknowledged.
//
// A loss of power can leave any of the 512-byte sectors of a write, each as a whole. The other
// sectors keep what was there before: zeros, or the end of the file. A failed write leaves its
// beginning. So the group is torn only if one of these holds for its first frame that is not whole:
//
//   - the file ends; or
//   - the part of the frame within one sector is all zero: of the head, if that is not whole, and
//     else of the frame; or
//   - the last byte is zero, which the filler never is; or, if the head is not whole, all bytes
//     after it are zero.
//
// A flipped bit in a group that was fully written makes none of these true, unless a record has 512
// zeros in one sector. Damage looks like a torn write if a sector of the last group reads as zeros,
// or the file was truncated within it. A disk that writes less than 512 bytes at once may leave a
// torn group that counts as damaged.
//
// A segment gets its final name when the file and its header are durable. A bad header is therefore
// damage, never a torn write. Nothing is appended to a segment that was read: Claim begins a new
// one, and copies the last group into it. The copy is needed because a flush of that group may have
// failed, although its bytes can still be read.
//
// # Changes by others
//
// When a group is durable, and before Append returns, the handle compares the journal with what
// this process left. The path must lead to the same directory. Each segment in it must be the same
// file, with as many links, and of the same length. The last frame must be where it was written.
// Each segment before the last must have the same modification time, or else the same groups.
// Claim, Trim, Remove and Close compare the journal, too. Before a group is written, only the last
// segment is compared. Any difference is ErrReplaced.
//
// A change after the last comparison is found by the next one. If the process ends before that, the
// change is not found: the journal is then what is at its path. A change in place that keeps the
// length and the last frame is found by the checksums, when the journal is read. That applies to
// the last segment, and to others if their time does not show the change. Systems count the time in
// steps of some milliseconds, and Windows has no time that can be compared.
//
// # Erasure
//
// Trim renames a segment, flushes the directory, overwrites the segment with zeros, flushes it, and
// unlinks it. That does not reach old copies on solid-state disks, which write elsewhere, on file
// systems that copy on write, and in backups. A host that must exclude these encrypts the disk.
package journalfile
