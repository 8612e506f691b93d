// Package conform holds what any ledger must do, wherever it is kept: each test runs on a ledger of package ledgertest, and on
// one in a file. There is nothing in it but tests.
package conform
