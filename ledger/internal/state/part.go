package state

// PartSize is the number of objects of one transaction. Larger ones commit little faster and keep
// others waiting longer.
const PartSize = 4096
