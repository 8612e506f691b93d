// Package engine runs a ledger: it decides requests one after the other, each against the state
// that the previous requests left, and serves snapshots to readers.
//
// A commit is decided and folded in the memtable (package memtable), appended to a journal with one
// flush (package journal), and only then published. So no reader sees anything that is not durable.
// Checkpoints write the memtable to the file in the background, and trim the journal.
//
// While there is a journal, the file contains its name, so that the file is not opened without it.
// [Engine.Recover] folds what a crash has left in the journal. After [Engine.Close] the ledger is
// in one file. At the beginning and the end of each transaction the engine checks that the file is
// still the one that this process wrote.
package engine
