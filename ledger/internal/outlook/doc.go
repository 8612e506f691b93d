// Package outlook counts how many of some people could answer a question at each of some ε: at once, and later by time alone; and
// what a buyer would pay for it.
//
// Everybody is looked at once, whatever the number of ε: an object can have all levels up to one that depends on its budget, as far as
// they are on offer. Those whose policy, spending and buyer are alike are counted together.
package outlook
