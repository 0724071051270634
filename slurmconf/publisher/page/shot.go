package page

import (
	"bytes"
	"compress/gzip"
	"slices"
	"sync"

	"github.com/quoin-hpc/quoin/topology/picture"
)

// maxSteps is how many changes are remembered for viewers that are behind, and maxStepBytes how
// large one may be. Above it the page is read again, which is compressed.
const (
	maxSteps     = 16
	maxStepBytes = 1 << 20
)

// shot is what there was to see at one moment. It does not change.
type shot struct {
	view *picture.View
	// steps lead from earlier views to this one, the oldest first.
	steps []step
	once  sync.Once
	text  []byte
	err   error
}

// step is the change from one version to the next, as JSON.
type step struct {
	from, to string
	text     []byte
}

// then returns the shot of the next view. s may be nil.
func (s *shot) then(view *picture.View) (*shot, error) {
	if s == nil {
		return &shot{view: view}, nil
	}
	if view.Version == s.view.Version {
		return s, nil
	}
	text, err := view.Changes(s.view)
	if err != nil {
		return nil, err
	}
	next := &shot{view: view}
	if text != nil && len(text) <= maxStepBytes {
		next.steps = append(slices.Clone(s.steps[max(0, len(s.steps)-maxSteps+1):]), step{s.view.Version, view.Version, text})
	}
	return next, nil
}

// since returns the steps from a version to this shot. It returns false if the way is not known.
func (s *shot) since(version string) ([]step, bool) {
	if version == s.view.Version {
		return nil, true
	}
	i := slices.IndexFunc(s.steps, func(c step) bool { return c.from == version })
	if i < 0 {
		return nil, false
	}
	return s.steps[i:], true
}

// page returns the page, compressed. All viewers share it.
func (s *shot) page(o picture.PageOptions) ([]byte, error) {
	s.once.Do(func() {
		var text bytes.Buffer
		pack := gzip.NewWriter(&text)
		if s.err = s.view.Page(pack, o); s.err == nil {
			s.err = pack.Close()
		}
		s.text = text.Bytes()
	})
	return s.text, s.err
}
