// Package journalfile keeps a journal in a directory of segment files. It is the journal that a ledger has
// unless it is given another.
//
// # The directory
//
//	00000007.segment   groups, from the position in its header on; numbers rise
//	00000008.new       a segment that is being made: never read
//	00000006.gone      a segment that is being destroyed: never read
//
// The directory itself is made under the name DIR.new, and destroyed under the name DIR.gone;
// [Sweep] removes what a crash left of either. All is written for the owner only.
//
// # Segments
//
// Numbers are big-endian. A segment begins with a header:
//
//	magic(16) ledger(16) journal(16) number(8) term(8) events(8) root(32) zero(4) crc(4)
//
// The magic is "sluice journal 2", where 2 is the version; events and root are the position at
// which the segment begins; crc is the CRC-32C of all before it. Frames follow, each at a multiple
// of 8 bytes, filled up by 1 to 8 bytes 0xff:
//
//	length(4) kind(4) content crc(4) frame crc(4) content filler
//
// length is that of the content, from 1 to 1 MiB. Of kind, 1 says that a group begins with this
// frame, 2 that it ends. The content crc is the CRC-32C of the content; the frame crc goes on from
// the header's, over the frame's place in the file (8 bytes) and the twelve bytes before it, so
// that a frame is good at one place of one segment only. The contents of a group's frames, put
// together, are
//
//	term(8) before: events(8) root(32) after: events(8) root(32)
//	number of records: uvarint, and for each: length: uvarint, bytes
//
// Behind the frames the file is filled with zeros, in advance, so that an append changes no
// metadata and takes one fdatasync.
//
// # Reading
//
// The groups of a segment count up to where the next one begins; that they lead there, number and
// root, shows that nothing is missing between. The last segment ends where no whole group follows.
// If a frame that begins a group lies anywhere behind that, the group before it was acknowledged
// and is damaged: ErrCorrupt. Otherwise what is left is the last group. It is torn, and dropped, or
// damaged, which is ErrCorrupt, because it may have been acknowledged.
//
// A loss of power leaves of a write any of its sectors of 512 bytes, whole, and in place of the
// others what was there before: zeros, or the end of the file. A write that fails leaves its
// beginning. So the group is torn only if, in the first frame that is not whole,
//
//   - the file ends; or
//   - the part of the frame within one sector is all zero: of the head, if that is not whole, and
//     else of the frame; or
//   - the last byte is zero, which the filler never is; or, if the head is not whole, all bytes
//     behind it.
//
// A bit that flips in a group that was written makes nothing of this true, unless a record holds
// 512 zeros in one sector. It cannot be told from a torn write if a sector reads as zeros, or the
// file was cut off, within the last group. A disk that writes less than 512 bytes at once may leave
// a torn group that counts as damaged.
//
// A segment gets its name when it and its header are durable, so a bad header is damage, never a
// torn write. Nothing is appended to a segment that was read: Claim begins a new one, and copies
// the last group into it, because a flush of it may have failed whose bytes can still be read.
//
// # Changes by others
//
// When a group is durable, and before Append returns, the journal is compared with what this
// process left: the path leads to the same directory, and in it each segment is the same file, with
// as many links, of the same length; the last frame is where it was written; and no segment before
// the last has another time of writing, or else the same groups. Claim, Trim, Remove and Close
// compare it, too. Before a group is written, the last segment alone is compared. What differs is
// ErrReplaced.
//
// What happens after the last comparison is found by the next one, or not at all if the process
// dies before: then the journal is what is at its path. A change in place that keeps the length and
// the last frame is found when the journal is read, by its checksums: in the last segment, and in
// others if their time does not show it (systems count it in steps of some milliseconds, and
// Windows has none that can be compared).
//
// # Erasure
//
// Trim renames a segment, flushes the directory, overwrites the segment with zeros, flushes it, and
// unlinks it. That binds no solid-state disk, which writes elsewhere, no file system that copies on
// write, and no backup. Whoever needs more encrypts the disk.
package journalfile
