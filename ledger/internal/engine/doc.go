// Package engine keeps a ledger: it has requests decided one after the other, each against the
// state that those before it leave, and lets others read snapshots.
//
// A commit is decided and folded on a table in memory (package table), appended to a journal with
// one flush (package journal), and only then published: nobody sees anything that is not durable.
// Checkpoints write the table to the file in the background, and trim the journal. The file names
// its journal while there is one, so that it is not opened without it; [Engine.Recover] folds what
// a crash has left, and [Engine.Close] leaves one file. Whether the file is still the one that this
// process wrote is checked at both ends of each transaction.
package engine
