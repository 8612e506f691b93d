package input

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgerclient"
)

// noiseKeySize is the number of bytes of a noise key ([rrchain.NewNoiseKey]).
const noiseKeySize = 32

// maxKey is larger than the file of any key, in bytes.
const maxKey = 64 << 10

// secretPrefix is the beginning of every signing key. No message may contain a signing key.
const secretPrefix = "PRIVATE+KEY+"

// Signer is the flag --signer.
type Signer struct {
	Path string `flag:"signer,reads"` // the file, or "" for the one beside the ledger
}

// SignerFile returns the default path of the signing key of a ledger.
func SignerFile(db string) string { return ledgerfile.Beside(db, ledgerfile.SigningKey) }

// Load reads the signing key. No error contains anything from the file.
func (f *Signer) Load(ctx context.Context, s *Files, db string) (note.Signer, error) {
	path := cmp.Or(f.Path, SignerFile(db))
	text, err := s.TextOrFile(ctx, "@"+path, maxKey)
	if err != nil {
		return nil, output.Missing(err, `"ledgerctl init" wrote one when it created the ledger; --signer FILE names `+
			"its file", "there is no signing key at %q", path)
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(text)))
	if err == nil {
		WarnExposed(s.Out, path)
		return signer, nil
	}
	what := "holds no signing key"
	if _, err := note.NewVerifier(strings.TrimSpace(string(text))); err == nil {
		what = "holds a log key, which verifies signatures, not the signing key"
	}
	return nil, output.InputError("a signing key is one line that begins with "+secretPrefix+
		`, as "ledgerctl init" wrote it`, "%q %s", path, what)
}

// OtherSigner is the hint for a signing key of another ledger.
const OtherSigner = `--signer FILE names the key that "ledgerctl init" wrote for this ledger`

// CheckSigner returns an error if the ledger's log key does not verify the signatures of a key.
func CheckSigner(signer note.Signer, logKey string) error {
	ours, err := note.NewVerifier(logKey)
	if err != nil {
		return nil // the ledger has no log key
	}
	if ours.Name() != signer.Name() || ours.KeyHash() != signer.KeyHash() {
		// The message has the beginning of each verifier key.
		return output.UsageError(OtherSigner,
			"the signing key %s+%08x does not belong to this ledger's log key, %s+%08x",
			signer.Name(), signer.KeyHash(), ours.Name(), ours.KeyHash())
	}
	return nil
}

// Verifier is the flag --vkey.
type Verifier struct {
	Text string `flag:"vkey,reads@"`
}

// Load returns the key, or nil if none is given.
func (f *Verifier) Load(ctx context.Context, s *Files) (note.Verifier, error) {
	if f.Text == "" {
		return nil, nil
	}
	return verifier(ctx, s, "--vkey", f.Text)
}

// verifier parses the verifier key in a flag, or reads it from @FILE.
func verifier(ctx context.Context, s *Files, flag, given string) (note.Verifier, error) {
	text, err := s.TextOrFile(ctx, given, maxKey)
	if err != nil {
		return nil, err
	}
	key := strings.TrimSpace(string(text))
	verifier, err := note.NewVerifier(key)
	switch {
	case err == nil:
		return verifier, nil
	case key == "":
		err = output.UsageError("", "%s is empty", flag)
	case strings.HasPrefix(key, secretPrefix):
		// A signature proves nothing to a verifier who has the signing key.
		err = output.UsageError("the log key is the public one of the pair",
			"%s has a signing key, which must stay secret", flag)
	default:
		err = output.UsageError(`it looks like sluice-1a2b3c4d+5e6f7a8b+AaBb…; "ledgerctl init" printed it as log `+
			"key; @FILE reads it from a file", "%s is no verifier key", flag)
	}
	return nil, err
}

// HostKeys are the flags for the secret keys of the host: the truth key, which binds objects to
// their true values, and the noise keys, from which responses are drawn ([ledger.Options]).
// Commands that only read need no key, and open none of the files.
type HostKeys struct {
	Truth string   `flag:"truth-key,reads"`           // the file with the key
	Noise []string `flag:"noise-key,repeated,reads="` // NAME=FILE
	// the NAME of the key for new people
	Current string `flag:"noise-key-current,empty,needs=noise-key"`

	truthGiven, currentGiven bool
}

// Given reports whether any key is given.
func (k *HostKeys) Given() bool { return k.truthGiven || k.currentGiven || len(k.Noise) > 0 }

// Settle records which flags are given, and checks their form. If there is only one noise key, it
// is the current one, unless --noise-key-current is given as "".
func (k *HostKeys) Settle(cmd *cobra.Command) error {
	k.truthGiven, k.currentGiven = cmd.Flags().Changed("truth-key"), cmd.Flags().Changed("noise-key-current")
	names := k.Names()
	for i, given := range k.Noise {
		if _, file, _ := strings.Cut(given, "="); names[i] == "" || file == "" {
			// The value may be the key itself, so the message does not contain it.
			return output.UsageError("such as --noise-key 2027=noise.key", "--noise-key is not NAME=FILE")
		}
		if slices.Contains(names[:i], names[i]) {
			return output.UsageError("", "--noise-key is given twice for %q", names[i])
		}
	}
	switch {
	case len(names) > 1 && !k.currentGiven:
		return output.UsageError("add --noise-key-current NAME; people who are enrolled keep their keys",
			"%d noise keys are given, but not which of them is for people who are enrolled from now on", len(names))
	case k.Current != "" && !slices.Contains(names, k.Current):
		return output.UsageError("", "--noise-key-current is %q, but no --noise-key has that name", k.Current)
	case len(names) == 1 && !k.currentGiven:
		k.Current = names[0]
	}
	return nil
}

// Names returns the names of the noise keys, in the order of the flags.
func (k *HostKeys) Names() []string {
	names := make([]string, len(k.Noise))
	for i, given := range k.Noise {
		names[i], _, _ = strings.Cut(given, "=")
	}
	return names
}

// Set reads the keys into the options of a ledger that is opened for writing.
func (k *HostKeys) Set(ctx context.Context, s *Files, options *ledger.Options) (err error) {
	if options.ReadOnly {
		return nil
	}
	if k.truthGiven {
		if options.TruthKey, err = secret(ctx, s, "--truth-key", k.Truth); err != nil {
			return err
		}
	}
	if len(k.Noise) == 0 {
		return nil
	}
	keys := map[string][]byte{}
	for _, given := range k.Noise {
		name, file, _ := strings.Cut(given, "=")
		if keys[name], err = secret(ctx, s, "--noise-key "+name, file); err != nil {
			return err
		}
		if n := len(keys[name]); n != noiseKeySize {
			return output.InputError(secretHint, "--noise-key %s: the key in %q has %d bytes, not %d", name, file, n,
				noiseKeySize)
		}
	}
	options.NoiseKey = api.NoiseKeys{Current: k.Current, Key: func(name string) ([]byte, error) {
		if key, given := keys[name]; given {
			return key, nil
		}
		return nil, output.UsageError("add --noise-key "+name+"=FILE",
			"responses of this ledger were drawn from the noise key %q, which is not given", name)
	}}
	return nil
}

// leastSecret and mostSecret are the smallest and the largest number of bytes of a key.
// mostSecretFile is larger than any file of a key.
const (
	leastSecret    = 16
	mostSecret     = 1 << 10
	mostSecretFile = 4 << 10
)

const secretHint = "a key file holds 32 random bytes, in binary or as 64 hexadecimal digits: " +
	"(umask 077; openssl rand -hex 32 > FILE)"

// secret reads a key from the file that a flag names. No error contains anything from the file.
func secret(ctx context.Context, s *Files, flag, path string) ([]byte, error) {
	if path == "-" {
		return nil, output.UsageError("", "%s: a key cannot be standard input", flag)
	}
	text, err := s.Bytes(ctx, path, mostSecretFile)
	if errors.Is(err, fs.ErrNotExist) && len(path) >= 2*leastSecret && allDigits(path) {
		return nil, output.UsageError(secretHint,
			"%s has a key, not the name of a file with one; every user who can list processes may have read the key",
			flag)
	}
	if err != nil {
		return nil, output.Missing(err, secretHint, "%s: there is no key at %q", flag, path)
	}
	key, ok := parseSecret(text)
	if !ok {
		return nil, output.InputError(secretHint, "%s: %q holds no key", flag, path)
	}
	WarnExposed(s.Out, path)
	return key, nil
}

// parseSecret parses a key: 16 to 1,024 bytes as hexadecimal digits in one line, or 32 bytes in
// binary. (The probability that 32 random bytes are all digits is 10⁻³⁴.) A byte order mark is
// skipped only before digits. ok is false for any other text.
func parseSecret(text []byte) (key []byte, ok bool) {
	digits := strings.TrimRight(strings.TrimPrefix(string(text), "\ufeff"), "\r\n")
	if allDigits(digits) {
		key, err := hex.DecodeString(digits)
		return key, err == nil && len(key) >= leastSecret && len(key) <= mostSecret
	}
	return text, len(text) == noiseKeySize
}

// allDigits reports whether a text consists of hexadecimal digits only.
func allDigits(text string) bool { return strings.Trim(text, "0123456789abcdefABCDEF") == "" }

// Trust are the flags for a checkpoint that the log must extend, for every command. An older copy
// of the ledger would draw responses again that were drawn since.
type Trust struct {
	File     string `flag:"trust,reads"`      // the file with the checkpoint
	Key      string `flag:"trust-key,reads@"` // the verifier key of its signature, or @FILE
	keyGiven bool   // by the flag
}

// Settle reads flags that are not given from the environment.
func (t *Trust) Settle() {
	t.keyGiven = t.Key != ""
	if t.File == "" {
		t.File = os.Getenv("LEDGER_CHECKPOINT")
	}
	if t.Key == "" {
		t.Key = os.Getenv("LEDGER_LOG_KEY")
	}
}

// Set reads the checkpoint into the options, so that opening the ledger compares it with the log.
func (t *Trust) Set(ctx context.Context, s *Files, options *ledger.Options) error {
	// A caller that gives a key expects that it verifies a checkpoint.
	if t.File == "" && t.keyGiven {
		return output.UsageError("give --trust FILE, or $LEDGER_CHECKPOINT, the checkpoint that the key has signed",
			"--trust-key needs --trust")
	}
	if t.File == "" {
		return nil
	}
	if t.Key == "" {
		return output.UsageError(`give --trust-key, or $LEDGER_LOG_KEY, the log key that "ledgerctl init" printed`,
			"--trust: no key is given to verify the checkpoint with")
	}
	key, err := verifier(ctx, s, "--trust-key", t.Key)
	if err != nil {
		return err
	}
	signed, err := s.TextOrFile(ctx, "@"+t.File, MaxCheckpoint)
	options.Checkpoint, options.Verifiers = signed, note.VerifierList(key)
	return output.Missing(err, `"ledgerctl audit checkpoint" writes one`, "there is no checkpoint at %q", t.File)
}

// MaxCheckpoint is larger than any checkpoint, in bytes.
const MaxCheckpoint = 1 << 20

// Remote are the flags for a ledger that another process serves.
type Remote struct {
	Address string `flag:"addr"`            // "" for none
	Token   string `flag:"token,reads"`     // the file with the token
	CA      string `flag:"addr-ca,reads"`   // the file with the certificate authorities of the server
	Cert    string `flag:"addr-cert,reads"` // the file with the certificate of this client
	Key     string `flag:"addr-key,reads"`  // the file with the key of Cert
}

// Dial returns the ledger at the address.
func (r *Remote) Dial(ctx context.Context, s *Files) (*ledgerclient.Client, error) {
	token, err := r.secret(ctx, s)
	if err != nil {
		return nil, err
	}
	config, err := r.tls(ctx, s)
	if err != nil {
		return nil, err
	}
	// No proxy, because a proxy could read the traffic.
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	return ledgerclient.Dial(ctx, r.Address, ledgerclient.Options{Token: token,
		HTTP: &http.Client{Transport: transport}})
}

// secret returns the token from its file or the environment.
func (r *Remote) secret(ctx context.Context, s *Files) (string, error) {
	if r.Token == "" {
		return os.Getenv("LEDGER_TOKEN"), nil
	}
	if r.Token == "-" {
		return "", output.UsageError("", "--token cannot be standard input")
	}
	text, err := s.TextOrFile(ctx, "@"+r.Token, maxKey)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, " \r\n\t") {
		return "", output.InputError(`"ledgerctl token add" prints a token`, "--token: %q holds no token", r.Token)
	}
	WarnExposed(s.Out, r.Token)
	return token, nil
}

// tls returns the TLS configuration for the server: with the authorities of --addr-ca, or those of
// the system, and with the certificate of --addr-cert if it is given.
func (r *Remote) tls(ctx context.Context, s *Files) (config *tls.Config, err error) {
	config = &tls.Config{MinVersion: tls.VersionTLS13}
	if r.CA != "" {
		if config.RootCAs, err = Pool(ctx, s, "--addr-ca", r.CA); err != nil {
			return nil, err
		}
	}
	if (r.Cert == "") != (r.Key == "") {
		return nil, output.UsageError("", "--addr-cert and --addr-key must be given together")
	}
	if r.Cert != "" {
		pair, err := Pair(ctx, s, r.Cert, r.Key)
		if err != nil {
			return nil, output.InputError("", "--addr-cert, --addr-key: %w", err)
		}
		WarnExposed(s.Out, r.Key)
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Pair reads a certificate and its key from two files.
func Pair(ctx context.Context, s *Files, cert, key string) (tls.Certificate, error) {
	if cert == "-" || key == "-" {
		return tls.Certificate{}, errors.New("a certificate and its key cannot be standard input")
	}
	public, err := s.TextOrFile(ctx, "@"+cert, maxCertificates)
	if err != nil {
		return tls.Certificate{}, err
	}
	secret, err := s.TextOrFile(ctx, "@"+key, maxKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(public, secret)
}

// Pool reads the certificates from a file that a flag names.
func Pool(ctx context.Context, s *Files, flag, path string) (*x509.CertPool, error) {
	text, err := s.TextOrFile(ctx, "@"+path, maxCertificates)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, output.InputError("", "%s: %q holds no certificates in PEM", flag, path)
	}
	return pool, nil
}

// maxCertificates is larger than any file of certificates, in bytes.
const maxCertificates = 4 << 20

// WarnWritable warns if other users can write to a ledger's file.
func WarnWritable(p *output.Printer, path string) {
	if mode, open := openTo(path, 0o022); open {
		p.Warn(fmt.Sprintf("users other than the owner can write to the ledger %q (mode %04o): chmod go-w %[1]q", path,
			mode))
	}
}

// openTo returns the permissions of a file, and whether they include one of those in any. On
// Windows, which has other permissions, and for a path without a regular file, it returns false.
func openTo(path string, any fs.FileMode) (mode fs.FileMode, open bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || runtime.GOOS == "windows" {
		return 0, false
	}
	mode = info.Mode().Perm()
	return mode, mode&any != 0
}

// WarnExposed warns if other users can access a key's file.
func WarnExposed(p *output.Printer, path string) {
	if mode, open := openTo(path, 0o077); open {
		p.Warn(fmt.Sprintf("users other than the owner can read the key in %q (mode %04o): chmod 600 %[1]q", path,
			mode))
	}
}
