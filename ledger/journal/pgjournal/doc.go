// Package pgjournal keeps the journal of a ledger in PostgreSQL, so that it outlives the machine of
// the ledger, and another host can go on.
//
//	l, err := ledger.Open(ctx, "panel.db", ledger.Options{Journal: pgjournal.For(pgjournal.Options{
//		Database: "postgres://sluice@db.example/panel?sslmode=verify-full",
//		Host:     "a",
//		Keys:     directory, // [keyholder.OpenDirectory]: on this host
//		Others:   []keyholder.Holder{b}, // [keyholder.Dial]: on the others
//	})})
//
// docs/howto/postgres.md says how to set it up, and what to do when something breaks.
//
// # What is durable
//
// Append returns nil when the database says that the group is committed: flushed to its disk and,
// where the operator has set synchronous_standby_names, to the disks of as many standbys. Each
// session sets synchronous_commit to "on", or leaves it at "remote_apply", and each statement that
// matters does nothing where that is not so any more. A server that runs with fsync=off, a standby,
// and one that is read-only are refused ([ErrOptions]); so is what merely speaks PostgreSQL's
// protocol.
//
// When the wait for standbys is cancelled, PostgreSQL answers that all is well, and warns. A
// warning makes an append uncertain.
//
// # Who may write
//
// Append is one statement: an UPDATE of the ledger's head, where journal, term, number of events
// and root are those that this handle knows, feeds the INSERT of the group. Claim raises the term,
// from any host, and whoever had the journal before appends nothing more, however late what it has
// sent arrives. One append is under way at a time, and its outcome is known before the next. Each
// question to the database has a number, which comes back with the answer: one that something in
// between has repeated is not taken for that of another question.
//
// A group of more than one frame, and a cut, are transactions of several statements. A host that
// hangs inside one locks the head until the server ends its session, after [Options.Timeout]. A
// claim does not wait for that: it ends the sessions that block it, if they are of the same role,
// have a host's application name ("sluice " and its name, which each session sets), and have done
// nothing in a transaction for a second. What they have not committed is rolled back, so no late
// COMMIT changes anything.
//
// An append fails in two ways. The server refuses it, because its disk is full, say: nothing has
// happened, and the handle goes on ([journal.ErrRejected]). Or another host has claimed the
// journal, or it is not what it was ([journal.ErrFenced], [journal.ErrOrder]).
//
// When a connection breaks at COMMIT, or no answer comes within [Options.Timeout], the handle
// raises its own term on another connection. That waits for a transaction that still appends the
// group, and fences a statement that arrives later; the answer has the end of the journal, which
// shows whether the group is in it. So Append returns nil or ErrRejected, and the handle goes on.
// If the term cannot be raised within another Timeout, the append is uncertain and the
// handle stops: only a new claim shows what became of it.
//
// # Keys
//
// All of a group's records are encrypted, not only what an event hides: the journal need not know
// what events are, and what is public in an event for whoever has the ledger is nobody's business
// in a database. Of a group the database sees when it came, its term, its positions with their
// roots, and its length in steps of 256 bytes. The cipher is AES-256-GCM with random nonces. A
// frame is bound to its place, so that none opens elsewhere.
//
// A segment is what is encrypted under one key. It begins with each term, with each group that says
// so ([journal.Group], Cut), and before it has 64 MiB. Its key lies with this host, and with
// [Options.Copies] of the others, before anything is encrypted under it. Claim sees to it that this
// host has, or gets from another, the keys of all segments, before it takes the journal from
// anybody: a host without a key cannot claim.
//
// # Erasure
//
// The database keeps old rows in its tables, its log, its standbys and its backups, and nobody can
// overwrite them there. So Trim has all holders destroy the keys of what it removes, and is done
// when all have. It goes only as far as every host that follows has said by Folded that it has all
// in a base of its own, and only if there are [Options.Bases] of these: else the loss of one disk
// would lose what somebody was told. Until then it returns a [*journal.HeldError], which says who
// is waited for; [Journal.Dismiss] gives up one who will not come back. A host that had the journal
// counts as well: what its base lacks is not destroyed before it follows, or is dismissed, so that
// it can come back with its file. A position within a segment is trimmed to by encrypting what is
// behind it anew.
//
// # What a database can lose
//
// One that fails over to a standby that lagged, or is restored from a backup, has less than
// somebody was told. Every append leaves a mark with this host's [keyholder.Holder], and about
// every second with the others. Claim holds the marks of all that it can reach against the journal,
// and refuses one that has less ([*LostError]): it says which events are lost. A base that is ahead
// of the journal is refused by the ledger, until [Restore] makes the journal anew behind it.
//
// # Tables
//
// They lie in a schema of their own ([Options.Schema]), which has a version; a program refuses one
// that it does not know. Positions are a number of events and a root of 32 bytes.
//
//	version   the version: 1
//	heads     a row for each ledger: its journal, the term, where it ends (events, root) and
//	          begins (begin_…), up to where keys are destroyed (erased_…), the term below which
//	          marks do not count (conceded), a number that grows with each segment (begun), which
//	          host has claimed it and when
//	segments  where each begins (events), and its name: the term of its claim, and a number within
//	frames    the groups: where one begins (events, root) and ends (after_…), its term, its
//	          segment; the body, in frames of up to 4 MiB before they are sealed, from 0 to
//	          frames − 1
//	bases     which host has folded up to where, and when it said so; 'epoch' for one that had the
//	          journal, and has not followed since
//
// The body of a frame is a nonce of 12 bytes, the ciphertext, and a tag of 16. The plaintext of a
// group, over all frames, is for each record its length as uvarint and its bytes, and zeros up to a
// multiple of 256. The additional data of a frame are "sluice pgjournal 1", the journal, the
// segment's term and number, the group's term, events before and after, the frame's number, how
// many there are, and the roots before and after; numbers have 8 bytes and are big-endian.
package pgjournal
