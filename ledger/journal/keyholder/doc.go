// Package keyholder keeps what must not lie where a journal does: the keys under which its bytes are encrypted, and how far somebody was told
// of them.
//
// A journal in a database leaves its bytes in places that nobody can overwrite: the database's own log, its standbys, its backups. So they
// are encrypted, under a key for each segment of the journal, and the keys lie with the hosts that may go on with the journal. A host
// without them can do nothing with it. To destroy a segment is to destroy its key, everywhere.
//
// A database can also come back with less than it had: restored from an older backup, or failed over to a standby that lagged. Holders
// keep a mark of how far somebody was told, so that this is noticed before anything is drawn a second time.
//
// A [Directory] keeps all this on the disk of a host; [Handler] shows it to the others, and [Remote] is how they see it. Package
// keyholdertest has what any [Holder] must pass.
//
// # Who is trusted
//
// Whoever may call a holder may read all keys: the hosts trust each other as much as themselves. Handler refuses whoever does not come with
// a certificate that the server has verified. Use an authority for these hosts and for nothing else.
//
// # The directory
//
//	lock                              is locked as long as somebody has the directory open
//	JOURNAL/7.2.key                   the key of the second segment of term 7
//	JOURNAL/kept                      below which segment all keys are destroyed, and but which
//	JOURNAL/mark                      how far somebody was told
//	*.new                             a file that is being made
//
// JOURNAL is the name of a journal, with "-" in place of ":". Numbers are big-endian, and crc is the CRC-32C of all before it, with the
// journal's name in front. All is written for the owner only.
//
//	key    "sluice key 1" term(8) number(8) key(32) crc(4)
//	kept   "sluice kept 1" term(8) number(8), and for each that stays: term(8) number(8); crc(4)
//	mark   two times, at 0 and at 512: "sluice mark 1" term(8) events(8) root(32) crc(4); the higher one counts
//
// A key gets its name when it is durable. It is overwritten with zeros, flushed and unlinked when it is destroyed. That binds no solid-state disk,
// no file system that copies on write, and no backup: whoever needs more encrypts the disk, and keeps the directory out of backups.
package keyholder
