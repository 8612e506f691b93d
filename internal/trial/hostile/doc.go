// Package hostile tests the ledger with damaged files, extreme inputs and competing processes. It
// holds no code of its own.
//
// Tests of damage change the file of a ledger as disks and people do, and open it in another
// process. That process must report the damage, or find everything that was in the file. It must
// not die, hang, use more memory than the file requires, or return anything else. The long form
// uses 10,000 files:
//
//	SLUICE_LONG=1 go test -timeout 12h -v ./internal/trial/hostile
//
// Tests of limits use inputs of a gigabyte, of a byte, and empty ones; very many questions, most of
// them with a chain of one object; a full disk; and calls that are canceled at each moment. The
// result is defined in each case, and no memory is allocated that the input does not account for.
//
// Tests of processes open one ledger in two processes. The second process uses the same name, a
// link, a renamed or replaced file, or a copy. Each process opens the ledger for reading or for
// writing. A process that may not have the ledger gets a typed error within a second.
package hostile
