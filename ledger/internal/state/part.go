package state

// PartSize is the number of objects in one transaction. Larger transactions commit little faster,
// and let others wait longer.
const PartSize = 4096
