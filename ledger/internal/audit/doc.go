// Package audit folds the log of a ledger again, and compares the result with what is stored: the
// tree hash by hash, and every record value by value. It reads in short snapshots, needs no secret,
// and spills what does not fit into memory to temporary files. It uses package fold exactly as the
// ledger does.
package audit
