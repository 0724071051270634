package plandoc

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// MaxPacked is the most bytes of a packed document: a ConfigMap holds 1 MiB.
// MaxUnpacked bounds what a packed document may grow to.
const (
	MaxPacked   = 900 << 10
	MaxUnpacked = 64 << 20
)

// Pack returns the document as compressed JSON. If it is too large it leaves out the oldest
// revisions, then the wanted plan, then the groups of switches, then what is said of nodes. It does not change d.
func Pack(d *Document) ([]byte, error) {
	small := d.Clone()
	for {
		packed, err := pack(small)
		if err != nil || len(packed) <= MaxPacked {
			return packed, err
		}
		switch n := len(small.History); {
		case n > 0:
			small.History = small.History[:n/2]
		case small.Wanted != nil:
			small.Wanted = nil
		case small.Groups != nil: // most groups keep their names by the nodes below them
			small.Groups = nil
		case small.Current.Plan.Nodes != nil:
			small.Current.Plan.Nodes, small.Current.Plan.Problems = nil, nil
		default:
			return nil, fmt.Errorf("write plan of %s: it has %d bytes, compressed, and %d fit", d.Publication, len(packed), MaxPacked)
		}
	}
}

func pack(d *Document) ([]byte, error) {
	text, err := Marshal(d)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(text); err != nil {
		return nil, fmt.Errorf("compress plan: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress plan: %w", err)
	}
	return out.Bytes(), nil
}

// Unpack reads what Pack wrote. Its error wraps ErrUnreadable.
func Unpack(packed []byte) (*Document, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, MaxUnpacked+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	case len(text) > MaxUnpacked:
		return nil, fmt.Errorf("%w: more than %d bytes", ErrUnreadable, MaxUnpacked)
	}
	return Unmarshal(text)
}
