// Package document keeps JSON documents of the node's run directory. Each has an apiVersion, a
// kind and bounds, and is whole or not there.
//
// A container with slurmd may write some of these files, and root acts on them: what is out of
// bounds is refused. At worst labels of jobs may be wrong.
package document

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/topology"
)

// Head is the first part of each document. The type of a document embeds Head.
type Head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func (h *Head) head() *Head { return h }

// HeadOf returns the head of a document of a kind.
func HeadOf(kind string) Head { return Head{topology.APIVersion, kind} }

// What the node knows of jobs is for root, and for a group that the site names: Slurm has
// PrivateData for the same reason. What no person needs to read is for root alone.
const (
	Public     fs.FileMode = 0o644
	Private    fs.FileMode = 0o640
	Own        fs.FileMode = 0o600
	PrivateDir fs.FileMode = 0o750
)

const (
	// maxDocument bounds a document, in bytes.
	maxDocument = 1 << 20
	suffix      = ".json"
	// maxKey is the longest key whose file can have a name, in bytes.
	maxKey = 255 - len(suffix)
)

// Store is a folder with documents of one kind, by the names of their files without .json. The
// tags max and each of T bound a document as they bound a report.
type Store[T any] struct {
	Dir, Kind string
	// Mode is the mode of the files. The folder of Private files is private too.
	Mode fs.FileMode
	// Most is the most bytes of a document, 1 MiB if zero.
	Most int
	// OneLine leaves out all spaces between keys and values.
	OneLine bool
	// Check refuses what is within the bounds and still wrong. nil refuses nothing.
	Check func(v *T, key string) error
}

// Put writes a document unless it is there already.
func (s Store[T]) Put(key string, v T) error {
	path, err := s.path(key)
	if err != nil {
		return fmt.Errorf("write %s: %w", s.Kind, err)
	}
	*headOf(&v) = HeadOf(s.Kind)
	data, err := s.encode(&v, key)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if old, err := atomicfile.Read(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	mode := fs.FileMode(0o755)
	if s.Mode == Private {
		mode = PrivateDir
	}
	if err := MakeFolder(s.Dir, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return atomicfile.WriteMode(path, data, s.Mode)
}

func (s Store[T]) encode(v *T, key string) (data []byte, err error) {
	if err := s.check(v, key); err != nil {
		return nil, err
	}
	if s.OneLine {
		data, err = json.Marshal(v)
	} else {
		data, err = json.MarshalIndent(v, "", "  ")
	}
	data = append(data, '\n')
	return data, errors.Join(err, s.checkSize(data))
}

// Get reads a document and says when it was written. The error is fs.ErrNotExist if there is none.
func (s Store[T]) Get(key string) (v *T, written time.Time, err error) {
	path, err := s.path(key)
	if err != nil {
		return nil, written, fmt.Errorf("read %s: %w", s.Kind, err)
	}
	data, written, err := atomicfile.ReadTime(path)
	if err != nil {
		return nil, written, err
	}
	v = new(T)
	if err := s.decode(data, key, v); err != nil {
		return nil, written, fmt.Errorf("%s: %w", path, err)
	}
	return v, written, nil
}

// Find reads a document as Get does. It returns nil without an error if there is none.
func (s Store[T]) Find(key string) (v *T, written time.Time, err error) {
	if v, written, err = s.Get(key); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return v, written, err
}

// decode leaves out unknown keys, because the document may be of a newer release, and without
// the document GPUs would get wrong labels or none.
func (s Store[T]) decode(data []byte, key string, v *T) error {
	if err := s.checkSize(data); err != nil {
		return err
	}
	err := json.Unmarshal(data, v)
	if head, want := *headOf(v), HeadOf(s.Kind); head != want && (err == nil || head.Kind != "") {
		return fmt.Errorf("apiVersion %.80q, kind %.80q: want %q, %q", head.APIVersion, head.Kind, want.APIVersion, want.Kind)
	}
	if err != nil {
		return err
	}
	return s.check(v, key)
}

func (s Store[T]) checkSize(data []byte) error {
	if most := cmp.Or(s.Most, maxDocument); len(data) > most {
		return fmt.Errorf("it has %d bytes: want %d at most", len(data), most)
	}
	return nil
}

func (s Store[T]) check(v *T, key string) error {
	if err := topology.CheckBounds(v); err != nil || s.Check == nil {
		return err
	}
	return s.Check(v, key)
}

func headOf(v any) *Head {
	return v.(interface{ head() *Head }).head() //nolint:forcetypeassert // each document embeds Head
}

// Remove removes a document, which may be missing.
func (s Store[T]) Remove(key string) error {
	path, err := s.path(key)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", s.Kind, err)
	}
	return nil
}

// Keys lists the keys that have a document. A missing folder has none. Files of other names are
// none of Quoin's.
func (s Store[T]) Keys() (keys []string, err error) {
	if err := s.checkFolder(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list files of kind %s: %w", s.Kind, err)
	}
	for _, e := range entries {
		if key, is := strings.CutSuffix(e.Name(), suffix); is && isKey(key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// path returns the file of a key.
func (s Store[T]) path(key string) (string, error) {
	if !isKey(key) {
		return "", fmt.Errorf("key %.80q: want the name of its file without %s", key, suffix)
	}
	return filepath.Join(s.Dir, key+suffix), s.checkFolder()
}

func isKey(key string) bool {
	return dcgm.ConsistsOf(key, 1, maxKey, "_.+@-") && key[0] != '.' && key[0] != '@'
}

func (s Store[T]) checkFolder() error {
	if s.Mode != Private { // a folder of the site's may be a link
		return nil
	}
	return CheckFolder(s.Dir)
}

// CheckFolder refuses a link in a folder's place: what is written and removed here would be
// written and removed where it leads. A missing folder is fine.
func CheckFolder(path string) error {
	if info, err := os.Lstat(path); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is no folder but of mode %s: remove it", path, info.Mode())
	}
	return nil
}

// MakeFolder makes a folder with a mode. Everybody may enter the folders above it. A folder
// that is private must not be a link.
func MakeFolder(path string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if mode == PrivateDir {
		return CheckFolder(path)
	}
	return nil
}
