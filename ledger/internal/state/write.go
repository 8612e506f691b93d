package state

// WriteMember lists a question of an object.
func (s *State) WriteMember(name string, question uint32) error {
	k := s.Draft.Key()
	k.Buf = AppendMemberKey(k.Buf, name, question)
	s.Draft.Value().U32(question)
	return s.Write(BucketObjects)
}

func (s *State) PutChain(question uint32, name string, c Chain) error {
	id := RecordID{question, name}
	if s.Desk != nil {
		s.Desk.Chains.set(id, &c)
		return nil
	}
	return s.writeChain(id, c)
}

func (s *State) writeChain(id RecordID, c Chain) error {
	k := s.Draft.Key()
	k.Buf = AppendChainKey(k.Buf, id.Question, id.Name)
	c.encodeTo(s.Draft.Value())
	return s.Write(BucketChains)
}

func (s *State) PutRequest(key string, r Request) error {
	if s.Desk != nil {
		s.Desk.Requests.set(RecordID{Name: key}, &r)
		return nil
	}
	return s.writeRequest(RecordID{Name: key}, r)
}

func (s *State) writeRequest(id RecordID, r Request) error {
	k := s.Draft.Key()
	k.Buf = append(k.Buf, id.Name...)
	r.encodeTo(s.Draft.Value())
	return s.Write(BucketRequests)
}

// PartSize is the number of objects of one transaction. Larger ones commit little faster and keep
// others waiting longer.
const PartSize = 4096
