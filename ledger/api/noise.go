package api

// NoiseKeys are the host's keys for responses that are drawn from a key instead of from chance
// ([rrchain.NoiseKey]). The zero value is none.
//
// A response then is a function of the key, the question's definition, the object's name, the ε and
// the truth. So when the file is lost, and the same people are enrolled in the same questions and
// the same orders carried out again, in whatever order, all responses are the same; a backup that
// is restored gives the responses that were given since it was made, and no second draw leaks; and
// two ledgers with one key agree without talking.
//
// What it costs: who has the key and a response has, most often, the truth. Without a key, a stolen
// file tells no more than ε allows; with one, that is so only as long as the key is not stolen too.
// So the key must never be where the file is. Nobody can prove, besides, that responses were drawn
// from a key that was drawn at random.
//
// A chain keeps the key that was current when its object was enrolled in the question, for ever:
// under another key its next response would be independent noise about the same truth, and both
// together would tell more than the higher ε allows. That is why rotation is for new chains only,
// and why a ledger that is rebuilt after a rotation must be rebuilt with each chain under its old
// key. Chains that began without a key stay without.
//
// The same holds for a backup that is restored. If the key was changed between the backup and its
// loss, whoever was enrolled meanwhile must be enrolled again under the key of that time: open it
// with that name as Current, enrol them, and then go on with the newest. (The log says the key's
// name with each enrolment; keep a copy of it, or of the dates of rotations.) What began from
// chance is drawn anew.
//
// Two ledgers with one key must not ask equally defined questions that mean different truths about
// the same people: their responses would share the noise.
//
// A chain that was forgotten and begins again is drawn from chance: buyers may still have what was
// drawn from the key, and if the truth is another one now, the same noise on both would betray
// both. For the same reason set ledger.Options.TruthKey too, which refuses a changed truth. New
// epochs (ledger.Ledger.BeginEpoch) are drawn from chance. Do not rebuild a ledger with truths that
// have changed.
//
// Questions with a mechanism of their own ([Mechanism]) and answers about panels (Ledger.Answer)
// are drawn from chance all the same.
type NoiseKeys struct {
	// Current names the key of chains that begin from now on, 1 to 256 bytes. If it is empty, they
	// have none.
	Current string
	// Key returns the key of a name, 32 bytes drawn at random, or nil if the
	// host does not have it any more: then chains that began with it only resell what they have
	// released ([NoNoiseKey]). Open calls it for each name that the ledger has seen, and for the
	// current one. The ledger keeps the keys in memory, and in the file only what recognizes them:
	// Open refuses another key under a known name, and a known key under another ([ErrNoiseKey]).
	// If it is nil, the ledger has no keys: chains that began with one cannot be drawn from, and if
	// there are keys that the ledger has seen, nobody can be enrolled ([ErrNoiseKey]), so that no
	// chain begins without a key by mistake.
	Key func(name string) ([]byte, error)
}
