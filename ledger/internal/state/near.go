package state

// A request looks at an object when it decides, and again when what it has decided is recorded; and
// it is often the next one in a scan. So the records of the object that a transaction is at are
// kept, decoded, and those that a scan has read behind it.

// Member is an object that was read, with its chain of a question.
type Member struct {
	Name     string // as it was enrolled
	Question uint32 // of the chain, by number; 0 if that was not read
	Chain    Chain  // if it was
	Known    bool   // the object was read
	Object   Object // if it was
}

// near are the records that are kept. The zero value is ready.
type near struct {
	members []Member // in the order in which they will be wanted
	at      int      // the one that the transaction is at
	one     [1]Member
	request Request // that was looked up last
	key     string  // of that; "" if there is none
	found   bool    // there is a request with that key
}

// Expect says that these objects are wanted next, in order, and what was read of them. They are
// forgotten when something else is written.
func (s *State) Expect(members []Member) { s.near.members, s.near.at = members, 0 }

// member returns what is kept of an object, or nil.
func (n *near) member(name string) *Member {
	for i := n.at; i < min(n.at+2, len(n.members)); i++ {
		if n.members[i].Name == name {
			n.at = i
			return &n.members[i]
		}
	}
	return nil
}

// turnTo returns where something is kept of an object. If that is not one that is expected, all
// else is forgotten.
func (n *near) turnTo(name string) *Member {
	if m := n.member(name); m != nil {
		return m
	}
	m := &n.one[0]
	m.Name, m.Question, m.Known = name, 0, false
	n.members, n.at = n.one[:], 0
	return m
}
