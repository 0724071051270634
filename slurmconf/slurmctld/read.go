package slurmctld

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The bounds of an answer.
const (
	// MaxBytes is the most that is read of one answer. Slurm writes 3 KB for each node, 8 KB for
	// each job, and with details 22 KB for each node of a job.
	MaxBytes = 256 << 20
	// maxAhead is the most that is read after the last token: a host list is the longest text.
	maxAhead = 2 * maxList
	// maxKept is the most bytes that are kept of one answer, and MaxThings the most nodes or jobs.
	maxKept   = 24 << 20
	MaxThings = 1 << 17
)

// ErrTooLong is returned for an answer that is longer than is read.
var ErrTooLong = errors.New("the answer is too long")

// bounded reads an answer for a decoder. The decoder keeps what it has read after the last token,
// so that is bounded too.
type bounded struct {
	in   io.Reader
	dec  *jsontext.Decoder
	read int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.read > MaxBytes || b.read-b.dec.InputOffset() > maxAhead {
		return 0, ErrTooLong
	}
	n, err := b.in.Read(p)
	b.read += int64(n)
	return n, err
}

// newDecoder returns a decoder of an answer. It holds little of the answer at a time.
func newDecoder(in io.Reader) *jsontext.Decoder {
	b := &bounded{in: in}
	b.dec = jsontext.NewDecoder(b, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return b.dec
}

// readList reads the list of the answer that has such things, one at a time. keep returns how many
// bytes it has kept.
func readList[T any](in io.Reader, thing string, keep func(*T) (kept int, err error)) error {
	dec := newDecoder(in)
	if err := findList(dec, thing+"s"); err != nil {
		return fmt.Errorf("read %ss: %w", thing, err)
	}
	total := 0
	for count := 1; dec.PeekKind() != ']'; count++ {
		var one T
		kept, err := 0, json.UnmarshalDecode(dec, &one)
		if err == nil {
			kept, err = keep(&one)
		}
		if total += kept; err == nil && (total > maxKept || count > MaxThings) {
			err = ErrTooLong
		}
		if err != nil {
			return fmt.Errorf("read %s %d: %w", thing, count, err)
		}
	}
	return nil
}

// findList reads up to the first element of a list.
func findList(dec *jsontext.Decoder, name string) error {
	if err := expect(dec, '{'); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		key, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if key.String() == name {
			return expect(dec, '[')
		}
		if err := dec.SkipValue(); err != nil {
			return err
		}
	}
	return fmt.Errorf("no list of %s in the answer", name)
}

// expect reads one token.
func expect(dec *jsontext.Decoder, want jsontext.Kind) error {
	got, err := dec.ReadToken()
	if err == nil && got.Kind() != want {
		err = fmt.Errorf("%v where %v should be", got.Kind(), want)
	}
	return err
}
