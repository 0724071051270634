package page

import (
	"bytes"
	"compress/gzip"
	"io"
	"sync"

	"github.com/quoin-hpc/quoin/topology/picture"
)

// shot is what there was to see at one moment, as compressed texts. Each text is made when the
// first viewer wants it.
type shot struct {
	view       *picture.View
	page, data func() ([]byte, error)
}

func newShot(v *picture.View, o picture.PageOptions) *shot {
	return &shot{
		view: v,
		page: packed(func(w io.Writer) error { return v.Page(w, o) }),
		data: packed(func(w io.Writer) error { _, err := w.Write(v.Data); return err }),
	}
}

// packed returns a function that compresses what is written, once.
func packed(write func(io.Writer) error) func() ([]byte, error) {
	return sync.OnceValues(func() ([]byte, error) {
		var text bytes.Buffer
		packer := gzip.NewWriter(&text)
		err := write(packer)
		if err == nil {
			err = packer.Close()
		}
		return text.Bytes(), err
	})
}
