// Package cables reads the texts of fabrics that fabricFiles names, and places nodes by them.
//
// A [Reader] keeps what was read of each text. A text that has not changed is not read again. The last
// text stays in force if the new one cannot be read, or has lines that cannot and fewer switches. A [Placer]
// gives nodes the switches above them, and keeps the answer as long as what it was made from stays the same.
//
// The package asks no fabric: the site writes the texts.
package cables

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology/switches"
)

// The bounds of what is kept of all texts together.
const (
	maxTexts   = 64
	maxDevices = 250_000 // switches and adapters
)

// Part is a part of a text.
type Part struct {
	// Version changes with Data.
	Version string
	Data    []byte
}

// Maps lists the ConfigMaps that a label selector selects: the parts of one text, in their order.
type Maps func(selector string) ([]Part, error)

// Reader reads the texts of all publications.
type Reader struct {
	entries []string
	maps    Maps

	mu    sync.Mutex
	texts map[string]*text // by name
}

// text is what is kept of one text.
type text struct {
	stamp   string // of what was read last, or tried
	digest  [sha256.Size]byte
	fabric  *switches.Fabric
	problem string
}

// NewReader returns a reader of entries of fabricFiles. maps is nil without Kubernetes. Nothing is
// read before Read.
func NewReader(entries []string, maps Maps) *Reader {
	return &Reader{entries: entries, maps: maps, texts: map[string]*text{}}
}

// source is one text as it is now: its stamp changes with it.
type source struct {
	name  string
	stamp string
	open  func() (io.ReadCloser, error)
	err   error
}

// Read returns the texts by entry. It reads those that have changed.
func (r *Reader) Read() map[string][]inputs.FabricText {
	if len(r.entries) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string][]inputs.FabricText, len(r.entries))
	seen := map[string]bool{}
	for _, entry := range r.entries {
		sources := r.sources(entry)
		for i := range sources {
			s := &sources[i]
			seen[s.name] = true
			t := r.update(s)
			out[entry] = append(out[entry], inputs.FabricText{Name: s.name, Fabric: t.fabric, Problem: t.problem})
		}
	}
	maps.DeleteFunc(r.texts, func(name string, _ *text) bool { return !seen[name] })
	return out
}

var errGone = errors.New("the file is gone")

// sources returns the texts of an entry: those that are there, then those that are gone.
func (r *Reader) sources(entry string) []source {
	if selector, isMaps := strings.CutPrefix(entry, inputs.FabricMaps); isMaps {
		return []source{r.ofMaps(entry, selector)}
	}
	info, err := os.Stat(entry)
	if err == nil && !info.IsDir() {
		return []source{ofFile(entry, info, nil)}
	}
	var files []fs.DirEntry
	if err == nil {
		files, err = os.ReadDir(entry)
	}
	var out []source
	for _, f := range files {
		path := filepath.Join(entry, f.Name())
		if strings.HasPrefix(f.Name(), ".") { // a volume of Kubernetes has such, and so has a file that is being written
			continue
		}
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			out = append(out, ofFile(path, info, err))
		}
	}
	if err == nil && len(out) == 0 {
		err = errors.New("the directory has no file")
	}
	// A text that was read in the directory and is gone still counts, because its fabric is still there.
	for _, name := range slices.Sorted(maps.Keys(r.texts)) {
		if filepath.Dir(name) == filepath.Clean(entry) && r.texts[name].fabric != nil && !slices.ContainsFunc(out, func(s source) bool { return s.name == name }) {
			out = append(out, source{name: name, err: cmp.Or(err, errGone)})
		}
	}
	if len(out) == 0 {
		out = []source{{name: entry, err: err}}
	}
	return out
}

// ofFile returns the text of a file.
func ofFile(path string, info fs.FileInfo, err error) source {
	switch {
	case err != nil:
		return source{name: path, err: err}
	case !info.Mode().IsRegular():
		return source{name: path, err: errors.New("it is no regular file")}
	}
	return source{name: path, stamp: fmt.Sprint(info.Size(), " ", info.Mode(), " ", info.ModTime().UnixNano()), open: func() (io.ReadCloser, error) { return os.Open(path) }}
}

// ofMaps returns the text of ConfigMaps.
func (r *Reader) ofMaps(entry, selector string) source {
	s := source{name: entry}
	if r.maps == nil {
		s.err = errors.New("there is no Kubernetes here: give a file or a directory")
		return s
	}
	parts, err := r.maps(selector)
	if err == nil && len(parts) == 0 {
		err = errors.New("no ConfigMap has these labels")
	}
	if err != nil {
		s.err = err
		return s
	}
	readers := make([]io.Reader, len(parts))
	for i, p := range parts {
		s.stamp += p.Version + " "
		readers[i] = bytes.NewReader(p.Data)
	}
	s.open = func() (io.ReadCloser, error) {
		for _, part := range readers {
			_, _ = part.(*bytes.Reader).Seek(0, io.SeekStart) // never fails
		}
		return io.NopCloser(io.MultiReader(readers...)), nil
	}
	return s
}

// update reads a text if it has changed, and returns what is known of it.
func (r *Reader) update(s *source) *text {
	t := r.texts[s.name]
	switch {
	case t == nil && len(r.texts) >= maxTexts:
		return &text{problem: fmt.Sprintf("there are more than %d texts: no site has so many fabrics", maxTexts)}
	case t == nil:
		t = &text{}
		r.texts[s.name] = t
	}
	switch {
	case s.err != nil:
		t.stamp, t.problem = "", reason(s.err)
	case s.stamp != t.stamp:
		t.stamp, t.problem = s.stamp, ""
		if err := r.read(t, s); err != nil {
			t.problem = reason(err)
			if _, file := errors.AsType[*fs.PathError](err); file { // such as rights, which may change without the file
				t.stamp = ""
			}
		}
	}
	return t
}

// read reads a text into t. The last one stays if that fails.
func (r *Reader) read(t *text, s *source) error {
	digest, err := digestOf(s)
	if err != nil || t.fabric != nil && digest == t.digest {
		return err
	}
	in, err := s.open()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	fabric, err := switches.Read(in)
	if err != nil {
		return err
	}
	// A switch that did not answer ibnetdiscover is no switch that has gone.
	if t.fabric != nil && fabric.LeftOut() != "" && fabric.Switches() < t.fabric.Switches() {
		return fmt.Errorf("%s; the text has %d switches, the last one had %d", fabric.LeftOut(), fabric.Switches(), t.fabric.Switches())
	}
	devices := fabric.Switches() + fabric.Adapters()
	for _, other := range r.texts {
		if other != t && other.fabric != nil {
			devices += other.fabric.Switches() + other.fabric.Adapters()
		}
	}
	if devices > maxDevices {
		return fmt.Errorf("all texts have %d switches and adapters together: %d can be kept", devices, maxDevices)
	}
	t.fabric, t.digest = fabric, digest
	return nil
}

// digestOf returns the digest of a text. A text that is too large has none.
func digestOf(s *source) (sum [sha256.Size]byte, err error) {
	in, err := s.open()
	if err != nil {
		return sum, err
	}
	defer func() { _ = in.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(in, switches.MaxText+1)); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// reason is an error without the file's name, which the finding has already.
func reason(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// Watch calls notify when a file may have changed, until ctx ends. It looks at names, sizes and times.
func (r *Reader) Watch(ctx context.Context, every time.Duration, notify func()) {
	if !slices.ContainsFunc(r.entries, filepath.IsAbs) {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := r.Stamp(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if stamp := r.Stamp(); stamp != last {
				last = stamp
				notify()
			}
		}
	}
}

// Stamp sums up names, sizes and times of all files.
func (r *Reader) Stamp() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, entry := range r.entries {
		if strings.HasPrefix(entry, inputs.FabricMaps) {
			continue
		}
		for _, s := range r.sources(entry) {
			fmt.Fprintln(&b, s.name, s.stamp, s.err)
		}
	}
	return b.String()
}
