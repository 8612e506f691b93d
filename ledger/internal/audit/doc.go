// Package audit folds the log of a ledger anew, and compares what comes out with what is stored:
// the tree hash by hash, and every record value by value. It reads in short snapshots, needs no
// secret, and keeps what does not fit into memory in temporary files. It rests on fold, which it
// uses as the ledger does.
package audit
