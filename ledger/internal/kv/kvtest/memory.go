package kvtest

import "github.com/sluicedp/sluice/ledger/internal/kv/memory"

// Memory is a store in memory.
type Memory = memory.Store
