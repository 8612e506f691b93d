package merkle

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
)

// keyPair generates the key of a name from a seed.
func keyPair(t testing.TB, name, seed string) (note.Signer, note.Verifier) {
	t.Helper()
	sum := sha256.Sum256([]byte(seed))
	skey, vkey, err := note.GenerateKey(bytes.NewReader(sum[:]), name)
	check.Must(t, err)
	signer := check.Value(note.NewSigner(skey))(t)
	verifier := check.Value(note.NewVerifier(vkey))(t)
	return signer, verifier
}

const origin = "example.com/ledger"

// head returns the checkpoint of most tests.
func head() Checkpoint {
	return Checkpoint{origin, 20852163, tlog.RecordHash([]byte("root"))}
}

// golden is head, signed with the key of origin from the seed "log".
const golden = `example.com/ledger
20852163
PAb5plclr2BSYfY2ZyyWINQJcx2JpFHXRV/pxK4WeCk=

— example.com/ledger gG8UqkxSE3CS6lJEEBMG1Wfk5Se3F2jEvthyNcAfnHYrA8WRfGwGThVc2BPtkZZCcvcl5nRKwWT2CXoG2oWicLQYLg0=
`

func sign(t testing.TB, c Checkpoint, signer note.Signer, beside ...note.Signer) []byte {
	t.Helper()
	signed := check.Value(c.Sign(signer))(t)
	return cosign(t, signed, beside...)
}

// cosign appends the lines of some signers, in the given order.
func cosign(t testing.TB, signed []byte, beside ...note.Signer) []byte {
	t.Helper()
	text, _, _ := bytes.Cut(signed, []byte("\n\n"))
	for _, s := range beside {
		_, line, _ := bytes.Cut(signText(t, string(text)+"\n", s), []byte("\n\n"))
		signed = append(bytes.Clone(signed), line...)
	}
	return signed
}

// signText signs any text.
func signText(t testing.TB, text string, signers ...note.Signer) []byte {
	t.Helper()
	signed := check.Value(note.Sign(&note.Note{Text: text}, signers...))(t)
	return signed
}

// trustAll knows every key and accepts every signature. With it, Open must accept what Read
// accepts.
type trustAll struct{}

type trustedKey struct {
	name string
	hash uint32
}

func (trustAll) Verifier(name string, hash uint32) (note.Verifier, error) {
	return trustedKey{name, hash}, nil
}

func (v trustedKey) Name() string               { return v.name }
func (v trustedKey) KeyHash() uint32            { return v.hash }
func (trustedKey) Verify(text, sig []byte) bool { return true }

func TestSign_KnownKey_IsTheGoldenNote(t *testing.T) {
	signer, verifier := keyPair(t, origin, "log")
	signed := sign(t, head(), signer)
	check.That(t, string(signed) == golden, "signed\n%s\nwant\n%s", signed, golden)
	if c, _, err := Open([]byte(golden), note.VerifierList(verifier)); err != nil || c != head() {
		t.Errorf("opened %v (%v), want %v", c, err, head())
	}
}

// The test reads the example of https://c2sp.org/tlog-checkpoint. The specification gives no key
// for it.
func TestRead_ExampleOfTheSpecification_IsAccepted(t *testing.T) {
	const example = `example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
`
	c, err := Read([]byte(example))
	check.That(t, err == nil && c.Origin == "example.com/behind-the-sofa" && c.Size == 20852163 &&
		c.Root.String() == "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=", "read %v (%v)", c, err)
}

func TestOpen_SignedCheckpoint_ReturnsContentAndCosigners(t *testing.T) {
	log, logKey := keyPair(t, origin, "log")
	witness, witnessKey := keyPair(t, "witness.example", "witness")
	for _, size := range []uint64{0, 1, 9, 10, 1 << 32, MaxSize} {
		c := Checkpoint{origin, size, tlog.RecordHash(fmt.Append(nil, size))}
		for _, test := range []struct {
			name           string
			beside         []note.Signer
			keys           []note.Verifier
			known, unknown string
		}{
			{"log", nil, []note.Verifier{logKey}, "[]", "[]"},
			{"unknown witness", []note.Signer{witness}, []note.Verifier{logKey}, "[]", "[witness.example+" + hashOf(witness) + "]"},
			{"known witness", []note.Signer{witness}, []note.Verifier{logKey, witnessKey}, "[witness.example+" + hashOf(witness) + "]", "[]"},
			{"two witnesses", []note.Signer{fake{name: "a"}, witness}, []note.Verifier{logKey, witnessKey}, "[witness.example+" + hashOf(witness) + "]", "[a+00000007]"},
		} {
			signed := sign(t, c, log, test.beside...)
			got, beside, err := Open(signed, note.VerifierList(test.keys...))
			if err != nil || got != c || fmt.Sprint(beside.Known) != test.known || fmt.Sprint(beside.Unknown) != test.unknown {
				t.Errorf("%s: opened %v, cosigned %v (%v), want %v", test.name, got, beside, err, c)
			}
			if got, err := Read(signed); err != nil || got != c {
				t.Errorf("%s: read %v (%v), want %v", test.name, got, err, c)
			}
		}
	}
}

func hashOf(s note.Signer) string { return fmt.Sprintf("%08x", s.KeyHash()) }

// Signatures have one valid order, so that a checkpoint has only one valid text.
func TestRead_SignaturesOutOfOrder_AreRefused(t *testing.T) {
	log, logKey := keyPair(t, origin, "log")
	again, _ := keyPair(t, origin, "again")
	low, high := fake{name: "witness.example"}, fake{name: "witness.example", hash: 1}
	other, late := fake{name: "a.example"}, fake{name: "z.example"}
	one := sign(t, head(), log)
	text, line, _ := strings.Cut(string(one), "\n\n")
	crowd := func(n int) (all []note.Signer) {
		for i := range n {
			all = append(all, fake{name: fmt.Sprintf("witness%02d.example", i)})
		}
		return all
	}
	for _, test := range []struct {
		name   string
		signed []byte
		says   string // empty if it is valid
	}{
		{"log", one, ""},
		{"two keys of a name", cosign(t, one, low, high), ""},
		{"three names", cosign(t, one, other, low, late), ""},
		{"16 cosigners", cosign(t, one, crowd(16)...), ""},
		{"17 cosigners", cosign(t, one, crowd(17)...), "17 signatures besides the log's; at most 16"},
		{"the log twice", append(bytes.Clone(one), line...), "a signature is repeated"},
		{"another key of the log's name", cosign(t, one, again), "signed twice in the name of its origin"},
		{"another key of the log's name, last", cosign(t, one, other, again), "signed twice in the name of its origin"},
		{"cosigner first", []byte(text + "\n\n" + strings.TrimPrefix(string(cosign(t, []byte(text+"\n\n"), other)), text+"\n\n") + line), "the first signature is not in the name of its origin"},
		{"out of order", cosign(t, one, low, other), "cosignatures must be in the order of their keys"},
		{"hashes out of order", cosign(t, one, high, low), "cosignatures must be in the order of their keys"},
		{"a key twice", cosign(t, one, low, low), "a signature is repeated"},
		{"a key twice, other signatures", cosign(t, one, low, fake{name: low.name, sign: "other"}), "each once"},
	} {
		_, err := Read(test.signed)
		_, _, openErr := Open(test.signed, note.VerifierList(logKey))
		_, _, allErr := Open(test.signed, trustAll{})
		for _, err := range []error{err, openErr, allErr} {
			if test.says != "" {
				wantText(t, err, test.says)
			} else if err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		}
	}
}

func TestSign_InvalidCheckpointOrSigner_Fails(t *testing.T) {
	signer, _ := keyPair(t, origin, "log")
	other, _ := keyPair(t, "witness.example", "witness")
	broken := errors.New("broken key store")
	for _, test := range []struct {
		name   string
		origin string
		size   uint64
		signer note.Signer
		text   string // in the error
	}{
		{"other name", origin, 1, other, "signed by a key with the name of the origin"},
		{"empty origin", "", 1, fake{name: ""}, "line 1 is empty"},
		{"origin of two lines", "a\nb", 1, fake{name: "a\nb"}, "not a size"},
		{"origin of a whole checkpoint", "a\n1\n" + head().Root.String(), 1, fake{name: "a"}, "not a single line"},
		{"space in the origin", "a b", 1, fake{name: "a b"}, "invalid signer"},
		{"plus in the origin", "a+b", 1, fake{name: "a+b"}, "invalid signer"},
		{"control character in the origin", "a\x1bb", 1, fake{name: "a\x1bb"}, "not plain UTF-8"},
		{"broken UTF-8 in the origin", "a\xff", 1, fake{name: "a\xff"}, "invalid signer"},
		{"too large", origin, MaxSize + 1, signer, "is above"},
		{"largest number", origin, 1<<64 - 1, signer, "is above"},
		{"signer fails", origin, 1, fake{name: origin, err: broken}, "broken key store"},
		{"much too long", strings.Repeat("a", MaxCheckpoint), 1, fake{name: strings.Repeat("a", MaxCheckpoint)}, "bytes, at most"},
	} {
		t.Run(test.name, func(t *testing.T) {
			signed, err := Checkpoint{test.origin, test.size, head().Root}.Sign(test.signer)
			wantText(t, err, test.text)
			check.That(t, signed == nil, "signed %q", signed)
			check.That(t, errors.Is(err, broken) == (test.name == "signer fails"),
				"error %v, and the signer's is %v", err, broken)
		})
	}
}

// fake is a signer without a key, which may fail.
type fake struct {
	name string
	hash uint32 // its key hash is 7 + hash
	sign string // appended to its signature
	err  error
}

func (s fake) Name() string                     { return s.name }
func (s fake) KeyHash() uint32                  { return 7 + s.hash }
func (s fake) Sign(text []byte) ([]byte, error) { return []byte("signature" + s.sign), s.err }

func wantText(t testing.TB, err error, text string) {
	t.Helper()
	wantError(t, err, ErrCheckpoint)
	check.That(t, strings.Contains(err.Error(), text), "error %q does not say %q", err, text)
	if len(err.Error()) > 2000 {
		t.Errorf("error of %d bytes", len(err.Error()))
	}
}

// Invalid texts are signed with the right key, so that only the text is wrong.
func TestOpen_MalformedText_IsErrCheckpoint(t *testing.T) {
	signer, verifier := keyPair(t, origin, "log")
	root := head().Root.String()
	unused := strings.TrimSuffix(root, string(root[42])+"=") + string(root[42]+1) + "=" // same bytes, other unused bits
	h, err := tlog.ParseHash(unused)
	check.Need(t, err == nil && h == head().Root, "%s is not another form of %s", unused, root)
	for _, test := range []struct {
		name, text string
		says       string // part of the error; empty if the text is valid
	}{
		{"right", origin + "\n7\n" + root + "\n", ""},
		{"empty tree", origin + "\n0\n" + root + "\n", ""},
		{"extension line", origin + "\n7\n" + root + "\nmore\n", ""},
		{"extension lines", origin + "\n7\n" + root + "\nmore\n— x y\n8\n", ""},
		{"largest size", origin + "\n4611686018427387903\n" + root + "\n", ""},

		{"empty", "\n", "1 of the 3 lines"},
		{"origin only", origin + "\n", "1 of the 3 lines"},
		{"no root", origin + "\n7\n", "2 of the 3 lines"},
		{"no origin", "\n7\n" + root + "\n", "line 1 is empty"},
		{"no origin line", "7\n" + root + "\n", "2 of the 3 lines"},
		{"no size", origin + "\n\n" + root + "\n", "line 2 is empty"},
		{"empty root", origin + "\n7\n\nmore\n", "line 3 is empty"},
		{"empty last line", origin + "\n7\n" + root + "\n\n", "line 4 is empty"},
		{"empty extension line", origin + "\n7\n" + root + "\n\nmore\n", "line 4 is empty"},

		{"leading zero", origin + "\n07\n" + root + "\n", "is not a size"},
		{"two zeros", origin + "\n00\n" + root + "\n", "is not a size"},
		{"plus sign", origin + "\n+7\n" + root + "\n", "is not a size"},
		{"negative", origin + "\n-7\n" + root + "\n", "is not a size"},
		{"negative zero", origin + "\n-0\n" + root + "\n", "is not a size"},
		{"space before the size", origin + "\n 7\n" + root + "\n", "is not a size"},
		{"space after the size", origin + "\n7 \n" + root + "\n", "is not a size"},
		{"hexadecimal", origin + "\n0x7\n" + root + "\n", "is not a size"},
		{"underscore", origin + "\n1_000\n" + root + "\n", "is not a size"},
		{"fraction", origin + "\n7.0\n" + root + "\n", "is not a size"},
		{"other digits", origin + "\n٧\n" + root + "\n", "is not a size"},
		{"too large", origin + "\n4611686018427387904\n" + root + "\n", "is above 4611686018427387903"},
		{"above 64 bits", origin + "\n18446744073709551616\n" + root + "\n", "is above 4611686018427387903"},
		{"endless", origin + "\n" + strings.Repeat("9", 9999) + "\n" + root + "\n", "is above 4611686018427387903"},

		{"root cut", origin + "\n7\n" + root[:40] + "\n", "is not a root"},
		{"root of 33 bytes", origin + "\n7\n" + base64.StdEncoding.EncodeToString(make([]byte, 33)) + "\n", "is not a root"},
		{"root without padding", origin + "\n7\n" + strings.TrimSuffix(root, "=") + "\n", "is not a root"},
		{"root in base64url", origin + "\n7\n" + base64.URLEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, 32)) + "\n", "is not a root"},
		{"root in hexadecimal", origin + "\n7\n" + fmt.Sprintf("%x", head().Root) + "\n", "is not a root"},
		{"unused bits in the root", origin + "\n7\n" + unused + "\n", "is not a root"},
		{"space after the root", origin + "\n7\n" + root + " \n", "is not a root"},

		{"carriage returns", origin + "\r\n7\r\n" + root + "\r\n", "carriage returns"},
		{"tab in an extension line", origin + "\n7\n" + root + "\na\tb\n", "not plain UTF-8"},
		{"broken UTF-8", origin + "\n7\n" + root + "\n\xff\n", "not plain UTF-8"},

		{"other origin", "example.org/ledger\n7\n" + root + "\n", `the first signature is not in the name of its origin, "example.org/ledger", but by "example.com/ledger+`},
		{"longer origin", origin + "2\n7\n" + root + "\n", "not in the name of its origin"},
		{"shorter origin", origin[:5] + "\n7\n" + root + "\n", "not in the name of its origin"},
		{"other case", strings.ToUpper(origin) + "\n7\n" + root + "\n", "not in the name of its origin"},
		{"space after the origin", origin + " \n7\n" + root + "\n", "not in the name of its origin"},
		{"too long", origin + "\n7\n" + root + "\n" + strings.Repeat("x", MaxCheckpoint), "bytes, at most 131072"},
	} {
		t.Run(test.name, func(t *testing.T) {
			signed := signText(t, strings.TrimSuffix(test.text, "\n")+"\n", signer)
			if strings.HasSuffix(test.text, "\n\n") {
				signed = signText(t, test.text, signer)
			}
			c, _, err := Open(signed, note.VerifierList(verifier))
			read, readErr := Read(signed)
			if test.says != "" {
				wantText(t, err, test.says)
				wantText(t, readErr, test.says)
				return
			}
			check.That(t, err == nil && readErr == nil && c == read && c.Origin == origin && c.Root == head().Root,
				"opened %v (%v), read %v (%v)", c, err, read, readErr)
		})
	}
}

// Bytes that are no signed note are refused, with the reason.
func TestRead_NoSignedNote_IsErrCheckpoint(t *testing.T) {
	text, signature, _ := strings.Cut(golden, "\n\n")
	for _, test := range []struct{ name, signed, says string }{
		{"nothing", "", "it is empty"},
		{"text only", text + "\n", "no blank line"},
		{"no blank line", text + "\n" + signature, "no blank line"},
		{"no signatures", text + "\n\n", "it has no signatures"},
		{"signatures only", "\n\n" + signature, "1 of the 3 lines"},
		{"no newline at the end", strings.TrimSuffix(golden, "\n"), "does not end with a newline"},
		{"blank line at the end", golden + "\n", "the lines after the last blank one"},
		{"carriage returns", strings.ReplaceAll(golden, "\n", "\r\n"), "carriage returns"},
		{"hyphen for the dash", strings.Replace(golden, "—", "-", 1), "signatures like"},
		{"no signature bytes", text + "\n\n— " + origin + "\n", "signatures like"},
		{"short signature", text + "\n\n— " + origin + " AAAAAA==\n", "signatures like"},
		{"no base64", text + "\n\n— " + origin + " *****\n", "signatures like"},
		{"binary", "\x00\x01\x02", "no blank line"},
		{"101 signatures", text + "\n\n" + strings.Repeat(signature, 101), "up to 100 signatures"},
		{"one byte too many", golden + strings.Repeat("x", MaxCheckpoint+1-len(golden)), "131073 bytes, at most 131072"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := Open([]byte(test.signed), trustAll{})
			wantText(t, err, test.says)
			_, err = Read([]byte(test.signed))
			wantText(t, err, test.says)
		})
	}
	check.WantErr(t, check.Err(Read(nil)), ErrCheckpoint, "nil: error")
}

// Read accepts these checkpoints, but Open does not trust their signatures.
func TestOpen_UntrustedSignature_IsErrCheckpoint(t *testing.T) {
	log, logKey := keyPair(t, origin, "log")
	impostor, newKey := keyPair(t, origin, "another")
	witness, witnessKey := keyPair(t, "witness.example", "witness")
	logName := fmt.Sprintf("%s+%08x", origin, log.KeyHash())
	var crowd []note.Signer
	for i := range 9 {
		s, _ := keyPair(t, fmt.Sprintf("witness%d.example", i), "witness")
		crowd = append(crowd, s)
	}
	signed := sign(t, head(), log)
	otherSize := []byte(strings.Replace(golden, "20852163", "20852164", 1))
	// The signature of a known witness for another checkpoint. The log's signature is right.
	other := head()
	other.Size++
	_, witnessLine, _ := strings.Cut(string(signText(t, other.Origin+"\n1\n"+other.Root.String()+"\n", witness)), "\n\n")
	for _, test := range []struct {
		name   string
		signed []byte
		known  note.Verifiers
		says   string
	}{
		{"no known keys", signed, nil, `not signed by any known key, but by "` + logName + `"`},
		{"empty list of keys", signed, note.VerifierList(), `not signed by any known key, but by "` + logName + `"`},
		{"key of another log", signed, note.VerifierList(witnessKey), `not signed by any known key, but by "` + logName + `"`},
		{"another key of the same name", signed, note.VerifierList(newKey), `not signed by any known key, but by "` + logName + `"`},
		{"impostor", sign(t, head(), impostor), note.VerifierList(logKey), fmt.Sprintf("not signed by any known key, but by %q", fmt.Sprintf("%s+%08x", origin, impostor.KeyHash()))},
		{"many keys", sign(t, head(), log, crowd...), note.VerifierList(newKey), "5 more"},
		{"witness only", sign(t, head(), log, witness), note.VerifierList(witnessKey), `no known key with the name of its origin, "` + origin + `", signed it; known keys that did are "witness.example+`},
		{"changed text", otherSize, note.VerifierList(logKey), `the signature by the known key "` + logName + `" does not fit`},
		{"wrong witness", append(bytes.Clone(signed), witnessLine...), note.VerifierList(logKey, witnessKey), `the signature by the known key "witness.example+`},
		{"ambiguous key", signed, note.VerifierList(logKey, logKey), "ambiguous key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, _, err := Open(test.signed, test.known)
			wantText(t, err, test.says)
			check.That(t, c == (Checkpoint{}), "the error comes with %v", c)
			check.WantErr(t, check.Err(Read(test.signed)), nil, "Read")
		})
	}
}

// Errors about long names, or names with terminal commands, are short and quoted.
func TestRead_HostileNames_AreQuotedInErrors(t *testing.T) {
	for _, name := range []string{strings.Repeat("é", 20_000), "\u009b2J", "\u202eexample"} {
		signed := signText(t, origin+"\n7\n"+head().Root.String()+"\n", fake{name: name})
		_, err := Read(signed)
		wantText(t, err, "not in the name of its origin")
		check.That(t, !strings.ContainsAny(err.Error(), "\u009b\u202e"), "error %q is not quoted", err)
	}
}

// Any change of a byte of a signed note is refused, except in the signature of an unknown key.
func TestOpen_AnyByteChanged_IsRefused(t *testing.T) {
	log, logKey := keyPair(t, origin, "log")
	witness, _ := keyPair(t, "witness.example", "witness")
	known := note.VerifierList(logKey)
	signed := sign(t, head(), log, witness)
	text := bytes.Index(signed, []byte("\n\n")) + 2
	unknown := bytes.LastIndex(signed, []byte("— ")) // start of the signature that is not verified
	harmless := 0
	for i, was := range signed {
		for _, b := range []byte{was ^ 1, was ^ 2, was ^ 4, was ^ 8, was ^ 16, was ^ 32, was ^ 64, was ^ 128, 0, ' ', '\n', '0', '+', '='} {
			if b == was {
				continue
			}
			signed[i] = b
			c, _, err := Open(signed, known)
			read, readErr := Read(signed)
			signed[i] = was
			switch {
			case err != nil:
				wantError(t, err, ErrCheckpoint)
			case c != head():
				t.Fatalf("byte %d as %q: opened %v", i, b, c)
			case i < text:
				t.Fatalf("a change of byte %d of the signed text to %q was accepted", i, b)
			case i < unknown:
				t.Fatalf("a change of byte %d of the log's signature to %q was accepted", i, b)
			default:
				harmless++
			}
			check.Need(t, readErr != nil || err != nil || read == c, "byte %d as %q: read %v, opened %v", i, b, read, c)
		}
	}
	_, _, err := Open(signed, known)
	check.Need(t, err == nil, "refused after all bytes were restored: %v", err)
	check.That(t, harmless != 0, "no change of the unknown signature was accepted: the test changes the wrong bytes")
}

// FuzzOpen compares Open and Read with each other and with the output of Sign.
func FuzzOpen(f *testing.F) {
	log, logKey := keyPair(f, origin, "log")
	witness, _ := keyPair(f, "witness.example", "witness")
	known := note.VerifierList(logKey)
	f.Add([]byte(golden))
	f.Add(sign(f, head(), log, witness))
	f.Add(sign(f, Checkpoint{origin, MaxSize, tlog.Hash{}}, log, witness, witness))
	f.Add(signText(f, origin+"\n0\n"+head().Root.String()+"\nmore\n", log))
	f.Add(signText(f, origin+"\n9223372036854775807\n"+head().Root.String()+"\n", log))
	f.Add(signText(f, "a\n\n\n", log))
	f.Add([]byte("\n\n— a AAAAAAA=\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, signed []byte) {
		read, readErr := Read(signed)
		all, _, allErr := Open(signed, trustAll{})
		check.Need(t, (readErr == nil) == (allErr == nil) && read == all,
			"read %v (%v), but with every key trusted it is %v (%v)", read, readErr, all, allErr)
		opened, _, err := Open(signed, known)
		for _, err := range []error{readErr, allErr, err} {
			if err != nil {
				wantError(t, err, ErrCheckpoint)
			}
		}
		check.Need(t, err != nil || readErr == nil && opened == read,
			"opened %v, but read %v (%v)", opened, read, readErr)
		if readErr != nil {
			return
		}
		check.Need(t, read.Size <= MaxSize && len(signed) <= MaxCheckpoint, "read %v from %d bytes", read, len(signed))
		again := sign(t, read, fake{name: read.Origin})
		text, _, _ := bytes.Cut(again, []byte("\n\n"))
		check.Need(t, bytes.HasPrefix(signed, append(text, '\n')), "%q is read as\n%s", signed, text)
	})
}
