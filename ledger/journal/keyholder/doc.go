// Package keyholder stores, outside a journal, the keys that encrypt the journal, and how far its
// events were acknowledged.
//
// A journal in a database leaves its bytes in places that cannot be overwritten: the database's own
// log, its standbys, its backups. The bytes are therefore encrypted, under one key for each segment
// of the journal. The keys are stored on the hosts that may continue the journal. A host without
// the keys cannot use the journal. To destroy a segment, all hosts destroy its key.
//
// A database can also return with less than it had, because it was restored from an older backup,
// or failed over to a standby that lagged. Holders keep a mark of how far events were acknowledged.
// The mark reveals the loss before anything is drawn a second time.
//
// A [Holder] keeps both keys and marks. [OpenDirectory] opens the one of this host. [Handler]
// serves it to the other hosts over HTTP and TLS; they reach it by [Dial].
//
// # Trust
//
// Every caller of a holder can read all keys, so all hosts must trust each other completely.
// Handler refuses a caller without a certificate that the server has verified. Use a certificate
// authority for these hosts only.
package keyholder
