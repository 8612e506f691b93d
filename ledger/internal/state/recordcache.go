package state

// A request reads an object when it decides, and again when its decision is recorded. Often the
// object was also read by a scan before. So a transaction keeps the decoded records of its current
// object, and those that a scan has read after it.

// Member is an object that was read, with its chain in a question.
type Member struct {
	Name     string // as it was enrolled
	Question uint32 // number of the question of Chain; 0 if no chain was read
	Chain    Chain  // set if Question is not 0
	Known    bool   // Object is set
	Object   Object // set if Known
}

// recordCache has the records that are kept. The zero value is ready to use.
type recordCache struct {
	members []Member  // in the order in which they will be needed
	at      int       // index of the current object
	one     [1]Member // the memory of members for an object that was not expected
	request Request   // the request looked up last
	key     string    // key of that request; "" for none
	found   bool      // there is a request with that key
}

// Expect announces that these objects are needed next, in this order, with the records read of
// them. The records are dropped when another object is read or written.
func (s *State) Expect(members []Member) { s.recordCache.members, s.recordCache.at = members, 0 }

// member returns the kept records of an object, or nil. It checks only the current object and the
// next one, and makes the one found the current object.
func (n *recordCache) member(name string) *Member {
	for i := n.at; i < min(n.at+2, len(n.members)); i++ {
		if n.members[i].Name == name {
			n.at = i
			return &n.members[i]
		}
	}
	return nil
}

// memberFor returns the place for the records of an object, which becomes the current one. If it is
// neither the current object nor the next one, all other records are dropped, and the place is
// empty.
func (n *recordCache) memberFor(name string) *Member {
	if m := n.member(name); m != nil {
		return m
	}
	m := &n.one[0]
	m.Name, m.Question, m.Known = name, 0, false
	n.members, n.at = n.one[:], 0
	return m
}
