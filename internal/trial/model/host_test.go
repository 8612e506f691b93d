package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/ledgertest"
)

// The host of a game: how it opens the ledger, and what it does with the file.

// opening is how the host opens the ledger. Each game begins with the zero value.
type opening struct {
	Truth    truthUse
	Noise    noiseUse
	Lost     string // the name of a noise key that the host no longer has, unless it is the current one
	Signing  signing
	Trusting bool // checks the ledger against the newest checkpoint that the host has
	ReadOnly bool
	Wrong    bool // first tries keys that are not the ledger's
}

type truthUse string

const (
	truthAsAtFirst truthUse = "" // half of the games begin with a truth key
	truthGiven     truthUse = "given"
	truthKept      truthUse = "kept back"
)

// noiseUse is the name of the noise key for new chains, or one of these values.
type noiseUse string

const (
	noNoise   noiseUse = ""     // the host gives no noise keys
	pastNoise noiseUse = "past" // the host has the past keys, and new chains have none
)

type signing string

const (
	signed     signing = ""
	unsigned   signing = "unsigned"
	publishing signing = "publishing"
)

func (o opening) current() string {
	if o.Noise == pastNoise {
		return ""
	}
	return string(o.Noise)
}

// has returns whether the host has a noise key.
func (o opening) has(name string) bool {
	return o.Noise != noNoise && (name != o.Lost || name == o.current())
}

// hinders returns whether many requests are refused because of the options.
func (o opening) hinders() bool {
	return o.ReadOnly || o.Truth == truthKept || o.Lost != ""
}

// noiseKeys returns the host's keys, or others with the same names.
func (o opening) noiseKeys(kind string) api.NoiseKeys {
	if o.Noise == noNoise {
		return api.NoiseKeys{}
	}
	return api.NoiseKeys{Current: o.current(), Key: func(name string) ([]byte, error) {
		if !o.has(name) {
			return nil, nil
		}
		return NoiseKeyOf(kind + name), nil
	}}
}

// The host in the model.

// open opens the ledger. It records keys that it has not seen.
func (m *model) open(o opening, keyed bool) {
	m.opened, m.keyed = o, keyed
	if o.ReadOnly {
		return
	}
	if keyed && !m.truthKey {
		m.truthKey = true
		m.write("truth-key", "")
	}
	if name := o.current(); name != "" && !slices.Contains(m.noiseKeys, name) {
		m.noiseKeys = append(m.noiseKeys, name)
		m.write("noise-key", "")
	}
}

// noiseOf returns the noise key of a question's new chains, or "".
func (m *model) noiseOf(q api.Question) (name string, err error) {
	switch {
	case q.Encoding == "finite":
		return "", nil
	case m.opened.Noise == noNoise && len(m.noiseKeys) > 0:
		return "", api.ErrNoiseKey
	}
	return m.opened.current(), nil
}

// lacks returns whether nothing can be drawn from a chain because its noise key is missing. A
// read-only ledger draws nothing.
func (m *model) lacks(c *modelChain) bool {
	return c.noise != "" && !m.opened.ReadOnly && !m.opened.has(c.noise)
}

// modelCheckpoint is a checkpoint, with its state in the model.
type modelCheckpoint struct {
	note   []byte
	events int
	birth  int // the serial number of the last event
}

// extends returns whether the log begins as a checkpoint states.
func (m *model) extends(c *modelCheckpoint) bool {
	return len(m.log) >= c.events && m.births[c.events-1] == c.birth
}

func (m *model) checkpoint(note []byte) *modelCheckpoint {
	return &modelCheckpoint{note, len(m.log), m.births[len(m.births)-1]}
}

// clone returns an independent copy of the model.
func (m *model) clone() *model {
	other := *m
	other.asked = nil
	other.log, other.births = slices.Clone(m.log), slices.Clone(m.births)
	other.questions, other.noiseKeys = slices.Clone(m.questions), slices.Clone(m.noiseKeys)
	other.policies = maps.Clone(m.policies)
	other.people = map[string]*person{}
	for name, p := range m.people {
		other.people[name] = p.clone()
	}
	other.about = map[string][]int{}
	for name, places := range m.about {
		other.about[name] = slices.Clone(places)
	}
	other.buyers = eachCloned(m.buyers)
	other.deals = eachCloned(m.deals)
	for _, d := range other.deals {
		d.promised, d.under, d.deliveries = maps.Clone(d.promised), maps.Clone(d.under), slices.Clone(d.deliveries)
	}
	other.answers = map[string][]*modelAnswer{}
	for key, known := range m.answers {
		other.answers[key] = eachCloned(known)
	}
	return &other
}

func (p *person) clone() *person {
	other := p.copy()
	for _, c := range other.chains { // epochs that have ended change only in the responses that were seen
		for e, l := range c.levels {
			level := *l
			level.holders, level.paid = slices.Clone(l.holders), slices.Clone(l.paid)
			c.levels[e] = &level
		}
	}
	return other
}

func eachCloned[T any](all []*T) (out []*T) {
	for _, one := range all {
		other := *one
		out = append(out, &other)
	}
	return out
}

// Where the ledger of a game is stored.

// storage stores a ledger that can be opened repeatedly, and copied.
type storage interface {
	open(*game, ledger.Options) (*ledger.Ledger, error)
	// copied copies the open ledger to other storage, which is not opened itself.
	copied(g *game, compact bool) storage
	// again returns storage with a copy of this one, to be opened.
	again(g *game) storage
}

// memoryStorage is storage in memory.
type memoryStorage struct{ memory *ledgertest.Memory }

func (s memoryStorage) open(g *game, options ledger.Options) (*ledger.Ledger, error) {
	s.memory.Draws = g.runner.draws
	return s.memory.Open(options)
}

// copied copies the committed state, because a ledger without a file cannot copy itself.
func (s memoryStorage) copied(g *game, compact bool) storage {
	copyTo := g.opened.Backup
	if compact {
		copyTo = g.opened.CompactTo
	}
	_, err := copyTo(g.Context(), filepath.Join(os.DevNull, "copy"), nil)
	check.Need(g, errors.Is(err, errors.ErrUnsupported), "copy a ledger in memory to a file: want ErrUnsupported, got %v", err)
	return s.again(g)
}

func (s memoryStorage) again(*game) storage { return memoryStorage{s.memory.Copy()} }

// fileStorage is the path of a file.
type fileStorage string

func (s fileStorage) open(g *game, options ledger.Options) (*ledger.Ledger, error) {
	return ledgertest.OpenFile(string(s), g.runner.draws, options)
}

func (s fileStorage) copied(g *game, compact bool) storage {
	other := s.next(g)
	copyTo := g.opened.Backup
	if compact {
		copyTo = g.opened.CompactTo
	}
	done := check.Value(copyTo(g.Context(), string(other), nil))(g)
	check.Need(g, done.Events == uint64(len(g.model.log)), "a copy has %d events of %d", done.Events, len(g.model.log))
	return other
}

func (s fileStorage) again(g *game) storage {
	other := s.next(g)
	content := check.Value(os.ReadFile(string(s)))(g)
	check.Must(g, os.WriteFile(string(other), content, 0o600))
	return other
}

// next returns a path that does not exist yet.
func (s fileStorage) next(g *game) fileStorage {
	g.files++
	return fileStorage(filepath.Join(filepath.Dir(string(s)), fmt.Sprintf("ledger %d.db", g.files)))
}

// newStorage creates an empty ledger for a game.
func newStorage(g *game, onDisk bool, public string) storage {
	origin := ledgertest.Origin{Currency: "EUR", LogKey: public}
	if onDisk {
		path := filepath.Join(testenv.TempDir(g), "ledger.db")
		check.Must(g, ledgertest.NewFile(path, origin))
		return fileStorage(path)
	}
	memory := check.Value(ledgertest.NewMemory(origin))(g)
	return memoryStorage{memory}
}

// savedCopy is a copy of the ledger, with the state of the game when it was made.
type savedCopy struct {
	storage storage
	model   *model
	past    []*past
}

// The operations of the host.

// mailbox receives published checkpoints. The ledger calls post in its own goroutine.
type mailbox struct {
	mu   sync.Mutex
	last []byte
}

func (b *mailbox) post(_ context.Context, checkpoint []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = checkpoint
	return nil
}

func (b *mailbox) newest() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// options returns the options of an opening.
func (g *game) options(o opening) ledger.Options {
	options := ledger.Options{Now: g.now, ClockAhead: g.model.confirmed, NoiseKey: o.noiseKeys(""), ReadOnly: o.ReadOnly}
	if g.keyed(o) {
		options.TruthKey = []byte("a key for the games")
	}
	if o.Signing != unsigned {
		options.Signer = g.signer
	}
	if g.mail = nil; o.Signing == publishing {
		g.mail = &mailbox{}
		options.Publish = ledger.Publishing{To: g.mail.post, Events: 3}
	}
	return options
}

// keyed returns whether the host gives a truth key.
func (g *game) keyed(o opening) bool {
	return o.Truth == truthGiven || o.Truth == truthAsAtFirst && g.keyedAtFirst
}

// open opens the ledger from its storage. Nothing may depend on earlier memory.
func (g *game) open(o opening) {
	g.Helper()
	if o.Wrong {
		g.tryWrongKeys()
	}
	options := g.options(o)
	if o.Trusting && g.trusted != nil {
		options.Checkpoint, options.Verifiers = g.trusted.note, g.verifiers
		if !g.model.extends(g.trusted) {
			g.wantRollback(options)
			options.Checkpoint, g.trusted = nil, nil // the host accepts it
		}
	}
	if !o.ReadOnly && g.model.far() {
		g.tryFar(o, options)
		options.ClockAhead = g.model.confirmed
	}
	l := check.Value(g.storage.open(g, options))(g)
	g.opened, g.ledger = l, l
	if g.served {
		g.ledger = Served(g, l)
	}
	g.model.open(o, g.keyed(o))
}

// tryFar opens the ledger with a clock that is not confirmed, which must not record a key. Then the
// clock is confirmed.
func (g *game) tryFar(o opening, options ledger.Options) {
	g.Helper()
	then := g.model.clone()
	then.open(o, g.keyed(o))
	var want error
	if len(then.log) > len(g.model.log) {
		want = api.ErrClock
	}
	l, err := g.storage.open(g, options)
	if err == nil {
		check.Must(g, l.Close())
	}
	g.wantError(err, want)
	g.model.confirmed = g.model.clock
}

// wantRollback opens a ledger that contradicts the host's checkpoint.
func (g *game) wantRollback(options ledger.Options) {
	g.Helper()
	l, err := g.storage.open(g, options)
	if err == nil {
		check.Must(g, l.Close())
	}
	var rollback *api.RollbackError
	check.Need(g, errors.As(err, &rollback), "open an older copy with a newer checkpoint: want a RollbackError, got %v", err)
	got := []uint64{rollback.Checkpoint.Events, rollback.Ledger.Events}
	g.same("the rollback", got, []int{g.trusted.events, len(g.model.log)})
	g.runner.rollbacks++
}

// tryWrongKeys opens the ledger with keys other than those that it has recorded.
func (g *game) tryWrongKeys() {
	g.Helper()
	try := func(options ledger.Options, want error) {
		options.Now = g.now
		l, err := g.storage.open(g, options)
		if err == nil {
			check.Must(g, l.Close())
		}
		g.wantError(err, want)
	}
	if g.model.truthKey {
		try(ledger.Options{TruthKey: []byte("another key for the games")}, api.ErrTruthKey)
	}
	if len(g.model.noiseKeys) > 0 {
		try(ledger.Options{NoiseKey: opening{Noise: pastNoise}.noiseKeys("not ")}, api.ErrNoiseKey)
	}
}

// close closes the ledger. If checkpoints are published, the host then has the last one.
func (g *game) close() {
	g.Helper()
	check.Must(g, g.opened.Close())
	if o := g.model.opened; o.Signing == publishing && !o.ReadOnly {
		g.trust(g.mail.newest())
	}
}

// trust stores a checkpoint, which must cover the whole log.
func (g *game) trust(note []byte) {
	g.Helper()
	head := check.Value(evidence.OpenCheckpoint(note, g.verifiers))(g)
	check.Need(g, head.Events == uint64(len(g.model.log)),
		"a checkpoint of %d events, want %d", head.Events, len(g.model.log))
	g.trusted = g.model.checkpoint(note)
}

// setLogKey creates the key of the game's log.
func (g *game) setLogKey() (public string) {
	signer, verifier, public := LogKey(g, "example.com/games", 1)
	g.signer, g.verifiers = signer, note.VerifierList(verifier)
	return public
}

func (one moveReopen) play(g *game) {
	g.close()
	g.open(one.How)
}

func (moveCheckpoint) play(g *game) {
	note, err := g.ledger.Checkpoint(g.Context())
	if g.model.opened.Signing == unsigned {
		g.wantError(err, api.ErrNoSigner)
		return
	}
	check.Must(g, err)
	g.trust(note)
}

func (one moveCopy) play(g *game) {
	c := savedCopy{model: g.model.clone(), past: eachCloned(g.past)}
	c.storage = g.storage.copied(g, one.Compact)
	g.copies = append(g.copies, c)
}

func (moveCompact) play(g *game) {
	err := g.opened.Compact(g.Context(), nil)
	switch _, onDisk := g.storage.(fileStorage); {
	case g.model.opened.ReadOnly:
		g.wantError(err, api.ErrReadOnly)
	case onDisk:
		check.Must(g, err)
	default:
		g.wantError(err, errors.ErrUnsupported)
	}
}

// play restores a copy. Everything since is lost, except the host's clock, keys and checkpoints.
func (one moveRestore) play(g *game) {
	if len(g.copies) == 0 {
		return
	}
	c := g.copies[len(g.copies)-1-one.Copy%len(g.copies)]
	restored := c.storage.again(g)
	if _, onDisk := restored.(fileStorage); onDisk && one.Beside && !g.model.opened.ReadOnly {
		l, err := restored.open(g, ledger.Options{Now: g.now})
		if err == nil {
			check.Must(g, l.Close())
		}
		g.wantError(err, api.ErrInUse)
	}
	g.close()
	clock, confirmed := g.model.clock, g.model.confirmed
	g.storage, g.model, g.past = restored, c.model.clone(), eachCloned(c.past)
	g.model.clock, g.model.confirmed = clock, confirmed
	g.open(one.How)
	g.compareState()
	g.runner.restores++
}
