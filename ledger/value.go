package ledger

// mostWork is how many bits one transaction may draw, or probabilities look at: some ten seconds' work, while
// others wait.
const mostWork = 1 << 28
