// Package pgjournal stores the journal of a ledger in PostgreSQL. The journal survives the loss of
// the ledger's machine, and another host can continue the ledger.
//
//	o := pgjournal.Options{
//		Database: "postgres://sluice@db.example/panel?sslmode=verify-full",
//		Host:     "a",
//		Keys:     directory, // [keyholder.OpenDirectory]: on this host
//		Others:   []keyholder.Holder{b}, // [keyholder.Dial]: on the others
//	}
//	l, err := ledger.Open(ctx, "panel.db", ledger.Options{Journal: pgjournal.For(o)})
//
// docs/howto/postgres.md explains the setup, and what to do after a failure.
//
// # What is durable
//
// Append returns nil when the database reports that the group is committed. Then it is flushed to
// the database's disk. If the operator has set synchronous_standby_names, it is also flushed to the
// disks of as many standbys. Each session sets synchronous_commit to "on", or leaves it at
// "remote_apply". Every statement whose durability matters has no effect if the session no longer
// has this setting. [ErrOptions] refuses a server that runs with fsync=off, a standby, a read-only
// server, and a server that only speaks PostgreSQL's protocol.
//
// When the wait for standbys is cancelled, PostgreSQL reports success and sends a warning. A
// warning makes an append uncertain.
//
// # Which host may write
//
// Append is one statement. It updates the ledger's head only if the journal, the term, the number
// of events and the root are those that this handle knows. The UPDATE feeds the INSERT of the
// group. Claim raises the term, from any host. After that the previous writer appends nothing more,
// however late its statements arrive. At most one append is in progress, and its outcome is known
// before the next one begins. Each query to the database has a number, which the answer repeats. An
// answer that a proxy has repeated is therefore not taken for the answer to another query.
//
// A group of more than one frame, and a cut, are transactions of several statements. A host that
// hangs inside such a transaction locks the head until the server ends its session, after
// [Options.Timeout]. A claim does not wait for that. It ends each session that blocks it if all of
// these hold: the session has the same role; its application name is that of a host, "sluice " and
// the host's name, which each session sets; and it has been idle in a transaction for a second. The
// server rolls back what these sessions have not committed, so a late COMMIT changes nothing.
//
// An append fails in two ways. Either the server refuses it, for example because its disk is full:
// then nothing has changed, and the handle continues ([journal.ErrRejected]). Or another host has
// claimed the journal, or the journal is not what it was ([journal.ErrFenced], [journal.ErrOrder]).
//
// If a connection breaks at COMMIT, or no answer comes within [Options.Timeout], the handle raises
// its own term on another connection. That waits for a transaction that is still appending the
// group, and fences a statement that arrives later. The answer has the end of the journal, which
// shows whether the group is in it. So Append returns nil or ErrRejected, and the handle continues.
// If the term cannot be raised within another Timeout, the append is uncertain and the handle
// stops. Only a new claim shows whether the group was appended.
//
// # Keys
//
// All records of a group are encrypted, including the public parts of events. The journal need not
// know what events are. The public part of an event is public for holders of the ledger, but is
// none of the database operator's business. For each group, the database sees the time of arrival,
// the term, the positions with their roots, and the length in steps of 256 bytes. The cipher is
// AES-256-GCM with random nonces. A frame is bound to its place in the journal, and does not
// decrypt in any other place.
//
// A segment is the part of the journal that is encrypted under one key. A new segment begins with
// each claim, with each group that requests it ([journal.Group], Cut), and when the current one has
// reached 64 MiB. Before anything is encrypted under its key, the key is stored on this host and on
// [Options.Copies] of the others. Claim takes the journal from another host only after this host
// has the keys of all segments, some possibly copied from the others. A host that lacks a key
// cannot claim.
//
// # Erasure
//
// The database keeps old rows in its tables, its log, its standbys and its backups, where they
// cannot be overwritten. Trim therefore makes all holders destroy the keys of what it removes, and
// succeeds only when all have done so.
//
// A host's base is its own ledger file. By Folded, a host that follows reports up to where its base
// has all events; Trim goes no further than any of them. It also needs at least [Options.Bases]
// such hosts. Otherwise the loss of one disk would lose acknowledged events. Until then Trim
// returns a [*journal.HeldError], which names the hosts that it waits for. [Journal.Dismiss] gives
// up a host that will not return. A host that had the journal earlier counts as well. What its base
// lacks is not destroyed before that host follows or is dismissed, so that it can return with its
// file. To trim to a position within a segment, Trim encrypts the rest of the segment again under a
// new key.
//
// # What a database can lose
//
// A database that fails over to a standby that lagged, or that is restored from a backup, can lack
// events that were acknowledged. Every append therefore leaves a mark with this host's
// [keyholder.Holder] and, about every second, with the others. Claim compares the marks of all
// holders that it can reach with the journal. It refuses a journal that has less ([*LostError]),
// and reports which events are lost. The ledger refuses a base that is ahead of the journal, until
// [Options.Restore] creates the journal again at the end of the base.
//
// # Tables
//
// The tables are in a schema of their own ([Options.Schema]), which has a version. A program
// refuses a version that it does not know. A position is a number of events and a root of 32 bytes.
//
//	version   the version: 1
//	heads     a row for each ledger: its journal, the term, where it ends (events, root) and
//	          begins (begin_…), up to where keys are destroyed (erased_…), the term below which
//	          marks do not count (conceded), a counter that grows with each segment and each cut
//	          (begun), which host has claimed it and when
//	segments  where each segment begins (events), and its name: the term of its claim, and a
//	          number within that term
//	frames    the groups: where one begins (events, root) and ends (after_…), its term, its
//	          segment; the body, in frames of up to 4 MiB before they are sealed, from 0 to
//	          frames − 1
//	bases     for each host, up to where it has folded, and when it reported that; 'epoch' for a
//	          host that had the journal and has not followed since
//
// The body of a frame is a nonce of 12 bytes, the ciphertext, and a tag of 16 bytes. The plaintext
// of a group, over all its frames, has for each record its length as uvarint and its bytes. Zeros
// follow, up to a multiple of 256 bytes. The additional data of a frame are, in this order: "sluice
// pgjournal 1"; the journal; the segment's term and number; the group's term; the number of events
// before and after the group; the frame's number; the number of frames; the roots before and after
// the group. Numbers have 8 bytes and are big-endian.
package pgjournal
