// Package keyholder keeps what must not lie where a journal does: the keys under which its bytes
// are encrypted, and how far somebody was told of them.
//
// A journal in a database leaves its bytes in places that nobody can overwrite: the database's own
// log, its standbys, its backups. So they are encrypted, under a key for each segment of the
// journal, and the keys lie with the hosts that may go on with the journal. A host without them can
// do nothing with it. To destroy a segment is to destroy its key, everywhere.
//
// A database can also come back with less than it had: restored from an older backup, or failed
// over to a standby that lagged. Holders keep a mark of how far somebody was told, so that this is
// noticed before anything is drawn a second time.
//
// A [Holder] does both. [OpenDirectory] opens the one of this host. [Handler] serves it to the other
// hosts, over HTTP and TLS, which reach it by [Dial].
//
// # Who is trusted
//
// Whoever may call a holder may read all keys: the hosts trust each other as much as themselves.
// Handler refuses a caller without a certificate that the server has verified. Use an authority for
// these hosts and for nothing else.
package keyholder
